"""Creating the topics that an application reads and writes; internal topics are the runtime's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigException
from headrace.kafka import TopicAdmin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.kafka import NewTopic


def ensure_topics(
    bootstrap_servers: str, topics: Iterable[NewTopic], *, client: Mapping[str, Any] | None = None
) -> dict[str, bool]:
    """Creates the topics that are missing; configs of those that exist are not compared.

    Args:
        bootstrap_servers: ``host:port`` list of the brokers.
        topics: what must exist.
        client: more librdkafka settings, such as security.

    Returns:
        By name, whether the topic was made now.

    Raises:
        ConfigException: one exists with another number of partitions. Nothing was created.
        TimeoutException: the brokers did not answer in time.
    """
    wanted = {topic.name: topic for topic in topics}
    admin = TopicAdmin({**(client or {}), "bootstrap.servers": bootstrap_servers})
    try:
        counts = admin.partition_counts(wanted)
        for name, topic in wanted.items():
            if counts.get(name, topic.partitions) != topic.partitions:
                raise ConfigException(
                    f"topic {name} exists with {counts[name]} partitions instead of {topic.partitions}: another count"
                    " is a rebuild, so delete the topic, or ask for the count that it has"
                )
        existed = admin.create_topics([topic for name, topic in wanted.items() if name not in counts])
    finally:
        admin.close()
    return {name: name not in counts and name not in existed for name in wanted}
