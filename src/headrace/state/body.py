"""The protocol of a key-value body: committed rows and the changelog offset they reflect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class KeyValueBody(Protocol):
    """Sorted bytes to bytes. Keys order as unsigned bytes."""

    persistent: bool
    """Whether rows outlive the process."""

    def get(self, key: bytes, /) -> bytes | None:
        """The row's value, or None."""
        ...

    def scan(self, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """Rows with ``low <= key <= high`` (None: no bound) in key order, or in reverse; a snapshot of this moment."""
        ...

    def write(self, rows: Sequence[tuple[bytes, bytes | None]], offset: int | None) -> None:
        """Apply rows in order (None deletes) and then, with the last of them, the next changelog offset to restore.

        A crash leaves a prefix of the rows and the former offset; writing them again gives the same content.
        """
        ...

    def offset(self) -> int | None:
        """Next changelog offset to restore from, or None when nothing has been recorded."""
        ...

    def origin(self) -> str | None:
        """Id of the topic that the rows and the offset are of, or None when none has been recorded."""
        ...

    def remember_origin(self, topic_id: str) -> None:
        """Record it. Another topic of the same name, made later, has another id and says nothing about these rows."""
        ...

    def clear(self) -> None:
        """Delete every row, the offset and the origin."""
        ...

    def approximate_count(self) -> int:
        """Number of rows, roughly."""
        ...

    def close(self) -> None:
        """Let go of files. Closing twice does nothing."""
        ...


def prefix_end(prefix: bytes) -> bytes | None:
    """The least key above every key that begins with ``prefix``; None when there is none (all bytes 0xff)."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
