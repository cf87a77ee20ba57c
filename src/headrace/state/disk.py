"""What the state directory's files and stores have in common when the disk does not take them."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import ProcessorStateException

if TYPE_CHECKING:
    from pathlib import Path

_ADVICE: Final = {
    errno.ENOSPC: "Free space on its disk",
    errno.EDQUOT: "Free space on its disk",
    errno.EROFS: "Make its disk writable",
}


def disk_advice(error: object) -> str | None:
    """What to do, as a sentence, when an error (RocksDB's are texts) says that the disk takes nothing; None otherwise.

    It is full, or was made read-only.
    """
    text = str(error)
    for number, advice in _ADVICE.items():
        if os.strerror(number) in text:
            return f"{advice}, or set state.dir to a directory on another one, and start again."
    return None


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a small file; empty when there is no file, or something else in it.

    Raises:
        ProcessorStateException: It cannot be read.
    """
    try:
        with contextlib.suppress(FileNotFoundError, ValueError):
            found: Any = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(found, dict):
                return dict(found)  # pyright: ignore[reportUnknownArgumentType]  # of JSON
    except OSError as e:
        raise ProcessorStateException(
            f"{path} in the state directory cannot be used: {e}. Make it a file this user may read, or remove it."
        ) from e
    return {}


def replace_file(path: Path, text: str) -> None:
    """Write a small file that is whole at every moment.

    Raises:
        ProcessorStateException: It cannot be written.
    """
    draft = path.with_suffix(".tmp")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as e:
        advice = disk_advice(e) or "Set state.dir to a directory this user may write to."
        raise ProcessorStateException(f"{path} in the state directory cannot be written: {e}. {advice}") from e
