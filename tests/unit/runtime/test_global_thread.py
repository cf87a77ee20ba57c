from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

from headrace.runtime.global_thread import GlobalStreamThread


class Failing(GlobalStreamThread):
    """Opens something, and fails."""

    def _follow(self) -> None:
        self._cleanup.callback(self.closed.set)
        raise ValueError("a record that does not decode")

    closed: threading.Event


def test_stores_of_a_global_thread_that_failed_stay_open_until_the_tasks_that_read_them_have_ended() -> None:
    told = threading.Event()
    errors: list[Exception] = []

    def on_error(error: Exception) -> None:
        errors.append(error)
        told.set()

    thread = Failing(cast("Any", None), cast("Any", SimpleNamespace(client_id="app")), lambda: None, on_error)
    thread.closed = threading.Event()
    thread.start()
    assert told.wait(10)
    assert not thread.join(0.05), "it waits to be told that nobody reads its stores any more"
    assert not thread.closed.is_set()
    thread.shutdown()
    assert thread.join(10)
    assert thread.closed.is_set()
    assert [str(error) for error in errors] == ["a record that does not decode"]
