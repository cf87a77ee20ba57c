"""What becomes of source topics while they are read."""

from __future__ import annotations

from headrace.runtime.topic_watch import TopicWatch

COUNTS = {"a": 2, "b": 3}
IDS = {"a": "id-a", "b": "id-b"}


def test_topics_that_stay_as_they_are_are_no_news() -> None:
    watch = TopicWatch()
    assert [watch.look(COUNTS, COUNTS, COUNTS, IDS) for _ in range(3)] == [None] * 3


def test_a_topic_made_anew_is_named() -> None:
    watch = TopicWatch()
    watch.look(COUNTS, COUNTS, COUNTS, IDS)
    assert "Topic b was deleted and made anew" in (watch.look(COUNTS, COUNTS, COUNTS, IDS | {"b": "other"}) or "")


def test_one_that_was_away_between_two_looks_is_known_again_by_its_id() -> None:
    watch = TopicWatch()
    watch.look(COUNTS, COUNTS, COUNTS, IDS)
    assert watch.look(COUNTS, COUNTS, {"a": 2}, {"a": "id-a"}) is None
    assert watch.look(COUNTS, COUNTS, COUNTS, IDS) is None
    watch.look(COUNTS, COUNTS, {"a": 2}, {"a": "id-a"})
    assert "made anew" in (watch.look(COUNTS, COUNTS, COUNTS, IDS | {"b": "other"}) or "")


def test_one_that_is_missed_twice_was_deleted() -> None:
    watch = TopicWatch()
    watch.look(COUNTS, COUNTS, COUNTS, IDS)
    assert watch.look(COUNTS, COUNTS, {"a": 2}, {"a": "id-a"}) is None
    assert watch.look(COUNTS, COUNTS, {"a": 2}, {"a": "id-a"}) == "Source topic b was deleted. Create it, then start."


def test_one_that_nobody_awaits_may_go() -> None:
    watch = TopicWatch()
    watch.look(COUNTS, {"a"}, COUNTS, IDS)
    assert [watch.look(COUNTS, {"a"}, {"a": 2}, {"a": "id-a"}) for _ in range(3)] == [None] * 3


def test_one_that_a_pattern_finds_again_later_is_another_one() -> None:
    """The plan had followed when it went: nobody has read it since."""
    watch = TopicWatch()
    watch.look(COUNTS, (), COUNTS, IDS)
    watch.look({"a": 2}, (), {"a": 2}, {"a": "id-a"})
    assert watch.look(COUNTS, (), COUNTS, IDS | {"b": "other"}) is None


def test_added_partitions_are_named_with_both_numbers() -> None:
    told = TopicWatch().look(COUNTS, COUNTS, COUNTS | {"a": 4}, IDS)
    assert "Topic a now has 4 partitions instead of 2" in (told or "")
