"""A stream as text. Source: ``kstream.internals.{KStreamPrint,PrintForeachAction}``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from headrace.api.engine import Bound

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.engine import NodeContext
    from headrace.api.printed import Printed
    from headrace.records import Headers


@dataclass(frozen=True, slots=True)
class StreamPrint:
    """A line for each record, written out at once; a task appends to its file as long as it lives."""

    printed: Printed[Any, Any]
    label: str

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        user_error = node.user_error
        mapper: Callable[[Any, Any], str] = self.printed.mapper or _key_and_value
        start = f"[{self.label}]: "
        path = self.printed.path
        file: TextIO | None = None

        def open_file() -> None:
            nonlocal file
            # one line at a time, so that lines of several tasks do not run into each other
            file = None if path is None else path.open("a", encoding="utf-8", buffering=1)

        def close_file() -> None:
            if file is not None:
                file.close()

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                line = f"{start}{mapper(key, value)}\n"
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            if file is not None:
                file.write(line)
                return
            # looked up each time: who redirects standard output means this too
            out = sys.stdout
            out.write(line)
            out.flush()

        return Bound(process, init=open_file, close=close_file)


def _key_and_value(key: Any, value: Any) -> str:
    return f"{key}, {value}"
