"""The commands in the application's pages are such as the product takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import typer.main
from course_revenue.cli import app

APPLICATION = Path(__file__).parents[3] / "apps" / "course_revenue"
PAGES = sorted(APPLICATION.rglob("*.md"))
_COMMAND = re.compile(r"^(course-revenue [a-z].*)$|`(course-revenue [a-z][^`…]* --[^`…]*)`", re.MULTILINE)


def commands() -> list[str]:
    return [found[1] or found[2] for page in PAGES for found in _COMMAND.finditer(page.read_text("utf-8"))]


@pytest.mark.parametrize("line", commands())
def test_the_command_is_taken(line: str) -> None:
    arguments = shlex.split(line, comments=True)[1:]
    command: Any = typer.main.get_command(app)
    context = click.Context(command)
    # as click does it, but for calling what was asked for
    while arguments:
        name = arguments.pop(0)
        command = command.commands[name]
        group = isinstance(command, click.Group)
        if group and arguments and arguments[0] in command.commands:
            context = click.Context(command, parent=context)
            continue
        context = command.make_context(name, arguments, parent=context)
        break
    assert context.command is command
