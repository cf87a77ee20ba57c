"""The plan of an application on its cluster, and its internal topics.

Under the classic protocol the client makes them before it joins the group; under the streams protocol the brokers do
while it joins. Either way they are verified before a task reads or writes them.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from headrace.errors import MisconfiguredInternalTopicException, TimeoutException
from headrace.kafka import NewTopic
from headrace.topology.copartition import plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.kafka import TopicAdmin
    from headrace.topology.built import BuiltTopology, InternalTopic
    from headrace.topology.copartition import Plan

_log = logging.getLogger(__name__)

_KAFKAS_OWN = frozenset({"__cluster_metadata", "__consumer_offsets", "__share_group_state", "__transaction_state"})
"""Topics that no pattern matches."""
_NEW_TOPIC_S = 5.0
_LOOK_AGAIN_S = 0.05


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

    def confirm(self, admin: TopicAdmin, found: Plan) -> None:
        """Called when tasks were given to this client: the internal topics of the plan are there and as they must be.

        Raises:
            MisconfiguredInternalTopicException: As :meth:`prepare`.
            TimeoutException: The brokers do not answer, or do not know a topic yet.
        """

    def _prepare(self, admin: TopicAdmin, built: BuiltTopology) -> Plan:
        found = self._lay_out(admin, built)
        wanted = _internal_topics(found)
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
        _verify(admin, found)
        return found

    def _lay_out(self, admin: TopicAdmin, built: BuiltTopology) -> Plan:
        internal = {name for sub in built.subtopologies for name in sub.repartition_topics}
        sources = {name for sub in built.subtopologies for name in sub.source_topics} - internal
        return plan(built, admin.partition_counts(sources))


class BrokerMadeTopics(TopicPreparation):
    """The same where the brokers make internal topics: they are only verified, once they are there."""

    def __init__(self, built: BuiltTopology, replication_factor: int) -> None:
        super().__init__(built, replication_factor)
        self._confirmed: Plan | None = None

    def confirm(self, admin: TopicAdmin, found: Plan) -> None:
        """See :meth:`TopicPreparation.confirm`. Each plan is looked at once, however many threads ask."""
        with self._guard:
            if self._confirmed is found:
                return
            deadline = time.monotonic() + _NEW_TOPIC_S
            while True:
                try:
                    _verify(admin, found)
                except TimeoutException:
                    # the broker that assigns knows them first
                    if time.monotonic() >= deadline:
                        raise
                    time.sleep(_LOOK_AGAIN_S)
                else:
                    break
            self._confirmed = found

    def _prepare(self, admin: TopicAdmin, built: BuiltTopology) -> Plan:
        return self._lay_out(admin, built)


def _internal_topics(found: Plan) -> dict[str, InternalTopic]:
    return {**found.repartition_topics, **found.changelog_topics}


def _verify(admin: TopicAdmin, found: Plan) -> None:
    wanted = _internal_topics(found)
    existing = admin.partition_counts(wanted)
    _all_known(wanted, existing)
    for name, topic in wanted.items():
        if existing[name] != topic.partitions:
            raise MisconfiguredInternalTopicException(
                f"Existing internal topic {name} has {existing[name]} partitions, but this topology needs "
                f"{topic.partitions}. The partition count of a source topic, or the topology, has changed: a "
                "rebuild is needed (headrace reset with --topology, then start)."
            )
    # another broker may answer this time, which has heard less
    configs = admin.topic_configs(found.changelog_topics)
    _all_known(found.changelog_topics, configs)
    for name, topic in found.changelog_topics.items():
        policy = configs[name].get("cleanup.policy", "delete")
        wants = topic.config.get("cleanup.policy", "compact")
        if "compact" in wants and "compact" not in policy:
            raise MisconfiguredInternalTopicException(
                f"Changelog topic {name} has cleanup.policy={policy}: old state is deleted from it and a restore "
                f"would come up short. Set cleanup.policy={wants} on it."
            )


def _all_known(wanted: Mapping[str, object], known: Mapping[str, object]) -> None:
    unknown = sorted(wanted.keys() - known.keys())
    if unknown:
        raise TimeoutException(f"internal topics {', '.join(unknown)} were made but the brokers do not know them yet")


def _topics_of(built: BuiltTopology) -> list[frozenset[str]]:
    return [sub.source_topics for sub in built.subtopologies]
