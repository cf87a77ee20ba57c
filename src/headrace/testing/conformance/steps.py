"""Builds the topology of a case from its steps, with the public DSL and Processor API."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from headrace.api.joins import JoinWindows, StreamJoined
from headrace.api.options import (
    Branched,
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Named,
    Produced,
    Repartitioned,
    TableJoined,
)
from headrace.api.stores import StoreType
from headrace.api.suppressed import BufferConfig, EagerBufferConfig, StrictBufferConfig, Suppressed
from headrace.api.windows import EmitStrategy, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from headrace.dsl import (
    CogroupedKStream,
    GlobalKTable,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    SessionWindowedCogroupedKStream,
    SessionWindowedKStream,
    StreamsBuilder,
    TimeWindowedCogroupedKStream,
    TimeWindowedKStream,
)
from headrace.errors import IllegalStateException
from headrace.resets import AutoOffsetReset
from headrace.state.builders import AnyStoreBuilder, StoreBuilder, Stores
from headrace.testing.conformance import functions
from headrace.testing.conformance.processors import fixed_key_supplier, supplier, transformer_supplier
from headrace.testing.conformance.values import LaterStep, number, serde
from headrace.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.api.record import RecordContext
    from headrace.api.timestamps import ConsumerRecord


class _TimestampFrom:
    """Takes the time from the value."""

    def __init__(self, written: str) -> None:
        self._function = functions.value(written)

    def extract(self, record: ConsumerRecord, partition_time: int) -> int:
        """See :class:`headrace.api.timestamps.TimestampExtractor`."""
        return number(self._function(record.key, record.value))


class _TopicFrom:
    """Takes the topic from the value; its text is that of the function, as in Java's description."""

    def __init__(self, written: str) -> None:
        self._written = written
        self._function = functions.value(written)

    def __call__(self, key: Any, value: Any, context: RecordContext) -> str:
        topic: str = self._function(key, value)
        return topic

    def __str__(self) -> str:
        return self._written


class Steps:
    """Interprets steps one by one; results are kept under their ``as`` names."""

    def __init__(self, config: Mapping[str, Any], *, at_construction: bool) -> None:
        self._config = config
        self._builder = StreamsBuilder(config if at_construction else None)
        self._papi = Topology()
        self._uses_papi = False
        self._vars: dict[str, Any] = {}
        self._stores: dict[str, AnyStoreBuilder] = {}

    def build(self, steps: list[dict[str, Any]]) -> Topology:
        """The topology of all steps.

        Raises:
            LaterStep: A step uses what the library does not have yet.
        """
        for step in steps:
            made = self._run(step)
            if "as" in step:
                self._vars[step["as"]] = made
        return self._papi if self._uses_papi else self._builder.build(self._config)

    def _run(self, step: Mapping[str, Any]) -> Any:
        op = step["op"]
        name = re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", op)
        method: Callable[[Mapping[str, Any]], Any] | None = getattr(self, f"_op_{name}", None)
        if method is not None:
            return method(step)
        raise IllegalStateException(f"no op {op}")

    def _var(self, step: Mapping[str, Any], name: str) -> Any:
        if step[name] not in self._vars:
            raise IllegalStateException(f"no variable {step[name]}")
        return self._vars[step[name]]

    def _is(self, step: Mapping[str, Any], kind: type) -> bool:
        return isinstance(self._var(step, "in"), kind)

    def _stream(self, step: Mapping[str, Any]) -> KStream[Any, Any]:
        found = self._var(step, "in")
        if not isinstance(found, KStream):
            raise LaterStep(f"op {step['op']} on a {type(found).__name__}")
        return found  # pyright: ignore[reportUnknownVariableType]  # any key and value

    def _table(self, step: Mapping[str, Any]) -> KTable[Any, Any]:
        found = self._var(step, "in")
        if not isinstance(found, KTable):
            raise LaterStep(f"op {step['op']} on a {type(found).__name__}")
        return found  # pyright: ignore[reportUnknownVariableType]  # any key and value

    def _grouped_table(self, step: Mapping[str, Any]) -> KGroupedTable[Any, Any]:
        found = self._var(step, "in")
        assert isinstance(found, KGroupedTable)
        return found  # pyright: ignore[reportUnknownVariableType]  # any key and value

    def _grouped(self, step: Mapping[str, Any]) -> KGroupedStream[Any, Any]:
        found = self._var(step, "in")
        if not isinstance(found, KGroupedStream):
            raise LaterStep(f"op {step['op']} on a {type(found).__name__}")
        return found  # pyright: ignore[reportUnknownVariableType]  # any key and value

    # sources and stores

    def _op_stream(self, step: Mapping[str, Any]) -> Any:
        return self._builder.stream(step.get("topics") or step["topic"], _consumed(step))

    def _op_table(self, step: Mapping[str, Any]) -> Any:
        return self._builder.table(step["topic"], _consumed(step), _materialized(step))

    def _op_add_state_store(self, step: Mapping[str, Any]) -> None:
        builder = _store(step)
        self._stores[step["name"]] = builder
        if not step.get("papi", False):
            self._builder.add_state_store(builder)

    def _op_global_table(self, step: Mapping[str, Any]) -> Any:
        return self._builder.global_table(step["topic"], _consumed(step), _materialized(step))

    def _op_add_global_store(self, step: Mapping[str, Any]) -> None:
        self._builder.add_global_store(_store(step["store"]), step["topic"], _consumed(step), supplier(step))

    # streams

    def _op_filter(self, step: Mapping[str, Any]) -> Any:
        predicate = functions.predicate(step["fn"])
        if self._is(step, KTable):
            return self._table(step).filter(predicate, _materialized(step), _named(step))
        return self._stream(step).filter(predicate, _named(step))

    def _op_filter_not(self, step: Mapping[str, Any]) -> Any:
        predicate = functions.predicate(step["fn"])
        if self._is(step, KTable):
            return self._table(step).filter_not(predicate, _materialized(step), _named(step))
        return self._stream(step).filter_not(predicate, _named(step))

    def _op_map_values(self, step: Mapping[str, Any]) -> Any:
        mapper = functions.value(step["fn"])
        if self._is(step, KTable):
            return self._table(step).map_values(mapper, _materialized(step), _named(step), with_key=True)
        return self._stream(step).map_values(mapper, _named(step), with_key=True)

    def _op_map(self, step: Mapping[str, Any]) -> Any:
        return self._stream(step).map(functions.pair(step["fn"]), _named(step))

    def _op_select_key(self, step: Mapping[str, Any]) -> Any:
        return self._stream(step).select_key(functions.key(step["fn"]), _named(step))

    def _op_flat_map(self, step: Mapping[str, Any]) -> Any:
        return self._stream(step).flat_map(functions.many_pairs(step["fn"]), _named(step))

    def _op_flat_map_values(self, step: Mapping[str, Any]) -> Any:
        return self._stream(step).flat_map_values(functions.many(step["fn"]), _named(step), with_key=True)

    def _op_peek(self, step: Mapping[str, Any]) -> Any:
        return self._stream(step).peek(lambda key, value: None, _named(step))

    def _op_foreach(self, step: Mapping[str, Any]) -> None:
        self._stream(step).for_each(lambda key, value: None, _named(step))

    def _op_merge(self, step: Mapping[str, Any]) -> Any:
        return self._stream(step).merge(self._var(step, "with"), _named(step))

    def _op_split(self, step: Mapping[str, Any]) -> None:
        split = self._stream(step).split(_named(step))
        for branch in step["branches"]:
            split = split.branch(functions.predicate(branch["pred"]), self._branched(branch))
        if step.get("default") is None:
            split.no_default_branch()
        else:
            split.default_branch(self._branched(step["default"]))

    def _branched(self, branch: Mapping[str, Any]) -> Branched[KStream[Any, Any]]:
        def take(stream: KStream[Any, Any]) -> None:
            if "as" in branch:
                self._vars[branch["as"]] = stream

        return Branched.with_consumer(take, branch.get("name"))

    def _op_repartition(self, step: Mapping[str, Any]) -> Any:
        how = Repartitioned.with_(serde(step.get("key")), serde(step.get("value")))
        if "name" in step:
            how = how.with_name(step["name"])
        if "partitions" in step:
            how = how.with_number_of_partitions(step["partitions"])
        return self._stream(step).repartition(how)

    def _op_to(self, step: Mapping[str, Any]) -> None:
        stream = self._stream(step)
        how = Produced.with_(serde(step.get("key")), serde(step.get("value")))
        topic = _TopicFrom(step["topic_fn"]) if "topic_fn" in step else step["topic"]
        stream.to(topic, how.with_name(step["named"]) if "named" in step else how)

    def _op_process(self, step: Mapping[str, Any]) -> Any:
        return self._stream(step).process(supplier(step), *step.get("stores", ()), named=_named(step))

    def _op_process_values(self, step: Mapping[str, Any]) -> Any:
        return self._stream(step).process_values(fixed_key_supplier(step), *step.get("stores", ()), named=_named(step))

    # tables and groups

    def _op_to_table(self, step: Mapping[str, Any]) -> Any:
        return self._stream(step).to_table(materialized=_materialized(step), named=_named(step))

    def _op_transform_values(self, step: Mapping[str, Any]) -> Any:
        stores = step.get("stores", ())
        return self._table(step).transform_values(
            transformer_supplier(step), *stores, materialized=_materialized(step), named=_named(step)
        )

    def _op_to_stream(self, step: Mapping[str, Any]) -> Any:
        table = self._table(step)
        if "key_fn" in step:
            return table.to_stream(functions.key(step["key_fn"]), _named(step))
        return table.to_stream(named=_named(step))

    def _op_group_by_key(self, step: Mapping[str, Any]) -> Any:
        return self._stream(step).group_by_key(_grouped_option(step))

    def _op_group_by(self, step: Mapping[str, Any]) -> Any:
        if self._is(step, KTable):
            return self._table(step).group_by(functions.pair(step["fn"]), _grouped_option(step))
        return self._stream(step).group_by(functions.key(step["fn"]), _grouped_option(step))

    def _op_windowed_by(self, step: Mapping[str, Any]) -> Any:
        grouped, windows = self._var(step, "in"), _windows(step["window"])
        made = grouped.windowed_by(windows)
        if "emit" not in step or isinstance(grouped, CogroupedKStream):
            return made
        on_close = step["emit"] == "on_window_close"
        return made.emit_strategy(EmitStrategy.on_window_close() if on_close else EmitStrategy.on_window_update())

    def _op_cogroup(self, step: Mapping[str, Any]) -> Any:
        grouped, aggregator = self._var(step, "in"), functions.aggregate(step["fn"])
        if isinstance(grouped, CogroupedKStream):
            return grouped.cogroup(self._var(step, "with"), aggregator)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # any key and value
        return self._grouped(step).cogroup(aggregator)

    def _op_count(self, step: Mapping[str, Any]) -> Any:
        grouped = self._var(step, "in")
        return grouped.count(_materialized(step), _named(step))

    def _op_reduce(self, step: Mapping[str, Any]) -> Any:
        grouped, reducer = self._var(step, "in"), functions.reduce(step["fn"])
        materialized, named = _materialized(step), _named(step)
        if isinstance(grouped, TimeWindowedKStream | SessionWindowedKStream):
            return grouped.reduce(reducer, materialized, named)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # any key and value
        # in Java these take a name only together with a store
        named = None if materialized is None else named
        if isinstance(grouped, KGroupedTable):
            return self._grouped_table(step).reduce(reducer, functions.reduce(step["subtractor"]), materialized, named)
        return self._grouped(step).reduce(reducer, materialized, named)

    def _op_aggregate(self, step: Mapping[str, Any]) -> Any:
        grouped, initializer = self._var(step, "in"), functions.initializer(step["init"])
        how = _materialized(step), _named(step)
        match grouped:
            case KGroupedTable():
                adder, subtractor = functions.aggregate(step["fn"]), functions.aggregate(step["subtractor"])
                return self._grouped_table(step).aggregate(initializer, adder, subtractor, *how)
            case SessionWindowedKStream():
                merger = functions.merger(step["merger"])
                return grouped.aggregate(initializer, functions.aggregate(step["fn"]), merger, *how)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # any key and value
            case SessionWindowedCogroupedKStream():
                return grouped.aggregate(initializer, functions.merger(step["merger"]), *how)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # any key and value
            case CogroupedKStream() | TimeWindowedCogroupedKStream():
                return grouped.aggregate(initializer, *how)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # any key and value
            case TimeWindowedKStream():
                return grouped.aggregate(initializer, functions.aggregate(step["fn"]), *how)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # any key and value
            case _:
                # in Java it takes a name only together with a store
                materialized, named = how[0], None if how[0] is None else how[1]
                aggregator = functions.aggregate(step["fn"])
                return self._grouped(step).aggregate(initializer, aggregator, materialized, named)

    def _op_suppress(self, step: Mapping[str, Any]) -> Any:
        return self._table(step).suppress(_suppressed(step))

    # joins

    def _op_join(self, step: Mapping[str, Any]) -> Any:
        if self._is(step, KTable):
            return self._join_tables(step)
        this, other = self._stream(step), self._var(step, "with")
        joiner = functions.joiner(step["joiner"])
        if isinstance(other, KStream):
            return _join_streams(this, other, joiner, step)  # pyright: ignore[reportUnknownArgumentType]  # any
        join: Any = this.left_join if step["how"] == "left" else this.join
        if isinstance(other, GlobalKTable):
            return join(other, functions.key(step["key_fn"]), joiner, _named(step), with_key=True)
        return join(other, joiner, _joined(step), with_key=True)

    def _join_tables(self, step: Mapping[str, Any]) -> Any:
        left, right, function = self._table(step), self._var(step, "with"), functions.joiner(step["joiner"])

        def joiner(one: Any, other: Any) -> Any:
            return function(None, one, other)

        materialized, named = _materialized(step), _named(step)
        if "key_fn" not in step:
            match step["how"]:
                case "left":
                    return left.left_join(right, joiner, materialized, named)
                case "outer":
                    return left.outer_join(right, joiner, materialized, named)
                case _:
                    return left.join(right, joiner, materialized, named)
        extractor, name = functions.key(step["key_fn"]), step.get("table_joined")
        how = None if name is None else TableJoined.as_(name)
        if step["how"] == "left":
            return left.left_join(
                right, joiner, materialized, foreign_key_extractor=extractor, table_joined=how, with_key=True
            )
        return left.join(right, joiner, materialized, foreign_key_extractor=extractor, table_joined=how, with_key=True)

    # Processor API

    def _op_add_source(self, step: Mapping[str, Any]) -> None:
        self._uses_papi = True
        key, value = serde(step.get("key")), serde(step.get("value"))
        self._papi.add_source(
            step["name"],
            *step["topics"],
            key_deserializer=None if key is None else key.deserializer,
            value_deserializer=None if value is None else value.deserializer,
        )

    def _op_add_processor(self, step: Mapping[str, Any]) -> None:
        self._papi.add_processor(step["name"], supplier(step), *step["parents"])

    def _op_add_sink(self, step: Mapping[str, Any]) -> None:
        key, value = serde(step.get("key")), serde(step.get("value"))
        self._papi.add_sink(
            step["name"],
            step["topic"],
            *step["parents"],
            key_serializer=None if key is None else key.serializer,
            value_serializer=None if value is None else value.serializer,
        )

    def _op_attach_store(self, step: Mapping[str, Any]) -> None:
        self._papi.add_state_store(self._stores[step["name"]], *step["processors"])

    def _op_connect_stores(self, step: Mapping[str, Any]) -> None:
        self._papi.connect_processor_and_state_stores(step["processor"], *step["stores"])


def _named(step: Mapping[str, Any]) -> Named | None:
    return Named.as_(step["named"]) if "named" in step else None


def _consumed(step: Mapping[str, Any]) -> Consumed[Any, Any]:
    how = Consumed.with_(serde(step.get("key")), serde(step.get("value")))
    if "named" in step:
        how = how.with_name(step["named"])
    if "offset_reset" in step:
        earliest = step["offset_reset"] == "earliest"
        how = how.with_offset_reset_policy(AutoOffsetReset.EARLIEST if earliest else AutoOffsetReset.LATEST)
    if "timestamp_from" in step:
        how = how.with_timestamp_extractor(_TimestampFrom(step["timestamp_from"]))
    return how


def _grouped_option(step: Mapping[str, Any]) -> Grouped[Any, Any] | None:
    how = step.get("grouped")
    return None if how is None else Grouped.with_(serde(how.get("key")), serde(how.get("value")), how.get("name"))


def _windows(window: Mapping[str, Any]) -> Any:
    grace = window.get("grace_ms", 0)
    match window["type"]:
        case "time":
            tumbling = TimeWindows.of_size_and_grace(window["size_ms"], grace)
            return tumbling.advance_by(window["advance_ms"]) if "advance_ms" in window else tumbling
        case "sliding":
            return SlidingWindows.of_time_difference_and_grace(window["diff_ms"], grace)
        case "session":
            return SessionWindows.of_inactivity_gap_and_grace(window["gap_ms"], grace)
        case "unlimited":
            return UnlimitedWindows.of()
        case kind:
            raise IllegalStateException(f"no window {kind}")


def _suppressed(step: Mapping[str, Any]) -> Suppressed[Any]:
    final = step["until"] == "window_closes"
    buffer: BufferConfig = BufferConfig.unbounded()
    if "max_records" in step:
        buffer = BufferConfig.max_records(step["max_records"])
    elif "max_bytes" in step:
        buffer = BufferConfig.max_bytes(step["max_bytes"])
    if isinstance(buffer, EagerBufferConfig) and (final or step.get("full") == "shutdown"):
        buffer = buffer.shut_down_when_full()
    if step.get("logging") is False:
        buffer = buffer.with_logging_disabled()
    if final:
        assert isinstance(buffer, StrictBufferConfig)
        how: Suppressed[Any] = Suppressed.until_window_closes(buffer)
    else:
        how = Suppressed.until_time_limit(step["ms"], buffer)
    return how.with_name(step["named"]) if "named" in step else how


def _join_streams(
    this: KStream[Any, Any], other: KStream[Any, Any], joiner: Callable[..., Any], step: Mapping[str, Any]
) -> KStream[Any, Any]:
    join: Any = {"inner": this.join, "left": this.left_join, "outer": this.outer_join}[step["how"]]
    joined: KStream[Any, Any] = join(other, joiner, _join_windows(step["window"]), _stream_joined(step), with_key=True)
    return joined


def _join_windows(how: Mapping[str, Any]) -> JoinWindows:
    out = JoinWindows.of_time_difference_and_grace(how["diff_ms"], how.get("grace_ms", 0))
    if "before_ms" in how:
        out = out.before(how["before_ms"])
    return out.after(how["after_ms"]) if "after_ms" in how else out


def _stream_joined(step: Mapping[str, Any]) -> StreamJoined[Any, Any, Any] | None:
    how = step.get("stream_joined")
    if how is None:
        return None
    out = StreamJoined.with_(serde(how.get("key")), serde(how.get("value")), serde(how.get("other_value")))
    if "name" in how:
        out = out.with_name(how["name"])
    if "store_name" in how:
        out = out.with_store_name(how["store_name"])
    if how.get("logging") is False:
        out = out.with_logging_disabled()
    return out.with_store_type(StoreType.IN_MEMORY) if how.get("store") == "in_memory" else out


def _joined(step: Mapping[str, Any]) -> Joined[Any, Any, Any] | None:
    how = step.get("joined")
    if how is None:
        return None
    serdes = serde(how.get("key")), serde(how.get("value")), serde(how.get("other_value"))
    return Joined.with_(*serdes, how.get("name"), how.get("grace_ms"))


def _materialized(step: Mapping[str, Any]) -> Materialized[Any, Any] | None:
    how = step.get("materialized")
    if how is None:
        return None
    name, kind = how.get("name"), how.get("store")
    if kind == "plain":
        out: Materialized[Any, Any] = Materialized.as_(Stores.persistent_key_value_store(name))
    elif kind == "versioned":
        out = Materialized.as_(Stores.persistent_versioned_key_value_store(name, how["history_ms"]))
    elif kind == "lru":
        out = Materialized.as_(Stores.lru_map(name, how["max_entries"]))
    else:
        out = Materialized() if name is None else Materialized.as_(name)
    if kind == "in_memory":
        out = out.with_store_type(StoreType.IN_MEMORY)
    out = out.with_key_serde(serde(how.get("key"))).with_value_serde(serde(how.get("value")))
    if "caching" in how:
        out = out.with_caching_enabled() if how["caching"] else out.with_caching_disabled()
    if "retention_ms" in how:
        out = out.with_retention(how["retention_ms"])
    logging = how.get("logging")
    if logging is False:
        return out.with_logging_disabled()
    if isinstance(logging, dict):
        return out.with_logging_enabled({str(k): str(v) for k, v in logging.items()})  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # JSON
    return out


def _store(step: Mapping[str, Any]) -> StoreBuilder[Any, Any]:
    name, kind = step["name"], step.get("type", "kv")
    in_memory = step.get("store") == "in_memory"
    key, value = serde(step.get("key")), serde(step.get("value"))
    out: AnyStoreBuilder
    if kind == "window":
        made = Stores.in_memory_window_store if in_memory else Stores.persistent_window_store
        out = Stores.window_store_builder(made(name, step["retention_ms"], step["window_ms"]), key, value)
    elif kind == "timestamped_kv":
        timestamped = Stores.in_memory_key_value_store if in_memory else Stores.persistent_timestamped_key_value_store
        out = Stores.timestamped_key_value_store_builder(timestamped(name), key, value)
    elif kind == "kv":
        plain = Stores.in_memory_key_value_store if in_memory else Stores.persistent_key_value_store
        out = Stores.key_value_store_builder(plain(name), key, value)
    else:
        raise IllegalStateException(f"no store type {kind}")
    if "caching" in step:
        out = out.with_caching_enabled() if step["caching"] else out.with_caching_disabled()
    if "logging" in step:
        out = out.with_logging_enabled() if step["logging"] else out.with_logging_disabled()
    return out
