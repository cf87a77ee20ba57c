"""The command tree."""

from __future__ import annotations

import typer

from headrace.cli import cluster, reset, run, topology

app = typer.Typer(
    name="headrace",
    help="Kafka Streams for Python: local cluster, topologies, running and resetting applications.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(cluster.app, name="cluster")
app.add_typer(topology.app, name="topology")
app.command(name="run")(run.run)
app.command(name="reset")(reset.reset)
