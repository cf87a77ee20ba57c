"""Every client error becomes the exception whose class names the recovery."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError
from confluent_kafka import KafkaException as ClientException
from kafka import errors as kp

from headrace.errors import (
    AuthorizationException,
    ConfigException,
    KafkaException,
    MissingSourceTopicException,
    ProducerFencedException,
    RecordRefusedException,
    StreamsException,
    TaskMigratedException,
    TimeoutException,
    TransactionAbortableException,
    UnsupportedVersionException,
)
from headrace.kafka.acls import Acl
from headrace.kafka.errors import FencedInstanceIdException, translate, translate_group_error


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError._FENCED, TaskMigratedException),
        (KafkaError.INVALID_PRODUCER_EPOCH, TaskMigratedException),
        (KafkaError.ILLEGAL_GENERATION, TaskMigratedException),
        (KafkaError.UNKNOWN_MEMBER_ID, TaskMigratedException),
        (KafkaError.STALE_MEMBER_EPOCH, TaskMigratedException),
        (KafkaError.FENCED_INSTANCE_ID, FencedInstanceIdException),
        (KafkaError._TIMED_OUT, TimeoutException),
        (KafkaError.NOT_COORDINATOR, TimeoutException),
        (KafkaError._TRANSPORT, TimeoutException),
        (KafkaError._DESTROY_BROKER, TimeoutException),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, AuthorizationException),
        (KafkaError._AUTHENTICATION, AuthorizationException),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, MissingSourceTopicException),
        (KafkaError.UNSUPPORTED_VERSION, UnsupportedVersionException),
        (KafkaError.POLICY_VIOLATION, StreamsException),
    ],
)
def test_a_librdkafka_error(code: int, expected: type[KafkaException]) -> None:
    for error in (KafkaError(code), ClientException(KafkaError(code))):
        mapped = translate(error, "doing a thing")
        assert type(mapped) is expected
        assert str(mapped).startswith("doing a thing failed: ")
        assert KafkaError(code).name() in str(mapped)


def test_a_fenced_producer_is_the_cause() -> None:
    assert isinstance(translate(KafkaError(KafkaError._FENCED), "x").__cause__, ProducerFencedException)
    assert translate(KafkaError(KafkaError.ILLEGAL_GENERATION), "x").__cause__ is None


def test_an_abortable_transaction_is_told_apart_from_what_ends_the_membership() -> None:
    late = KafkaError(KafkaError._TIMED_OUT, txn_requires_abort=True)
    assert type(translate(late, "x")) is TransactionAbortableException
    too_large = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, txn_requires_abort=True)
    assert type(translate(too_large, "x")) is RecordRefusedException
    stale = KafkaError(KafkaError.ILLEGAL_GENERATION, txn_requires_abort=True)
    assert type(translate(stale, "x")) is TaskMigratedException


def test_a_fatal_timeout_is_not_to_be_tried_again() -> None:
    assert type(translate(KafkaError(KafkaError._TIMED_OUT, fatal=True), "x")) is StreamsException


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (kp.UnknownMemberIdError(), TaskMigratedException),
        (kp.IllegalGenerationError(), TaskMigratedException),
        (kp.FencedInstanceIdError(), FencedInstanceIdException),
        (kp.GroupAuthorizationFailedError("g"), AuthorizationException),
        (kp.SaslAuthenticationFailedError(), AuthorizationException),
        (kp.InconsistentGroupProtocolError(), StreamsException),
        (kp.NotCoordinatorError(), TimeoutException),
        (kp.KafkaTimeoutError("late"), TimeoutException),
        (kp.KafkaConnectionError("gone"), TimeoutException),
        (kp.KafkaConfigurationError("odd"), ConfigException),
        (kp.UnsupportedVersionError(), UnsupportedVersionException),
        (ZeroDivisionError("ours"), StreamsException),
    ],
)
def test_a_kafka_python_error(error: Exception, expected: type[KafkaException]) -> None:
    mapped = translate_group_error(error, "joining group g")
    assert type(mapped) is expected
    assert str(mapped).startswith("joining group g failed: ")


def test_who_reaches_no_broker_is_told_where_to_look() -> None:
    """With the address of a port at which nobody listens only that it may be tried again was said."""
    advice = "look whether bootstrap.servers is right, or start the brokers"
    for error in (kp.KafkaTimeoutError("late"), kp.KafkaConnectionError("gone")):
        assert advice in str(translate_group_error(error, "connecting to k:9092"))
    for code in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
        assert advice in str(translate(KafkaError(code), "describing topic t"))
    for moving in (
        translate(KafkaError(KafkaError.NOT_COORDINATOR), "x"),
        translate_group_error(kp.NotCoordinatorError(), "x"),
    ):
        assert str(moving).endswith("It may be tried again")


def test_the_acl_that_is_likely_missing_is_named() -> None:
    assert "Read on the group" in str(translate_group_error(kp.GroupAuthorizationFailedError("g"), "x"))
    assert "transactional ids" in str(translate(KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), "x"))


def test_of_many_topics_the_refused_ones_are_named_once() -> None:
    """Of a job of 100 partitions each was named, with those of topics that it may read."""
    needs = [Acl("Read", "topic", topic) for topic in ("lines", "lines", "lines-2", "app-by-repartition")]
    told = "Failed to commit offsets to transaction on broker k/1: lines((null))[0](Broker: Topic authorization failed)"
    refused = str(translate(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, told), "adding offsets", needs))
    assert "lacks Read on topic lines: kafka-acls" in refused
    assert refused.endswith("--operation Read --topic lines")
    of_that_name = [*needs, Acl("Read", "topic", "Topic")]
    assert str(translate(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, told), "x", of_that_name)).endswith("lines")
    silent = str(translate(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), "adding offsets", needs))
    assert "lacks Read on topic lines or Read on topic lines-2 or Read on topic app-by-repartition: " in silent


def test_ours_pass_through() -> None:
    ours = StreamsException("said already")
    assert translate_group_error(ours, "x") is ours


def test_members_of_another_kind_are_explained() -> None:
    assert "another application.id" in str(translate_group_error(kp.InconsistentGroupProtocolError(), "joining"))
