"""mypy and basedpyright infer the types of the fluent API, and refuse functions of the wrong type.

``accepted.py`` must pass as it is: ``assert_type`` says what is inferred. In ``refused.py`` the lines with an error
must be those marked ``# refused``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mypy import api

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ACCEPTED, REFUSED = HERE / "accepted.py", HERE / "refused.py"

Errors = dict[str, dict[int, list[str]]]


def _by_mypy(cache: Path) -> Errors:
    out, err, _ = api.run(
        [
            f"--config-file={ROOT / 'pyproject.toml'}",
            f"--cache-dir={cache}",
            "--hide-error-context",
            "--no-pretty",
            "--no-color-output",
            "--show-error-codes",
            "--no-error-summary",
            str(ACCEPTED),
            str(REFUSED),
        ]
    )
    assert not err, err
    errors: Errors = {}
    for line in out.splitlines():
        found = re.fullmatch(r"(.+?):(\d+)(?::\d+)?: error: (.*)", line)
        if found is not None:
            errors.setdefault(Path(found[1]).name, {}).setdefault(int(found[2]), []).append(found[3])
    return errors


def _by_basedpyright() -> Errors:
    checker = Path(sys.executable).with_name("basedpyright")
    done = subprocess.run(
        [checker, "--outputjson", "--pythonpath", sys.executable, "--project", str(HERE)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 2, done.stdout + done.stderr
    errors: Errors = {}
    for found in report["generalDiagnostics"]:
        if found["severity"] == "error":
            line = found["range"]["start"]["line"] + 1
            errors.setdefault(Path(found["file"]).name, {}).setdefault(line, []).append(found["message"])
    return errors


@pytest.fixture(scope="module", params=["mypy", "basedpyright"])
def errors(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Errors:
    return _by_mypy(tmp_path_factory.mktemp("mypy")) if request.param == "mypy" else _by_basedpyright()


def test_the_fluent_api_has_the_types_it_says(errors: Errors) -> None:
    assert errors.get(ACCEPTED.name, {}) == {}


def test_functions_of_the_wrong_type_are_refused(errors: Errors) -> None:
    lines = REFUSED.read_text(encoding="utf-8").splitlines()
    marked = {number: text for number, text in enumerate(lines, 1) if "# refused" in text}
    found = errors.get(REFUSED.name, {})
    assert {n: lines[n - 1] for n in found.keys() - marked.keys()} == {}, found
    assert {n: marked[n] for n in marked.keys() - found.keys()} == {}
