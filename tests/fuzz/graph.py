"""A topology while it grows: steps, handles with their types, and what every operation needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fuzz import kinds
from fuzz.inputs import Time

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random


@dataclass(slots=True)
class Handle:
    """A result of a step."""

    name: str
    kind: str
    """stream, table, global, grouped, windowed, cogrouped, windowed_cogroup, grouped_table."""
    key: str
    value: str
    key_serde: str | None = None
    """Name of the serde that the Java library hands down to here; None when there is none and the default counts."""
    value_serde: str | None = None
    window: dict[str, Any] | None = None
    """The window definition of a windowed table or stream."""
    store: str | None = None
    """The store with the table's rows, when it has a name of its own."""
    versioned: bool = False
    history_ms: int = 0
    from_versioned: bool = False
    """Whether its rows are those of a versioned table: then it cannot be suppressed."""
    suppressed: bool = False
    """Whether its rows are looked up in a suppressed table's buffer, unless it has a store."""
    used: bool = False
    final: str = ""
    """What a cogroup's aggregate is: its initializer, merger and type, with blanks between."""


class Graph:
    """Steps and handles so far, and the choices that all operations share."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.odd = rng.random() < 0.12
        self.goes_on = self.odd and rng.random() < 0.4
        """Whether the processing handler goes on."""
        self.resumes = self.odd and rng.random() < 0.3
        """Whether the production handler goes on."""
        self.dead_letters = self.odd and rng.random() < 0.25
        self.time = Time.random(rng)
        self.named = rng.choice((0.0, 0.0, 0.2, 0.6))
        self.default = {"key": "string", "value": "string"}
        if rng.random() < 0.05:
            self.default["value"] = rng.choice(("long", "integer", "double"))
        self.steps: list[dict[str, Any]] = []
        self.topics: dict[str, tuple[str, str]] = {}
        """Types of the source topics."""
        self.sinks: dict[str, tuple[str, str]] = {}
        self.read_back: dict[str, tuple[str, str]] = {}
        """Topics that a step writes and another reads."""
        self.handles: list[Handle] = []
        self.stores: dict[str, tuple[str, str, str]] = {}
        """Types of keys and values, and the kind, of the stores of processors."""
        self.globals: list[tuple[str, str, str]] = []
        """Name, key type and value type of global stores."""
        self.names: list[str] = []
        """Names given so far."""
        self.wall_clock = False
        self._numbers = 0

    def chance(self, share: float) -> bool:
        """True with that probability."""
        return self.rng.random() < share

    def strange(self, share: float = 0.1) -> bool:
        """Whether something wrong is wanted here: only in cases that are to have such.

        With dead letters only records are: the texts about wrong types, which come with them, are each library's own.
        """
        return self.odd and not self.dead_letters and self.chance(share)

    def mistyped(self, share: float = 0.1) -> bool:
        """Whether a function, processor or look-up is to get what is of another type than it takes.

        Not where a handler goes on: in the Java library a ClassCastException passes by the processing handler of the
        operator that fails, and by the production handler. Here what a function or a serializer raises for a wrong type
        is like anything else that it raises.
        """
        return not self.goes_on and not self.resumes and self.strange(share)

    def failing(self, otherwise: str, name: str = "fail_if") -> str:
        """A function that fails for one value in some of the odd cases, else the given one."""
        return f"{name}({self.rng.choice(('a', '1', 'x', 'null'))})" if self.odd and self.chance(0.08) else otherwise

    def number(self) -> int:
        """The next number for a name."""
        self._numbers += 1
        return self._numbers

    def name(self, prefix: str) -> str:
        """A new name, or in odd cases one taken or not valid."""
        if self.strange(0.05):
            # headrace refuses stores whose topics no broker would take; the Java library leaves that to the broker
            free = ("a b", "é", ".") if prefix in {"N", "p", "src", "snk"} else ()
            taken: str = self.rng.choice((f"{prefix}1", f"{prefix}2", *free, *self.names))
            return taken
        self.names.append(f"{prefix}{self.number()}")
        return self.names[-1]

    def maybe_named(self, step: dict[str, Any]) -> None:
        """Names the step in some of the cases."""
        if self.chance(self.named):
            step["named"] = self.name("N")

    def ms(self, *multiples: int) -> int:
        """One of these times, in the case's scale."""
        return self.rng.choice(multiples) * self.time.unit

    def add(self, step: dict[str, Any], made: Handle | None = None) -> None:
        """Append a step and its result."""
        if made is not None:
            step["as"] = made.name
            self.handles.append(made)
        self.steps.append(step)

    def pick(self, *of_kinds: str, where: Callable[[Handle], bool] = lambda h: True) -> Handle | None:
        """A handle of one of the kinds, preferring those that nothing hangs on yet; None when there is none."""
        found = [h for h in self.handles if h.kind in of_kinds and where(h)]
        if not found:
            return None
        fresh = [h for h in found if not h.used]
        chosen = self.rng.choice(fresh if fresh and self.chance(0.75) else found)
        chosen.used = True
        return chosen

    def derived(self, of: Handle, kind: str, **changes: Any) -> Handle:
        """A new handle like ``of`` in what is not changed."""
        made = replace(of, name=f"v{self.number()}", kind=kind, used=False, store=None, versioned=False)
        return replace(made, **changes)

    def fits(self, handle: Handle) -> bool:
        """Whether the serdes that the handle has are those of its types."""
        return all(
            (known or self.default[part]) == kinds.serde(kind)
            for part, kind, known in (
                ("key", handle.key, handle.key_serde),
                ("value", handle.value, handle.value_serde),
            )
        )

    def serdes(self, of: Handle, parts: tuple[str, ...] = ("key", "value"), *, source: bool = False) -> dict[str, str]:
        """The serdes to name in a step for the handle's rows: all that are needed, some that are not.

        Numbers of a source always get theirs: headrace refuses texts that are not UTF-8, the Java library does not.
        """
        chosen: dict[str, str] = {}
        for part in parts:
            kind = of.key if part == "key" else of.value
            right = kinds.serde(kind)
            if source and kind in kinds.NUMBERS:
                if right != self.default[part] or self.chance(0.5):
                    chosen[part] = kind
                continue
            known = of.key_serde if part == "key" else of.value_serde
            needed = right is not None and (known or self.default[part]) != right
            if self._wrong_serde(source):
                # an empty text is, to the Java side's JSON parser, a value that is missing and not null
                chosen[part] = self.rng.choice(("string", "long", "string" if source else "json"))
            elif right is not None and (needed or self.chance(0.2)) and not self._wrong_serde(source):
                picky = right == "string" and self.odd and self.chance(0.1)
                chosen[part] = f"except:{self.rng.choice(('a', 'b', 'x', 'a:1', ''))}" if picky else right
        return chosen

    def _wrong_serde(self, source: bool) -> bool:
        """Whether a serde is to be another one; a source's makes everything below it mistyped."""
        return self.mistyped() if source or self.resumes else self.strange()

    def grouped(self, of: Handle) -> tuple[dict[str, Any] | None, str | None, str | None]:
        """A ``grouped`` option, and the serdes known after it."""
        option: dict[str, Any] = self.serdes(of)
        if not option and not self.chance(self.named):
            return None, of.key_serde, of.value_serde
        # with an option no serde is inherited
        option |= self.serdes(replace(of, key_serde=None, value_serde=None))
        if self.chance(self.named):
            option["name"] = self.name("G")
        return (option or None), option.get("key"), option.get("value")

    def materialized(self, of: Handle, *, must: bool = False) -> dict[str, Any] | None:
        """A store for the rows of ``of`` (a key-value table); its serdes, name and kind are noted in ``of``."""
        option: dict[str, Any] = self.serdes(of) if of.window is None else self._windowed_serdes(of)
        if not option and not must and self.chance(0.45):
            return None
        if of.window is None:
            self._store_kind(of, option)
        elif self.chance(0.2):
            option["store"] = "in_memory"
        if "name" not in option and self.chance(0.5):
            option["name"] = self.name("S")
        of.store, of.suppressed = option.get("name"), False
        if self.chance(0.3):
            option["caching"] = self.chance(0.5)
        if self.time.ends and of.window is not None and option.get("store") == "in_memory":
            # first bytes of such times are greater than letters: then the order of the Java library's cache is not the
            # order of windows in memory, and rows under both come twice
            option["caching"] = False
        if self.chance(0.2):
            option["logging"] = self.rng.choice((False, {"min.insync.replicas": "2"}, {"cleanup.policy": "compact"}))
        if of.window is not None and self.chance(0.15):
            option["retention_ms"] = self.ms(5, 50, 200, 2000)
        if of.window is None:
            of.key_serde = option.get("key", of.key_serde)
        of.value_serde = option.get("value", of.value_serde)
        return option

    def _store_kind(self, of: Handle, option: dict[str, Any]) -> None:
        of.from_versioned = False
        kind = self.rng.choice((None, None, None, "in_memory", "in_memory", "versioned", "versioned", "lru", "plain"))
        if kind is None:
            return
        option["store"] = kind
        if kind != "in_memory":
            option["name"] = self.name("S")
        if kind == "versioned":
            option["history_ms"] = of.history_ms = self.ms(0, 5, 20, 100, 1000)
            of.versioned = of.from_versioned = True
        elif kind == "lru":
            option["max_entries"] = self.rng.choice((1, 2, 5, 100))

    def _windowed_serdes(self, of: Handle) -> dict[str, Any]:
        option: dict[str, Any] = self.serdes(of, ("value",))
        right = kinds.serde(kinds.inner(of.key))
        if right is not None and (of.key_serde is None or self.chance(0.1)):
            option["key"] = right
            of.key_serde = kinds.serde(of.key)
        return option

    def source_topic(self, key: str, value: str) -> str:
        """A topic to read, nearly always a new one."""
        if self.topics and self.mistyped(0.2):
            return self.rng.choice(sorted(self.topics))
        name = f"in{self.number()}"
        self.topics[name] = (key, value)
        return name

    def sink_topic(self, of: Handle) -> str | None:
        """A topic to write that handle's rows to; None when the vocabulary has no serde for them."""
        if kinds.serde(of.key) is None or kinds.serde(of.value) is None:
            return None
        same = sorted(t for t, types in self.sinks.items() if types == (of.key, of.value))
        if same and self.chance(0.1):
            return self.rng.choice(same)
        name = f"out{self.number()}"
        self.sinks[name] = (of.key, of.value)
        return name
