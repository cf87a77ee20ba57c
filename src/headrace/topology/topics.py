"""Settings of internal topics. Source: ``processor.internals.{RepartitionTopicConfig,UnwindowedUnversioned…}`` (4.4).

Later wins: the kind's own settings, ``topic.*`` of the configuration, the settings given with the store.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from headrace.errors import TopologyException
from headrace.naming import changelog_topic, internal_topic, validate_name
from headrace.topology.built import InternalTopic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.state.builders import AnyStoreBuilder

_REPARTITION = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    # consumed records are deleted explicitly: neither age nor large segments may decide about unread ones
    "retention.ms": "-1",
    "segment.bytes": "52428800",
}


def repartition(
    application_id: str, topic: str, partitions: int | None, topic_config: Mapping[str, str]
) -> InternalTopic:
    """The repartition topic called ``topic`` in the topology; ``partitions`` when a number was asked for.

    Raises:
        TopologyException: Brokers would refuse a topic of that name.
    """
    return InternalTopic(
        _checked(application_id, internal_topic(application_id, topic)),
        MappingProxyType(_REPARTITION | dict(topic_config)),
        partitions,
        partitions_enforced=partitions is not None,
    )


def changelog(
    application_id: str, store: AnyStoreBuilder, topic_config: Mapping[str, str], additional_retention_ms: int
) -> InternalTopic:
    """The changelog topic of a store. How long records are kept follows from the store, not from ``topic_config``.

    Raises:
        TopologyException: Brokers would refuse a topic of that name.
    """
    config = {
        "cleanup.policy": store.cleanup_policy,
        "message.timestamp.type": "CreateTime",
        **topic_config,
        **store.changelog_times(additional_retention_ms),
        **store.log_config,
    }
    name = _checked(application_id, changelog_topic(application_id, store.name))
    return InternalTopic(name, MappingProxyType(config))


def _checked(application_id: str, topic: str) -> str:
    try:
        return validate_name(topic)
    except TopologyException as error:
        raise TopologyException(
            f"no internal topic can be called '{topic}': {error}; choose another application.id than "
            f"'{application_id}', or another name for the store or the repartition"
        ) from None
