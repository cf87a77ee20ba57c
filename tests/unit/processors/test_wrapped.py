from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace import (
    Consumed,
    FixedKeyProcessor,
    Processor,
    Record,
    Serdes,
    StoreBuilder,
    Stores,
    StreamsBuilder,
    Topology,
)
from headrace.api.record import Change
from headrace.errors import FailedProcessingException
from headrace.testing.driver import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace import FixedKeyProcessorContext, FixedKeyRecord, ProcessorContext

TEXT, LONG = Serdes.String(), Serdes.Long()
AnyProcessor = Processor[Any, Any, Any, Any]


class Watched(Processor[Any, Any, Any, Any]):
    def __init__(self, name: str, inner: AnyProcessor, watcher: Watcher) -> None:
        self._name = name
        self._inner = inner
        self._watcher = watcher

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self._inner.init(context)

    def process(self, record: Record[Any, Any]) -> None:
        self._watcher.seen.append((self._name, record.value))
        try:
            self._inner.process(record)
        except Exception as e:
            self._watcher.errors.append((self._name, str(e)))
            raise

    def close(self) -> None:
        self._watcher.closed.append(self._name)
        self._inner.close()


class Supplier:
    def __init__(self, make: Callable[[], AnyProcessor], stores: list[StoreBuilder[Any, Any]]) -> None:
        self._make = make
        self.stores = lambda: stores

    def __call__(self) -> AnyProcessor:
        return self._make()


class Watcher:
    """Counts records of each node in a store of its own at the node called ``count``."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []
        self.errors: list[tuple[str, str]] = []
        self.closed: list[str] = []
        self.configs: dict[str, Any] = {}

    def configure(self, configs: dict[str, Any]) -> None:
        self.configs = configs

    def wrap_processor_supplier(self, name: str, supplier: Callable[[], AnyProcessor]) -> Callable[[], AnyProcessor]:
        stores: list[StoreBuilder[Any, Any]] = []
        if name == "KSTREAM-FILTER-0000000001":
            stores.append(Stores.key_value_store_builder(Stores.in_memory_key_value_store("extra"), TEXT, LONG))
        return Supplier(lambda: Watched(name, supplier(), self), stores)

    def wrap_fixed_key_processor_supplier(
        self, name: str, supplier: Callable[[], FixedKeyProcessor[Any, Any, Any]]
    ) -> Callable[[], FixedKeyProcessor[Any, Any, Any]]:
        self.seen.append((name, "fixed"))
        return supplier


class Doubling(FixedKeyProcessor[str, str, str]):
    def init(self, context: FixedKeyProcessorContext[str, str]) -> None:
        super().init(context)

    def process(self, record: FixedKeyRecord[str, str]) -> None:
        self.context.forward(record.with_value(record.value * 2))


def test_every_operator_goes_through_the_wrapper_with_the_results_as_before() -> None:
    watcher = Watcher()
    builder = StreamsBuilder({"processor.wrapper.class": watcher})
    counts = (
        builder.stream("in", Consumed.with_(TEXT, TEXT))
        .filter(lambda key, value: value != "no")
        .process_values(Doubling)
        .group_by_key()
        .count()
    )
    counts.to_stream().to("out")
    topology = builder.build()
    assert "stores: [extra]" in topology.describe()
    settings = {"default.key.serde": TEXT, "default.value.serde": LONG, "statestore.cache.max.bytes": 0}
    with TopologyTestDriver(topology, settings) as driver:
        topic = driver.create_input_topic("in", TEXT.serializer, TEXT.serializer)
        for value in ("a", "no", "b"):
            topic.pipe_input("k", value, 1)
        out = driver.create_output_topic("out", TEXT.deserializer, LONG.deserializer)
        assert out.read_values_to_list() == [1, 2]
    names = [name for name, _ in watcher.seen]
    assert names[0] == "KSTREAM-PROCESSVALUES-0000000002"
    assert names.count("KSTREAM-FILTER-0000000001") == 3
    assert [value for name, value in watcher.seen if name.startswith("KTABLE-TOSTREAM")] == [
        Change(1, None, True),
        Change(2, None, True),
    ]
    assert set(watcher.closed) == {n for n in names if not n.startswith("KSTREAM-PROCESSVALUES")}
    assert watcher.configs["processor.wrapper.class"] is watcher


def test_a_wrapper_sees_errors_before_the_handler() -> None:
    watcher = Watcher()
    builder = StreamsBuilder({"processor.wrapper.class": watcher})

    def boom(value: str) -> str:
        raise ValueError("boom")

    builder.stream("in", Consumed.with_(TEXT, TEXT)).map_values(boom).to("out")
    with TopologyTestDriver(builder.build(), {"default.key.serde": TEXT, "default.value.serde": TEXT}) as driver:
        topic = driver.create_input_topic("in", TEXT.serializer, TEXT.serializer)
        with pytest.raises(FailedProcessingException, match=r"processor=KSTREAM-MAPVALUES-0000000001.*boom"):
            topic.pipe_input("k", "v", 1)
    assert watcher.errors == [("KSTREAM-MAPVALUES-0000000001", "boom")]


class Through(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)


def test_the_processor_api_and_global_stores() -> None:
    watcher = Watcher()
    topology = Topology({"processor.wrapper.class": watcher}).add_source("source", "in")
    topology.add_processor("through", Through, "source").add_sink("sink", "out", "through")
    store = Stores.key_value_store_builder(Stores.in_memory_key_value_store("g"), TEXT, TEXT).with_logging_disabled()
    topology.add_global_store(store, "gsource", "gtopic", "gprocessor", Through)
    with TopologyTestDriver(topology, {"default.key.serde": TEXT, "default.value.serde": TEXT}) as driver:
        for name in ("in", "gtopic"):
            driver.create_input_topic(name, TEXT.serializer, TEXT.serializer).pipe_input("k", name, 1)
    assert watcher.seen == [("through", "in"), ("gprocessor", "gtopic")]
