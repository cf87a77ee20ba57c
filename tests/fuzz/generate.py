"""From a seed to a case."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from fuzz import inputs, kinds, operations
from fuzz.graph import Graph
from fuzz.inputs import Time
from fuzz.operations import OPERATIONS
from fuzz.processing import PROCESSING, processor_api

if TYPE_CHECKING:
    from collections.abc import Iterator

_ALL: Final = OPERATIONS | PROCESSING
_BASIC: Final = ("stream", "table", "mapValues", "toStream", "group", "count", "aggregate")
_SOURCES: Final = ("stream", "table", "globalTable", "addGlobalStore", "addSource")
_SAME_RECORD: Final = {"forward", "to_child", "dedupe", "ticks"}
"""Processors that forward the very record they got."""
_SERDES: Final = {"long": "LongSerde", "integer": "IntegerSerde", "double": "DoubleSerde"}
_DEAD_LETTERS: Final = "dlq"
_ERRORS: Final = "org.apache.kafka.streams.errors."
_PASSES: Final = ("reuse.ktable.source.topics", "merge.repartition.topics", "single.store.self.join")


def case(seed: int) -> dict[str, Any]:
    """The case of a seed: the same one on every machine and in every run."""
    rng = random.Random(seed)
    graph = Graph(rng)
    (processor_api if rng.random() < 0.08 else _grow)(graph)
    _within_bounds(graph)
    config, at_construction = _config(graph)
    topics = graph.topics | graph.sinks | graph.read_back
    made: dict[str, Any] = {
        "description": f"seed {seed}",
        "config": config,
        "topics": {
            name: {"key": kinds.serde(key), "value": kinds.serde(value)} for name, (key, value) in topics.items()
        },
        "steps": graph.steps,
    }
    if graph.dead_letters:
        # their bytes are those of any topic
        made["topics"][_DEAD_LETTERS] = {"key": "hex", "value": "hex"}
    if at_construction:
        made["topology_config"] = True
    if graph.wall_clock and rng.random() < 0.3:
        made["wall_clock_start_ms"] = rng.choice((1, 1000, 1_700_000_000_000))
    made["inputs"] = inputs.records(
        rng, graph.topics, graph.time, odd=graph.odd, texts=_texts(graph), wall_clock=graph.wall_clock
    )
    for step in graph.steps:
        inner = step["op"] == "join" and "key_fn" in step and step["how"] == "inner"
        if inner and (_both_change(graph, step, made) or _changes_twice(graph, step)):
            # when a right row goes with the very record that changes the left row, or that record changes it twice,
            # headrace asks once more
            step["how"] = "left"
    return made


def _texts(graph: Graph) -> set[tuple[str, str]]:
    """The topics whose keys, whose values may be no bytes but texts.

    A text that is not UTF-8 is refused here; the Java library puts other characters in the place of what is wrong.
    """
    return {
        (topic, part)
        for step in graph.steps
        if step["op"] in _SOURCES
        for topic in step.get("topics", [step.get("topic")])
        for part in ("key", "value")
        if step.get(part, graph.default[part]).startswith(("string", "except:"))
    }


def _grow(graph: Graph) -> None:
    """Applies operations of a random choice of kinds, then writes out what nothing hangs on."""
    rng = graph.rng
    share = rng.choice((0.25, 0.5, 1.0))
    names = [name for name in _ALL if name in _BASIC or rng.random() < share]
    favourites = set(rng.sample(names, min(3, len(names))))
    weights = [_ALL[name][0] * (4 if name in favourites else 1) for name in names]
    operations.stream(graph)
    for _ in range(rng.choice((0, 1, 1, 2))):
        rng.choice((operations.stream, operations.table, operations.table))(graph)
    wanted = rng.choice((2, 3, 4, 6, 8, 10, 14)) + len(graph.steps)
    for _ in range(80):
        if len(graph.steps) >= wanted:
            break
        _ALL[rng.choices(names, weights)[0]][1](graph)
    _finish(graph)


def _within_bounds(graph: Graph) -> None:
    """Takes out what is known, and meant, to differ."""
    for step in _with_siblings(graph, {"add_header"}):
        # the Java library's siblings may share one headers object and see each other's changes; headrace's do not
        step["processor"] = "forward"
    times = [s["args"]["ms"] for s in graph.steps if s.get("processor") == "shift_time"]
    if any(_with_siblings(graph, _SAME_RECORD)) or (times and (graph.time.ends or min(times) < 0)):
        # what is sent below those takes its record's bytes from the dead letters of their siblings; not so here. And a
        # record of a time that is none is a ValueError, where the Java library has an error of its own around one
        graph.dead_letters = False
    if graph.goes_on:
        # a record that waits and whose join fails is lost; in the Java library every record after it fails on it again
        for step in graph.steps:
            step.get("joined", {}).pop("grace_ms", None)
            if "window" in step and step.get("how") in {"left", "outer"} and step["joiner"].startswith("fail_if"):
                step["joiner"] = "plus"
    if any(step.get("processor") in {"ticks", "buffer"} for step in graph.steps):
        if graph.time.ends:
            # a punctuator that is due after the greatest time is, in the Java library, due again and again without end
            graph.time = Time(graph.time.unit, 1_700_000_000_000, 1_700_000_000_000)
        # where a punctuator forwards, headrace has no metadata; the Java library has some without a topic
        for step in graph.steps:
            if step.get("processor") == "metadata":
                step["processor"] = "times"


def _with_siblings(graph: Graph, processors: set[str]) -> Iterator[dict[str, Any]]:
    """The steps of those processors that are below one whose result is used twice."""
    uses = Counter(name for step in graph.steps for name in _inputs(step))
    for step in graph.steps:
        if step.get("processor") in processors and any(
            "with" in one or one["op"] == "split" or any(uses[name] > 1 for name in _inputs(one))
            for one in _above(graph, step)
        ):
            yield step


def _above(graph: Graph, *steps: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps, and all that they take from."""
    made = {step[part]: step for step in graph.steps for part in ("as", "name") if part in step}
    made |= {b["as"]: s for s in graph.steps for b in (*s.get("branches", ()), s.get("default") or {}) if "as" in b}
    found: list[dict[str, Any]] = []
    waiting = list(steps)
    while waiting:
        step = waiting.pop()
        # names may be taken twice
        if not any(step is one for one in found):
            found.append(step)
            waiting += (made[name] for name in _inputs(step))
    return found


def _both_change(graph: Graph, join: dict[str, Any], case: dict[str, Any]) -> bool:
    """Whether one record may change the left row of a join and take the right row away."""
    left, right = ([s for s in graph.steps if s.get("as") == join[part]] for part in ("in", "with"))
    if not any(one is other for one in _above(graph, *left) for other in _above(graph, *right)):
        return False
    # no bytes are no row in an answer
    empty = {record.get("topic") for record in case["inputs"] if record.get("value") == "" or "value_hex" in record}
    return any(step["op"] != "table" or step["topic"] in empty for step in right)


def _changes_twice(graph: Graph, join: dict[str, Any]) -> bool:
    """Whether one record may change the left row of a join more than once."""
    left = [step for step in graph.steps if step.get("as") == join["in"]]
    return any(
        "with" in step
        or step["op"] in {"flatMap", "flatMapValues", "windowedBy"}
        or (step["op"] == "groupBy" and step["fn"].startswith("pair"))
        or step.get("processor") in {"twice", "buffer", "ticks", "walk"}
        for step in _above(graph, *left)
    )


def _inputs(step: dict[str, Any]) -> list[str]:
    return [*(step[part] for part in ("in", "with") if part in step), *step.get("parents", ())]


def _finish(graph: Graph) -> None:
    """Ends every chain: groups are counted or aggregated, tables become streams, streams are written."""
    for _ in range(3):
        for handle in list(graph.handles):
            if handle.used:
                continue
            if handle.kind in {"grouped", "windowed", "grouped_table"}:
                graph.rng.choice((operations.counted, operations.reduced, operations.aggregated))(graph)
            elif handle.kind in {"cogrouped", "windowed_cogroup"}:
                operations.aggregated(graph)
    for handle in list(graph.handles):
        if not handle.used and handle.kind in {"table", "stream"} and graph.chance(0.9):
            _write(graph, handle)


def _write(graph: Graph, handle: Any) -> None:
    handle.used = True
    if handle.kind == "table":
        made = graph.derived(handle, "stream", used=True)
        step = {"op": "toStream", "in": handle.name}
        if kinds.serde(handle.key) is None:
            step["key_fn"], made.key, made.key_serde = "window_string", "string", None
        graph.maybe_named(step)
        graph.add(step, made)
        handle = made
    operations.sink(graph, handle)


def _config(graph: Graph) -> tuple[dict[str, Any], bool]:
    """Settings, and whether the builder gets them at its construction too."""
    config: dict[str, Any] = {}
    chance, choice = graph.chance, graph.rng.choice
    if graph.default["value"] != "string":
        config["default.value.serde"] = (
            f"org.apache.kafka.common.serialization.Serdes${_SERDES[graph.default['value']]}"
        )
    if chance(0.4):
        config["statestore.cache.max.bytes"] = choice((0, 0, 1))
    if chance(0.25):
        config["topology.optimization"] = choice(("all", "all", "none", *_PASSES, ",".join(_PASSES[:2])))
    if graph.odd and chance(0.4):
        config["deserialization.exception.handler"] = f"{_ERRORS}LogAndContinueExceptionHandler"
    if graph.goes_on:
        config["processing.exception.handler"] = f"{_ERRORS}LogAndContinueProcessingExceptionHandler"
    if graph.resumes:
        config["production.exception.handler"] = "Resumes"
    if graph.dead_letters:
        config["errors.dead.letter.queue.topic.name"] = _DEAD_LETTERS
    if chance(0.03):
        config["dsl.store.format"] = "HEADERS"
    if chance(0.04) and not graph.time.ends:
        config["dsl.store.suppliers.class"] = "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$" + choice(
            ("InMemoryDslStoreSuppliers", "RocksDBDslStoreSuppliers")
        )
    if chance(0.02):
        config["ensure.explicit.internal.resource.naming"] = "true"
    if chance(0.03):
        config["upgrade.from"] = choice(("3.3", "3.4", "3.5", "4.0"))
    if chance(0.03):
        config["windowstore.changelog.additional.retention.ms"] = choice((0, 1000))
    return config, chance(0.1)
