"""What one HTTP port tells of several instances: the supervisor asks each at a Unix socket and joins the answers.

An instance that does not answer is named and does not keep the others back: all are asked side by side, with a limit of
a few seconds.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from headrace.http.client import Answer, ask

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from headrace.http import Address

_ASK_S = 3.0
_STARTING_S = 60.0
"""An instance that has just been started may still be loading its code."""
_OK = 200


class SharedPort(NamedTuple):
    """The one port of several instances.

    Attributes:
        address: Where it is.
        directory: Of the instances' own sockets; private to this user.
    """

    address: Address
    directory: Path

    def socket(self, k: int) -> Path:
        """The socket of instance ``k``."""
        return self.directory / f"{k}.sock"


class Supervised(Protocol):
    """What is known of an instance without asking it."""

    @property
    def name(self) -> str:
        """Such as ``instance-1``."""
        ...

    @property
    def socket(self) -> Path | None:
        """Where it answers."""
        ...

    @property
    def started(self) -> float:
        """When it was last started (``time.monotonic``)."""
        ...

    @property
    def starts(self) -> int:
        """How often it was started."""
        ...


class InstancesOverview:
    """Body of :class:`headrace.http.Observed` for several instances."""

    def __init__(self, everyone: Sequence[Supervised]) -> None:
        self._everyone = everyone

    def metrics(self) -> bytes:
        """See the protocol: each series has the label ``headrace_instance``."""
        # loaded only here: it needs an extra
        from headrace.http.prometheus import instance_starts, instances_up, merged

        pages = {
            one.name: answer.body.decode("utf-8")
            for one, answer in self._asked("/metrics")
            if isinstance(answer, Answer) and answer.status == _OK
        }
        up = {one.name: one.name in pages for one in self._everyone}
        return merged(pages, [instances_up(up), instance_starts({one.name: one.starts for one in self._everyone})])

    def not_live(self) -> str | None:
        """See the protocol: one that runs does not live. One that has ended is started again anyway."""
        reasons: list[str] = []
        for one, answer in self._asked("/live"):
            if isinstance(answer, Answer):
                reasons += _reason(one, answer)
            elif time.monotonic() - one.started > _STARTING_S:
                reasons.append(f"{one.name} does not answer: {answer}")
        return "; ".join(reasons) or None

    def not_ready(self) -> str | None:
        """See the protocol: ready is that all are."""
        reasons: list[str] = []
        for one, answer in self._asked("/ready"):
            reasons += _reason(one, answer) if isinstance(answer, Answer) else [f"{one.name} does not answer: {answer}"]
        return "; ".join(reasons) or None

    def tasks(self) -> dict[str, object]:
        """See the protocol: a list of the instances, each as it tells of itself."""
        return {"instances": [_told(one, answer) for one, answer in self._asked("/tasks")]}

    def _asked(self, path: str) -> Iterator[tuple[Supervised, Answer | OSError]]:
        with ThreadPoolExecutor(len(self._everyone), "headrace-http-ask") as pool:
            answers = list(pool.map(_answer, self._everyone, repeat(path)))
        return zip(self._everyone, answers, strict=True)


def _answer(one: Supervised, path: str) -> Answer | OSError:
    if one.socket is None:
        return OSError("it has no socket")
    try:
        return ask(one.socket, path, _ASK_S)
    except OSError as e:
        return e


def _reason(one: Supervised, answer: Answer) -> list[str]:
    if answer.status == _OK:
        return []
    told: dict[str, Any] = json.loads(answer.body)
    return [f"{one.name}: {told.get('reason', told.get('error', f'HTTP {answer.status}'))}"]


def _told(one: Supervised, answer: Answer | OSError) -> dict[str, object]:
    known: dict[str, object] = {"instance": one.name, "starts": one.starts}
    if isinstance(answer, OSError):
        return {**known, "answers": False, "reason": f"it does not answer: {answer}"}
    if answer.status != _OK:
        return {**known, "answers": False, "reason": "; ".join(_reason(one, answer))}
    return {**known, "answers": True, **json.loads(answer.body)}
