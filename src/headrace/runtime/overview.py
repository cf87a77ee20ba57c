"""What a client's HTTP port shows: its state, its threads and each of its tasks.

Everything is read from plain fields that the stream threads write, so neither waits for the other; what is read of
different tasks may be a moment apart.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from headrace.engine.task import TaskState
from headrace.runtime.client_metrics import version
from headrace.runtime.states import State

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.engine.standby import StandbyTask
    from headrace.runtime.client import ClientSettings
    from headrace.runtime.stream_thread import StreamThread
    from headrace.runtime.task_metrics import TaskMeters

_OVER = frozenset({State.NOT_RUNNING, State.PENDING_ERROR, State.ERROR})


class ClientOverview:
    """Body of :class:`headrace.http.Observed` for one client.

    Args:
        shared: The client's fixed parts.
        state: Its state.
        threads: Its stream threads.
    """

    def __init__(
        self, shared: ClientSettings, state: Callable[[], State], threads: Callable[[], Sequence[StreamThread]]
    ) -> None:
        self._shared = shared
        self._state = state
        self._threads = threads

    def metrics(self) -> bytes:
        """See the protocol."""
        # loaded only here: it needs an extra
        from headrace.http.prometheus import exposition

        return exposition(self._shared.metrics.read())

    def not_live(self) -> str | None:
        """See the protocol: a client that has failed, or ended, does nothing any more."""
        state = self._state()
        return f"the client is in state {state.value}" if state in _OVER else None

    def not_ready(self) -> str | None:
        """See the protocol: ready is RUNNING, with every task restored."""
        restoring = [meters.task for thread in self._threads() for meters in list(thread.meters.tasks.values())]
        waiting = [
            f"{task.id} ({task.metrics.to_restore} records left)"
            for task in restoring
            if task.state in (TaskState.CREATED, TaskState.RESTORING)
        ]
        reasons = [f"the client is in state {self._state().value}"] if self._state() is not State.RUNNING else []
        if waiting:
            reasons.append(f"tasks are being restored: {', '.join(sorted(waiting))}")
        return "; ".join(reasons) or None

    def tasks(self) -> dict[str, object]:
        """See the protocol."""
        shared, threads = self._shared, list(self._threads())
        return {
            "application_id": shared.application_id,
            "client_id": shared.client_id,
            "process_id": str(shared.process_id),
            "pid": os.getpid(),
            "version": version(),
            "state": self._state().value,
            "paused": shared.paused.is_set(),
            "threads": [self._thread(thread) for thread in threads],
            "tasks": [
                row
                for thread in threads
                for row in (
                    *(self._active(thread, meters) for _, meters in sorted(dict(thread.meters.tasks).items())),
                    *(_standby(thread, task) for task in thread.standby_tasks()),
                )
            ],
        }

    def _thread(self, thread: StreamThread) -> dict[str, object]:
        now, commit = self._shared.metrics.clock(), thread.meters.commit
        return {
            "name": thread.name,
            "state": thread.state.value,
            "member_id": self._shared.predecessors.member_id(thread.index),
            "round_age_s": _number(thread.meters.round_age_s(now)),
            "commit_latency_avg_ms": _number(commit.average(now)),
            "commit_latency_max_ms": _number(commit.peak(now)),
        }

    def _active(self, thread: StreamThread, meters: TaskMeters) -> dict[str, object]:
        now, task, commit = self._shared.metrics.clock(), meters.task, thread.meters.commit
        committed, progress = dict(task.committed_offsets()), meters.progress
        return {
            "id": str(task.id),
            "type": "active",
            "state": task.state.value,
            "thread": thread.name,
            "partitions": [
                {
                    "topic": tp.topic,
                    "partition": tp.partition,
                    "committed": committed[tp].offset if tp in committed else None,
                    "offset": progress[tp].offset if tp in progress else None,
                    "end": progress[tp].end if tp in progress else None,
                    "lag": progress[tp].lag if tp in progress else None,
                }
                for tp in sorted(task.partitions)
            ],
            "records_total": task.metrics.processed,
            "records_per_second": _number(meters.process.rate(now)),
            "buffered": task.buffered,
            "stream_time_ms": task.stream_time_ms,
            "restore_remaining": task.metrics.to_restore,
            # all tasks of a thread commit together
            "commit_latency_avg_ms": _number(commit.average(now)),
            "commit_latency_max_ms": _number(commit.peak(now)),
            "last_commit_ms": meters.last_commit_ms or None,
            "dropped": dict(task.metrics.dropped),
            "waits_for": None if task.stalled is None else str(task.stalled),
        }


def _standby(thread: StreamThread, task: StandbyTask) -> dict[str, object]:
    ends = dict(task.ends)
    changelogs = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "offset": store.rows.body.offset() or 0,
            "end": ends.get(tp),
            "lag": None if tp not in ends else max(0, ends[tp] - (store.rows.body.offset() or 0)),
        }
        for tp, store in sorted(task.changelogs.items(), key=lambda entry: entry[0])
    ]
    return {
        "id": str(task.id),
        "type": "standby",
        "state": TaskState.RUNNING.value,
        "thread": thread.name,
        "partitions": changelogs,
    }


def _number(value: float) -> float | None:
    """A number as JSON has it."""
    return None if math.isnan(value) else round(value, 3)
