"""The command tree."""

from __future__ import annotations

import importlib.metadata
from typing import Annotated

import typer

from headrace.cli import cluster, reset, run, topology
from headrace.cli.common import say

app = typer.Typer(
    name="headrace",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        say(importlib.metadata.version("headrace"))
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", help="Show the version and end.", is_eager=True, callback=_show_version)
]


@app.callback()
def root(version: Version = False) -> None:
    """Kafka Streams for Python: local cluster, topologies, running and resetting applications."""


app.add_typer(cluster.app, name="cluster")
app.add_typer(topology.app, name="topology")
app.command(name="run")(run.run)
app.command(name="reset")(reset.reset)
