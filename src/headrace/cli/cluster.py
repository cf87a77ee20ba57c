"""``headrace cluster``: a real single-node Kafka on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.common import FAILED, note, say
from headrace.testing.cluster import LocalCluster

app = typer.Typer(
    help="A real single-node Apache Kafka on this machine, for trying things and for tests.", no_args_is_help=True
)

DataDir = Annotated[Path, typer.Option("--data-dir", help="Where it keeps its data; one cluster per directory.")]
_DEFAULT_DIR = Path(".headrace") / "cluster"


@app.command()
def up(
    data_dir: DataDir = _DEFAULT_DIR,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port for clients; else any free one.")] = None,
    heap: Annotated[int, typer.Option(min=256, help="Maximum heap of the broker in MiB.")] = 768,
) -> None:
    """Start it and wait until it answers; prints its address. One that runs already is left as it is."""
    cluster = LocalCluster(data_dir, port=port, heap_mb=heap, log=note)
    running = cluster.state()
    state = cluster.start()
    note(f"{'already running' if running else 'started'}: process {state.pid}, data in {cluster.data_dir}")
    say(state.bootstrap_servers)


@app.command()
def down(data_dir: DataDir = _DEFAULT_DIR) -> None:
    """Stop it and wait until its process has ended; its data stays."""
    cluster = LocalCluster(data_dir)
    say(
        f"stopped the cluster in {cluster.data_dir}"
        if cluster.stop()
        else f"no cluster is running in {cluster.data_dir}"
    )


@app.command()
def status(data_dir: DataDir = _DEFAULT_DIR) -> None:
    """Say whether it runs: exit code 0 and its address, or 1."""
    cluster = LocalCluster(data_dir)
    state = cluster.state()
    if state is None:
        say(f"no cluster is running in {cluster.data_dir}")
        raise typer.Exit(FAILED)
    say(
        f"running at {state.bootstrap_servers}, process {state.pid}, Apache Kafka {state.kafka_version},"
        f" data in {cluster.data_dir}"
    )
