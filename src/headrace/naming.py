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
JOIN_THIS: Final = "KSTREAM-JOINTHIS-"
JOIN_OTHER: Final = "KSTREAM-JOINOTHER-"
OUTER_THIS: Final = "KSTREAM-OUTERTHIS-"
OUTER_OTHER: Final = "KSTREAM-OUTEROTHER-"
OUTER_SHARED: Final = "KSTREAM-OUTERSHARED-"
WINDOWED: Final = "KSTREAM-WINDOWED-"
PRINTING: Final = "KSTREAM-PRINTER-"
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


class StreamJoinNames(NamedTuple):
    """Names of what a join of two streams consists of.

    ``this_windowed`` and ``other_windowed`` are the nodes that keep each side's records, ``this_join`` and
    ``other_join`` those that look the other side's up, ``merge`` the one that everything leaves by. ``shared_store``
    holds the records that have met none.
    """

    this_windowed: str
    other_windowed: str
    this_join: str
    other_join: str
    merge: str
    this_store: str
    other_store: str
    shared_store: str


def stream_join_names(
    names: NameProvider,
    name: str | None,
    store_name: str | None,
    this_supplier_name: str | None,
    other_supplier_name: str | None,
    *,
    left_outer: bool,
    right_outer: bool,
) -> StreamJoinNames:
    """Names of a join of two streams. Takes five numbers, also where they are not used.

    Args:
        names: The builder's counter.
        name: The user's base name of the nodes.
        store_name: The user's base name of the stores.
        this_supplier_name: Name of the store that the user supplied for this stream.
        other_supplier_name: The same for the other stream.
        left_outer: Whether records of this stream give a result without having met one.
        right_outer: The same for the other stream.

    Raises:
        TopologyException: ``name`` with what follows it is too long.
    """
    this_suffix = "-outer-this-join" if right_outer else "-this-join"
    other_suffix = "-outer-other-join" if left_outer else "-other-join"

    def node(suffix: str, generated: str) -> str:
        return generated if name is None else validate_name(name + suffix)

    this_windowed = node("-this-windowed", names.processor(WINDOWED))
    other_windowed = node("-other-windowed", names.processor(WINDOWED))
    this_prefix = OUTER_THIS if right_outer else JOIN_THIS
    this_generated = names.processor(this_prefix)
    other_generated = names.processor(OUTER_OTHER if left_outer else JOIN_OTHER)
    shared = this_supplier_name or store_name
    if shared is None:
        shared = OUTER_SHARED + this_generated.removeprefix(this_prefix)
    else:
        shared += "-outer-shared-join" if right_outer else "-left-shared-join"
    return StreamJoinNames(
        this_windowed,
        other_windowed,
        node(this_suffix, this_generated),
        node(other_suffix, other_generated),
        node("-merge", names.processor(MERGE)),
        this_supplier_name or join_store(this_generated if store_name is None else store_name + this_suffix),
        other_supplier_name or join_store(other_generated if store_name is None else store_name + other_suffix),
        join_store(shared),
    )


def join_store(base: str) -> str:
    """Store of a join."""
    return f"{base}-store"


def join_buffer(name: str) -> str:
    """Store in which a join of a stream with a table, under this name, lets records wait."""
    return f"{name}-Buffer"


def left_repartition(name: str | None, upstream: str) -> str:
    """Base name of the repartition of the left side of a join: of the user's name, or of the node above."""
    return upstream if name is None else validate_name(f"{name}-left")


def right_repartition(name: str | None, upstream: str) -> str:
    """The same for the right side."""
    return upstream if name is None else validate_name(f"{name}-right")
