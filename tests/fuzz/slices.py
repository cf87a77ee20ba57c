"""A small choice of random cases with the Java library's results, kept in one compressed file."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fuzz.coverage import features, labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SLICE: Final = Path(__file__).parents[1] / "conformance" / "fuzz_slice.jsonl.xz"
_LONGEST: Final = 30_000
"""Characters of a case and its result: longer ones would make most of the file."""


def read(path: Path = SLICE) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each case with its result."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            case, result = json.loads(line)
            yield case, result


def write(found: Iterable[tuple[dict[str, Any], dict[str, Any]]], number: int, path: Path = SLICE) -> int:
    """Keep those ``number`` cases that cover the most pairs of operations and the most settings; gives how many."""
    left = [(_covers(case), text) for case, result in found if len(text := _line(case, result)) <= _LONGEST]
    seen: dict[Any, int] = {}
    chosen: list[str] = []
    while left and len(chosen) < number:
        # what was seen n times counts 1 / 2^n
        best = max(range(len(left)), key=lambda at: sum(0.5 ** seen.get(x, 0) for x in left[at][0]))
        covers, text = left.pop(best)
        for x in covers:
            seen[x] = seen.get(x, 0) + 1
        chosen.append(text)
    with lzma.open(path, "wt", encoding="utf-8", preset=9 | lzma.PRESET_EXTREME) as lines:
        lines.writelines(chosen)
    return len(chosen)


def _line(case: dict[str, Any], result: dict[str, Any]) -> str:
    return json.dumps([case, result], ensure_ascii=False, separators=(",", ":")) + "\n"


def _covers(case: dict[str, Any]) -> set[Any]:
    made = list(labels(case))
    return {label for label, _ in made} | {(a, b) for b, above in made for a in above} | set(features(case))
