"""The client: runs a topology on a cluster. Source: ``org.apache.kafka.streams.KafkaStreams`` (4.4)."""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections import deque
from contextlib import closing
from typing import TYPE_CHECKING, Any, Self

from headrace.api.restore import LagInfo
from headrace.config import StreamsConfig
from headrace.config.own_keys import HTTP_PORT, HTTP_SOCKET
from headrace.engine.serdes import check_serdes
from headrace.errors import ConfigException, IllegalStateException, TimeoutException, TopologyException
from headrace.http import HttpServer, configured_address
from headrace.kafka import TopicAdmin
from headrace.runtime.changelogs import changelog_ends
from headrace.runtime.classes import engine_settings
from headrace.runtime.cleaner import StateCleaner
from headrace.runtime.client import (
    ClientSettings,
    Listeners,
    fingerprint,
)
from headrace.runtime.client_metrics import add_client_metrics, metrics_registry
from headrace.runtime.global_thread import GlobalStreamThread
from headrace.runtime.groups import group_protocol
from headrace.runtime.overview import ClientOverview
from headrace.runtime.positions import StatePositions
from headrace.runtime.predecessors import Predecessors
from headrace.runtime.states import (
    CLIENT_TRANSITIONS,
    State,
    StateMachine,
    StreamThreadExceptionResponse,
    ThreadState,
)
from headrace.runtime.stream_thread import TELL_S, StreamThread
from headrace.state.directory import StateDirectory
from headrace.topology import check_topology

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from headrace.api.metadata import ThreadMetadata
    from headrace.api.restore import StandbyUpdateListener, StateRestoreListener
    from headrace.metrics import Metric, MetricName
    from headrace.records import TaskId
    from headrace.topology import Topology

_log = logging.getLogger(__name__)

_ENDING = frozenset({State.PENDING_SHUTDOWN, State.NOT_RUNNING, State.PENDING_ERROR, State.ERROR})


class KafkaStreams:
    """Runs a topology: one instance of an application.

    Instances with one ``application.id`` share its tasks; each needs a ``state.dir`` of its own.

    Args:
        topology: What to run.
        config: A :class:`StreamsConfig`, or settings by their dotted names.

    Raises:
        ConfigException: A setting is missing or not allowed.
        TopologyException: The topology is empty or not valid, or a place of it has no serde.
        LockException: Another running instance uses the state directory.
    """

    def __init__(self, topology: Topology, config: StreamsConfig | Mapping[str, Any]) -> None:
        check_topology(topology)
        self._config = config if isinstance(config, StreamsConfig) else StreamsConfig.load(dict(config))
        get = self._config.__getitem__
        application_id: str = get(StreamsConfig.APPLICATION_ID_CONFIG)
        built = topology.build(
            application_id,
            self._config.topic_config(),
            self._config[StreamsConfig.WINDOW_STORE_CHANGE_LOG_ADDITIONAL_RETENTION_MS_CONFIG],
        )
        if not built.subtopologies and built.global_stores is None:
            raise TopologyException(
                "Topology has no stream threads and no global threads, must subscribe to at least one source"
            )
        engine = engine_settings(
            self._config, lambda: time.time_ns() // 1_000_000, lambda: time.monotonic_ns() // 1_000_000
        )
        check_serdes(built, engine)
        self._static = "group_instance_id" in self._config.membership_config()
        self._directory = StateDirectory(get(StreamsConfig.STATE_DIR_CONFIG), application_id)
        try:
            process_id = self._directory.process_id
            threads: int = get(StreamsConfig.NUM_STREAM_THREADS_CONFIG) if built.subtopologies else 0
            self._shared = ClientSettings(
                application_id=application_id,
                client_id=get(StreamsConfig.CLIENT_ID_CONFIG) or f"{application_id}-{process_id}",
                process_id=process_id,
                config=self._config,
                engine=engine,
                fingerprint=fingerprint(built),
                group=group_protocol(self._config, built, process_id),
                directory=self._directory,
                exactly_once=self._config.exactly_once,
                commit_interval_ms=get(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG),
                poll_ms=get(StreamsConfig.POLL_MS_CONFIG),
                task_timeout_ms=get(StreamsConfig.TASK_TIMEOUT_MS_CONFIG),
                max_poll_interval_ms=self._config.max_poll_interval_ms,
                metadata_max_age_ms=get(StreamsConfig.METADATA_MAX_AGE_CONFIG),
                repartition_purge_interval_ms=get(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG),
                cache_bytes_per_thread=self._cache_bytes(threads + (built.global_stores is not None)),
                default_reset_policy=self._config.auto_offset_reset,
                positions=StatePositions(self._directory),
                listeners=Listeners(),
                predecessors=Predecessors(self._directory, threads),
                metrics=metrics_registry(self._config, lambda: time.monotonic()),
            )
            self._http_address = configured_address(self._config)
        except BaseException:
            self._directory.close()
            raise
        self._http: HttpServer | None = None
        self._listener: Callable[[State, State], None] | None = None
        self._handler: Callable[[Exception], StreamThreadExceptionResponse] | None = None
        self._machine = StateMachine("the client", State.CREATED, CLIENT_TRANSITIONS, self._changed)
        self._changes: deque[tuple[State, State]] = deque()
        self._telling = threading.Lock()
        self._admin: TopicAdmin | None = None
        self._cleaner = StateCleaner(
            f"{self._shared.client_id}-CleanupThread",
            self._directory,
            get(StreamsConfig.STATE_CLEANUP_DELAY_MS_CONFIG),
            get(StreamsConfig.STATE_CLEANUP_DIR_MAX_AGE_MS_CONFIG),
        )
        self._guard = threading.RLock()
        self._global: GlobalStreamThread | None = None
        if built.global_stores is not None:
            self._global = GlobalStreamThread(
                built.global_stores, self._shared, self._start_threads, self._global_thread_failed
            )
        self._has_tasks = threads > 0
        self._threads = [self._make_thread(index) for index in range(1, threads + 1)]
        self._leaving: list[StreamThread] = []
        """Threads that were removed, for whose end ``close`` waits too."""
        self._failed_threads = 0
        add_client_metrics(
            self._shared,
            self.state,
            topology.describe(),
            lambda: sum(t.state is not ThreadState.DEAD for t in list(self._threads)),
            lambda: self._failed_threads,
        )

    def _cache_bytes(self, threads: int) -> int:
        total: int = self._config[StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG]
        return total // max(threads, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def process_id(self) -> uuid.UUID:
        """The instance's id, kept in its state directory."""
        return self._shared.process_id

    @property
    def http_address(self) -> str | None:
        """Where the HTTP port answers, such as ``http://127.0.0.1:8080``; None while there is none."""
        server = self._http
        return None if server is None else str(server.address)

    def state(self) -> State:
        """The client's state."""
        return self._machine.state

    def set_state_listener(self, listener: Callable[[State, State], None] | None) -> None:
        """Have ``listener(new, old)`` called on every change of state: one call at a time, in the order of the changes.

        It is called on the thread that made the change, or on one that was telling of an earlier one. What it raises is
        logged, and changes nothing.

        Raises:
            IllegalStateException: The client was started already.
        """
        self._only_before_start("the state listener")
        self._listener = listener

    def set_global_state_restore_listener(self, listener: StateRestoreListener) -> None:
        """Have ``listener`` told of every restore of this instance's stores, those of global stores too.

        Raises:
            IllegalStateException: The client was started already.
        """
        self._only_before_start("the restore listener")
        self._shared.listeners.restore = listener

    def set_standby_update_listener(self, listener: StandbyUpdateListener) -> None:
        """Have ``listener`` told of this instance's standby tasks.

        Raises:
            IllegalStateException: The client was started already.
        """
        self._only_before_start("the standby listener")
        self._shared.listeners.standby = listener

    def set_uncaught_exception_handler(
        self, handler: Callable[[Exception], StreamThreadExceptionResponse] | None
    ) -> None:
        """Have ``handler(error)`` decide when a stream thread dies. Without one, the client shuts down.

        Raises:
            IllegalStateException: The client was started already.
        """
        self._only_before_start("the uncaught exception handler")
        self._handler = handler

    def start(self) -> None:
        """Start the threads; returns at once.

        Raises:
            IllegalStateException: It was started or closed before.
            ConfigException: An HTTP port is configured, and nothing can listen there, or the extra for it is missing.
        """
        with self._guard:
            if self.state() is State.CREATED:
                self._open_http()
            if not self._machine.try_move(State.REBALANCING):
                raise IllegalStateException(
                    f"The client was started or stopped before, it cannot be started again (state {self.state().value})"
                )
            self._cleaner.start()
            if self._global is not None:
                self._global.start()
        if self._global is None:
            self._start_threads()
        self._tell()

    def close(self, timeout_s: float | None = None, leave_group: bool | None = None) -> bool:
        """Commit, close all tasks and stop.

        Args:
            timeout_s: How long to wait, in seconds; None waits for ever.
            leave_group: Tell the group, so that others take the tasks at once; if not, the tasks wait for this instance
                until the session has run out. None leaves unless the instance is a static member
                (``group.instance.id``), whose tasks are to wait while it is started again.

        Returns:
            Whether everything has stopped. False after the timeout, and when a stream thread calls this itself (a
            listener, a processor): the threads go on closing.
        """
        with self._guard:
            never_started = self.state() is State.CREATED
            self._machine.try_move(State.PENDING_SHUTDOWN)
            threads = [] if never_started else [*self._threads, *self._leaving]
            ended = self.state() in (State.NOT_RUNNING, State.ERROR)
        self._tell()
        if ended:
            self._close_http()
            return True
        leaves = not self._static if leave_group is None else leave_group
        for thread in threads:
            thread.shutdown(leaves)
        if any(t.is_current() for t in threads) or (self._global is not None and self._global.is_current()):
            # called by a listener or a processor: this very thread, or the one it waits for, has still to finish
            self._finish_after(threads, self._close_http)
            return False
        if not self._join(threads, timeout_s):
            self._finish_after(threads, self._close_http)
            return False
        self._finish()
        self._close_http()
        return True

    def add_stream_thread(self) -> str | None:
        """Start one more stream thread, which takes its share of the tasks; caches are divided anew.

        Returns:
            Its name; None when the client does not run.
        """
        with self._guard:
            if self.state() not in (State.REBALANCING, State.RUNNING) or not self._has_tasks:
                return None
            taken = {
                thread.index for thread in (*self._threads, *self._leaving) if thread.state is not ThreadState.DEAD
            }
            thread = self._make_thread(next(n for n in range(1, len(taken) + 2) if n not in taken))
            self._threads.append(thread)
            self._divide_cache()
            thread.start()
        self._tell()
        return thread.name

    def remove_stream_thread(self, timeout_s: float | None = None) -> str | None:
        """End one stream thread; the others take its tasks over. Another than the caller's, where there is one.

        Args:
            timeout_s: How long to wait for its end, in seconds; None waits for ever. Not waited for when a stream
                thread ends itself.

        Returns:
            Its name; None when the client does not run or has no thread.

        Raises:
            TimeoutException: It has not ended in time; it goes on ending.
        """
        with self._guard:
            living = self._living()
            if self.state() not in (State.REBALANCING, State.RUNNING) or not living:
                return None
            thread = next((t for t in reversed(living) if not t.is_current()), living[-1])
            thread.shutdown(leave_group=True)
            self._threads.remove(thread)
            self._leaving = [*(t for t in self._leaving if t.state is not ThreadState.DEAD), thread]
            self._divide_cache()
        if not thread.is_current() and not thread.join(timeout_s):
            raise TimeoutException(f"Thread {thread.name} did not stop in the allotted time ({timeout_s} s)")
        return thread.name

    def pause(self) -> None:
        """Stop processing, punctuation, restores and standby tasks until :meth:`resume`; the state stays as it is.

        The members stay in the group and what was processed before is committed. Source: KIP-834.
        """
        self._shared.paused.set()

    def resume(self) -> None:
        """Go on after :meth:`pause`."""
        self._shared.paused.clear()

    def is_paused(self) -> bool:
        """Whether :meth:`pause` was called, and :meth:`resume` was not since."""
        return self._shared.paused.is_set()

    def clean_up(self) -> None:
        """Delete the local state of this application: everything is restored at the next start.

        Who the instance is stays (its process id, and its members of the group), as in Java.

        Raises:
            IllegalStateException: The client runs.
            LockException: Another instance uses the directory.
        """
        if self.state() not in (State.CREATED, State.NOT_RUNNING, State.ERROR):
            raise IllegalStateException("Cannot clean up while running.")
        if self.state() is State.CREATED:
            self._directory.clean()
            return
        directory = StateDirectory(self._config[StreamsConfig.STATE_DIR_CONFIG], self._shared.application_id)
        with closing(directory):
            directory.clean()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the client has ended, in good order or by an error; returns whether it has."""
        return self._machine.wait_for(frozenset({State.NOT_RUNNING, State.ERROR}), timeout_s)

    def metrics(self) -> Mapping[MetricName, Metric]:
        """All metrics of this instance that are recorded (``metrics.recording.level``) at the moment.

        Groups, names and tags are the Java library's, such as ``process-rate`` of the group ``stream-thread-metrics``.
        Each value is read when it is asked for, on any thread, and no stream thread waits for that. Those of a task or
        thread are gone with it. The clients' own metrics are not among them.
        """
        return self._shared.metrics.read()

    def dropped_records(self) -> dict[TaskId, dict[str, int]]:
        """Number of dropped records of every task that runs here, by reason; each was logged with where it lies.

        Reasons are short texts such as ``null key``, ``deserialization error``, ``production error``.
        """
        return {task_id: drops for thread in list(self._threads) for task_id, drops in thread.task_drops().items()}

    def metadata_for_local_threads(self) -> frozenset[ThreadMetadata]:
        """What each stream thread of this instance has: its state, its active tasks and its standby tasks."""
        return frozenset(thread.metadata() for thread in list(self._threads))

    def all_local_store_partition_lags(self) -> dict[str, dict[int, LagInfo]]:
        """By store and partition how far this instance's stores are behind their changelogs; asks the brokers.

        An active store that is restored has no lag. Stores whose task has only been assigned are not in it yet.

        Raises:
            IllegalStateException: The client does not run.
            TimeoutException: The brokers do not answer.
        """
        if self.state() not in (State.RUNNING, State.REBALANCING):
            raise IllegalStateException(f"KafkaStreams is not running. State is {self.state().value}.")
        found = self._shared.positions.stores()
        with self._guard:
            if self._admin is None:
                self._admin = TopicAdmin(self._config.admin_config(client_id=f"{self._shared.client_id}-lag-admin"))
        ends = changelog_ends(
            self._admin, self._shared.group.topics.prepare(self._admin), self._shared.application_id, found
        )
        result: dict[str, dict[int, LagInfo]] = {}
        for stores in found.values():
            for tp, (name, offset) in stores.items():
                at = ends[tp] if offset is None else offset
                result.setdefault(name, {})[tp.partition] = LagInfo(at, ends[tp], max(0, ends[tp] - at))
        return result

    def _make_thread(self, index: int) -> StreamThread:
        return StreamThread(
            index,
            self._shared,
            self._thread_changed,
            self._answer,
            self._replace,
            self._shut_down_after_error,
            lambda: {} if self._global is None else self._global.views,
        )

    def _start_threads(self) -> None:
        """The global stores are complete, or there are none."""
        with self._guard:
            if self.state() is State.REBALANCING:
                for thread in self._threads:
                    thread.start()
                if not self._threads:
                    self._machine.try_move(State.RUNNING)
        self._tell()

    def _global_thread_failed(self, error: Exception) -> None:
        response = self._asked(error)
        members = [thread for thread in self._living() if thread.state is not ThreadState.CREATED]
        if response is StreamThreadExceptionResponse.SHUTDOWN_APPLICATION and members:
            # the group tells this client to end, as all others, if it can be asked
            members[0].shutdown_application()
            self._machine.wait_for(_ENDING, TELL_S)
        # whatever it answered: without its global stores no thread can go on
        self._shut_down_after_error()

    def _living(self) -> list[StreamThread]:
        """Stream threads that do not end."""
        return [t for t in self._threads if t.state not in (ThreadState.PENDING_SHUTDOWN, ThreadState.DEAD)]

    def _open_http(self) -> None:
        address = self._http_address
        if address is None:
            return
        try:
            importlib.import_module("headrace.http.prometheus")
        except ImportError as e:
            raise ConfigException(
                f"An HTTP port is set ({HTTP_PORT} or {HTTP_SOCKET}), but the package for its metrics is missing: "
                f"install headrace[metrics] ({e})"
            ) from e
        overview = ClientOverview(self._shared, self.state, lambda: list(self._threads))
        self._http = HttpServer(overview, address)

    def _close_http(self) -> None:
        with self._guard:
            server, self._http = self._http, None
        if server is not None:
            server.close()

    def _asked(self, error: Exception) -> StreamThreadExceptionResponse:
        if self._handler is not None:
            try:
                return self._handler(error)
            except BaseException:  # sys.exit, a cancelled coroutine: the thread would end without closing
                _log.exception("the uncaught exception handler failed itself: shutting down")
        return StreamThreadExceptionResponse.SHUTDOWN_CLIENT

    def _only_before_start(self, what: str) -> None:
        if self.state() is not State.CREATED:
            raise IllegalStateException(f"{what} can only be set before start()")

    def _changed(self, new: State, old: State) -> None:
        _log.info("client %s: %s to %s", self._shared.client_id, old.value, new.value)
        self._changes.append((new, old))

    def _tell(self) -> None:
        # never under the client's lock: a listener may wait for a thread that needs it. Whoever tells already goes on
        # with what comes meanwhile, so that changes are told in their order
        while self._listener is not None and self._changes and self._telling.acquire(blocking=False):
            try:
                self._tell_one(self._listener)
            finally:
                self._telling.release()

    def _tell_one(self, listener: Callable[[State, State], None]) -> None:
        try:
            new, old = self._changes.popleft()
        except IndexError:
            # told meanwhile, by another thread
            return
        try:
            listener(new, old)
        except BaseException as e:
            if isinstance(e, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            # the change has been made, and others wait for what follows from it
            _log.exception("the state listener failed at %s to %s", old.value, new.value)

    def _thread_changed(self, thread: StreamThread, new: ThreadState, old: ThreadState) -> None:
        moved = False
        with self._guard:
            if new in (ThreadState.PARTITIONS_REVOKED, ThreadState.PARTITIONS_ASSIGNED):
                moved = self.state() is State.RUNNING and self._machine.try_move(State.REBALANCING)
            elif (
                # one that was removed may have been the last that the others were waited with
                (new is ThreadState.RUNNING or (new is ThreadState.DEAD and thread not in self._threads))
                and self.state() is State.REBALANCING
                and all(t.state in (ThreadState.RUNNING, ThreadState.DEAD) for t in self._threads)
            ):
                moved = self._machine.try_move(State.RUNNING)
        # else nothing is to be told: who starts a thread holds the lock meanwhile
        if moved:
            self._tell()

    def _answer(self, thread: StreamThread, error: Exception) -> StreamThreadExceptionResponse:
        with self._guard:
            self._failed_threads += 1
        response = self._asked(error)
        if self.state() is State.PENDING_SHUTDOWN or thread in self._leaving:
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT
        if response is not StreamThreadExceptionResponse.REPLACE_THREAD:
            # at once, and not when this thread has ended: whoever closes the client meanwhile finds why it ends
            self._shut_down_after_error()
        return response

    def _replace(self, thread: StreamThread) -> None:
        with self._guard:
            if self.state() in (State.REBALANCING, State.RUNNING) and thread in self._threads:
                replacement = self._make_thread(thread.index)
                self._threads[self._threads.index(thread)] = replacement
                self._divide_cache()
                replacement.start()

    def _divide_cache(self) -> None:
        each = self._cache_bytes(len(self._threads) + (self._global is not None))
        for thread in self._threads:
            thread.resize_cache(each)

    def _shut_down_after_error(self) -> None:
        """Go to PENDING_ERROR, and to ERROR once every thread has ended, the caller's among them."""
        with self._guard:
            if not self._machine.try_move(State.PENDING_ERROR):
                return
            threads = [*self._threads, *self._leaving]
        self._tell()
        for thread in threads:
            thread.shutdown(leave_group=True)
        self._finish_after(threads)

    def _finish_after(self, threads: list[StreamThread], then: Callable[[], None] = lambda: None) -> None:
        # the last step waits for the threads, so it needs one that is none of them
        def finish() -> None:
            self._join(threads, None)
            self._finish()
            then()

        threading.Thread(target=finish, name="headrace-shutdown", daemon=True).start()

    def _join(self, threads: list[StreamThread], timeout_s: float | None) -> bool:
        """Wait for the threads, then have the global one end, whose stores tasks read until they are closed."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s

        def left_s() -> float | None:
            return None if deadline is None else max(0.0, deadline - time.monotonic())

        if not all(thread.join(left_s()) for thread in threads):
            return False
        if self._global is None:
            return True
        self._global.shutdown()
        return self._global.join(left_s())

    def _finish(self) -> None:
        self._cleaner.stop()
        with self._guard:
            if self._admin is not None:
                self._admin.close()
            self._directory.close()
            self._machine.try_move(State.ERROR)
            self._machine.try_move(State.NOT_RUNNING)
        self._tell()
