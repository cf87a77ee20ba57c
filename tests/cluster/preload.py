"""Small libraries that are loaded in front of the system's, in the processes of a test."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def compiled(source: str, directory: Path) -> Path:
    """The library of a C file that lies here."""
    made = (directory / source).with_suffix(".so")
    subprocess.run(["cc", "-shared", "-fPIC", "-O", "-o", str(made), str(Path(__file__).with_name(source))], check=True)
    return made


def together(*environments: Mapping[str, str]) -> dict[str, str]:
    """One environment, with all the libraries of these."""
    merged = {name: value for one in environments for name, value in one.items()}
    return merged | {"LD_PRELOAD": ":".join(one["LD_PRELOAD"] for one in environments if "LD_PRELOAD" in one)}
