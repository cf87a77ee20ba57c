"""One case on headrace's side, compared with what the Java library did."""

from __future__ import annotations

import logging
import re
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from headrace.testing.conformance import Outcome, Result, check_case

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SECONDS: Final = 20.0
_NAMES: Final = r"\b(out|in|dyn|S|st|GS|SS|R|G|J|FK|SJ|N)\S*\d\S*|(KSTREAM|KTABLE|COGROUP)\S+|\d+|\[\]"


class _TooLongError(BaseException):
    """Passes by every handler of an Exception."""


@contextmanager
def quiet() -> Iterator[None]:
    """No logging: what the cases provoke on purpose is no news."""
    level = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(level)


def compare(case: Mapping[str, Any], wanted: Mapping[str, Any]) -> Result:
    """Run the case and compare. A crash of the runner and a case without end are differences too."""
    name = case["description"]

    def stop(number: int, frame: object) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS)
    try:
        return check_case(name, case, wanted)
    except _TooLongError:
        return Result(name, Outcome.FAILED, f"takes more than {_SECONDS:g} s")
    except Exception as e:
        return Result(name, Outcome.FAILED, f"the runner failed with {type(e).__name__}: {e}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def category(reason: str) -> str:
    """What kind of difference it is: its first words without names and numbers."""
    what, _, rest = reason.partition(":")
    what = re.sub(r"golden-\S*-(changelog|repartition)", r"\1", what)
    what = re.sub(r" of \{.*", "", what)
    what = re.sub(_NAMES, "", what)
    ends = re.search(r"but Java (goes on|fails at \S+ with \S+|has \S+ innermost|has no more|has)", rest)
    if what.startswith("at "):
        kinds = re.findall(r"(\w+(?:Exception|Error)): ", rest)
        what += " " + (kinds[-1] if kinds else rest[:30])
    return f"{' '.join(what.split())}: {re.sub(r'[0-9]+', '', ends[0]) if ends else rest[:40]}"
