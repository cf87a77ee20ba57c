"""Commands that start processes of their own end in order, however they are told to end."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


def ignore() -> None:
    """From here on things are being stopped, each within its own time: a second Ctrl-C must not leave any behind."""
    for number in (signal.SIGINT, *_ENDING):
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def as_ctrl_c() -> Generator[None]:
    """SIGTERM and SIGHUP do what Ctrl-C does, so that whoever started something stops it. As before at the end."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before: dict[int, Any] = {signal.SIGINT: signal.getsignal(signal.SIGINT)}
    before |= {number: signal.signal(number, interrupt) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
