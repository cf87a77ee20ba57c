"""The progress of something that goes on while one looks: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_PLAIN_EVERY_S: Final = 2.0
_RATE_OVER_S: Final = 5.0


class Rate:
    """Things per second over the last few seconds."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []

    def of(self, done: int, now: float) -> float | None:
        """Takes in how many are done; the rate, None before time has passed."""
        self._seen = [(at, count) for at, count in self._seen if now - at < _RATE_OVER_S]
        self._seen.append((now, done))
        (first_at, first), (last_at, last) = self._seen[0], self._seen[-1]
        return max(0.0, (last - first) / (last_at - first_at)) if last_at > first_at else None


@contextlib.contextmanager
def open_progress(what: str, *, rated: bool = True) -> Generator[Callable[[int, int, str], None]]:
    """Shows how far something is, on standard error.

    Args:
        what: is going on.
        rated: whether to say how much is done in a second.

    Yields:
        A function to call with how much is done, how much there is in all by now, and more to say.
    """
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    with _bar(console, what, rated) if console.is_terminal else _lines(console, what, rated) as show:
        yield show


@contextlib.contextmanager
def _bar(console: Console, what: str, rated: bool) -> Generator[Callable[[int, int, str], None]]:
    rate = Rate()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} {task.fields[more]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(what, total=0, more="")

        def show(done: int, total: int, more: str) -> None:
            per_second = _per_second(rate.of(done, time.monotonic()) if rated else None)
            bar.update(task, completed=done, total=total, more=", ".join(part for part in (per_second, more) if part))

        yield show


@contextlib.contextmanager
def _lines(console: Console, what: str, rated: bool) -> Generator[Callable[[int, int, str], None]]:
    """A line every two seconds, and one at the end."""
    rate, shown_at, latest, shown = Rate(), time.monotonic(), "", ""

    def show(done: int, total: int, more: str) -> None:
        nonlocal shown_at, latest, shown
        now = time.monotonic()
        per_second = rate.of(done, now)
        left = f"{(total - done) / per_second:,.0f} s left" if per_second and done < total else ""
        parts = [f"{done:,} of {total:,}", _per_second(per_second if rated else None), more, left]
        latest = f"{what}: {', '.join(part for part in parts if part)}"
        if now - shown_at >= _PLAIN_EVERY_S:
            shown_at, shown = now, latest
            console.print(latest, markup=False)

    yield show
    if latest != shown:
        console.print(latest, markup=False)


def _per_second(rate: float | None) -> str:
    return "" if rate is None else f"{rate:,.0f}/s"
