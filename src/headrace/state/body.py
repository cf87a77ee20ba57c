"""What the bodies share. The protocol itself is :class:`headrace.api.stores.KeyValueBody`."""

from __future__ import annotations


def prefix_end(prefix: bytes) -> bytes | None:
    """The least key above every key that begins with ``prefix``; None when there is none (all bytes 0xff)."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
