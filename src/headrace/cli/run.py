"""``headrace run``: one instance of an application."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import Annotated

import typer

from headrace.cli.common import Instances, log_to_stderr, read_properties, run_instances, topology_of
from headrace.config import StreamsConfig
from headrace.tools.service import run_until_stopped


def run(
    function: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="Returns the topology.")],
    config: Annotated[Path, typer.Option("--config", help="A .properties file; Java's loads unmodified.")],
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting.")] = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    instances: Instances = 1,
) -> None:
    """Run an application until SIGTERM or Ctrl-C (exit code 0), until it fails (1) or all of it is to end (3)."""
    log_to_stderr(log_level)
    streams_config = StreamsConfig.load(read_properties(config, settings or ()))
    topology = topology_of(function, streams_config)
    if instances > 1:
        again = ["-m", "headrace", "run", function]
        raise typer.Exit(run_instances(again, config, settings, log_level, streams_config, instances))
    raise typer.Exit(run_until_stopped(topology, streams_config))
