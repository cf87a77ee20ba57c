from __future__ import annotations

from typing import TYPE_CHECKING

from course_revenue.dashboard.reader import JobSaid, Watcher

if TYPE_CHECKING:
    import pytest
    from course_revenue.dashboard.reader import Event


class Odd(Watcher):
    """Something goes wrong the first time that nobody has thought of."""

    def __init__(self, said: list[Event]) -> None:
        def hand(event: Event) -> bool:
            said.append(event)
            return True

        super().__init__("odd", hand)
        self._rounds = 0

    def watch(self) -> None:
        self._rounds += 1
        if self._rounds == 1:
            raise ValueError("odd")
        self._hand(JobSaid("http://one:1"))


def test_a_watcher_goes_on_after_what_nobody_has_thought_of(caplog: pytest.LogCaptureFixture) -> None:
    """Its thread ended, and the page went on to say "Live" of totals that stood still."""
    said: list[Event] = []
    watcher = Odd(said)
    watcher.start()
    watcher.join(30)
    assert said == [JobSaid("http://one:1")]
    assert "odd failed, and begins again" in caplog.text
