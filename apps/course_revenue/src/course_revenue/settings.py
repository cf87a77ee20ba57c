"""The product's own settings, which stand in the same properties as those of Kafka Streams.

| key                                | default                           | meaning                                    |
| ---------------------------------- | --------------------------------- | ------------------------------------------ |
| course.revenue.topic.lines         | commerce.purchase_line            | purchase lines, in                         |
| course.revenue.topic.courses       | commerce.courses                  | the course catalog, in, compacted          |
| course.revenue.topic.output        | commerce.course_revenue           | totals, out, compacted                     |
| course.revenue.topic.rejected      | commerce.course_revenue.rejected  | broken lines, out, only with ``reject``    |
| course.revenue.on.broken.line      | fail                              | ``fail`` or ``reject``, see contract       |
| course.revenue.dedupe              | off                               | ``off`` or ``line-key``, see dedupe        |
| course.revenue.dedupe.retention.ms | 604800000 (7 days)                | how far apart a line and its repeat may be |
| course.revenue.format              | json                              | ``json`` or ``avro``, see formats          |
| course.revenue.adjustments.file    | course-revenue-adjustments.jsonl  | what was skipped by hand, see adjustments  |
| course.revenue.commit.before       |                                   | TOPIC-PARTITION@OFFSET,…, see stepping     |
| course.revenue.wait.at.broken      | false                             | ``true``, see stepping                     |
| course.revenue.currency            | eur                               | ``eur`` or ``usd``: what the cents are of  |
| course.revenue.dashboard.job       | headrace.http.port of this host   | the job's ports, ``http://…`` with commas  |
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from course_revenue.contract import OnBrokenLine
from course_revenue.formats import Format
from course_revenue.headers import Place
from headrace.errors import ConfigException

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

E = TypeVar("E", bound=Enum)

PREFIX: Final = "course.revenue."
COMMIT_BEFORE: Final = "course.revenue.commit.before"
WAIT_AT_BROKEN: Final = "course.revenue.wait.at.broken"
_LONGEST_MS: Final = 10 * 366 * 24 * 3_600_000


class Dedupe(Enum):
    """What is done with a line that comes again (``course.revenue.dedupe``)."""

    OFF = "off"
    """It is a line of its own, and is added."""
    LINE_KEY = "line-key"
    """Order id and line id make it the same line, and it adds nothing."""


class Currency(Enum):
    """What cents are shown as (``course.revenue.currency``); amounts are never converted."""

    EUR = "eur"
    USD = "usd"


@dataclass(frozen=True, slots=True)
class Settings:
    """Topic names, the form of values, what is done with broken lines and with repeated ones, what the page shows."""

    lines: str = "commerce.purchase_line"
    courses: str = "commerce.courses"
    output: str = "commerce.course_revenue"
    rejected: str = "commerce.course_revenue.rejected"
    on_broken_line: OnBrokenLine = OnBrokenLine.FAIL
    dedupe: Dedupe = Dedupe.OFF
    dedupe_retention_ms: int = 7 * 24 * 3_600_000
    format: Format = Format.JSON
    adjustments: str = "course-revenue-adjustments.jsonl"
    commit_before: tuple[Place, ...] = ()
    wait_at_broken: bool = False
    currency: Currency = Currency.EUR
    job_addresses: tuple[str, ...] = ()

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> Settings:
        """The settings among ``properties``; other keys than ``course.revenue.…`` are not looked at.

        Raises:
            ConfigException: a key with this prefix is unknown, or a value is not allowed.
        """
        given: dict[str, Any] = {}
        for key, value in properties.items():
            if not key.startswith(PREFIX):
                continue
            row = _ROWS.get(key)
            if row is None:
                near = difflib.get_close_matches(key, _ROWS, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ConfigException(f"{key} is not a setting of course-revenue{hint}")
            field, parse = row
            given[field] = parse(key, value)
        settings = cls(**given)
        names = settings.topics
        if len(set(names)) < len(names):
            raise ConfigException(f"the topics of course-revenue must be different from each other: {', '.join(names)}")
        return settings

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the product's topics."""
        return self.lines, self.courses, self.output, self.rejected


def without_product_keys(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that are Kafka Streams' own."""
    return {key: value for key, value in properties.items() if not key.startswith(PREFIX)}


def _text(what: str) -> Callable[[str, object], str]:
    def parse(key: str, value: object) -> str:
        if not isinstance(value, str) or not value.strip():
            raise ConfigException(f"{key} must be {what}, not {value!r}")
        return value

    return parse


def _one_of(kind: type[E]) -> Callable[[str, object], E]:
    def parse(key: str, value: object) -> E:
        try:
            return value if isinstance(value, kind) else kind(str(value).strip().lower())
        except ValueError:
            allowed = " or ".join(choice.value for choice in kind)
            raise ConfigException(f"{key} must be {allowed}, not {value!r}") from None

    return parse


def _milliseconds(key: str, value: object) -> int:
    text = str(value).strip()
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(_LONGEST_MS))
    if not (digits and 0 < int(text) <= _LONGEST_MS):
        raise ConfigException(
            f"{key} must be a number of milliseconds from 1 to {_LONGEST_MS} (ten years), not {value!r}"
        )
    return int(text)


def _places(key: str, value: object) -> tuple[Place, ...]:
    found = [Place.of(text.strip()) for text in str(value).split(",") if text.strip()]
    places = tuple(place for place in found if place is not None)
    if len(places) < len(found):
        raise ConfigException(f"{key} must be places such as commerce.purchase_line-3@4711, not {value!r}")
    return places


def _boolean(key: str, value: object) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ConfigException(f"{key} must be true or false, not {value!r}")
    return text == "true"


def _addresses(key: str, value: object) -> tuple[str, ...]:
    found = tuple(part.strip().rstrip("/") for part in str(value).split(",") if part.strip())
    for one in found:
        try:
            parts = urlsplit(one)
            right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            right = False
        if not right:
            raise ConfigException(f"{key} must be addresses such as http://host:8080 with commas, not {one!r}")
    return found


_topic: Final = _text("the name of a topic")

_ROWS: Final[Mapping[str, tuple[str, Callable[[str, object], Any]]]] = {
    "course.revenue.topic.lines": ("lines", _topic),
    "course.revenue.topic.courses": ("courses", _topic),
    "course.revenue.topic.output": ("output", _topic),
    "course.revenue.topic.rejected": ("rejected", _topic),
    "course.revenue.on.broken.line": ("on_broken_line", _one_of(OnBrokenLine)),
    "course.revenue.dedupe": ("dedupe", _one_of(Dedupe)),
    "course.revenue.dedupe.retention.ms": ("dedupe_retention_ms", _milliseconds),
    "course.revenue.format": ("format", _one_of(Format)),
    "course.revenue.adjustments.file": ("adjustments", _text("the name of a file")),
    COMMIT_BEFORE: ("commit_before", _places),
    WAIT_AT_BROKEN: ("wait_at_broken", _boolean),
    "course.revenue.currency": ("currency", _one_of(Currency)),
    "course.revenue.dashboard.job": ("job_addresses", _addresses),
}
"""By key, the field and what makes its value of what was given."""
