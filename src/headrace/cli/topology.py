"""``headrace topology``: what an application is made of."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import Annotated

import typer

from headrace.cli.common import out, read_properties, topology_of
from headrace.config import StreamsConfig

app = typer.Typer(help="What an application is made of.", no_args_is_help=True)

# enough to build any topology with: no broker is asked
_NOWHERE = {"application.id": "application", "bootstrap.servers": "localhost:9092"}


@app.callback()
def _group() -> None:
    """Keeps ``show`` a subcommand while it is the only one."""


@app.command()
def show(
    function: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="Returns the topology.")],
    config: Annotated[Path | None, typer.Option("--config", help="A .properties file.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting.")] = None,
) -> None:
    """Print a topology as Java's describe() does."""
    properties = {**_NOWHERE, **read_properties(config, settings or ())}
    built = topology_of(function, StreamsConfig.load(properties))
    out.print(str(built.describe()), markup=False, end="")
