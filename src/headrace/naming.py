"""Every name that ends up in a topology, a topic or a store.

Names are wire format: they become topics, changelogs and directories, and they are what another instance, or the Java
library, looks for. So they are built here and nowhere else. Sources: ``Named``, ``InternalStreamsBuilder``,
``OptimizableRepartitionNode``, ``ProcessorStateManager`` (4.4).

A generated name is a prefix and the next number of one counter per builder, ten digits wide. Whether an operation
takes a number although the user gave a name is part of its contract and is decided by the operation, not here.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from headrace.errors import TopologyException

MAX_NAME_LENGTH: Final = 249
"""Greatest length of a name: that of a topic."""

_LEGAL: Final = re.compile(r"[A-Za-z0-9._-]+")
_GENERATED_BASE: Final = re.compile(r"KSTREAM.*-[0-9]{10}")

SOURCE: Final = "KSTREAM-SOURCE-"
SINK: Final = "KSTREAM-SINK-"
FILTER: Final = "KSTREAM-FILTER-"
PEEK: Final = "KSTREAM-PEEK-"
FLAT_MAP: Final = "KSTREAM-FLATMAP-"
FLAT_MAP_VALUES: Final = "KSTREAM-FLATMAPVALUES-"
MAP: Final = "KSTREAM-MAP-"
MAP_VALUES: Final = "KSTREAM-MAPVALUES-"
PROCESSOR: Final = "KSTREAM-PROCESSOR-"
PROCESS_VALUES: Final = "KSTREAM-PROCESSVALUES-"
KEY_SELECT: Final = "KSTREAM-KEY-SELECT-"
FOREACH: Final = "KSTREAM-FOREACH-"
TO_TABLE: Final = "KSTREAM-TOTABLE-"
REPARTITION: Final = "KSTREAM-REPARTITION-"
MERGE: Final = "KSTREAM-MERGE-"
BRANCH: Final = "KSTREAM-BRANCH-"
AGGREGATE: Final = "KSTREAM-AGGREGATE-"
REDUCE: Final = "KSTREAM-REDUCE-"
JOIN: Final = "KSTREAM-JOIN-"
LEFT_JOIN: Final = "KSTREAM-LEFTJOIN-"
COGROUP_AGGREGATE: Final = "COGROUPKSTREAM-AGGREGATE-"
COGROUP_MERGE: Final = "COGROUPKSTREAM-MERGE-"
TABLE_SOURCE: Final = "KTABLE-SOURCE-"
TABLE_SUPPRESS: Final = "KTABLE-SUPPRESS-"
TABLE_TO_STREAM: Final = "KTABLE-TOSTREAM-"
TABLE_FILTER: Final = "KTABLE-FILTER-"
TABLE_MAP_VALUES: Final = "KTABLE-MAPVALUES-"
TABLE_TRANSFORM_VALUES: Final = "KTABLE-TRANSFORMVALUES-"
TABLE_SELECT: Final = "KTABLE-SELECT-"
TABLE_AGGREGATE: Final = "KTABLE-AGGREGATE-"
TABLE_REDUCE: Final = "KTABLE-REDUCE-"
TABLE_MERGE: Final = "KTABLE-MERGE-"
TABLE_JOIN_THIS: Final = "KTABLE-JOINTHIS-"
TABLE_JOIN_OTHER: Final = "KTABLE-JOINOTHER-"
TABLE_SINK: Final = "KTABLE-SINK-"
FK_STORE: Final = "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-"
FK_REGISTRATION: Final = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-"
FK_RESPONSE: Final = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-"
FK_PROCESSOR: Final = "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-"
FK_RESOLVER: Final = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-"
FK_OUTPUT: Final = "KTABLE-FK-JOIN-OUTPUT-"

_STORE_INFIX: Final = "STATE-STORE-"
_REPARTITION_SUFFIX: Final = "-repartition"
_CHANGELOG_SUFFIX: Final = "-changelog"
_TOPIC_SUFFIX: Final = "-topic"


def validate_name(name: str) -> str:
    """Check a name that a user chose for a node, a store or a topic, and return it.

    Raises:
        TopologyException: The name is empty, ``.`` or ``..``, longer than 249 characters, or holds anything but ASCII
            letters, digits, ``.``, ``_`` and ``-``.
    """
    if not name:
        raise TopologyException("a name must not be empty")
    if name in {".", ".."}:
        raise TopologyException(f"a name must not be '{name}'")
    if len(name) > MAX_NAME_LENGTH:
        raise TopologyException(f"the name '{name}' has {len(name)} characters, {MAX_NAME_LENGTH} are allowed")
    if not _LEGAL.fullmatch(name):
        raise TopologyException(
            f"the name '{name}' holds a character that is not allowed; "
            "ASCII letters and digits, '.', '_' and '-' are allowed"
        )
    return name


class NameProvider:
    """Generated names of one builder: a counter that all prefixes share."""

    def __init__(self) -> None:
        self._next = 0

    def _number(self) -> str:
        number = self._next
        self._next += 1
        return f"{number:010d}"

    def processor(self, prefix: str) -> str:
        """The next node name, such as ``KSTREAM-FILTER-0000000003``; ``prefix`` ends with ``-``."""
        return prefix + self._number()

    def store(self, prefix: str) -> str:
        """The next store name, such as ``KSTREAM-AGGREGATE-STATE-STORE-0000000003``; ``prefix`` ends with ``-``."""
        return f"{prefix}{_STORE_INFIX}{self._number()}"

    def table_store(self, topic: str) -> str:
        """The next store name of a table read from ``topic``."""
        return self.store(f"{topic}-")


class ForeignKeyNames(NamedTuple):
    """Names of what a foreign-key join consists of; the topics are still without the application id."""

    subscription_topic: str
    send: str
    subscription_sink: str
    subscription_source: str
    store: str
    receive: str
    join: str
    foreign: str
    response_topic: str
    response_sink: str
    response_source: str
    resolver: str
    result: str


_FOREIGN_KEY_PARTS: Final = (
    ("-subscription-registration", FK_REGISTRATION, _TOPIC_SUFFIX),
    ("-subscription-registration-processor", FK_REGISTRATION, ""),
    ("-subscription-registration-sink", TABLE_SINK, ""),
    ("-subscription-registration-source", TABLE_SOURCE, ""),
    ("-subscription-store", FK_STORE, ""),
    ("-subscription-receive", FK_PROCESSOR, ""),
    ("-subscription-join-foreign", FK_PROCESSOR, ""),
    ("-foreign-join-subscription", FK_PROCESSOR, ""),
    ("-subscription-response", FK_RESPONSE, _TOPIC_SUFFIX),
    ("-subscription-response-sink", TABLE_SINK, ""),
    ("-subscription-response-source", TABLE_SOURCE, ""),
    ("-subscription-response-resolver", FK_RESOLVER, ""),
    ("-result", FK_OUTPUT, ""),
)


def foreign_key_names(names: NameProvider, name: str | None) -> ForeignKeyNames:
    """Names of a foreign-key join that the user called ``name``. A number is taken for each."""
    return ForeignKeyNames(*(suffixed(names, name, suffix, prefix) + end for suffix, prefix, end in _FOREIGN_KEY_PARTS))


class RepartitionNames(NamedTuple):
    """Names of what a repartition consists of; the topic is still without the application id."""

    topic: str
    sink: str
    filter: str
    source: str


def repartition_names(names: NameProvider, base: str) -> RepartitionNames:
    """Names of a repartition called ``base``. Takes three numbers, also where they are not used.

    The nodes of a base that was generated itself have generated names; a base that a user chose gives theirs.
    """
    sink, filter_, source = names.processor(SINK), names.processor(FILTER), names.processor(SOURCE)
    topic = repartition_topic(base)
    if _GENERATED_BASE.fullmatch(base):
        return RepartitionNames(topic, sink, filter_, source)
    return repartition_nodes(topic)


def repartition_nodes(topic: str) -> RepartitionNames:
    """Names of a repartition whose nodes are named after its topic."""
    return RepartitionNames(topic, f"{topic}-sink", f"{topic}-filter", f"{topic}-source")


def repartition_topic(base: str) -> str:
    """Topic of a repartition called ``base``, without the application id."""
    return base if base.endswith(_REPARTITION_SUFFIX) else base + _REPARTITION_SUFFIX


def table_repartition_topic(base: str) -> str:
    """Topic of a grouped table's aggregation called ``base``, without the application id."""
    return base + _REPARTITION_SUFFIX


def internal_topic(application_id: str, topic: str) -> str:
    """Name under which an internal topic exists on the brokers."""
    return f"{application_id}-{topic}"


def changelog_topic(application_id: str, store: str) -> str:
    """Changelog topic of a store, as it exists on the brokers."""
    return internal_topic(application_id, store + _CHANGELOG_SUFFIX)


def suffixed(names: NameProvider, name: str | None, suffix: str, prefix: str) -> str:
    """Name of a part of an operation: the user's name for the whole and a suffix, or a generated one.

    A number is taken in both cases.
    """
    generated = names.processor(prefix)
    return generated if name is None else validate_name(name + suffix)


def table_source(name: str) -> str:
    """Source node of a table whose processor the user called ``name``."""
    return f"{name}-source"


def branch(prefix: str, name: str | int) -> str:
    """Node of a branch: the name of the split and the branch's own name, or its index where it has none."""
    return f"{prefix}{name}"


def suppress_store(name: str) -> str:
    """Buffer of a suppression that the user called ``name``."""
    return f"{name}-store"
