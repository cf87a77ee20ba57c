"""The Java library's interpreter as a process that answers case by case."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections import deque
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

ROOT: Final = Path(__file__).parents[2]
_OWN_FAULTS: Final = (
    "Found a null keyChangingChild node",  # two joins below one key change, with merge.repartition.topics
    "KTable source state store must implement either",  # a join of a table that a windowed cogroup made
    "segment interval has changed",  # a cached session store at times less than its gap
    "can't parse argument number",  # the text of a serializer's error, where the topic's name has braces
)
"""Texts of errors of the Java library that are faults of its own: it should have gone on."""
_MOST: Final = 50_000
"""Outputs of a case that is still compared: joins of joins can have any number, and take their time on both sides."""


class Java:
    """Runs cases one after the other; started at the first one, and again after it died.

    :meth:`send` does not wait for the result, so that both sides work at the same time; answers come in the order of
    the cases. When it dies over one, those that were sent behind that are sent to the next process.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._sent: deque[str] = deque()
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(60)

    def send(self, case: Mapping[str, Any]) -> None:
        """Give it a case."""
        self._sent.append(json.dumps(case) + "\n")
        self._write(self._sent[-1])

    def answer(self) -> dict[str, Any]:
        """The result of the oldest case that was sent, ``{"unusable": why}`` when there is none."""
        line = self._answers.get()
        self._sent.popleft()
        if not line:
            assert self._process is not None
            why = f"the Java process ended with {self._process.wait(60)}"
            self._process = None
            for case in self._sent:
                self._write(case)
            return {"unusable": why}
        result: dict[str, Any] = json.loads(line)
        if len(result.get("outputs", ())) > _MOST:
            return {"unusable": f"more than {_MOST} outputs"}
        messages = [link.get("message") or "" for link in result.get("error", {}).get("chain", ())]
        # a handler that goes on leaves them in dead letters only
        letters = (dict(record.get("headers", ())) for record in result.get("outputs", ()))
        messages += [letter.get("__streams.errors.message") or "" for letter in letters]
        fault = next((text for text in _OWN_FAULTS if any(text in message for message in messages)), None)
        return result if fault is None else {"unusable": f"the Java library's own fault: {fault}"}

    def run(self, case: Mapping[str, Any]) -> dict[str, Any]:
        """Send one case and wait for its result."""
        self.send(case)
        return self.answer()

    def _write(self, line: str) -> None:
        stdin = self._started()
        try:
            stdin.write(line)
            stdin.flush()
        except BrokenPipeError:
            pass  # the answer tells

    def _started(self) -> IO[str]:
        if self._process is None:
            command = [str(ROOT / "interop/java/golden/lines.sh")]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
            self._answers = queue.SimpleQueue()
            threading.Thread(target=_read, args=(self._process.stdout, self._answers), daemon=True).start()
        assert self._process.stdin is not None
        return self._process.stdin


def _read(lines: IO[str], into: queue.SimpleQueue[str]) -> None:
    for line in lines:
        into.put(line)
    # as often as anybody may ask
    for _ in range(1000):
        into.put("")
