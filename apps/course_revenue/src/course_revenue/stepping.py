"""Bringing the job right in front of a record that stops it.

A record that fails takes with it what its transaction has done since the last commit, and at the next start the same
lines and the same record come within one commit interval again: the job would never stand in front of the record, where
alone it can be moved past it. So an instance that is started with ``course.revenue.commit.before`` commits after each
line that is next to such a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace import FixedKeyProcessor

if TYPE_CHECKING:
    from collections.abc import Collection

    from course_revenue.headers import Place
    from headrace import FixedKeyRecord

LINES: Final = "commit-before-lines"
REPARTITIONED: Final = "commit-before-repartitioned-lines"

_NEAR: Final = 16
"""Offsets that records do not have (transaction markers) may lie between two of them; some commits more do no harm."""


class CommitBefore(FixedKeyProcessor[Any, Any, Any]):
    """Hands on every record, and asks for a commit after those that lie shortly before one of the places."""

    def __init__(self, places: Collection[Place]) -> None:
        self._places = places

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        """Forwards the record."""
        self.context.forward(record)
        at = self.context.record_metadata()
        if at is not None and any(
            0 < place.offset - at.offset <= _NEAR and (place.topic, place.partition) == (at.topic, at.partition)
            for place in self._places
        ):
            self.context.commit()
