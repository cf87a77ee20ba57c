"""What becomes of the source topics while their records are processed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


class TopicWatch:
    """Compares the source topics with what they were when tasks began at what is committed for them.

    One look after the other; made anew when tasks begin again at what others may have committed.
    """

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        self._missed: frozenset[str] = frozenset()

    def look(
        self,
        laid_out: Mapping[str, int],
        awaited: Collection[str],
        counts: Mapping[str, int],
        ids: Mapping[str, str],
    ) -> str | None:
        """Take in what the brokers say.

        Args:
            laid_out: The source topics of now, with the numbers of partitions that the tasks are laid out for.
            awaited: Those of them that may not be away; not the application's own, nor what a pattern has found.
            counts: Numbers of partitions of the topics that exist.
            ids: Ids of the topics that exist.

        Returns:
            What is wrong and what to do, or None.
        """
        # what a pattern no longer finds is nobody's; it is another topic when it is found again
        self._ids = {topic: topic_id for topic, topic_id in self._ids.items() if topic in laid_out}
        for topic in sorted(laid_out.keys() & ids.keys()):
            if self._ids.setdefault(topic, ids[topic]) != ids[topic]:
                return (
                    f"Topic {topic} was deleted and made anew while it was read, so what was committed of it since may "
                    "be places of the former one, and records before them have been passed over. Set its offsets for "
                    "the group anew (headrace reset), then start."
                )
            if (count := counts.get(topic, laid_out[topic])) != laid_out[topic]:
                return (
                    f"Topic {topic} now has {count} partitions instead of {laid_out[topic]}: tasks and internal topics "
                    "are laid out for the former number. A rebuild is needed (headrace reset with --topology, then "
                    "start)."
                )
        # twice: a broker that has just started may not know of it yet
        missing = frozenset(self._ids.keys() & set(awaited) - ids.keys())
        gone = sorted(missing & self._missed)
        self._missed = missing
        return f"Source topic {gone[0]} was deleted. Create it, then start." if gone else None
