"""What a demo shows: a table that moves in a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from course_revenue.totals import event_time, money, on_one_line, summary

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from course_revenue.model import Revenue

_PLAIN_EVERY_S: Final = 2.0
_MOVED_FOR_S: Final = 1.5
_LINES_BESIDE_THE_ROWS: Final = 11

EQUAL_SENTENCE: Final = "the totals equal a plain sum over the input"


class Screen(Protocol):
    """Where a demo says and shows things."""

    def say(self, line: str) -> None:
        """One line that stays."""
        ...

    def progress(self, what: str, total: int) -> contextlib.AbstractContextManager[Callable[[int], None]]:
        """Shows how far something is; the block calls the function with how much is done."""
        ...

    def show(self, totals: Mapping[str, Revenue], moved: Sequence[str], expected_lines: int, equal: bool) -> None:
        """The totals now, which of them moved since the last time, and whether they equal the sum over the input."""
        ...

    def close(self) -> None:
        """Ends what moves."""
        ...


def open_screen() -> Screen:
    """The screen for standard output."""
    console = Console(highlight=False)
    return TerminalScreen(console) if console.is_terminal else PlainScreen(Console(soft_wrap=True, highlight=False))


class PlainScreen:
    """Single lines: of the totals one every two seconds, and one when they first equal the sum."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown_at = 0.0
        self._shown: tuple[str, bool] | None = None

    def say(self, line: str) -> None:
        """See Screen."""
        self._console.print(line, markup=False)

    @contextlib.contextmanager
    def progress(self, what: str, total: int) -> Generator[Callable[[int], None]]:
        """A line at every fifth of the way."""
        fifths = 0

        def advance(done: int) -> None:
            nonlocal fifths
            if total and done * 5 // total > fifths:
                fifths = done * 5 // total
                self.say(f"{what}: {done:,} of {total:,}")

        yield advance

    def show(self, totals: Mapping[str, Revenue], moved: Sequence[str], expected_lines: int, equal: bool) -> None:
        """See Screen."""
        now = time.monotonic()
        state = (summary(totals), equal)
        first_equal = equal and (self._shown is None or not self._shown[1])
        if state == self._shown or (not first_equal and now - self._shown_at < _PLAIN_EVERY_S):
            return
        self._shown_at, self._shown = now, state
        self.say(f"{summary(totals)} (of {expected_lines:,} lines)")
        if first_equal:
            self.say(f"{EQUAL_SENTENCE}: {summary(totals)}")

    def close(self) -> None:
        """Nothing moves here."""


class TerminalScreen:
    """A table of the greatest totals, redrawn in place; rows that just moved stand out."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._moved_at: dict[str, float] = {}
        self._rate = _Rate()

    def say(self, line: str) -> None:
        """See Screen: above the table."""
        self._console.print(line, markup=False)

    @contextlib.contextmanager
    def progress(self, what: str, total: int) -> Generator[Callable[[int], None]]:
        """A bar."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self._console) as bar:
            task = bar.add_task(what, total=total)
            yield lambda done: bar.update(task, completed=done)

    def show(self, totals: Mapping[str, Revenue], moved: Sequence[str], expected_lines: int, equal: bool) -> None:
        """See Screen."""
        now = time.monotonic()
        self._moved_at.update(dict.fromkeys(moved, now))
        drawn = self._draw(totals, expected_lines, equal, now)
        if self._live is None:
            self._live = Live(drawn, console=self._console, auto_refresh=False)
            self._live.start()
        self._live.update(drawn, refresh=True)

    def close(self) -> None:
        """Leaves the last picture standing."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self, totals: Mapping[str, Revenue], expected_lines: int, equal: bool, now: float) -> Group:
        table = Table(title="Revenue per course", expand=False)
        for name in ("course", "net", "lines", "last event (UTC)", "catalog"):
            table.add_column(name, justify="right" if name in ("net", "lines") else "left")
        room = max(1, self._console.height - _LINES_BESIDE_THE_ROWS)
        greatest = sorted(totals.items(), key=lambda item: (-item[1].net_cents, item[0]))
        for course, total in greatest[:room]:
            table.add_row(
                Text(on_one_line(course)),  # not markup, whatever it looks like
                money(total.net_cents),
                f"{total.line_count:,}",
                event_time(total.updated_event_time),
                "missing" if total.dimension_missing else "",
                style="bold green" if now - self._moved_at.get(course, 0.0) < _MOVED_FOR_S else None,
            )
        applied = sum(total.line_count for total in totals.values())
        rate = self._rate.of(applied, now)
        hidden = f"; {len(greatest) - room:,} more courses" if len(greatest) > room else ""
        lines = [
            Text(f"{summary(totals)}{hidden}"),
            Text(f"{applied:,} of {expected_lines:,} lines applied, {rate:,.0f} lines/s"),
        ]
        if equal:
            lines.append(Text(EQUAL_SENTENCE, style="bold green"))
        lines.append(Text("Ctrl-C stops the job, the dashboard and the local Kafka", style="dim"))
        return Group(table, *lines)


class _Rate:
    """Lines per second over the last few seconds."""

    _WINDOW_S = 3.0

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []

    def of(self, applied: int, now: float) -> float:
        self._seen = [(at, count) for at, count in self._seen if now - at < self._WINDOW_S]
        self._seen.append((now, applied))
        (first_at, first), (last_at, last) = self._seen[0], self._seen[-1]
        return (last - first) / (last_at - first_at) if last_at > first_at else 0.0
