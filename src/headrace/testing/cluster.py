"""A real Apache Kafka (KRaft) on this machine, for people and tests: one node, or three as in production.

``LocalCluster`` formats a data directory, starts its brokers on free ports, waits until they answer, and leaves no
process behind when stopped. Several brokers keep their data in ``broker-1``, ``broker-2`` … below it; they hold every
topic three times and want two copies in sync. A running broker can be found and stopped by another process.
"""

from __future__ import annotations

import base64
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from headrace.testing.broker import KAFKA_VERSION, Broker, BrokerState, ClusterPlan, Listener, jars_directory
from headrace.testing.processes import ClusterError, choose_port

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The running brokers of a cluster, by node id from 1; there is at least one."""

    brokers: Mapping[int, BrokerState]

    @property
    def bootstrap_servers(self) -> str:
        """``host:port,…`` for clients."""
        return ",".join(state.bootstrap_servers for state in self.brokers.values())

    @property
    def port(self) -> int:
        """The first broker's port."""
        return next(iter(self.brokers.values())).port

    @property
    def kafka_version(self) -> str:
        """Their release."""
        return next(iter(self.brokers.values())).kafka_version

    @property
    def pids(self) -> list[int]:
        """Process ids."""
        return [state.pid for state in self.brokers.values()]


class LocalCluster:
    """An Apache Kafka cluster of this machine.

    Used as a context manager it stops what it started::

        with LocalCluster(tmp_path) as cluster:
            run_against(cluster.bootstrap_servers)

    Args:
        data_dir: where logs, settings and state files live; made when missing, reused when there.
        brokers: how many; None takes what the directory holds, else one.
        port: the port of the first broker; None takes the ports of the last start when they are free, else any free
            ones.
        version: of Apache Kafka; None takes the one of the last start, else the current one.
        heap_mb: each broker's maximum heap in MiB.
        settings: broker settings that override the defaults.
        listeners: further listeners for clients.
        racks: ``broker.rack`` of each broker, in their order; none for brokers that are nowhere.
        log: told in single lines what takes time.

    Raises:
        ClusterError: the directory holds a cluster of another size.
    """

    def __init__(
        self,
        data_dir: str | Path,
        *,
        brokers: int | None = None,
        port: int | None = None,
        version: str | None = None,
        heap_mb: int = 768,
        settings: Mapping[str, str] | None = None,
        listeners: Sequence[Listener] = (),
        racks: Sequence[str] = (),
        log: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.data_dir = Path(data_dir).absolute()
        self._port = port
        self._version = version
        self._heap_mb = heap_mb
        self._settings = dict(settings or {})
        self._listeners = tuple(listeners)
        self._racks = dict(enumerate(racks, 1))
        self._log = log
        held = self._held()
        if brokers is not None and held not in (0, brokers):
            raise ClusterError(
                f"{self.data_dir} holds a cluster of {held} broker{'s' if held > 1 else ''}, not of {brokers}: name "
                f"another data directory, or stop what runs in it (headrace cluster down --data-dir {self.data_dir}) "
                "and remove it"
            )
        count = brokers or held or 1
        self.brokers: Mapping[int, Broker] = {
            node: Broker(self.data_dir if count == 1 else self.data_dir / f"broker-{node}", node)
            for node in range(1, count + 1)
        }
        """The nodes by id, to stop or kill single ones; see :meth:`restart`."""

    @property
    def bootstrap_servers(self) -> str:
        """``host:port,…`` of the running brokers.

        Raises:
            ClusterError: none of this data directory is running.
        """
        state = self.state()
        if state is None:
            raise ClusterError(f"no cluster is running in {self.data_dir}")
        return state.bootstrap_servers

    def state(self) -> ClusterState | None:
        """The running brokers of this data directory, started by whichever process; None when none runs."""
        found = {node: state for node, broker in self.brokers.items() if (state := broker.state()) is not None}
        return ClusterState(found) if found else None

    def start(self, timeout_s: float = 60.0) -> ClusterState:
        """Starts the brokers and waits until they answer; what already runs here is left as it is.

        Args:
            timeout_s: how long they may take.

        Raises:
            ClusterError: Java or the jars are missing, the port is taken, a broker ended early or did not answer in
                time. Nothing that this call started is left running.
        """
        running = self.state()
        if running is not None and self._port not in (None, running.port):
            raise ClusterError(
                f"a cluster already runs in {self.data_dir} on port {running.port}: stop it first (headrace cluster "
                f"down --data-dir {self.data_dir}), or name another data directory"
            )
        missing = [node for node in self.brokers if running is None or node not in running.brokers]
        if missing:
            self._start(self._plan(running), missing, timeout_s)
        state = self.state()
        if state is None:
            raise ClusterError(f"the cluster in {self.data_dir} ended as soon as it had started")
        return state

    def restart(self, node: int, timeout_s: float = 60.0) -> BrokerState:
        """Start one broker that was stopped or killed, on its former ports, and wait until it answers.

        Raises:
            ClusterError: As :meth:`start`.
        """
        self._start(self._plan(self.state()), [node], timeout_s)
        state = self.brokers[node].state()
        if state is None:
            raise ClusterError(f"broker {node} in {self.data_dir} ended as soon as it had started")
        return state

    def stop(self, timeout_s: float = 30.0) -> bool:
        """Stops the brokers of this data directory, whichever process started them.

        Args:
            timeout_s: how long a clean shutdown may take before a process is killed.

        Returns:
            Whether any was running.
        """
        # together: a controller that is the last of its quorum cannot end in good order
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            stopping = [pool.submit(broker.stop, timeout_s) for broker in self.brokers.values()]
            return True in {future.result() for future in stopping}

    def kill(self) -> None:
        """Ends the brokers without a clean shutdown, as a power cut would (``kill -9``)."""
        for broker in self.brokers.values():
            broker.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _held(self) -> int:
        several = sum(1 for path in self.data_dir.glob("broker-*") if path.is_dir())
        return several or int((self.data_dir / "server.properties").exists())

    def _start(self, plan: ClusterPlan, nodes: Sequence[int], timeout_s: float) -> None:
        jars_directory(self._log, plan.version)  # once, and not by every broker at the same time
        started: list[Broker] = []

        def launch(node: int) -> tuple[Broker, BrokerState]:
            broker = self.brokers[node]
            state = broker.launch(plan, self._log)
            started.append(broker)
            return broker, state

        try:
            with ThreadPoolExecutor(len(nodes)) as pool:
                launched = list(pool.map(launch, nodes))
            for broker, state in launched:
                broker.wait(state, timeout_s)
        except BaseException:
            for broker in started:
                broker.stop()
            raise

    def _plan(self, running: ClusterState | None) -> ClusterPlan:
        taken: set[int] = set()
        ports: dict[int, tuple[int, int]] = {}
        up: Mapping[int, BrokerState] = {} if running is None else running.brokers
        for node, broker in self.brokers.items():
            if node in up:
                ports[node] = (up[node].port, up[node].controller_port)
            else:
                before = broker.ports_before()
                port = choose_port(self._port if node == 1 else None, before and before[0], taken)
                ports[node] = (port, choose_port(None, before and before[1], taken | {port}))
            taken.update(ports[node])
        known = [broker for broker in self.brokers.values() if broker.cluster_id() is not None]
        return ClusterPlan(
            (known[0].cluster_id() if known else None) or _new_cluster_id(),
            ports,
            self._version or (known[0].version_before() if known else None) or KAFKA_VERSION,
            self._heap_mb,
            self._listeners,
            self._settings,
            self._racks,
        )


def _new_cluster_id() -> str:
    # a cluster id must not begin with '-', which base64's URL alphabet has
    return "h" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]


if __name__ == "__main__":
    # for scripts of other languages: prints the directory of Kafka's jars, fetched when needed
    print(jars_directory(lambda line: print(line, file=sys.stderr)))
