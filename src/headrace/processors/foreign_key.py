"""A join of two tables by a foreign key: what each side does. Source: ``kstream.internals.foreignkeyjoin`` (4.4).

The left side says to which right row each of its rows refers (:class:`SubscriptionSend`), through a topic that is
partitioned by the foreign key. The right side keeps that (:class:`SubscriptionReceive`) and answers with its row
(:class:`SubscriptionJoin`), also whenever that row changes (:class:`ForeignTableJoin`), through a topic that is
partitioned as the left table. There :class:`ResponseJoin` joins, unless the left row has changed meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.api.engine import Bound
from headrace.processors.murmur3 import murmur3_128
from headrace.serdes import BytesSerializer
from headrace.serdes.foreign_key import (
    Answer,
    Instruction,
    Subscription,
    foreign_key_prefix,
    foreign_key_topic,
    primary_key_of,
    primary_key_topic,
    value_hash_topic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.api.engine import NodeContext, ValueGetterSupplier
    from headrace.api.serde import Serde, SerdeContext
    from headrace.records import Headers
    from headrace.state.keyvalue import TimestampedKeyValueStoreWithHeaders

    Bytes = Callable[[Any], bytes]

_ALWAYS_ANSWERED: Final = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of both sides: serdes (None for the configured default) and the subscriptions' topic in the topology."""

    topic: str
    primary: Serde[Any] | None
    foreign: Serde[Any] | None

    def encode_foreign(self, node: NodeContext) -> Bytes:
        """Bytes of a foreign key."""
        serde = self.foreign or node.serdes.key_serde()
        return serde.serializer.bind(foreign_key_topic(node.application_id, self.topic))

    def encode_primary(self, node: NodeContext) -> Bytes:
        """Bytes of a primary key."""
        serde = self.primary or node.serdes.key_serde()
        return serde.serializer.bind(primary_key_topic(node.application_id, self.topic))

    def decode_primary(self, node: NodeContext) -> Callable[[bytes], Any]:
        """A primary key of its bytes."""
        serde = self.primary or node.serdes.key_serde()
        return serde.deserializer.bind(primary_key_topic(node.application_id, self.topic))

    def hash_of_value(self, node: NodeContext, value_serde: Serde[Any] | None) -> Bytes:
        """The hash of a left value, by its bytes."""
        serde = value_serde or node.serdes.value_serde()
        encode = serde.serializer.bind(value_hash_topic(node.application_id, self.topic))
        return lambda value: murmur3_128(encode(value))


@dataclass(frozen=True, slots=True)
class SubscriptionSend:
    """Subscribes a left row with the row it refers to, and ends the subscription with the one it referred to before.

    ``extractor(key, value)`` gives the foreign key. Inner: a row that refers to nothing is dropped (counted). ``left``:
    it is sent all the same, without a key, to be answered. ``versioned``: a late change of a versioned table is
    dropped.

    :class:`ResponseJoin` may have a row answered once more, by the function among the task's peers that has the name of
    the subscriptions' topic. It gives False when the row refers to nothing.
    """

    extractor: Callable[[Any, Any], Any]
    keys: Keys
    value_serde: Serde[Any] | None
    left: bool
    versioned: bool = False

    def check_serdes(self, serdes: SerdeContext, /) -> None:
        """See :class:`headrace.api.engine.UsesSerdes`. The keys' serdes are those of the topics between the tables."""
        if self.value_serde is None:
            serdes.value_serde()

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        extractor, versioned = self.extractor, self.versioned
        forward, drop, user_error, partition = node.forward, node.drop, node.user_error, node.task_id.partition
        encode, hash_of = self.keys.encode_foreign(node), self.keys.hash_of_value(node, self.value_serde)
        instructions = _left_instructions if self.left else _inner_instructions

        def process_change(
            key: Any, new: Any, old: Any, is_latest: bool, timestamp: int, headers: Headers | None
        ) -> None:
            if versioned and not is_latest:
                drop("late change of a versioned table")
                return
            if new is None and old is None:
                return
            try:
                new_key = None if new is None else extractor(key, new)
                old_key = None if old is None else extractor(key, old)
                changed = old_key is not None and (new_key is None or encode(new_key) != encode(old_key))
                value_hash = None if new is None else hash_of(new)
            except Exception as e:
                user_error(e, key, new, timestamp, headers)
                return
            if new is not None and new_key is None and instructions is _inner_instructions:
                drop("null foreign key")
            for foreign_key, instruction in instructions(new_key, old_key, changed):
                forward(foreign_key, Subscription(value_hash, instruction, key, partition), timestamp, headers)

        def ask_again(key: Any, value: Any, timestamp: int, headers: Headers | None) -> bool:
            try:
                foreign_key = extractor(key, value)
                value_hash = hash_of(value)
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return True
            if foreign_key is None:
                return False
            subscription = Subscription(value_hash, _ALWAYS_ANSWERED, key, partition)
            forward(foreign_key, subscription, timestamp, headers)
            return True

        node.peers[self.keys.topic] = ask_again
        return Bound(process_change=process_change)


def _inner_instructions(new: Any, old: Any, changed: bool) -> tuple[tuple[Any, Instruction], ...]:
    if new is None:
        return () if old is None else ((old, Instruction.DELETE_KEY_AND_PROPAGATE),)
    if changed:
        return (
            (old, Instruction.DELETE_KEY_NO_PROPAGATE),
            (new, _ALWAYS_ANSWERED),
        )
    return ((new, Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE),)


def _left_instructions(new: Any, old: Any, changed: bool) -> tuple[tuple[Any, Instruction], ...]:
    answered = (new, _ALWAYS_ANSWERED)
    return ((old, Instruction.DELETE_KEY_NO_PROPAGATE), answered) if changed else (answered,)


@dataclass(frozen=True, slots=True)
class SubscriptionReceive:
    """Keeps the subscriptions of right rows, also of rows that do not exist; passes them on."""

    store_name: str
    keys: Keys

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        forward, drop, user_error = node.forward, node.drop, node.user_error
        store: TimestampedKeyValueStoreWithHeaders[bytes, Subscription] = node.store(self.store_name)
        put = store.put_pair
        encode_foreign, encode_primary = self.keys.encode_foreign(node), self.keys.encode_primary(node)
        deletions = (Instruction.DELETE_KEY_AND_PROPAGATE, Instruction.DELETE_KEY_NO_PROPAGATE)

        def process(key: Any, subscription: Subscription, timestamp: int, headers: Headers | None) -> None:
            if key is None and subscription.instruction != _ALWAYS_ANSWERED:
                drop("null foreign key")
                return
            if key is not None:
                try:
                    stored_key = foreign_key_prefix(encode_foreign(key)) + encode_primary(subscription.primary_key)
                    kept = None if subscription.instruction in deletions else subscription
                    put(stored_key, kept, timestamp, headers)
                except Exception as e:
                    user_error(e, key, subscription, timestamp, headers)
                    return
            forward(key, subscription, timestamp, headers)

        return Bound(process)


@dataclass(frozen=True, slots=True)
class SubscriptionJoin:
    """Answers a subscription with the right row as it is now. The answer has the later time of both."""

    table: ValueGetterSupplier

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        get, forward, user_error = self.table.bind(node), node.forward, node.user_error

        def process(key: Any, subscription: Subscription, timestamp: int, headers: Headers | None) -> None:
            value_hash, instruction, primary_key, partition = subscription
            try:
                row = None if key is None else get(key)
            except Exception as e:
                user_error(e, key, subscription, timestamp, headers)
                return
            if row is not None and row[1] > timestamp:
                timestamp = row[1]
            if instruction == Instruction.DELETE_KEY_AND_PROPAGATE:
                forward(primary_key, Answer(value_hash, None, partition), timestamp, headers)
            elif instruction == _ALWAYS_ANSWERED or (
                instruction == Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE and row is not None
            ):
                value = None if row is None else row[0]
                forward(primary_key, Answer(value_hash, value, partition), timestamp, headers)

        return Bound(process)


@dataclass(frozen=True, slots=True)
class ForeignTableJoin:
    """Answers every subscription of a right row that has changed.

    ``versioned``: a late change of a versioned table is dropped.
    """

    store_name: str
    keys: Keys
    versioned: bool = False

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        forward, drop, user_error, versioned = node.forward, node.drop, node.user_error, self.versioned
        store: TimestampedKeyValueStoreWithHeaders[bytes, Subscription] = node.store(self.store_name)
        encode, decode_primary = self.keys.encode_foreign(node), self.keys.decode_primary(node)
        prefixes = BytesSerializer()

        def subscriptions(key: Any) -> Iterator[tuple[Any, Subscription]]:
            for stored_key, row in store.prefix_scan(foreign_key_prefix(encode(key)), prefixes):
                yield decode_primary(primary_key_of(stored_key)), row.value

        def process_change(
            key: Any, new: Any, old: Any, is_latest: bool, timestamp: int, headers: Headers | None
        ) -> None:
            if key is None:
                drop("null key")
                return
            if versioned and not is_latest:
                drop("late change of a versioned table")
                return
            # one by one: a right row may have more subscriptions than memory holds
            found = subscriptions(key)
            while True:
                try:
                    subscriber = next(found, None)
                except Exception as e:
                    user_error(e, key, new, timestamp, headers)
                    return
                if subscriber is None:
                    return
                primary_key, subscription = subscriber
                answer = Answer(subscription.value_hash, new, subscription.primary_partition)
                forward(primary_key, answer, timestamp, headers)

        return Bound(process_change=process_change)


@dataclass(frozen=True, slots=True)
class ResponseJoin:
    """Joins an answer with the left row that it is for: ``joiner(value, right value)``.

    An answer to a former value of the row is dropped (counted). Inner: without a right value there is no row. ``left``:
    then the right value is None.

    Inner, and the answer to the former value was that there is nothing: the result may be of a still older one, and the
    right side says nothing of the present one if there is nothing for it either. So it is asked again; in Java the old
    result stays. That is done at the next commit, when the left table's cache has sent on what it held back: a value
    that is replaced before would have been asked for, and nobody would take that back.
    """

    table: ValueGetterSupplier
    keys: Keys
    value_serde: Serde[Any] | None
    joiner: Callable[[Any, Any], Any]
    left: bool

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        get, hash_of = self.table.bind(node), self.keys.hash_of_value(node, self.value_serde)
        joiner, left, forward, drop, user_error = self.joiner, self.left, node.forward, node.drop, node.user_error
        peers, asking = node.peers, self.keys.topic
        doubted: list[tuple[Any, int, Headers | None]] = []

        def settle() -> bool:
            if not doubted:
                return False
            again = doubted[:]
            doubted.clear()
            for key, timestamp, headers in again:
                row = get(key)
                if row is None or not peers[asking](key, row[0], max(row[1], timestamp), headers):
                    forward(key, None, timestamp, headers)
            return True

        if not left:
            node.before_commit.append(settle)

        def process(key: Any, answer: Answer, timestamp: int, headers: Headers | None) -> None:
            try:
                row = get(key)
                value = answer.foreign_value
                is_former = answer.value_hash != (None if row is None else hash_of(row[0]))
                if is_former or (value is None and (row is None or not left)):
                    joined = None
                else:
                    joined = joiner(None if row is None else row[0], value)
            except Exception as e:
                user_error(e, key, answer, timestamp, headers)
                return
            if is_former:
                drop("answer to a former value")
                if not left and value is None:
                    doubted.append((key, timestamp, headers))
                return
            forward(key, joined, timestamp, headers)

        return Bound(process)
