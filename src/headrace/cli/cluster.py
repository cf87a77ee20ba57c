"""``headrace cluster``: a real Kafka on this machine, of one broker or more, and a schema registry beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.common import FAILED, note, say
from headrace.testing.broker import KAFKA_VERSION, jars_directory
from headrace.testing.cluster import ClusterState, LocalCluster
from headrace.testing.registry import LocalRegistry, registry_home

app = typer.Typer(help="A real Apache Kafka on this machine, for trying things and for tests.", no_args_is_help=True)

DataDir = Annotated[Path, typer.Option("--data-dir", help="Where it keeps its data; one cluster per directory.")]
_DEFAULT_DIR = Path(".headrace") / "cluster"


@app.command()
def up(
    data_dir: DataDir = _DEFAULT_DIR,
    brokers: Annotated[
        int | None, typer.Option(min=1, max=9, help="How many brokers; else as many as the directory holds, or one.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of the first broker; else any free one.")
    ] = None,
    kafka_version: Annotated[
        str | None, typer.Option(help="Release of Apache Kafka, 3.9.1 or newer; else the last start's, or the current.")
    ] = None,
    heap: Annotated[int, typer.Option(min=256, help="Maximum heap of each broker in MiB.")] = 768,
    registry: Annotated[bool, typer.Option("--registry", help="Start a schema registry, too.")] = False,
    registry_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of the registry; else any free one.")
    ] = None,
) -> None:
    """Start it and wait until it answers; prints its address. One that runs already is left as it is."""
    cluster = LocalCluster(data_dir, brokers=brokers, port=port, version=kafka_version, heap_mb=heap, log=note)
    running = cluster.state()
    state = cluster.start()
    note(f"{'already running' if running == state else 'started'}: {_processes(state)}, data in {cluster.data_dir}")
    say(state.bootstrap_servers)
    if registry or registry_port is not None:
        beside = _registry(data_dir, registry_port)
        was_there = beside.state()
        found = beside.start()
        note(f"registry {'already running' if was_there else 'started'}: process {found.pid}")
        say(found.url)


@app.command()
def down(data_dir: DataDir = _DEFAULT_DIR) -> None:
    """Stop it, and its registry, and wait until their processes have ended; their data stays."""
    registry, cluster = _registry(data_dir), LocalCluster(data_dir)
    if registry.stop():
        say(f"stopped the registry in {registry.data_dir}")
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
    registry = _registry(data_dir).state()
    if state is not None:
        say(
            f"running at {state.bootstrap_servers}, {_processes(state)}, Apache Kafka {state.kafka_version},"
            f" data in {cluster.data_dir}"
        )
        if len(state.brokers) < len(cluster.brokers):
            say(f"{len(cluster.brokers) - len(state.brokers)} of {len(cluster.brokers)} brokers do not run")
    else:
        say(f"no cluster is running in {cluster.data_dir}")
    if registry is not None:
        say(
            f"registry running at {registry.url}, process {registry.pid}, Apicurio Registry {registry.registry_version}"
        )
    if state is None:
        raise typer.Exit(FAILED)


@app.command()
def fetch(
    kafka_version: Annotated[
        list[str] | None, typer.Option(help=f"Another release of Apache Kafka beside {KAFKA_VERSION}; may be repeated.")
    ] = None,
    registry: Annotated[bool, typer.Option("--registry", help="The schema registry, too.")] = False,
) -> None:
    """Fetch the programs that ``up`` starts, so that it needs no network later; prints their directories."""
    for version in (KAFKA_VERSION, *(kafka_version or ())):
        say(str(jars_directory(note, version)))
    if registry:
        say(str(registry_home(note)))


def _processes(state: ClusterState) -> str:
    return f"process{'es' if len(state.pids) > 1 else ''} {', '.join(map(str, state.pids))}"


def _registry(data_dir: Path, port: int | None = None) -> LocalRegistry:
    return LocalRegistry(data_dir / "registry", port=port, log=note)
