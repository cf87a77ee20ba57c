"""How the product's topics are made."""

from __future__ import annotations

from course_revenue.contract import OnBrokenLine
from course_revenue.settings import Settings
from course_revenue.topics import wanted_topics

SETTINGS = Settings(on_broken_line=OnBrokenLine.REJECT)


def test_rejected_lines_are_kept_for_a_stated_time_however_long_lines_are() -> None:
    """They hold what producers put there, and were kept for ever wherever lines are."""
    made = {topic.name: topic.config for topic in wanted_topics(SETTINGS, lines_retention_ms=-1)}
    assert made[SETTINGS.lines]["retention.ms"] == "-1"
    assert made[SETTINGS.rejected] == {"cleanup.policy": "delete", "retention.ms": "2592000000"}
    assert SETTINGS.rejected not in {topic.name for topic in wanted_topics(Settings())}
