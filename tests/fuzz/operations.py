"""Every operation of the vocabulary's DSL, applied at random to a growing topology.

An operation gives False when nothing that it could be applied to is there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fuzz import kinds
from fuzz.graph import Handle

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuzz.graph import Graph

_KEYS: Final = ("string",) * 12 + ("long", "digits", "integer", "json", "double")
_VALUES: Final = ("string",) * 6 + ("long",) * 4 + ("digits", "json", "json", "integer", "double")
_MAX_LONG: Final = 2**63 - 1


# sources


def _consumed(g: Graph, step: dict[str, Any], made: Handle) -> None:
    step.update(g.serdes(made, source=True))
    made.key_serde, made.value_serde = step.get("key"), step.get("value")
    g.maybe_named(step)
    if g.chance(0.05):
        step["offset_reset"] = g.rng.choice(("earliest", "latest"))
    if g.chance(0.06) and g.time.unit == 1 and made.value in (*kinds.NUMBERS, "string"):
        step["timestamp_from"] = "length" if made.value == "string" else g.failing("identity")


def stream(g: Graph) -> bool:
    """A stream of one topic or several, seldom of one that another step writes."""
    key, value = g.rng.choice(_KEYS), g.rng.choice(_VALUES)
    made = Handle(f"v{g.number()}", "stream", key, value)
    step: dict[str, Any] = {"op": "stream"}
    right: dict[str, str | None] = {}
    if g.chance(0.1):
        step["topics"] = [g.source_topic(key, value) for _ in range(g.rng.choice((2, 2, 3)))]
    elif g.sinks and g.chance(0.1):
        step["topic"] = g.rng.choice(sorted(g.sinks))
        made.key, made.value = g.sinks.pop(step["topic"])
        g.read_back[step["topic"]] = (made.key, made.value)
        # what is read back and does not decode ends, in the Java library's driver, the reading of what else was written
        right = {part: kinds.serde(kind) for part, kind in (("key", made.key), ("value", made.value))}
    else:
        step["topic"] = g.source_topic(key, value)
    _consumed(g, step, made)
    step |= right
    made.key_serde, made.value_serde = step.get("key"), step.get("value")
    g.add(step, made)
    return True


def table(g: Graph) -> bool:
    """A table of a topic."""
    key, value = g.rng.choice(_KEYS), g.rng.choice(_VALUES)
    made = Handle(f"v{g.number()}", "table", key, value)
    step: dict[str, Any] = {"op": "table", "topic": g.source_topic(key, value)}
    _consumed(g, step, made)
    _materialize(g, step, made)
    g.add(step, made)
    return True


def global_table(g: Graph) -> bool:
    """A global table of a topic."""
    made = Handle(f"v{g.number()}", "global", g.rng.choice(_KEYS), g.rng.choice(_VALUES))
    step: dict[str, Any] = {"op": "globalTable", "topic": g.source_topic(made.key, made.value)}
    _consumed(g, step, made)
    _materialize(g, step, made)
    if "materialized" in step:
        # without a name the Java library fails, for want of a store
        step["materialized"].setdefault("name", g.name("S"))
        if step["materialized"].get("store") in {"plain", "lru"}:
            # the Java library has a cache over it, which shows what the store has lost
            del step["materialized"]["store"]
    g.add(step, made)
    return True


def global_store(g: Graph) -> bool:
    """A global store, filled by a processor."""
    key, value, name = "string", g.rng.choice(_VALUES), g.name("GS")
    store: dict[str, Any] = {"name": name, "type": g.rng.choice(("kv", "timestamped_kv")), "key": key}
    store["value"] = kinds.serde(value)
    if g.chance(0.4):
        store["store"] = "in_memory"
    if g.chance(0.1):
        store["caching"] = g.chance(0.5)
    step: dict[str, Any] = {"op": "addGlobalStore", "store": store, "topic": g.source_topic(key, value)}
    made = Handle("", "", key, value)
    step.update(g.serdes(made, source=True))
    g.maybe_named(step)
    step.update(processor="table_put", stores=[name])
    g.add(step)
    g.globals.append((name, key, value))
    return True


def _materialize(g: Graph, step: dict[str, Any], made: Handle, *, must: bool = False) -> None:
    option = g.materialized(made, must=must)
    if option is not None:
        step["materialized"] = option


# stateless


def _of(
    g: Graph, *of_kinds: str, where: Callable[[Handle], bool] = lambda h: True
) -> tuple[Handle | None, dict[str, Any]]:
    handle = g.pick(*of_kinds, where=where)
    step: dict[str, Any] = {}
    if handle is not None:
        step["in"] = handle.name
        if g.mistyped(0.02):
            step["in"] = g.rng.choice([h for h in g.handles if h.kind == handle.kind]).name
    return handle, step


def _value_kind(g: Graph, handle: Handle) -> str:
    """The type that functions are chosen for: the handle's own, in odd cases another."""
    return g.rng.choice(_VALUES) if g.mistyped(0.05) else handle.value


def filtered(g: Graph) -> bool:
    """``filter`` and ``filterNot`` of streams and tables."""
    of, step = _of(g, "stream", "table")
    if of is None:
        return False
    fn = g.failing(kinds.predicate(g.rng, _value_kind(g, of)))
    step = {"op": g.rng.choice(("filter", "filterNot")), **step, "fn": fn}
    made = g.derived(of, of.kind)
    g.maybe_named(step)
    if of.kind == "table":
        _table_store(g, step, made, of)
    g.add(step, made)
    return True


def _table_store(g: Graph, step: dict[str, Any], made: Handle, of: Handle) -> None:
    """A store for the result of a table operation, in some of the cases; never one that keys cannot be written to."""
    if g.chance(0.35) and kinds.serde(of.key) is not None:
        window, made.window = made.window, None
        _materialize(g, step, made, must=True)
        made.window = window


def map_values(g: Graph) -> bool:
    """``mapValues`` of streams and tables."""
    of, step = _of(g, "stream", "table")
    if of is None:
        return False
    fn, value = kinds.value_function(g.rng, _value_kind(g, of))
    if g.odd and g.chance(0.1):
        fn, value = f"fail_if({g.rng.choice(('a', '1', 'x'))})", of.value
    step = {"op": "mapValues", **step, "fn": fn}
    made = g.derived(of, of.kind, value=value, value_serde=None)
    g.maybe_named(step)
    if of.kind == "table":
        _table_store(g, step, made, of)
    g.add(step, made)
    return True


def mapped(g: Graph) -> bool:
    """``map`` and ``selectKey``."""
    of, step = _of(g, "stream")
    if of is None:
        return False
    if g.chance(0.5):
        fn, key, value = kinds.pair_function(g.rng, of.key, _value_kind(g, of))
        step = {"op": "map", **step, "fn": fn}
        made = g.derived(of, "stream", key=key, value=value, key_serde=None, value_serde=None)
    else:
        fn, key = kinds.key_function(g.rng, of.key, _value_kind(g, of))
        if (fails := g.failing(fn)) != fn:
            fn, key = fails, of.key
        step = {"op": "selectKey", **step, "fn": fn}
        made = g.derived(of, "stream", key=key, key_serde=None)
    g.maybe_named(step)
    g.add(step, made)
    return True


def flat_mapped(g: Graph) -> bool:
    """``flatMap`` and ``flatMapValues``."""
    of, step = _of(g, "stream")
    if of is None:
        return False
    fn, key, value = kinds.list_function(g.rng, of.key, of.value)
    if (fails := g.failing(fn)) != fn:
        fn, key, value = fails, of.key, of.value
    if g.chance(0.5):
        step = {"op": "flatMap", **step, "fn": fn}
        made = g.derived(of, "stream", key=key, value=value, key_serde=None, value_serde=None)
    else:
        step = {"op": "flatMapValues", **step, "fn": fn}
        made = g.derived(of, "stream", value=value, value_serde=None)
    g.maybe_named(step)
    g.add(step, made)
    return True


def peeked(g: Graph) -> bool:
    """``peek`` and ``foreach``."""
    of, step = _of(g, "stream")
    if of is None:
        return False
    step = {"op": "peek", **step}
    g.maybe_named(step)
    if g.chance(0.7):
        g.add(step, g.derived(of, "stream"))
    else:
        step["op"] = "foreach"
        g.add(step)
    return True


def merged(g: Graph) -> bool:
    """``merge`` of two streams of the same types."""
    of, step = _of(g, "stream")
    if of is None:
        return False
    other = g.pick("stream", where=lambda h: g.mistyped() or (h.key, h.value) == (of.key, of.value))
    if other is None or (other is of and not g.chance(0.1)):
        return False
    step = {"op": "merge", **step, "with": other.name}
    g.maybe_named(step)
    old = of.from_versioned or other.from_versioned
    g.add(step, g.derived(of, "stream", key_serde=None, value_serde=None, from_versioned=old))
    return True


def split(g: Graph) -> bool:
    """``split`` into branches, named or not, with a default or none."""
    of, step = _of(g, "stream")
    if of is None:
        return False
    step = {"op": "split", **step}
    prefix = g.chance(0.4)
    if prefix:
        step["named"] = g.name("B") + "-"

    def branch() -> dict[str, Any]:
        made = g.derived(of, "stream")
        g.handles.append(made)
        return ({"name": f"b{g.number()}"} if prefix and g.chance(0.5) else {}) | {"as": made.name}

    step["branches"] = [
        {"pred": g.failing(kinds.predicate(g.rng, of.value))} | branch() for _ in range(g.rng.choice((1, 2, 2, 3)))
    ]
    step["default"] = branch() if g.chance(0.5) else None
    g.add(step)
    return True


def repartitioned(g: Graph) -> bool:
    """``repartition``."""
    of, step = _of(g, "stream", where=lambda h: kinds.serde(h.key) is not None)
    if of is None:
        return False
    # the Java library's topic has the default serde where no key serde is given, whatever the stream's is
    step = {"op": "repartition", **step} | g.serdes(of if g.mistyped(0.5) else replace(of, key_serde=None))
    if g.chance(0.4):
        step["name"] = g.name("R")
    if g.chance(0.15):
        step["partitions"] = g.rng.choice((1, 1, 1, 2))
    known = {"key_serde": step.get("key", of.key_serde), "value_serde": step.get("value", of.value_serde)}
    g.add(step, g.derived(of, "stream", **known))
    return True


def sink(g: Graph, of: Handle | None = None) -> bool:
    """``to``: a fixed topic, or one for each record."""
    if of is None:
        of = g.pick("stream", where=lambda h: kinds.serde(h.key) is not None)
        if of is None:
            return False
    topic = g.sink_topic(of)
    if topic is None:
        return False
    step: dict[str, Any] = {"op": "to", "in": of.name, "topic": topic} | g.serdes(of)
    if g.chance(0.08):
        step["topic_fn"] = f"const({step.pop('topic')})"
        if (of.key, of.value) == ("string", "string") and g.chance(0.7):
            # no topic and a key that does not encode: the Java library tells of the second, headrace of the first
            none = ("prepend(dyn-)", "before(:)") if step.get("key", "string") == "string" else ()
            step["topic_fn"] = g.rng.choice(("key_value", "str_or_null", *none))
            step["topic_fn"] = g.failing(g.rng.choice((step["topic_fn"], "const(dyn)")))
    g.maybe_named(step)
    g.add(step)
    return True


# between streams and tables


def to_table(g: Graph) -> bool:
    """``toTable``."""
    of, step = _of(g, "stream", where=lambda h: kinds.serde(h.key) is not None)
    if of is None:
        return False
    step = {"op": "toTable", **step}
    made = g.derived(of, "table", window=None, from_versioned=False, suppressed=False)
    g.maybe_named(step)
    _materialize(g, step, made)
    g.add(step, made)
    return True


def to_stream(g: Graph) -> bool:
    """``toStream``, with and without a mapper."""
    of, step = _of(g, "table")
    if of is None:
        return False
    step = {"op": "toStream", **step}
    made = g.derived(of, "stream")
    if g.chance(0.6 if kinds.serde(of.key) is None else 0.2):
        step["key_fn"], made.key = kinds.key_function(g.rng, of.key, of.value)
        made.key_serde = None
    g.maybe_named(step)
    g.add(step, made)
    return True


# groups and aggregations


def grouped(g: Graph) -> bool:
    """``groupByKey`` and ``groupBy`` of streams, ``groupBy`` of tables."""
    of, step = _of(g, "stream", "stream", "table", where=lambda h: h.kind == "table" or kinds.serde(h.key) is not None)
    if of is None:
        return False
    if of.kind == "table":
        fn, key, value = kinds.pair_function(g.rng, of.key, of.value)
        step = {"op": "groupBy", **step, "fn": fn}
        made = g.derived(of, "grouped_table", key=key, value=value, key_serde=None, value_serde=None, window=None)
    elif g.chance(0.65):
        step = {"op": "groupByKey", **step}
        made = g.derived(of, "grouped")
    else:
        fn, key = kinds.key_function(g.rng, of.key, of.value)
        step = {"op": "groupBy", **step, "fn": fn}
        made = g.derived(of, "grouped", key=key, key_serde=None)
    if kinds.serde(made.key) is None:
        return False
    option, made.key_serde, made.value_serde = g.grouped(made)
    if option is not None:
        step["grouped"] = option
    g.add(step, made)
    # few handles are groups: what only they can have comes often
    if made.kind == "grouped" and g.chance(0.5):
        g.rng.choice((windowed, windowed, windowed, cogrouped))(g)
    return True


def windowed(g: Graph) -> bool:
    """``windowedBy`` of a group or a cogroup."""
    of, step = _of(g, "grouped", "cogrouped")
    if of is None:
        return False
    window = _window(g, unlimited=of.kind == "grouped")
    step = {"op": "windowedBy", **step, "window": window}
    if of.kind == "grouped" and window["type"] != "unlimited" and g.chance(0.35):
        step["emit"] = g.rng.choice(("on_window_close", "on_window_close", "on_window_update"))
    kind = "windowed" if of.kind == "grouped" else "windowed_cogroup"
    g.add(step, g.derived(of, kind, window=window))
    return True


def _window(g: Graph, *, unlimited: bool) -> dict[str, Any]:
    kind = g.rng.choice(("time", "time", "hopping", "hopping", "sliding", "sliding", "session", "session", "session"))
    if unlimited and g.chance(0.06):
        return {"type": "unlimited"}
    if kind == "sliding":
        window = {"type": "sliding", "diff_ms": g.ms(1, 3, 5, 10, 0 if g.odd else 2)}
    elif kind == "session":
        window = {"type": "session", "gap_ms": g.ms(1, 3, 5, 10, 0 if g.odd else 2)}
    else:
        size = g.ms(1, 2, 5, 10, 20, 0 if g.strange() else 4)
        window = {"type": "time", "size_ms": size}
        if kind == "hopping":
            window["advance_ms"] = max(1, size // g.rng.choice((1, 2, 3, 5)))
            if g.strange():
                window["advance_ms"] = g.rng.choice((0, size + 1))
    if g.chance(0.6):
        window["grace_ms"] = g.ms(0, 1, 5, 10, 30, 100)
    return window


def _windowed_key(of: Handle) -> str:
    assert of.window is not None
    match of.window["type"]:
        case "session":
            return f"sw:{of.key}"
        case "sliding":
            return f"tw:{of.window['diff_ms']}:{of.key}"
        case "unlimited":
            return f"tw:{_MAX_LONG}:{of.key}"
        case _:
            return f"tw:{of.window['size_ms']}:{of.key}"


def _aggregated(g: Graph, of: Handle, value: str, value_serde: str | None) -> Handle:
    """The table that an aggregation of ``of`` gives."""
    made = g.derived(of, "table", value=value, value_serde=value_serde, suppressed=False)
    # a cogroup counts as computed from a versioned table when a stream it takes was one: only the Java library says so
    made.from_versioned = made.from_versioned and "cogroup" in of.kind
    if of.window is not None and of.kind in {"windowed", "windowed_cogroup"}:
        made.key = _windowed_key(of)
        # of a windowed cogroup the Java library knows no key serde but its store's
        made.key_serde = None if of.key_serde is None or "cogroup" in of.kind else kinds.serde(made.key)
    else:
        made.window = None
    return made


_GROUPS: Final = ("grouped", "windowed", "grouped_table")


def counted(g: Graph) -> bool:
    """``count`` of every kind of group."""
    of, step = _of(g, *_GROUPS)
    if of is None:
        return False
    step = {"op": "count", **step}
    made = _aggregated(g, of, "long", "long")
    g.maybe_named(step)
    _materialize(g, step, made)
    g.add(step, made)
    return _maybe_suppress(g, made)


def _maybe_suppress(g: Graph, made: Handle) -> bool:
    if made.window is not None and g.chance(0.25):
        suppressed(g)
    return True


def reduced(g: Graph) -> bool:
    """``reduce`` of every kind of group."""
    of, step = _of(g, *_GROUPS)
    if of is None:
        return False
    step = {"op": "reduce", **step, "fn": g.failing(kinds.reduce_function(g.rng, _value_kind(g, of)))}
    if of.kind == "grouped_table":
        step["subtractor"] = {"plus": "minus", "sum": "sub", "sum_null_at(0)": "sub"}.get(step["fn"], "first")
    made = _aggregated(g, of, of.value, of.value_serde)
    g.maybe_named(step)
    _materialize(g, step, made)
    g.add(step, made)
    return _maybe_suppress(g, made)


def aggregated(g: Graph) -> bool:
    """``aggregate`` of every kind of group, and of cogroups."""
    of, step = _of(g, *_GROUPS, "cogrouped", "windowed_cogroup", "cogrouped", "windowed_cogroup")
    if of is None:
        return False
    cogroup = of.kind in {"cogrouped", "windowed_cogroup"}
    if cogroup:
        init, merger, value = of.final.split(" ")
        step = {"op": "aggregate", **step, "init": init}
    else:
        init, fn, subtractor, merger, value = kinds.aggregate_functions(g.rng, _value_kind(g, of))
        step = {"op": "aggregate", **step, "init": init, "fn": g.failing(fn, "plus_fail_if") if fn == "plus" else fn}
        if of.kind == "grouped_table":
            step["subtractor"] = subtractor
    if of.kind in {"windowed", "windowed_cogroup"}:
        # used by sessions; a mistyped step may be one of those
        step["merger"] = merger
    made = _aggregated(g, of, value, None)
    g.maybe_named(step)
    _materialize(g, step, made)
    g.add(step, made)
    return _maybe_suppress(g, made)


_COGROUPS: Final = (
    ("zero", "sum", "long", ("count", "sum_length"), ("sum", "sub")),
    ("zero_int", "sum", "integer", ("count", "uncount"), ("sum",)),
    ("empty", "plus", "string", ("plus", "minus", "plus_null_at(a)"), ()),
    ("null", "plus", "string", ("plus",), ()),
)


def cogrouped(g: Graph) -> bool:
    """``cogroup``: a first group, and others added."""
    of, step = _of(g, "grouped", "cogrouped", "grouped")
    if of is None:
        return False
    if of.kind == "grouped":
        init, merger, value, any_value, numbers = g.rng.choice(_COGROUPS)
        fn = g.rng.choice(any_value + (numbers * 2 if of.value in kinds.NUMBERS else ()))
        step = {"op": "cogroup", **step, "fn": fn}
        made = g.derived(of, "cogrouped", value=value, value_serde=None, final=f"{init} {merger} {value}")
    else:
        key, first = of.key, of.final
        other = g.pick("grouped", where=lambda h: h.key == key)
        if other is None:
            return False
        _, _, _, any_value, numbers = next(x for x in _COGROUPS if first == f"{x[0]} {x[1]} {x[2]}")
        fn = g.rng.choice(any_value + (numbers * 2 if other.value in kinds.NUMBERS else ()))
        step = {"op": "cogroup", **step, "with": other.name, "fn": fn}
        made = g.derived(of, "cogrouped", from_versioned=of.from_versioned or other.from_versioned)
    g.add(step, made)
    if g.chance(0.4):
        g.rng.choice((windowed, cogrouped))(g)
    return True


def suppressed(g: Graph) -> bool:
    """``suppress`` until windows close or until a time limit."""
    windows = g.chance(0.7)
    of, step = _of(
        g,
        "table",
        where=lambda h: (
            not h.from_versioned
            and (h.window is not None or not windows)
            # what a buffer cannot encode is a ClassCastException: see Graph.mistyped
            and (g.fits(h) or not g.goes_on)
        ),
    )
    if of is None:
        return False
    closes = of.window is not None and of.window["type"] != "unlimited" and g.chance(0.65)
    closes = closes or g.strange()
    step = {"op": "suppress", **step, "until": "window_closes" if closes else "time_limit"}
    if not closes:
        step["ms"] = g.ms(0, 1, 5, 10, 30)
        if g.chance(0.35):
            step["max_records"] = g.rng.choice((1, 2, 3, 10))
        elif g.chance(0.25):
            step["max_bytes"] = g.rng.choice((50, 100, 200, 500, 1000))
        if len(step) > 4 and g.chance(0.2):
            step["full"] = "shutdown"
    elif g.chance(0.2):
        step |= g.rng.choice(
            ({"max_records": g.rng.choice((2, 5, 100))}, {"max_bytes": g.rng.choice((200, 1000, 5000))})
        )
    if g.chance(0.1):
        step["logging"] = False
    g.maybe_named(step)
    g.add(step, g.derived(of, "table", store=None, suppressed=True))
    return True


# joins


def _joiner(g: Graph, of: Handle, other: Handle, *, keyed: bool) -> tuple[str, str]:
    fn, value = kinds.join_function(g.rng, of.value, other.value, keyed=keyed)
    return (g.failing(fn) if fn == "plus" else fn), value


def _other_key(g: Graph, table: Handle) -> bool:
    """Whether the table is to be asked for a key of another type.

    The Java library's stores say what that is and the handler may go on; its suppressed tables throw a
    ClassCastException, as functions do.
    """
    return g.mistyped(0.05) if table.suppressed else g.strange(0.05)


def stream_table_join(g: Graph) -> bool:
    """A stream joined with a table on the key."""
    of, step = _of(g, "stream")
    if of is None:
        return False
    other = g.pick("table", where=lambda h: h.key == of.key or _other_key(g, h))
    if other is None:
        return False
    fn, value = _joiner(g, of, other, keyed=True)
    how = g.rng.choice(("inner", "left", "left", "outer" if g.strange() else "inner"))
    step = {"op": "join", **step, "with": other.name, "how": how, "joiner": fn}
    joined: dict[str, Any] = g.serdes(of)
    if g.chance(0.15) and (known := kinds.serde(other.value)) is not None:
        joined["other_value"] = known
    if g.chance(self_named := max(g.named, 0.1)):
        joined["name"] = g.name("J")
    if (other.versioned and g.chance(0.5)) or g.strange(0.05 * self_named):
        joined["grace_ms"] = min(g.ms(0, 1, 5, 10, 50), other.history_ms)
    if joined:
        step["joined"] = joined
    old = of.from_versioned or other.from_versioned
    known = joined.get("key", of.key_serde)
    g.add(step, g.derived(of, "stream", value=value, value_serde=None, key_serde=known, from_versioned=old))
    return True


def stream_global_join(g: Graph) -> bool:
    """A stream joined with a global table on any key."""
    of, step = _of(g, "stream")
    other = g.pick("global")
    if of is None or other is None:
        return False
    key_fn, key = kinds.key_function(g.rng, of.key, of.value, other.key)
    if key != other.key and not {key, other.key} <= set(kinds.TEXTS) and not g.strange():
        return False
    fn, value = _joiner(g, of, other, keyed=True)
    how = g.rng.choice(("inner", "left"))
    step = {"op": "join", **step, "with": other.name, "how": how, "joiner": fn, "key_fn": key_fn}
    g.maybe_named(step)
    g.add(step, g.derived(of, "stream", value=value, value_serde=None))
    return True


def stream_stream_join(g: Graph) -> bool:
    """Two streams joined within a time; a stream with itself too."""
    of, step = _of(g, "stream", where=lambda h: kinds.serde(h.key) is not None and kinds.serde(h.value) is not None)
    if of is None:
        return False
    other = of
    if g.chance(0.9):
        found = g.pick("stream", where=lambda h: h.key == of.key and kinds.serde(h.value) is not None)
        if found is None:
            return False
        other = found
    fn, value = _joiner(g, of, other, keyed=True)
    step = {"op": "join", **step, "with": other.name, "how": g.rng.choice(("inner", "left", "outer")), "joiner": fn}
    window: dict[str, Any] = {"diff_ms": g.ms(0, 1, 3, 5, 10, 20)}
    if g.chance(0.6):
        window["grace_ms"] = g.ms(0, 1, 5, 10, 30, 100)
    if g.chance(0.15):
        window["before_ms"] = g.ms(0, 1, 5, 10)
    if g.chance(0.15):
        window["after_ms"] = g.ms(0, 1, 5, 10)
    step["window"] = window
    # the stores of a join inherit no serdes
    option: dict[str, Any] = g.serdes(replace(of, key_serde=None, value_serde=None))
    if "value" in g.serdes(replace(other, value_serde=None), ("value",)):
        option["other_value"] = kinds.serde(other.value)
    if g.chance(max(g.named, 0.1)):
        option["name"] = g.name("SJ")
    if g.chance(0.15):
        option["store_name"] = g.name("SS")
    if g.chance(0.15):
        option["store"] = "in_memory"
    if g.chance(0.1):
        option["logging"] = g.chance(0.3)
    if option:
        step["stream_joined"] = option
    old = of.from_versioned or other.from_versioned
    known = option.get("key", of.key_serde)
    g.add(step, g.derived(of, "stream", value=value, value_serde=None, key_serde=known, from_versioned=old))
    return True


def table_table_join(g: Graph) -> bool:
    """Two tables joined on the key."""
    of, step = _of(g, "table")
    if of is None:
        return False
    other = g.pick("table", where=lambda h: h.key == of.key or _other_key(g, h))
    if other is None or (other is of and not g.chance(0.2)):
        return False
    fn, value = _joiner(g, of, other, keyed=False)
    how = g.rng.choice(("inner", "left", "outer"))
    step = {"op": "join", **step, "with": other.name, "how": how, "joiner": fn}
    made = g.derived(
        of, "table", value=value, value_serde=None, from_versioned=of.from_versioned or other.from_versioned
    )
    g.maybe_named(step)
    _table_store(g, step, made, of)
    g.add(step, made)
    return True


def foreign_key_join(g: Graph) -> bool:
    """Two tables joined by a key in the left one's value."""
    of, step = _of(g, "table", where=lambda h: kinds.serde(h.key) is not None)
    if of is None:
        return False
    other = g.pick("table", where=lambda h: h.key in {"string", "long", "digits"} or g.strange(0.1))
    if other is None or (other is of and not g.chance(0.2)):
        return False
    key_fn, key = kinds.key_function(g.rng, of.key, of.value, other.key)
    if key != other.key and not {key, other.key} <= set(kinds.TEXTS) and not g.strange():
        return False
    if not (g.fits(of) and g.fits(other)) and not g.mistyped(0.5):
        return False
    fn, value = _joiner(g, of, other, keyed=False)
    how = g.rng.choice(("inner", "left"))
    step = {"op": "join", **step, "with": other.name, "how": how, "joiner": fn, "key_fn": key_fn}
    if g.chance(max(g.named, 0.1)):
        step["table_joined"] = g.name("FK")
    made = g.derived(of, "table", value=value, value_serde=None)
    _table_store(g, step, made, of)
    g.add(step, made)
    return True


OPERATIONS: Final[dict[str, tuple[int, Callable[[Graph], bool]]]] = {
    "stream": (6, stream),
    "table": (6, table),
    "globalTable": (2, global_table),
    "addGlobalStore": (1, global_store),
    "filter": (6, filtered),
    "mapValues": (7, map_values),
    "map": (5, mapped),
    "flatMap": (3, flat_mapped),
    "peek": (2, peeked),
    "merge": (3, merged),
    "split": (2, split),
    "repartition": (3, repartitioned),
    "to": (3, sink),
    "toTable": (4, to_table),
    "toStream": (6, to_stream),
    "group": (9, grouped),
    "windowedBy": (12, windowed),
    "count": (6, counted),
    "reduce": (6, reduced),
    "aggregate": (10, aggregated),
    "cogroup": (6, cogrouped),
    "suppress": (6, suppressed),
    "stream-table": (6, stream_table_join),
    "stream-global": (5, stream_global_join),
    "stream-stream": (7, stream_stream_join),
    "table-table": (7, table_table_join),
    "foreign-key": (7, foreign_key_join),
}
"""Operations by name, each with its weight."""
