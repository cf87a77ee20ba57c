"""The Kafka clients behind headrace's own types and exceptions.

The only package that imports ``confluent_kafka`` and ``kafka`` (kafka-python). ``confluent_kafka`` moves records and
administers topics; ``kafka`` carries group membership and the offset commits of at-least-once. No other package sees
an object of either.
"""

from __future__ import annotations

from headrace.kafka.admin import GroupDescription, GroupMemberDescription, NewTopic, TopicAdmin, TopicSetting
from headrace.kafka.classic import ClassicMembership, JoinClaims
from headrace.kafka.consumer import PolledBatch, RecordConsumer
from headrace.kafka.errors import (
    CommitOutcomeUnknownException,
    FencedInstanceIdException,
    SendFailedException,
)
from headrace.kafka.membership import (
    Assigned,
    Lost,
    Membership,
    MembershipEvent,
    Revoked,
    ShutdownRequested,
    TaskOffsets,
)
from headrace.kafka.producer import RecordProducer
from headrace.kafka.streams import StreamsMembership

__all__ = [
    "Assigned",
    "ClassicMembership",
    "CommitOutcomeUnknownException",
    "FencedInstanceIdException",
    "GroupDescription",
    "GroupMemberDescription",
    "JoinClaims",
    "Lost",
    "Membership",
    "MembershipEvent",
    "NewTopic",
    "PolledBatch",
    "RecordConsumer",
    "RecordProducer",
    "Revoked",
    "SendFailedException",
    "ShutdownRequested",
    "StreamsMembership",
    "TaskOffsets",
    "TopicAdmin",
    "TopicSetting",
]
