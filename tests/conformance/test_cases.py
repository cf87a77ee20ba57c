"""Every recorded case of the Java library, and that the runner sees differences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.conformance import Outcome, case_names, run_case
from headrace.testing.conformance.__main__ import main

ROOT = Path(__file__).parents[2] / "conformance"
CASES, EXPECTED = ROOT / "cases", ROOT / "expected"


@pytest.mark.parametrize("name", case_names(CASES))
def test_case(name: str) -> None:
    result = run_case(CASES, EXPECTED, name)
    # one that is skipped proves nothing
    assert result.outcome is Outcome.PASSED, (
        f"{result.reason}\nRun it alone: python -m headrace.testing.conformance {CASES} {EXPECTED} --only {name}"
    )


NAME = "aggregate/count_materialized"

CHANGES: dict[str, tuple[Any, str]] = {
    "describe": (lambda d: d.update(describe=d["describe"].replace("SOURCE", "SPRING", 1)), "describe line"),
    "a value": (lambda d: d["outputs"][0].update(value=99), r"output of out \[0\] value"),
    "a timestamp": (lambda d: d["outputs"][0].update(timestamp=99), r"output of out \[0\] timestamp"),
    "one output more": (lambda d: d["outputs"].append(d["outputs"][-1]), "no more, but Java has"),
    "one output less": (lambda d: d["outputs"].pop(), "but Java has no more"),
    "raw bytes": (
        lambda d: d["internal_topics"]["golden-counts-changelog"][0].update(value_hex="00"),
        r"records of golden-counts-changelog \[0\] value_hex",
    ),
    "a topic setting": (
        lambda d: d["subtopologies"]["groups"][0]["changelog_topics"]["golden-counts-changelog"]["config"].update(
            x="1"
        ),
        r"sub-topology \[0\] changelog_topics",
    ),
    "copartition": (lambda d: d["subtopologies"].update(copartition_groups=[["a", "b"]]), "copartition groups"),
    "store names": (lambda d: d["subtopologies"]["store_names"].append("other"), "store names"),
    "a store's row": (lambda d: d["stores"]["counts"]["entries"][0].update(timestamp=99), r"store counts \[0\]"),
    "drops": (lambda d: d.update(dropped_records=77), "dropped records"),
    "an error": (
        lambda d: d.update(error={"at": 1, "chain": [{"type": "java.lang.ArithmeticException", "message": "x"}]}),
        "at 1: no error, but Java has java.lang.ArithmeticException: x",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_the_runner_sees_a_difference(what: str, tmp_path: Path) -> None:
    change, message = CHANGES[what]
    expected = json.loads((EXPECTED / f"{NAME}.json").read_text())
    change(expected)
    (tmp_path / NAME).parent.mkdir()
    (tmp_path / f"{NAME}.json").write_text(json.dumps(expected))
    result = run_case(CASES, tmp_path, NAME)
    assert result.outcome is Outcome.FAILED
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(result.reason)


def test_an_error_of_another_kind_is_a_difference(tmp_path: Path) -> None:
    name = "revenue/unknown_line_type"
    expected = json.loads((EXPECTED / f"{name}.json").read_text())
    expected["error"]["chain"][-1]["type"] = "java.lang.ArithmeticException"
    (tmp_path / name).parent.mkdir()
    (tmp_path / f"{name}.json").write_text(json.dumps(expected))
    result = run_case(CASES, tmp_path, name)
    assert result.outcome is Outcome.FAILED
    assert "Java has ArithmeticException innermost" in result.reason


def test_the_last_line_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(CASES), str(EXPECTED), "--only", "windows/unlimited"]) == 0
    assert capsys.readouterr().out.splitlines() == ["1 passed, 0 failed, 0 skipped"]
