"""Processors of the vocabulary within the DSL, and topologies of the Processor API alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fuzz import kinds
from fuzz.graph import Handle

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuzz.graph import Graph


_PROCESSORS: Final = (
    "forward", "upper_value", "drop", "add_header", "metadata", "times", "shift_time", "to_child", "fail_if", "walk"
) + ("store_count", "dedupe", "window_sum", "buffer", "ticks", "table_put") * 2  # fmt: skip


def _store(g: Graph, key: str, value: str, kind: str = "kv", *, papi: bool = False, snapshots: bool = False) -> str:
    """A store for such rows, a new one as a rule; gives its name.

    An iterator of the Java library is a snapshot only with ``snapshots``, one of headrace's always.
    """
    wanted = (key, value, kind)
    same = [name for name, of in g.stores.items() if of == wanted]
    if same and not snapshots and g.chance(0.25):
        return g.rng.choice(same)
    name = g.name("st")
    while g.goes_on and name in g.stores:
        # a row that is there is no error of putIfAbsent here, whatever the value's type; it is one in the Java library
        name = g.name("st")
    g.stores[name] = wanted
    step: dict[str, Any] = {"op": "addStateStore", "name": name, "type": kind}
    if kind == "window":
        step["retention_ms"], step["window_ms"] = g.ms(20, 50, 200), g.ms(1, 5, 10)
    if not snapshots and g.chance(0.4):
        step["store"] = "in_memory"
    step["key"], step["value"] = kinds.serde(key), kinds.serde(value)
    if not snapshots and g.chance(0.35):
        step["caching"] = g.chance(0.7)
    if g.chance(0.2):
        step["logging"] = g.chance(0.3)
    if papi:
        step["papi"] = True
    g.add(step)
    return name


def _ticking(g: Graph) -> dict[str, Any]:
    kind = g.rng.choice(("stream_time", "wall_clock"))
    g.wall_clock = g.wall_clock or kind == "wall_clock"
    return {"interval_ms": max(1, g.ms(1, 5, 10, 20)), "type": kind}


def choose(g: Graph, key: str, value: str, *, papi: bool = False) -> tuple[dict[str, Any], str] | None:
    """A processor for such records: its part of the step, and the type of the values it forwards."""
    name = g.rng.choice(_PROCESSORS)
    if papi and name == "add_header":
        name = "forward"
    step: dict[str, Any] = {"processor": name}
    plain = kinds.serde(key) is not None and not kinds.windowed(key) and kinds.serde(value) is not None
    match name:
        case "upper_value" if value not in kinds.TEXTS and not g.mistyped():
            return None
        case "metadata" | "times":
            return step, "string"
        case "shift_time":
            step["args"] = {"ms": g.ms(1, 5, 20, -1 if g.odd else 2)}
        case "store_count" if plain:
            step["stores"] = [_store(g, key, "long", papi=papi)]
            return step, "long"
        case "dedupe" if plain:
            step["stores"] = [_store(g, key, value, papi=papi)]
        case "window_sum" if plain and value == "long":
            step["stores"] = [_store(g, key, "long", "window", papi=papi)]
            step["args"] = {"back_ms": g.ms(0, 3, 10, 40)}
        case "buffer" if plain:
            step["stores"], step["args"] = [_store(g, key, value, papi=papi)], _ticking(g)
        case "ticks" if (key in kinds.TEXTS and value in kinds.TEXTS) or g.mistyped():
            step["args"] = _ticking(g)
            if g.chance(0.3):
                step["args"]["cancel_after"] = g.rng.choice((1, 2, 5))
            if g.odd and g.chance(0.3):
                step["args"]["fail_at"] = g.rng.choice((1, 2, 5))
        case "table_put" if plain:
            step["stores"] = [_store(g, key, value, g.rng.choice(("kv", "timestamped_kv")), papi=papi)]
        case "to_child" if not g.strange():
            return None
        case "fail_if":
            if not g.odd:
                return None
            step["args"] = {"value": g.rng.choice(("a", "1", "x", "null"))}
        case "walk" if plain:
            step["stores"] = [_store(g, key, value, papi=papi, snapshots=True)]
        case "store_count" | "dedupe" | "window_sum" | "buffer" | "ticks" | "table_put" | "walk":
            return None
        case _:
            pass
    return step, value


def process(g: Graph) -> bool:
    """``process`` with any processor."""
    of = g.pick("stream")
    if of is None or (chosen := choose(g, of.key, of.value)) is None:
        return False
    step = {"op": "process", "in": of.name, **chosen[0]}
    g.maybe_named(step)
    g.add(step, g.derived(of, "stream", value=chosen[1], key_serde=None, value_serde=None))
    return True


def process_values(g: Graph) -> bool:
    """``processValues`` with any fixed-key processor, look-ups in tables' and global stores included."""
    of = g.pick("stream")
    if of is None:
        return False
    name, value = (
        g.rng.choice(("forward", "upper_value", "twice", "fail_if", "store_count", "lookup", "lookup", "lookup")),
        of.value,
    )
    step: dict[str, Any] = {"op": "processValues", "in": of.name, "processor": name}
    if name == "upper_value" and of.value not in kinds.TEXTS:
        return False
    if name == "fail_if":
        if not g.odd:
            return False
        step["args"] = {"value": g.rng.choice(("a", "1", "x", "null"))}
    if name == "store_count":
        if kinds.serde(of.key) is None:
            return False
        step["stores"], value = [_store(g, of.key, "long")], "long"
    elif name == "lookup":
        tables = [h for h in g.handles if h.kind == "table" and h.store and h.key == of.value and not h.versioned]
        found = [(h.store, [h.store]) for h in tables] + [(s, []) for s, key, _ in g.globals if key == of.value]
        if not found:
            return False
        store, step["stores"] = g.rng.choice(found)
        step["args"], value = {"store": store}, "string"
    g.maybe_named(step)
    g.add(step, g.derived(of, "stream", value=value, value_serde=None))
    return True


def transform_values(g: Graph) -> bool:
    """``transformValues`` of a table, with and without a store."""
    of = g.pick("table")
    if of is None:
        return False
    step: dict[str, Any] = {"op": "transformValues", "in": of.name}
    if g.chance(0.5) and kinds.serde(of.key) is not None:
        step = {"op": "transformValues", "in": of.name, "stores": [_store(g, of.key, "long")]}
    made = g.derived(of, "table", value="string", value_serde=None)
    g.maybe_named(step)
    if g.chance(0.4) and kinds.serde(of.key) is not None:
        window, made.window = made.window, None
        option = g.materialized(made, must=True)
        made.window = window
        if option is not None:
            step["materialized"] = option
    g.add(step, made)
    return True


def processor_api(g: Graph) -> None:
    """A topology of sources, processors, sinks and stores without the DSL."""
    nodes: list[Handle] = []
    for _ in range(g.rng.choice((1, 1, 2, 3))):
        key = g.rng.choice(("string", "string", "string", "long"))
        value = g.rng.choice(("string", "string", "long", "long", "json"))
        name = g.name("src")
        topics = [g.source_topic(key, value) for _ in range(g.rng.choice((1, 1, 2)))]
        made = Handle(name, "node", key, value)
        g.add({"op": "addSource", "name": name, "topics": topics} | g.serdes(made, source=True))
        nodes.append(made)
    for _ in range(g.rng.choice((1, 2, 3, 4, 6))):
        parent = g.rng.choice(nodes)
        chosen = choose(g, parent.key, parent.value, papi=True)
        if chosen is None:
            continue
        part, value = chosen
        parents = [parent.name]
        alike = [n for n in nodes if n is not parent and (n.key, n.value) == (parent.key, parent.value)]
        if alike and g.chance(0.25):
            parents.append(g.rng.choice(alike).name)
        name = g.name("p")
        g.add({"op": "addProcessor", "name": name, **part, "parents": parents})
        if "stores" in part and not g.strange(0.05):
            if any(s["op"] == "attachStore" and s["name"] == part["stores"][0] for s in g.steps) and g.chance(0.7):
                g.add({"op": "connectStores", "processor": name, "stores": part["stores"]})
            else:
                g.add({"op": "attachStore", "name": part["stores"][0], "processors": [name]})
            if g.chance(0.1):
                g.add({"op": "connectStores", "processor": name, "stores": part["stores"]})
        parent.used = True
        nodes.append(Handle(name, "node", parent.key, value))
    for node in nodes:
        if not node.used or g.chance(0.2):
            topic = g.sink_topic(node)
            step = {"op": "addSink", "name": g.name("snk"), "topic": topic} | g.serdes(node)
            g.add(step | {"parents": [node.name]})


PROCESSING: Final[dict[str, tuple[int, Callable[[Graph], bool]]]] = {
    "process": (7, process),
    "processValues": (4, process_values),
    "transformValues": (4, transform_values),
}
"""Operations by name, each with its weight."""
