"""Which operations, and which pairs of neighbours, the cases of a run have exercised."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MAKES = {"table": "table", "globalTable": "global", "toTable": "table", "groupByKey": "group", "cogroup": "cogroup"}
_MAKES |= {"count": "table", "reduce": "table", "aggregate": "table", "suppress": "table", "toStream": "stream"}


class Coverage:
    """Counts by operation (and its variant), by pair, by feature."""

    def __init__(self) -> None:
        self.operations: Counter[str] = Counter()
        self.pairs: Counter[tuple[str, str]] = Counter()
        self.features: Counter[str] = Counter()

    def add(self, case: Mapping[str, Any]) -> None:
        """Count a case that was compared."""
        for label, inputs in labels(case):
            self.operations[label] += 1
            self.pairs.update((before, label) for before in inputs)
        self.features.update(features(case))


def labels(case: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """For each step its operation and variant, and those of the steps that it takes its input from."""
    made: dict[str, tuple[str, str, bool]] = {}
    none = ("?", "?", False)
    for step in case["steps"]:
        inputs = [made.get(step[name], none) for name in ("in", "with") if name in step]
        names = [n for n in (step.get("name"), *step.get("parents", ())) if n is not None]
        if step["op"] in {"addProcessor", "addSink"}:
            inputs = [made.get(n, none) for n in step.get("parents", ())]
        label, kind, windowed = _label(step, inputs)
        results = [step["as"]] if "as" in step else []
        if step["op"] == "split":
            results = [b["as"] for b in (*step["branches"], step.get("default") or {"as": ""})]
        elif step["op"] in {"addSource", "addProcessor"}:
            results = names[:1]
        for name in results:
            made[name] = (label, kind, windowed)
        yield label, [i[0] for i in inputs]


def _label(step: Mapping[str, Any], inputs: list[tuple[str, str, bool]]) -> tuple[str, str, bool]:
    op: str = step["op"]
    kind, windowed = (inputs[0][1], inputs[0][2]) if inputs else ("stream", False)
    if op == "windowedBy":
        window = step["window"]
        name = "hopping" if "advance_ms" in window else window["type"]
        close = ".close" if step.get("emit") == "on_window_close" else ""
        return f"windowedBy.{name}{close}", kind, True
    if op == "join":
        right = inputs[1][1]
        which = "foreign-key" if kind == "table" and "key_fn" in step else f"{kind}-{right}"
        return f"join.{which}.{step['how']}", kind, windowed
    if op in {"count", "reduce", "aggregate"}:
        return f"{op}.{'windowed ' if windowed else ''}{kind}", "table", windowed
    if op in {"process", "processValues", "addProcessor", "addGlobalStore"}:
        return f"{op}.{step['processor']}", "stream", windowed
    if op == "groupBy":
        return f"groupBy.{kind}", "table group" if kind == "table" else "group", False
    if op == "suppress":
        return f"suppress.{step['until']}", "table", windowed
    if op in {"filter", "filterNot", "mapValues"}:
        return f"{op}.{kind}", kind, windowed
    if op == "to" and "topic_fn" in step:
        return "to.dynamic", kind, windowed
    return op, _MAKES.get(op, kind if op == "transformValues" else "stream"), windowed and op == "toStream"


def features(case: Mapping[str, Any]) -> Iterator[str]:
    """Settings and kinds of stores and inputs that a case uses, each once."""
    found: set[str] = {f"{key}={value}" for key, value in case["config"].items()}
    for step in case["steps"]:
        option = step.get("materialized") or (step if step["op"] == "addStateStore" else {})
        found |= {f"store {option[k]}" for k in ("store", "type") if k in option}
        found |= {f"{k} {option[k]}" for k in ("caching", "logging") if isinstance(option.get(k), bool)}
        found |= {
            x for x in ("named", "timestamp_from", "offset_reset", "topics") if x in step and step["op"] != "addSource"
        }
        if step.get("window", {}).get("grace_ms") is not None:
            found.add("grace")
    for record in case["inputs"]:
        found |= {x for x in ("headers", "key_hex", "value_hex", "advance_wall_clock_ms") if x in record}
        found |= {f"null {x}" for x in ("key", "value") if record.get(x, 0) is None}
    yield from sorted(found)
