"""Who is told which command makes a topic that is missing."""

from __future__ import annotations

import pytest
from course_revenue import cli
from course_revenue.options import target

from headrace.errors import MissingSourceTopicException


@pytest.mark.parametrize(
    ("topic", "told"),
    [
        ("mine", True),
        ("commerce.courses", True),
        ("commerce.course_revenue", False),
        ("app-repartition", False),
        (None, False),
    ],
)
def test_only_the_products_own_topics_are_made_by_its_command(
    monkeypatch: pytest.MonkeyPatch, topic: str | None, told: bool
) -> None:
    """An internal topic that was missing was said to be made by course-revenue topics, too."""

    def command() -> None:
        target(None, ["course.revenue.topic.output=mine"], "k:9092")
        # what it makes of them, as a shadow does
        target(None, ["course.revenue.topic.output=app-repartition"], "k:9092")
        raise MissingSourceTopicException("it does not exist: create it first", topic=topic)

    monkeypatch.setattr(cli, "app", command)
    with pytest.raises(MissingSourceTopicException) as missing:
        cli.commands()
    assert ("course-revenue topics" in str(missing.value)) == told
    assert missing.value.topic == topic
