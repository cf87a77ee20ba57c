"""Commands for those who run the job: ``course-revenue check``, ``skip-record``, ``rejected list|replay``."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from course_revenue import preflight
from course_revenue.errors import RefusedError
from course_revenue.headers import Place
from course_revenue.jobs import JobProcess
from course_revenue.options import Brokers, By, Config, ConfigFile, DryRun, LogFile, Set, as_given, target, who
from course_revenue.preflight import Findings
from course_revenue.rejected import RejectedLine, Selection, read_rejected, replay
from course_revenue.skipping import NotNextError, SkipRequest, bring_before, skip, stepping
from course_revenue.totals import event_time_ms, on_one_line
from headrace.cli.common import FAILED, note, say
from headrace.errors import ConfigException, TimeoutException

if TYPE_CHECKING:
    from course_revenue.settings import Settings
    from headrace import StreamsConfig

log = logging.getLogger(__name__)

rejected_app = typer.Typer(help="The rejected topic: what lies in it, and sending it in again.", no_args_is_help=True)

_PLACE: Final = "PARTITION:OFFSET"


def check(
    config: ConfigFile,
    settings: Set = None,
) -> None:
    """Look whether the brokers are as the job needs them: exit code 1 when something is refused. Changes nothing."""
    at = target(config, settings, None)
    findings = preflight.check(at.brokers, as_given(config, settings), at.settings, at.streams_config)
    for line in findings.lines():
        say(line)
    if findings.refusals:
        raise typer.Exit(FAILED)
    note(f"the job may run: nothing is refused, {len(findings.warnings)} warnings")


def check_before_run(options: str, product: Settings, streams_config: StreamsConfig) -> None:
    """What ``check`` does, for a job that is about to start; brokers that do not answer are left to the job itself.

    Args:
        options: see ``options.as_given``.
        product: the product's own settings.
        streams_config: the job's.

    Raises:
        RefusedError: the job must not run as things are.
    """
    brokers = ",".join(streams_config.bootstrap_servers)
    try:
        findings = preflight.check(brokers, options, product, streams_config, starting=True)
    except TimeoutException as error:
        log.warning("the brokers are not checked before the start: %s", error)
        return
    for finding in findings.warnings:
        log.warning("%s: %s", finding.what, finding.fix)
    if findings.refusals:
        raise RefusedError("the job does not start:\n" + "\n".join(Findings(findings.refusals).lines()))


def skip_record(
    config: ConfigFile,
    partition: Annotated[int, typer.Option(min=0, help="Where the record lies.")],
    offset: Annotated[int, typer.Option(min=0, help="Where the record lies.")],
    reason: Annotated[str, typer.Option(help="Why it cannot be counted; goes to the adjustments file.")],
    settings: Set = None,
    topic: Annotated[
        str | None, typer.Option(help="The lines topic (the default), the catalog, or the repartition topic.")
    ] = None,
    dry_run: DryRun = False,
    by: By = None,
    log_file: LogFile = Path("course-revenue-skip-record.log"),
) -> None:
    """Move the job past the one record that stops it, with a written adjustment that reconcile knows.

    Every instance must be stopped. Lines before the record that are not counted yet are counted first, by an instance
    of the command's own, which the record then stops. The adjustment, without the payload, is appended to
    course.revenue.adjustments.file before the offset is moved.
    """
    at = target(config, settings, None)
    if not reason.strip():
        raise ConfigException("--reason is empty: say why the record cannot be counted")
    application_id = at.application_id
    needs = preflight.wanted(at.brokers, None, at.settings, at.streams_config)
    request = SkipRequest(
        application_id,
        Place(topic or at.settings.lines, partition, offset),
        reason.strip(),
        who(by),
        {at.settings.lines, at.settings.courses, *needs.repartition},
    )
    file = Path(at.settings.adjustments)
    try:
        adjustment = skip(at.brokers, request, file, dry_run=dry_run, client=at.client)
    except NotNextError as not_next:
        if dry_run:
            raise RefusedError(f"{not_next}. Without --dry-run an instance would bring it there") from not_next
        note(f"{not_next}. An instance brings it there")
        instance = JobProcess(config, [*(settings or ()), *stepping(at, request.place)], log_file)
        bring_before(instance, request, at)
        try:
            adjustment = skip(at.brokers, request, file, client=at.client)
        except NotNextError as ended:
            raise RefusedError(
                f"the end of {log_file}:\n{instance.tail()}\n\n{ended}. What stopped the instance of this command"
                " stands above. When it is another record, skip that one first"
            ) from ended
    say(msgspec.json.encode(adjustment).decode())
    note("dry run: nothing was changed" if dry_run else f"{application_id} is past {request.place}; written to {file}")


@rejected_app.command("list")
def list_rejected(
    config: Config = None,
    settings: Set = None,
    bootstrap_server: Brokers = None,
    show_payload: Annotated[
        bool, typer.Option("--show-payload", help="Keys and values too: restricted data, on your screen.")
    ] = False,
) -> None:
    """Print the rejected lines, tab separated: place, time, reason, place in the input, whether it was replayed."""
    at = target(config, settings, bootstrap_server)
    lines = read_rejected(at.brokers, at.settings, client=at.client)
    say("\t".join([*_COLUMNS, *(("key", "value") if show_payload else ())]))
    for line in lines:
        payload = [_shown(line.record.key), _shown(line.record.value)] if show_payload else []
        say("\t".join([*_columns(line), *payload]))
    waiting = [line for line in lines if not line.replayed]
    again = sum(line.read_again for line in waiting)
    note(
        f"{len(lines):,} rejected lines, {len(waiting):,} of them not replayed"
        + (f", {again:,} of these read again by a rebuild or a switch since" if again else "")
    )


@rejected_app.command("replay")
def replay_rejected(
    config: Config = None,
    settings: Set = None,
    bootstrap_server: Brokers = None,
    everything: Annotated[bool, typer.Option("--all", help="All that were not replayed yet.")] = False,
    offset: Annotated[
        list[str] | None, typer.Option(metavar=_PLACE, help="The line there, in the rejected topic. Repeatable.")
    ] = None,
    reason: Annotated[list[str] | None, typer.Option(help="Those rejected for it. Repeatable.")] = None,
    leave_broken: Annotated[
        bool, typer.Option("--leave-broken", help="Only those that keep the contract now.")
    ] = False,
    dry_run: DryRun = False,
    by: By = None,
) -> None:
    """Send rejected lines to the input topic again, as they were: once, and all in one transaction.

    For after a fix: lines that still break the contract are refused, or left where they are. A line is replayed once
    only, and not at all when a rebuild has read it again since it was rejected.
    """
    at = target(config, settings, bootstrap_server)
    if everything + bool(offset) + bool(reason) != 1:
        raise ConfigException("which lines? Give one of --all, --offset PARTITION:OFFSET and --reason REASON")
    selection = Selection(frozenset(reason or ()), frozenset(_place(text) for text in offset or ()), leave_broken)
    chosen = replay(
        at.brokers,
        at.settings,
        at.application_id,
        selection,
        at.values.decode_line(at.settings.rejected),
        by=who(by),
        dry_run=dry_run,
        client=at.client,
    )
    say("\t".join(_COLUMNS))
    for line in chosen.lines:
        say("\t".join(_columns(line)))
    for absent in sorted(selection.reasons - chosen.reasons):
        note(f"no line was rejected for {absent}; in the topic are: {', '.join(sorted(chosen.reasons)) or 'none'}")
    if chosen.read_again:
        note(
            f"left out {chosen.read_again:,} lines that were rejected before the totals were begun anew (a rebuild, a"
            " switch), which has read them again: they are counted, or rejected once more, and would count twice"
        )
    if chosen.broken:
        why = ", ".join(f"{rule} {count:,}" for rule, count in sorted(chosen.broken.items()))
        note(f"left out {sum(chosen.broken.values()):,} lines that break the contract of this release: {why}")
    count = len(chosen.lines)
    note(f"dry run: {count:,} lines would be replayed" if dry_run else f"replayed {count:,} lines")


_COLUMNS: Final = ("partition", "offset", "time", "reason", "source", "replayed")


def _columns(line: RejectedLine) -> list[str]:
    return [
        str(line.record.partition),
        str(line.record.offset),
        event_time_ms(line.record.timestamp),
        on_one_line(line.reason),
        on_one_line(str(line.source or "")),
        str(line.replayed).lower(),
    ]


def _place(text: str) -> tuple[int, int]:
    partition, colon, offset = text.partition(":")
    if not (colon and partition.isdecimal() and offset.isdecimal()):
        raise ConfigException(f"--offset {text}: write {_PLACE}, such as 0:42")
    return int(partition), int(offset)


def _shown(data: bytes | None) -> str:
    """Bytes on one line, whatever they are."""
    return "" if data is None else data.decode(errors="backslashreplace").encode("unicode_escape").decode()
