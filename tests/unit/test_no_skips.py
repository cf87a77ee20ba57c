"""A test that is left out may not be taken for one that passed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LEFT_OUT = {
    "test_itself": "import pytest\ndef test_it(): pytest.skip('no disk')",
    "test_fixture": "import pytest\n@pytest.fixture\ndef disk(): pytest.skip('no disk')\ndef test_it(disk): pass",
    "test_mark": "import pytest\n@pytest.mark.skipif(True, reason='no disk')\ndef test_it(): pass",
    "test_file": "import pytest\npytest.skip('no disk', allow_module_level=True)",
}


def test_a_test_that_is_left_out_fails_where_none_may_be(tmp_path: Path) -> None:
    for name, source in LEFT_OUT.items():
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
    options = ["-q", "-rA", "--continue-on-collection-errors", "-p", "conftest", "-p", "no:cacheprovider"]

    def run(no_skips: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, str(tmp_path)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(TESTS), "NO_SKIPPED_TESTS": no_skips},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    code, said = run("")
    assert code == pytest.ExitCode.OK, said
    assert "4 skipped" in said
    code, said = run("1")
    assert code == pytest.ExitCode.TESTS_FAILED, said
    assert "skipped" not in said.splitlines()[-1]
    assert all(re.search(rf"^(FAILED|ERROR) {name}\.py", said, re.MULTILINE) for name in LEFT_OUT), said
    assert said.count("left out, which NO_SKIPPED_TESTS forbids: ") >= len(LEFT_OUT)
