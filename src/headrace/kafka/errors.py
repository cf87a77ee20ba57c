"""Client errors become headrace's exceptions here, and nowhere else.

Both clients number the brokers' errors as the Kafka protocol does (librdkafka adds negative numbers for its local
ones), so one table serves both:

===================================================  ==============================================================
the client says                                      raised
===================================================  ==============================================================
a newer producer or member exists, stale generation  TaskMigratedException (cause: ProducerFencedException if fenced)
a static member's twin has taken its place           FencedInstanceIdException
no answer in time, coordinator or leader moving      TimeoutException
permission or authentication refused                 AuthorizationException naming the likely missing ACL
topic or partition does not exist                    MissingSourceTopicException
the broker or its configuration is too old           UnsupportedVersionException
a record is refused for what it is, transactional    StreamsException: the next transaction would end the same way
the transaction cannot commit but a new one can      TransactionAbortableException
anything else                                        StreamsException with the error's name
===================================================  ==============================================================
"""

# ruff: noqa: SLF001 - librdkafka names its local error codes with a leading underscore
# pyright: reportPrivateUsage=false

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError
from confluent_kafka import KafkaException as ClientException
from kafka import errors as untyped_errors

from headrace.errors import (
    AuthorizationException,
    ConfigException,
    IllegalStateException,
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
from headrace.kafka.acls import Acl, missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

kp: Any = untyped_errors  # kafka-python makes some of its classes at run time


class FencedInstanceIdException(StreamsException):
    """Another member uses the same ``group.instance.id``: give each instance its own, joining again would fence it."""


class CommitOutcomeUnknownException(TimeoutException):
    """The brokers did not say whether the transaction committed.

    Call ``commit_transaction`` again: it continues the same commit. Failing that, close the producer and treat the
    tasks as corrupted (drop uncommitted writes, restore what the changelog says).
    """


class SendFailedException(StreamsException):
    """A record was not written; where it was to go is in the attributes, its payload is not.

    Attributes:
        topic, partition: destination; partition is -1 when none had been chosen.
        key_size: bytes of the key, -1 for a null key.
        error_name: Kafka's name of the error, such as ``MSG_SIZE_TOO_LARGE``.
        refused: True if the record was refused for what it is, so that the same one would be refused again; False for
            what may pass by itself, such as a timeout or a moving leader.
    """

    def __init__(self, message: str, topic: str, partition: int, key_size: int, error_name: str, refused: bool) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.key_size = key_size
        self.error_name = error_name
        self.refused = refused
        self.retriable = not refused


class ClosedClient:
    """Stands where a freed client stood. Whatever is asked of it raises ``IllegalStateException``."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __getattr__(self, name: str) -> Any:
        raise IllegalStateException(f"the {self._what} is closed")


FENCED_PRODUCER = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.TRANSACTION_COORDINATOR_FENCED,
    }
)
STALE_MEMBER = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError._ASSIGNMENT_LOST,
    }
)
TIMED_OUT = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._DESTROY_BROKER,  # the brokers no longer name the one that was asked, and its requests end so
        KafkaError._RESOLVE,
        KafkaError._RETRY,
        KafkaError._WAIT_COORD,
        KafkaError._WAIT_CACHE,
        KafkaError._IN_PROGRESS,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_CONTROLLER,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.REASSIGNMENT_IN_PROGRESS,
        KafkaError.LISTENER_NOT_FOUND,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.STALE_BROKER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
    }
)
_UNREACHED: Final = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT})
MISSING_TOPIC = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._NOENT,  # no leader known, which is how listing offsets of an absent topic ends
    }
)
REFUSED_RECORD = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.POLICY_VIOLATION,
        KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
    }
)
OTHER_GROUP = frozenset({KafkaError.INCONSISTENT_GROUP_PROTOCOL})
TOO_OLD = frozenset(
    {
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError._UNSUPPORTED_FEATURE,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
REFUSED_IN_TRANSACTION = (
    "Nothing of the transaction is committed, and the same record would be refused again: change what the topic "
    "accepts (max.message.bytes, message.timestamp.*), or what is sent to it"
)
UNREACHED: Final = (
    "It may be tried again; if it stays so, look whether bootstrap.servers is right, or start the brokers"
)
CHECK_TLS: Final = (
    "check that ssl.truststore.* holds the certificate that signed the brokers', that the address is one their "
    "certificates name (else ssl.endpoint.identification.algorithm), and ssl.keystore.* if they want a certificate"
)
ACL_HINTS: Mapping[int, str] = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (
        "grant Read and Describe on source and changelog topics, Write on sink and internal topics, and Create, Delete "
        "and DescribeConfigs on topics prefixed with the application id"
    ),
    KafkaError.GROUP_AUTHORIZATION_FAILED: "grant Read on the group whose name is the application id",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "grant Write and Describe on the transactional ids prefixed with the application id"
    ),
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "grant IdempotentWrite (and Create, for internal topics) on the cluster",
    KafkaError.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "grant the principal use of its delegation token",
    KafkaError._AUTHENTICATION: "check the security.protocol, sasl.* and ssl.* settings, the user and the password",
    KafkaError.SASL_AUTHENTICATION_FAILED: "check the sasl.* settings and the broker's user list",
    KafkaError.UNSUPPORTED_SASL_MECHANISM: "check sasl.mechanism against the broker's enabled mechanisms",
    KafkaError._SSL: CHECK_TLS,
}


_RESOURCES: Final[Mapping[int, str]] = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional-id",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "cluster",
}
_REFUSED_ENTRY: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
    }
)


def refuses_entry(error: KafkaError) -> bool:
    """Whether a client's error event says that brokers do not let it in, which no further try changes."""
    return error.code() in _REFUSED_ENTRY or _wants_certificate(error)


def _wants_certificate(error: KafkaError) -> bool:
    # with TLS 1.3 a broker says it only after the handshake, to a client that takes it for a broken connection
    return error.code() == KafkaError._TRANSPORT and "alert" in error.str() and "certificate" in error.str()


_REFUSED: Final = re.compile(r"(Broker: )?(Topic|Group|Cluster|Transactional ?Id) authorization failed", re.IGNORECASE)


def _denied(code: int, text: str, message: str, needs: Iterable[Acl]) -> AuthorizationException:
    needed = list(dict.fromkeys(acl for acl in needs if acl.resource == _RESOURCES.get(code)))
    # the client may name those of many that were refused
    told = _REFUSED.sub("", text)
    needed = [acl for acl in needed if _names(told, acl.name)] or needed
    return AuthorizationException(f"{message}; {missing(needed) if needed else ACL_HINTS[code]}")


def _names(text: str, resource: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(resource)}(?![\w.-])", text) is not None


def translate_code(
    code: int,
    name: str,
    text: str,
    doing: str,
    *,
    fatal: bool = False,
    abortable: bool = False,
    needs: Iterable[Acl] = (),
) -> KafkaException:
    """The exception for one error number.

    Args:
        code: the number in the Kafka protocol, or librdkafka's negative one.
        name: Kafka's name for it.
        text: the client's own words.
        doing: what was attempted, as the subject of a sentence ("creating topic t").
        fatal: the client instance is of no more use.
        abortable: the transaction must be aborted, the producer stays usable.
        needs: the permissions that the request needs, of which one may be missing.
    """
    message = f"{doing} failed: {name}: {text}"
    if code in FENCED_PRODUCER:
        fenced = ProducerFencedException(
            f"{message}. A newer producer with the same transactional.id took over, or a "
            "transaction outlived transaction.timeout.ms"
        )
        migrated = TaskMigratedException(f"{message}. This instance no longer owns its tasks; it will join anew")
        migrated.__cause__ = fenced
        return migrated
    if code == KafkaError.FENCED_INSTANCE_ID:
        return FencedInstanceIdException(
            f"{message}. Another member uses the same group.instance.id; give every instance its own"
        )
    if code in STALE_MEMBER:
        return TaskMigratedException(f"{message}. This member's generation is over; it will join anew")
    if code in ACL_HINTS:
        return _denied(code, text, message, needs)
    if code in TOO_OLD:
        return UnsupportedVersionException(f"{message}. The brokers are too old for this; upgrade them")
    if abortable and code in REFUSED_RECORD:
        return RecordRefusedException(f"{message}. {REFUSED_IN_TRANSACTION}")
    if abortable:
        return TransactionAbortableException(f"{message}. The transaction has to be aborted")
    if code in TIMED_OUT and not fatal:
        return TimeoutException(f"{message}. {UNREACHED if code in _UNREACHED else 'It may be tried again'}")
    if code in OTHER_GROUP:
        return StreamsException(
            f"{message}. The group has members of another kind (a Java application, plain consumers, or another "
            "group.protocol): stop them first, or use another application.id"
        )
    if code in MISSING_TOPIC:
        return MissingSourceTopicException(f"{message}. Create the topic, or correct its name")
    return StreamsException(f"{message}{' (fatal for this client)' if fatal else ''}")


def client_error(error: ClientException | SystemError) -> ClientException:
    """The error of ``confluent_kafka`` in what one of its calls raised.

    With an ``error_cb`` set, poll and flush call it while the exception of a fatal error is already set, and Python
    makes a SystemError of that, caused by the exception.

    Raises:
        SystemError: It has another cause.
    """
    if isinstance(error, ClientException):
        return error
    if isinstance(error.__cause__, ClientException):
        return error.__cause__
    raise error


def translate(error: KafkaError | ClientException, doing: str, needs: Iterable[Acl] = ()) -> KafkaException:
    """The exception for an error of ``confluent_kafka``.

    Args:
        error: what the client said.
        doing: the subject of the message.
        needs: the permissions that it takes.
    """
    if isinstance(error, ClientException):
        inner = error.args[0] if error.args else None
        if not isinstance(inner, KafkaError):
            return StreamsException(f"{doing} failed: {error}")
        error = inner
    return translate_code(
        KafkaError._SSL if _wants_certificate(error) else error.code(),
        error.name(),
        error.str(),
        doing,
        fatal=error.fatal(),
        abortable=error.txn_requires_abort(),
        needs=needs,
    )


def translate_group_error(error: BaseException, doing: str, needs: Iterable[Acl] = ()) -> KafkaException:
    """The exception for an error of ``kafka`` (kafka-python); one of ours is returned as it is.

    Args:
        error: what the client raised.
        doing: the subject of the message.
        needs: the permissions that it takes.
    """
    if isinstance(error, KafkaException):
        return error
    name = type(error).__name__
    if isinstance(error, kp.BrokerResponseError):
        response: Any = error
        detail = f" ({response.args[0]})" if response.args and isinstance(response.args[0], str) else ""
        return translate_code(
            int(response.errno), str(response.message), f"{response.description}{detail}", doing, needs=needs
        )
    if isinstance(error, kp.KafkaConfigurationError):
        return ConfigException(f"{doing} failed: {error}")
    if isinstance(error, (kp.KafkaTimeoutError, kp.RetriableError)):
        reason = str(error).removeprefix(f"{name}: ")
        unreached = isinstance(error, (kp.KafkaTimeoutError, kp.KafkaConnectionError))
        return TimeoutException(
            f"{doing} failed: {name}: {reason}. {UNREACHED if unreached else 'It may be tried again'}"
        )
    return StreamsException(f"{doing} failed: {name}: {error}")


def translate_config_error(error: ClientException, client: str) -> KafkaException:
    """The exception for a client that refused its configuration when it was made."""
    inner = error.args[0] if error.args else None
    if isinstance(inner, KafkaError) and inner.code() in (KafkaError._INVALID_ARG, KafkaError._NOT_CONFIGURED):
        return ConfigException(f"the {client} refused its configuration: {inner.str()}")
    return translate(error, f"making the {client}")
