"""What the scripts say on a machine that lacks something they may not install: one sentence."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
JAVA = "#!/bin/sh\necho 'openjdk version \"21.0.2\" 2024-01-16' >&2\n"
OLD_JAVA = "#!/bin/sh\necho 'java version \"1.8.0_392\"' >&2\n"
NO_ROOT = "#!/bin/sh\necho 1000\n"
APT = "#!/bin/sh\nexit 100\n"
NO_APT = "and there is no apt-get here to install it with: install"
NOT_ALLOWED = "and this user may not install packages: run 'sudo apt-get install"


@pytest.mark.parametrize(
    ("programs", "sentence"),
    [
        ({}, f"no Java 17 or newer here, {NO_APT} default-jdk-headless"),
        ({"java": OLD_JAVA}, f"no Java 17 or newer here, {NO_APT} default-jdk-headless"),
        ({"java": JAVA}, f"no Maven here (it fetches Kafka's jars), {NO_APT} maven"),
        ({"apt-get": APT, "id": NO_ROOT}, f"no Java 17 or newer here, {NOT_ALLOWED} default-jdk-headless'"),
        (
            {"java": JAVA, "apt-get": APT, "id": NO_ROOT},
            f"no Maven here (it fetches Kafka's jars), {NOT_ALLOWED} maven'",
        ),
    ],
)
def test_without_java_or_maven_one_sentence_says_what_to_install(
    tmp_path: Path, programs: dict[str, str], sentence: str
) -> None:
    bash = shutil.which("bash")
    assert bash
    for name in ("dirname", "head", "id", "sed"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    for name, text in programs.items():
        (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    script = [bash, str(ROOT / "scripts" / "java.sh")]
    done = subprocess.run(script, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"headrace: {sentence}")
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("and try again.\n")
