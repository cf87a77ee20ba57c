"""What the brokers of a streams group refuse, or say of it, in sentences that name what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

from headrace.errors import AuthorizationException, StreamsException, UnsupportedVersionException
from headrace.kafka.acls import Acl, missing
from headrace.kafka.errors import FencedInstanceIdException, translate_code
from headrace.kafka.streams_protocol import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.errors import KafkaException

UNSUPPORTED = (
    "the brokers do not have the streams group protocol: it needs Kafka 4.2 or newer with the feature "
    "streams.version=1 (kafka-features upgrade --feature streams.version=1). Or set group.protocol=classic"
)
"""What a cluster without the protocol means."""

UNRELEASED_INSTANCE_ID = 111
"""Number of the error that a member gets while its instance id is held, be it by itself in a life that ended."""

_FENCED_INSTANCE_ID = 82
_UNSUPPORTED_VERSION = 35
_NO_STATIC_MEMBERS = "Static membership is not"
_OTHER_TOPOLOGY = "Topology updates are not supported yet"

_STATUSES: Mapping[int, str] = {
    Status.STALE_TOPOLOGY: "the group has a newer topology than this instance: upgrade it",
    Status.MISSING_SOURCE_TOPICS: "source topics do not exist, create them",
    Status.INCORRECTLY_PARTITIONED_TOPICS: (
        "topics do not have the partitions that the topology needs. Joined topics need the same number: repartition "
        "one of the streams; after a change of partition counts a rebuild is needed (headrace reset, then start)"
    ),
    Status.MISSING_INTERNAL_TOPICS: "the brokers are making internal topics",
    Status.SHUTDOWN_APPLICATION: "the whole application is to end",
    Status.ASSIGNMENT_DELAYED: "the brokers wait for more members before they assign tasks",
    Status.MISSING_CLIENT_TAGS: "standby tasks are placed by tags that an instance does not have (client.tag.*)",
}
_CREATION_DENIED = re.compile(r"Unauthorized to CREATE on topics (.+?)\.?$")
_REFUSALS: Mapping[int, tuple[str, str]] = {
    23: (
        "INCONSISTENT_GROUP_PROTOCOL",
        "the group has members of another kind: stop them, or use another application.id",
    ),
    42: ("INVALID_REQUEST", "the brokers do not accept what this instance says"),
    69: (
        "GROUP_ID_NOT_FOUND",
        "the group is of another kind (group.protocol=classic, or consumers): stop it, or use another application.id",
    ),
    81: ("GROUP_MAX_SIZE_REACHED", "the group has as many members as the brokers allow (group.streams.max.size)"),
    130: ("STREAMS_INVALID_TOPOLOGY", "the brokers do not accept the topology"),
    131: ("STREAMS_INVALID_TOPOLOGY_EPOCH", "the brokers do not accept the topology's epoch"),
    132: ("STREAMS_TOPOLOGY_FENCED", "the group has a newer topology: upgrade this instance"),
}
"""By Kafka's number of an error: its name, and what it means here."""


def describe_status(code: int, text: str) -> str:
    """A sentence for a group's status; ``text`` is the brokers' own, which names topics."""
    sentence = _STATUSES.get(code, f"status {code}")
    return f"{sentence}: {text}" if text else sentence


def creation_denied(group: str, text: str) -> AuthorizationException | None:
    """The error in a status about missing internal topics that says that the brokers may not make them for us."""
    found = _CREATION_DENIED.search(text)
    if found is None:
        return None
    needed = [Acl("Create", "topic", topic) for topic in found[1].split(", ")]
    return AuthorizationException(f"group {group}: internal topics cannot be made: {missing(needed)}")


def takes_the_instance_id(code: int) -> bool:
    """Whether the error means that another member has this one's ``group.instance.id``."""
    return code in (_FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID)


def refusal(group: str, instance_id: str | None, code: int, text: str, topics: Iterable[str] = ()) -> KafkaException:
    """What the error of a heartbeat means, where the member cannot go on; ``topics`` are the topology's sources."""
    if takes_the_instance_id(code):
        return FencedInstanceIdException(
            f"group {group}: another member uses group.instance.id={instance_id} ({text}). Give every instance "
            "its own. One that was killed holds it until the group's streams.session.timeout.ms has passed, or it is "
            "started again with the same state.dir"
        )
    if code == _UNSUPPORTED_VERSION:
        return UnsupportedVersionException(f"joining group {group}: {UNSUPPORTED}")
    if _NO_STATIC_MEMBERS in text:
        return UnsupportedVersionException(
            f"group {group}: static members (group.instance.id={instance_id}) need brokers of Kafka 4.4 or newer under "
            f"the streams group protocol. The brokers say: {text}"
        )
    if _OTHER_TOPOLOGY in text:
        return StreamsException(
            f"group {group} runs another topology than this instance: its instances need the same sub-topologies, "
            "topics, topic settings and joins. Run the same version everywhere, or use another application.id. A group "
            f"takes a new topology only when it was deleted (headrace reset, to start over). The brokers say: {text}"
        )
    if code in _REFUSALS:
        name, means = _REFUSALS[code]
        return StreamsException(f"joining group {group} failed: {means} ({name}: {text})")
    needs = (Acl("Read", "group", group), *(Acl("Describe", "topic", topic) for topic in topics))
    known = KafkaError(code)
    name = f"error {code}" if known.name().endswith("?") else known.name()
    return translate_code(code, name, text or known.str(), f"heartbeat of group {group}", needs=needs)
