"""``headrace reset``: the application reset tool."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.api.times import epoch_ms
from headrace.cli.common import FAILED, note, read_properties, say, topology_of
from headrace.config import StreamsConfig
from headrace.errors import ConfigException
from headrace.kafka import TopicAdmin
from headrace.resets import iso_duration
from headrace.tools.reset import ResetRequest, application_topics
from headrace.tools.reset import reset as reset_application
from headrace.tools.reset_offsets import AtTime, ShiftBy, moment_ms, read_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.tools.reset_offsets import ResetTo


def reset(
    application_id: Annotated[str | None, typer.Option(help="Which application; else that of --config.")] = None,
    bootstrap_server: Annotated[str | None, typer.Option(help="host:port list of the brokers.")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="The application's .properties file.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting.")] = None,
    input_topics: Annotated[
        list[str] | None, typer.Option(help="Topics to read anew, comma separated; with --topology all its sources.")
    ] = None,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="Read them from their start (the default).")
    ] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Read them from their end.")] = False,
    to_offset: Annotated[int | None, typer.Option(min=0, help="Read them from this offset.")] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(metavar="YYYY-MM-DDTHH:mm:ss.sss", help="From the first record as young; UTC without an offset."),
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option(metavar="PnDTnHnMnS", help="From the first record no older than this, from now on.")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option(help="From so many records after what is committed; before it when negative.")
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option(help="From the offsets of a CSV file: TOPIC,PARTITION,OFFSET, each partition.")
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="Names exactly the internal topics to delete."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done; change nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="First remove members, of killed instances.")] = False,
) -> None:
    """Bring an application back to its start: offsets of its input topics, and its internal topics.

    Refuses while members are active. Without --topology, internal topics whose name could also be another
    application's are listed and kept. Output topics and local state are not touched.
    """
    asked: dict[str, ResetTo | None] = {
        "--to-earliest": "earliest" if to_earliest else None,
        "--to-latest": "latest" if to_latest else None,
        "--to-offset": to_offset,
        "--to-datetime": None if to_datetime is None else AtTime(moment_ms(to_datetime)),
        "--by-duration": None if by_duration is None else _ago(by_duration),
        "--shift-by": None if shift_by is None else ShiftBy(shift_by),
        "--from-file": None if from_file is None else read_offsets(from_file),
    }
    to = _target(asked)
    properties = read_properties(config, settings or ())
    if application_id:
        properties["application.id"] = application_id
    if bootstrap_server:
        properties["bootstrap.servers"] = bootstrap_server
    for key, option in (("application.id", "--application-id"), ("bootstrap.servers", "--bootstrap-server")):
        if not properties.get(key):
            raise ConfigException(f"{key} is not known: give {option}, or --config with it")
    streams_config = StreamsConfig.load(properties)
    inputs = [name.strip() for text in input_topics or () for name in text.split(",") if name.strip()]
    internal: frozenset[str] | None = None
    if topology is not None:
        built = topology_of(topology, streams_config)
        sources, internal = application_topics(built, str(properties["application.id"]))
        inputs = inputs or list(sources)
    request = ResetRequest(
        application_id=str(properties["application.id"]),
        input_topics=tuple(dict.fromkeys(inputs)),
        to=to,
        internal_topics=internal,
        force=force,
        uncommitted=_beginning(streams_config),
    )
    admin = TopicAdmin(streams_config.admin_config())
    try:
        plan = reset_application(admin, request, dry_run=dry_run, tell=say)
    finally:
        admin.close()
    if internal is None:
        note(
            "internal topics are told by their names, among the topics that this principal may describe;"
            " --topology names them all"
        )
    if dry_run:
        note("dry run: nothing was changed")
        if plan.refusals:
            raise typer.Exit(FAILED)
    else:
        note(
            f"reset {request.application_id}; local state (state.dir) is not touched:"
            " stores of topics that were deleted are dropped by themselves at the next start"
        )


def _target(asked: Mapping[str, ResetTo | None]) -> ResetTo:
    given: dict[str, ResetTo] = {option: to for option, to in asked.items() if to is not None}
    if len(given) > 1:
        raise ConfigException(f"{' and '.join(given)} exclude each other: say once where to read from")
    for to in given.values():
        return to
    return "earliest"


def _ago(text: str) -> AtTime:
    try:
        return AtTime(epoch_ms(datetime.now(UTC) - iso_duration(text)))
    except (ValueError, OverflowError) as e:
        raise ConfigException(f"--by-duration: {e}") from e


def _beginning(config: StreamsConfig) -> Literal["earliest", "latest"] | None:
    policy = config.auto_offset_reset.value
    return "latest" if policy == "latest" else "earliest" if policy == "earliest" else None
