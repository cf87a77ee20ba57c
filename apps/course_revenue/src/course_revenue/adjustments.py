"""The adjustments file: which records the job was moved past by hand, when, by whom and why.

One JSON object a line, appended and never changed: time (UTC), who, application, topic, partition, offset, the reason,
and the SHA-256 of the record's value (null when it had none). It has no payload, so it may be kept with the books.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from headrace.errors import ConfigException

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from course_revenue.settings import Settings


log = logging.getLogger(__name__)


class Adjustment(msgspec.Struct, frozen=True, kw_only=True):
    """One record that was skipped. ``at`` is ISO 8601 in UTC, ``sha256`` in hexadecimal digits."""

    at: str
    by: str
    application_id: str
    topic: str
    partition: int
    offset: int
    reason: str
    sha256: str | None

    @property
    def identity(self) -> tuple[str, str, int, int, str | None]:
        """What makes it the same adjustment as another one: of a topic made anew another record may lie there."""
        return self.application_id, self.topic, self.partition, self.offset, self.sha256


_decode: Final = msgspec.json.Decoder(Adjustment).decode
_json: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Skipped:
    """What the job has not counted because of adjustments.

    ``places`` are partitions and offsets of the lines topic, with the hashes of the records that were skipped there.
    ``repartitioned`` counts the values, by their SHA-256, of records that were skipped behind the repartition, where
    the place in the lines topic is not known any more.
    """

    places: Mapping[tuple[int, int], frozenset[str | None]] = field(default_factory=dict[tuple[int, int], Any])
    repartitioned: Counter[str] = field(default_factory=Counter[str])


def read_adjustments(file: Path) -> list[Adjustment]:
    """The adjustments in a file, in their order; none when there is no such file.

    A last line that was cut off while it was written is passed over, and logged: no offset was moved for it.

    Raises:
        ConfigException: a line is not an adjustment: the file was changed by hand. Or it cannot be read.
    """
    try:
        text, torn = _content(file)
    except OSError as error:
        raise ConfigException(f"the adjustments file {file} cannot be read: {error.strerror or error}") from error
    if torn:
        log.warning("%s ends in %d bytes of a line that was cut off while it was written: passed over", file, torn)
    found: list[Adjustment] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            found.append(_decode(line))
        except msgspec.DecodeError as error:
            raise ConfigException(f"{file}, line {number} is not an adjustment: {error}") from error
    return found


def _content(file: Path) -> tuple[bytes, int]:
    """The file without a last line that was cut off, and the size of that line."""
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return b"", 0
    last = text[text.rfind(b"\n") + 1 :]
    torn = len(last) if _is_torn(last) else 0
    return text[: len(text) - torn], torn


def _is_torn(last: bytes) -> bool:
    """Whether a line without an end is the beginning of one; what somebody wrote by hand is for them to put right."""
    if last.rstrip().endswith(b"}"):
        return False
    try:
        _json.raw_decode(last.decode(errors="replace").lstrip())
    except ValueError:
        return bool(last)
    return False


def record(file: Path, adjustment: Adjustment) -> bool:
    """Appends an adjustment unless the file has it; on disk when this returns.

    Returns:
        Whether it was appended.
    """
    if adjustment.identity in {known.identity for known in read_adjustments(file)}:
        return False
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as out:
        kept, _ = _content(file)
        out.truncate(len(kept))
        if kept and not kept.endswith(b"\n"):
            out.write(b"\n")
        out.write(msgspec.json.encode(adjustment) + b"\n")
        out.flush()
        os.fsync(out.fileno())
    return True


def skipped(adjustments: Iterable[Adjustment], settings: Settings, application_id: str | None) -> Skipped:
    """What they come to for one application; its internal topics are told by their names."""
    places: dict[tuple[int, int], frozenset[str | None]] = {}
    repartitioned: Counter[str] = Counter()
    for one in adjustments:
        if application_id is not None and one.application_id != application_id:
            continue
        if one.topic == settings.lines:
            at = one.partition, one.offset
            places[at] = places.get(at, frozenset()) | {one.sha256}
        elif one.topic.endswith("-repartition") and one.sha256 is not None:
            repartitioned[one.sha256] += 1
    return Skipped(places, repartitioned)


def digest(value: bytes | None) -> str | None:
    """What an adjustment keeps of a record's value."""
    return None if value is None else hashlib.sha256(value).hexdigest()
