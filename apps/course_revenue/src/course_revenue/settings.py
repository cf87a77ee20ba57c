"""The product's own settings, which stand in the same properties as those of Kafka Streams.

| key                             | default                           | meaning                                        |
| ------------------------------- | --------------------------------- | ---------------------------------------------- |
| course.revenue.topic.lines      | commerce.purchase_line            | purchase lines, in                             |
| course.revenue.topic.courses    | commerce.courses                  | the course catalog, in, compacted              |
| course.revenue.topic.output     | commerce.course_revenue           | totals, out, compacted                         |
| course.revenue.topic.rejected   | commerce.course_revenue.rejected  | broken lines, out, only with ``reject``        |
| course.revenue.on.broken.line   | fail                              | ``fail`` or ``reject``, see contract           |
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from course_revenue.contract import OnBrokenLine
from headrace.errors import ConfigException

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX: Final = "course.revenue."

_FIELD_OF: Final[Mapping[str, str]] = {
    "course.revenue.topic.lines": "lines",
    "course.revenue.topic.courses": "courses",
    "course.revenue.topic.output": "output",
    "course.revenue.topic.rejected": "rejected",
    "course.revenue.on.broken.line": "on_broken_line",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Topic names, and what is done with a broken line."""

    lines: str = "commerce.purchase_line"
    courses: str = "commerce.courses"
    output: str = "commerce.course_revenue"
    rejected: str = "commerce.course_revenue.rejected"
    on_broken_line: OnBrokenLine = OnBrokenLine.FAIL

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
            field = _FIELD_OF.get(key)
            if field is None:
                near = difflib.get_close_matches(key, _FIELD_OF, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ConfigException(f"{key} is not a setting of course-revenue{hint}")
            if field == "on_broken_line":
                value = _on_broken_line(key, value)
            elif not isinstance(value, str) or not value.strip():
                raise ConfigException(f"{key} must be the name of a topic, not {value!r}")
            given[field] = value
        settings = cls(**given)
        names = [getattr(settings, f.name) for f in fields(settings) if f.name != "on_broken_line"]
        if len(set(names)) < len(names):
            raise ConfigException(f"the topics of course-revenue must be different from each other: {', '.join(names)}")
        return settings


def without_product_keys(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that are Kafka Streams' own."""
    return {key: value for key, value in properties.items() if not key.startswith(PREFIX)}


def _on_broken_line(key: str, value: object) -> OnBrokenLine:
    try:
        return value if isinstance(value, OnBrokenLine) else OnBrokenLine(str(value).strip().lower())
    except ValueError:
        allowed = " or ".join(choice.value for choice in OnBrokenLine)
        raise ConfigException(f"{key} must be {allowed}, not {value!r}") from None
