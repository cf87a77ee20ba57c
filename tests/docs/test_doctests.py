"""The examples in docstrings run and print what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import headrace

SOURCE = Path(headrace.__file__).parent
MODULES = sorted(
    ".".join(("headrace", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
    for path in SOURCE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


def test_there_are_examples() -> None:
    assert "headrace.testing.driver" in MODULES


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    examples = [test for test in doctest.DocTestFinder(exclude_empty=True).find(module) if test.examples]
    assert examples, "the module has examples in a place where doctest does not look"
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    for example in examples:
        runner.run(example, out=report.append)
    assert runner.failures == 0, "".join(report)
