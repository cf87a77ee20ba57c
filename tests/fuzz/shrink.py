"""Makes a case that shows a difference as small as it can."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from fuzz.compare import category, compare
from headrace.testing.conformance import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuzz.java import Java

Case = dict[str, Any]
_NEEDED: Final = {
    "op",
    "in",
    "with",
    "as",
    "topic",
    "topics",
    "processor",
    "parents",
    "window",
    "how",
    "joiner",
    "until",
}
_PARTS: Final = ("materialized", "grouped", "joined", "stream_joined", "window", "args", "store")
_TRIALS: Final = 2000


def shrink(
    case: Case, reason: str, difference: Callable[[Case], str | None], progress: Callable[[], None] = lambda: None
) -> tuple[Case, str]:
    """The smallest case found that shows the same kind of difference, and that difference.

    Args:
        case: A case with a difference.
        reason: The difference.
        difference: Gives the first difference of a case, None for none.
        progress: Called for each smaller case.
    """
    wanted, trials = category(reason), 0
    again = True
    while again:
        again = False
        for smaller in _smaller(case):
            trials += 1
            if trials > _TRIALS:
                return case, reason
            found = difference(smaller)
            if found is not None and category(found) == wanted:
                case, reason, again = smaller, found, True
                progress()
                break
    return case, reason


def difference(java: Java, case: Case) -> str | None:
    """The first difference between the two sides; None when there is none, or when the case cannot be run."""
    result = java.run(case)
    if "unusable" in result:
        return None
    compared = compare(case, result)
    return compared.reason if compared.outcome is Outcome.FAILED else None


def _smaller(case: Case) -> Iterator[Case]:
    """Cases with one thing less, large things first."""
    inputs = case["inputs"]
    size = len(inputs) // 2
    while size:
        for at in range(0, len(inputs), size):
            yield case | {"inputs": inputs[:at] + inputs[at + size :]}
        size //= 2
    yield from _fewer_steps(case)
    for name in ("config", "topology_config", "wall_clock_start_ms"):
        if name == "config":
            for key in case["config"]:
                yield case | {"config": {k: v for k, v in case["config"].items() if k != key}}
        elif name in case:
            yield {k: v for k, v in case.items() if k != name}
    yield from _simpler_steps(case)
    yield from _simpler_inputs(case)
    used = {t for s in case["steps"] for t in (s.get("topic"), *s.get("topics", ()))}
    used |= {r.get("topic") for r in inputs}
    if not used >= case["topics"].keys():
        yield case | {"topics": {t: types for t, types in case["topics"].items() if t in used}}


def _fewer_steps(case: Case) -> Iterator[Case]:
    steps = case["steps"]
    for at in range(len(steps) - 1, -1, -1):
        step = steps[at]
        gone = _results(step)
        kept = [s for i, s in enumerate(steps) if i != at]
        above = step.get("in") or (step.get("parents") or [None])[0]
        if gone and above is not None:
            yield _with_steps(case, [_renamed(s, dict.fromkeys(gone, above)) for s in kept])
        yield _with_steps(case, _without(kept, gone))


def _without(steps: list[dict[str, Any]], gone: set[str]) -> list[dict[str, Any]]:
    """The steps that need nothing of what is gone; stores of nobody go too."""
    left: list[dict[str, Any]] = []
    dead = set(gone)
    for step in steps:
        needs = {step.get("in"), step.get("with"), step.get("processor"), *step.get("processors", ())}
        if (needs | set(step.get("parents", ()))) & dead:
            dead |= _results(step)
        else:
            left.append(step)
    used = {name for s in left for name in s.get("stores", ()) if s["op"] not in {"addStateStore", "attachStore"}}
    return [s for s in left if s["op"] not in {"addStateStore", "attachStore"} or s["name"] in used]


def _with_steps(case: Case, steps: list[dict[str, Any]]) -> Case:
    topics = {t for s in steps for t in (s.get("topic"), *s.get("topics", ()))}
    inputs = [r for r in case["inputs"] if "topic" not in r or r["topic"] in topics]
    return case | {"steps": steps, "inputs": inputs}


def _results(step: dict[str, Any]) -> set[str]:
    if step["op"] == "split":
        return {b["as"] for b in (*step["branches"], *([step["default"]] if step.get("default") else []))}
    if step["op"] in {"addSource", "addProcessor"}:
        return {step["name"]}
    return {step["as"]} if "as" in step else set()


def _renamed(step: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    made = dict(step)
    for part in ("in", "with"):
        if part in made:
            made[part] = names.get(made[part], made[part])
    if "parents" in made:
        made["parents"] = list(dict.fromkeys(names.get(p, p) for p in made["parents"]))
    if "processors" in made:
        made["processors"] = [p for p in made["processors"] if p not in names]
    return made


def _simpler_steps(case: Case) -> Iterator[Case]:
    for at, step in enumerate(case["steps"]):
        for key in step:
            if key not in _NEEDED:
                yield _with_step(case, at, {k: v for k, v in step.items() if k != key})
        for part in _PARTS:
            if isinstance(step.get(part), dict):
                for key in step[part]:
                    yield _with_step(case, at, step | {part: {k: v for k, v in step[part].items() if k != key}})
        if len(step.get("branches", ())) > 1:
            for index in range(len(step["branches"])):
                branches = [b for i, b in enumerate(step["branches"]) if i != index]
                yield _with_step(case, at, step | {"branches": branches})
        if step.get("fn") not in {None, "identity", "always", "key", "count", "latest"}:
            for fn in ("identity", "always", "key", "pair(key|identity)", "latest", "count"):
                yield _with_step(case, at, step | {"fn": fn})


def _with_step(case: Case, at: int, step: dict[str, Any]) -> Case:
    return case | {"steps": [*case["steps"][:at], step, *case["steps"][at + 1 :]]}


def _simpler_inputs(case: Case) -> Iterator[Case]:
    for at, record in enumerate(case["inputs"]):
        if "headers" in record:
            yield _with_input(case, at, {k: v for k, v in record.items() if k != "headers"})
        for value in ("a", 1):
            for part in ("key", "value"):
                if type(record.get(part)) is type(value) and record[part] != value:
                    yield _with_input(case, at, record | {part: value})


def _with_input(case: Case, at: int, record: dict[str, Any]) -> Case:
    made = copy.copy(case)
    made["inputs"] = [*case["inputs"][:at], record, *case["inputs"][at + 1 :]]
    return made
