"""Internal topics: made before anyone joins the group, verified when they exist, purged behind the commits."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from headrace.errors import MisconfiguredInternalTopicException, TimeoutException
from headrace.kafka import NewTopic
from headrace.topology.copartition import plan

if TYPE_CHECKING:
    from headrace.kafka import TopicAdmin
    from headrace.topology.built import BuiltTopology, InternalTopic
    from headrace.topology.copartition import Plan

_log = logging.getLogger(__name__)

_KAFKAS_OWN = frozenset({"__cluster_metadata", "__consumer_offsets", "__share_group_state", "__transaction_state"})
"""Topics that no pattern matches."""


class TopicPreparation:
    """Plans an application on its cluster and makes its internal topics, once for all its threads."""

    def __init__(self, built: BuiltTopology, replication_factor: int) -> None:
        self._built = built
        self._replication_factor = replication_factor
        self._guard = threading.Lock()
        self._plan: Plan | None = None

    def prepare(self, admin: TopicAdmin) -> Plan:
        """The plan; the first caller asks the brokers and makes what is missing.

        Raises:
            MissingSourceTopicException: A source topic does not exist.
            TopologyException: Joined topics differ in their partition counts.
            MisconfiguredInternalTopicException: An internal topic has another partition count, or a changelog is not
                compacted.
            TimeoutException: The brokers do not answer.
        """
        with self._guard:
            if self._plan is None:
                self._plan = self._prepare(admin, self.found(admin))
            return self._plan

    @property
    def has_patterns(self) -> bool:
        """Whether topics have to be looked for."""
        return self._built.has_patterns

    def found(self, admin: TopicAdmin) -> BuiltTopology:
        """The topology with the topics of the cluster that match its patterns now."""
        if not self._built.has_patterns:
            return self._built
        return self._built.with_topics(admin.list_topics() - _KAFKAS_OWN)

    def refresh(self, admin: TopicAdmin) -> Plan:
        """The plan with the topics that match the patterns now. Raises as :meth:`prepare`."""
        built = self.found(admin)
        with self._guard:
            if self._plan is None or _topics_of(built) != _topics_of(self._plan.built):
                self._plan = self._prepare(admin, built)
            return self._plan

    def _prepare(self, admin: TopicAdmin, built: BuiltTopology) -> Plan:
        internal = {name for sub in built.subtopologies for name in sub.repartition_topics}
        sources = {name for sub in built.subtopologies for name in sub.source_topics} - internal
        found = plan(built, admin.partition_counts(sources))
        wanted: dict[str, InternalTopic] = {**found.repartition_topics, **found.changelog_topics}
        existing = admin.partition_counts(wanted)
        missing = [topic for name, topic in wanted.items() if name not in existing]
        if missing:
            raced = admin.create_topics(
                NewTopic(topic.name, topic.partitions or 1, self._replication_factor, dict(topic.config))
                for topic in missing
            )
            for topic in missing:
                if topic.name not in raced:
                    _log.info("Created internal topic %s with %d partitions", topic.name, topic.partitions or 1)
            existing = admin.partition_counts(wanted)
        unknown = sorted(wanted.keys() - existing.keys())
        if unknown:
            raise TimeoutException(
                f"internal topics {', '.join(unknown)} were made but the brokers do not know them yet"
            )
        for name, topic in wanted.items():
            if existing[name] != topic.partitions:
                raise MisconfiguredInternalTopicException(
                    f"Existing internal topic {name} has {existing[name]} partitions, but this topology needs "
                    f"{topic.partitions}. The partition count of a source topic, or the topology, has changed: a "
                    "rebuild is needed (headrace reset with --topology, then start)."
                )
        configs = admin.topic_configs(found.changelog_topics)
        for name in found.changelog_topics:
            policy = configs.get(name, {}).get("cleanup.policy", "delete")
            wants = found.changelog_topics[name].config.get("cleanup.policy", "compact")
            if "compact" in wants and "compact" not in policy:
                raise MisconfiguredInternalTopicException(
                    f"Changelog topic {name} has cleanup.policy={policy}: old state is deleted from it and a restore "
                    f"would come up short. Set cleanup.policy={wants} on it."
                )
        return found


def _topics_of(built: BuiltTopology) -> list[frozenset[str]]:
    return [sub.source_topics for sub in built.subtopologies]
