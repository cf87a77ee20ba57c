"""A rebuild beside the job: under another application id, into another output topic, while the job goes on.

Names follow from the job's: ``course-revenue`` and ``commerce.course_revenue`` give ``course-revenue-v2`` and
``commerce.course_revenue.v2``, and the next time ``-v3``. Readers stay at the job's output topic all the time. Building
the shadow changes nothing for them. The switch puts the totals that differ into that topic, in one transaction, while
neither job runs; then the application id of the shadow is the job's, and writes to the topic that it had. Before that
the job is marked as given up (``succession.py``): killed from there on, the switch goes on where it was, and meanwhile
no instance of the job starts.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from course_revenue import rebuilding
from course_revenue.contract import OnBrokenLine
from course_revenue.errors import RefusedError
from course_revenue.headers import source
from course_revenue.model import Revenue
from course_revenue.options import Target, as_given, target
from course_revenue.reconciling import reconcile_job
from course_revenue.rejected import ever_held, mark_rebuilt, only_writer, since_rebuilt
from course_revenue.settings import PREFIX
from course_revenue.succession import Succession, give_place, succession
from course_revenue.topics import wanted_topics
from course_revenue.totals import open_totals
from headrace import Serdes
from headrace.config.own_keys import HTTP_PORT
from headrace.tools import reset
from headrace.topics import TopicAdmin, TopicReader, ensure_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from headrace.topics import TopicRecord

_VERSION: Final = re.compile(r"(.+)-v(\d+)")

_LOOK_S: Final = 0.5
_PATIENCE_S: Final = 60.0
_ID_LINE: Final = re.compile(rb"^[ \t\f]*application\.id[ \t\f]*[=: \t\f].*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Shadow:
    """A job and its shadow.

    ``live`` and ``beside`` are the two targets, ``job`` is what the shadow runs, ``settings`` make it of the live one's
    file, and ``suffix`` is what its names end in.
    """

    live: Target
    beside: Target
    job: rebuilding.Job
    settings: tuple[str, ...]
    suffix: str

    @property
    def application_id(self) -> str:
        """The shadow's."""
        return self.job.application_id

    def own_topics(self) -> list[str]:
        """The topics that it writes in place of the job's."""
        settings = self.beside.settings
        rejecting = settings.on_broken_line is OnBrokenLine.REJECT
        return [settings.output, *((settings.rejected,) if rejecting else ())]


def shadow_of(config: Path, settings: Sequence[str]) -> Shadow:
    """The shadow of the job of a configuration. Asks nobody.

    Raises:
        ConfigException: ``application.id`` is missing, or a setting is wrong.
    """
    live = target(config, list(settings), None)
    known = _VERSION.fullmatch(live.application_id)
    name, version = (known[1], int(known[2]) + 1) if known else (live.application_id, 2)
    suffix = f"v{version}"
    own = [
        *settings,
        f"application.id={name}-{suffix}",
        f"{PREFIX}topic.output={live.settings.output}.{suffix}",
        f"{PREFIX}topic.rejected={live.settings.rejected}.{suffix}",
        # the job may have its port on this machine, and its member of the group
        *([f"{HTTP_PORT}=0"] if HTTP_PORT in live.properties else []),
        *([f"group.instance.id={name}-{suffix}"] if live.properties.get("group.instance.id") else []),
    ]
    beside = target(config, own, None)
    job = rebuilding.job_of(beside, as_given(config, own))
    # what the job was moved past stops its shadow, too
    of_live = rebuilding.job_of(live, as_given(config, settings)).adjustments
    passed = {one.identity[1:]: one for one in (*of_live, *job.adjustments)}
    return Shadow(live, beside, replace(job, adjustments=tuple(passed.values())), tuple(own), suffix)


@dataclass(frozen=True, slots=True)
class Plan:
    """What building a shadow would do, and why not (``refusals``)."""

    shadow: Shadow
    lines: int
    exists: bool
    refusals: tuple[str, ...]

    def text(self) -> list[str]:
        """The plan for a person."""
        shadow, beside = self.shadow, self.shadow.beside.settings
        out = [
            f"shadow of application {shadow.live.application_id} at {shadow.live.brokers}, which goes on:",
            f"  run application {shadow.application_id}{', which goes on where it was' if self.exists else ''}",
            f"  write its totals to {beside.output}",
        ]
        if beside.on_broken_line is OnBrokenLine.REJECT:
            out.append(f"  write rejected lines to {beside.rejected}")
        out.append(f"  read about {self.lines:,} lines again")
        out.append(f"  {shadow.live.settings.output} is not touched: its readers notice nothing")
        return out + [f"refused: {why}" for why in self.refusals]


def plan(shadow: Shadow, *, from_gap: bool) -> Plan:
    """Looks and decides. Changes nothing."""
    lines, output = shadow.live.settings.lines, shadow.live.settings.output
    with _admin(shadow) as admin:
        view = reset.look(admin, shadow.job.request)
    refusals: list[str] = []
    if output not in view.topics:
        refusals.append(f"topic {output} does not exist: there is no job to be a shadow of")
    if view.group.active:
        refusals.append(rebuilding.live(shadow.job, view))
    taken = taken_by(shadow)
    if taken is not None:
        refusals.append(given_up(shadow, taken))
    # what it has read already cannot be missing
    starts = {tp: start for tp, start in view.positions.starts.items() if tp not in view.positions.committed}
    lost = rebuilding.lost_lines(lines, starts)
    if lost and not from_gap:
        refusals.append(rebuilding.gap(lines, lost))
    again = rebuilding.lines_to_read(lines, view.positions)
    return Plan(shadow, again, view.group.type is not None, tuple(refusals))


def taken_by(shadow: Shadow) -> Succession | None:
    """Who takes the job's place, when a switch has come so far that there is no way back."""
    application_id = shadow.live.application_id
    with _admin(shadow) as admin:
        known = admin.describe_group(application_id).type is not None
        return succession(admin.group_offsets(application_id) if known else {}, shadow.live.settings.lines)


def given_up(shadow: Shadow, taken: Succession) -> str:
    """Why a job that is given up gets no shadow."""
    return (
        f"{taken.application_id} {'has taken' if taken.done else 'is taking'} the place of"
        f" {shadow.live.application_id}: --switch ends the switch where it was cut short. The next rebuild is that of"
        f" {taken.application_id}, with the file that has its application.id"
    )


def give_up(shadow: Shadow, *, done: bool) -> None:
    """Marks the job, which must not run: its place is taken, or (``done``) the totals are put in place, too.

    Raises:
        StreamsException: an instance of it runs.
    """
    live = shadow.live
    with _admin(shadow) as admin:
        give_place(admin, live.application_id, live.settings.lines, Succession(shadow.application_id, done))


def make_topics(shadow: Shadow) -> None:
    """Makes the shadow's own topics where they are missing, as the job's are."""
    live = shadow.live.settings
    with _admin(shadow) as admin:
        counts, replicas = admin.partition_counts([live.output]), admin.replication_factors([live.output])
    wanted = wanted_topics(
        shadow.beside.settings, partitions=counts[live.output], replication_factor=replicas[live.output]
    )
    own = [topic for topic in wanted if topic.name in shadow.own_topics()]
    ensure_topics(shadow.live.brokers, own, client=shadow.live.client)


@dataclass(frozen=True, slots=True)
class Difference:
    """A course whose totals differ from the input: each job's difference at a cut of its own."""

    course_id: str
    live_cents: int
    live_lines: int
    shadow_cents: int
    shadow_lines: int


def compare(shadow: Shadow) -> tuple[list[Difference], bool]:
    """Compares both jobs with the input, each at a consistent cut, and so with each other.

    Returns:
        The courses in which the two differ, and whether the shadow agrees with the input.
    """
    live, beside = (reconcile_job(at, timeout_s=_PATIENCE_S).comparison for at in (shadow.live, shadow.beside))
    sides = [{row.course_id: row.unexplained for row in side.rows} for side in (live, beside)]
    nothing = (0, 0)
    rows: list[Difference] = []
    for course in sorted(sides[0].keys() | sides[1].keys()):
        of_live, of_shadow = ((side[course].cents, side[course].lines) if course in side else nothing for side in sides)
        if of_live != of_shadow:
            rows.append(Difference(course, *of_live, *of_shadow))
    return rows, beside.agrees


def await_nobody(shadow: Shadow, tell: Callable[[str], None], check: Callable[[], None], timeout_s: float) -> None:
    """Waits until no instance of the job is live.

    Args:
        shadow: of which job.
        tell: told once when there is one.
        check: called now and then; raises when there is no more use in waiting.
        timeout_s: longest wait, in seconds.

    Raises:
        RefusedError: there is one still.
    """
    application_id = shadow.live.application_id
    deadline, told = time.monotonic() + timeout_s, False
    with _admin(shadow) as admin:
        while (group := admin.describe_group(application_id)).active:
            if not told:
                told = True
                tell(
                    f"stop every instance of {application_id} now ({len(group.members)} members): the switch waits for"
                    f" it, {timeout_s:.0f} s at most, and totals do not move meanwhile"
                )
            if time.monotonic() > deadline:
                raise RefusedError(
                    f"nothing was switched: instances of {application_id} are live after {timeout_s:.0f} s"
                )
            check()
            time.sleep(_LOOK_S)


class Put(NamedTuple):
    """How many totals were put into the job's topic, and how many of them differed in what; some in several ways.

    ``amounts`` are cents or numbers of lines, ``removed`` courses that the shadow does not have.
    """

    amounts: int = 0
    flags: int = 0
    times: int = 0
    removed: int = 0
    totals: int = 0

    def __str__(self) -> str:
        parts = (
            (self.amounts, "in cents or lines"),
            (self.flags, "in dimension_missing"),
            (self.times, "in updated_event_time"),
            (self.removed, "of courses that have no line: removed"),
        )
        said = ", ".join(f"{count:,} {what}" for count, what in parts if count)
        return f"{self.totals:,} totals that differed" + (f" ({said})" if said else "")


def what_differs(before: Mapping[str, Revenue], wanted: Mapping[str, Revenue]) -> tuple[dict[str, Revenue | None], Put]:
    """The totals to be put in the place of others, None for a course that is to be removed, and in what they differ."""
    differing: dict[str, Revenue | None] = {}
    amounts = flags = times = removed = 0
    for course in sorted(before.keys() | wanted.keys()):
        old, new = before.get(course, Revenue.zero()), wanted.get(course)
        if new == before.get(course):
            continue
        differing[course] = new
        if new is None:
            removed += 1
            continue
        amounts += (old.net_cents, old.line_count) != (new.net_cents, new.line_count)
        flags += old.dimension_missing != new.dimension_missing
        times += old.updated_event_time != new.updated_event_time
    return differing, Put(amounts, flags, times, removed, len(differing))


def put_totals(shadow: Shadow) -> Put:
    """Puts the shadow's totals into the job's output topic, those that differ, in one transaction.

    Returns:
        What was put there; courses that the shadow does not have are removed.

    Raises:
        RefusedError: another switch, or a replay of rejected lines, was begun meanwhile. Nothing was put there.
    """
    live = shadow.live
    key, value = Serdes.String().serializer, live.values.revenue.serializer
    output = live.settings.output
    with only_writer(live.brokers, live.application_id, client=live.client) as writer:
        differing, put = what_differs(*(_latest(at) for at in (live, shadow.beside)))
        # before the first record: a transaction has its time, and the topics may be long
        rejected = _of_rejected(shadow)
        for course, total in differing.items():
            writer.send(
                output,
                key.serialize(output, course),
                None if total is None else value.serialize(output, total),
                timestamp_ms=None if total is None else total.updated_event_time,
            )
        if rejected.to_mark:
            # not where the input began: some of what it has lost by now the shadow has read: it would count twice
            mark_rebuilt(writer, live.settings.rejected, rejected.to_mark, shadow.application_id)
        for record in rejected.lines:
            writer.send(
                live.settings.rejected,
                record.key,
                record.value,
                timestamp_ms=record.timestamp,
                headers=record.headers,
                partition=record.partition,
            )
    return put


class _Rejected(NamedTuple):
    """How many partitions of the job's rejected topic get a mark, and the shadow's lines that go behind it."""

    to_mark: int = 0
    lines: Sequence[TopicRecord] = ()


def _of_rejected(shadow: Shadow) -> _Rejected:
    live, beside = shadow.live, shadow.beside.settings
    topic = live.settings.rejected
    with _admin(shadow) as admin:
        counts = admin.partition_counts([topic, beside.rejected])
        held = ever_held(admin, topic, counts.get(topic, 0))
    if topic not in counts:
        return _Rejected()
    known = since_rebuilt(_records(live, topic))
    of_shadow = since_rebuilt(_records(live, beside.rejected)).lines if beside.rejected in counts else []
    if known.marks.get(0) == shadow.application_id:
        # a switch that was cut short
        there = {source(record) for record in known.lines}
        return _Rejected(0, [record for record in of_shadow if source(record) not in there])
    return _Rejected(counts[topic] if held or of_shadow else 0, of_shadow)


def _records(at: Target, topic: str) -> list[TopicRecord]:
    with TopicReader(at.brokers, topic, client=at.client) as reader:
        return list(reader.to_end())


def _latest(at: Target) -> dict[str, Revenue]:
    with open_totals(at.brokers, at.settings, client=at.client, values=at.values) as table:
        table.read_to_end()
        return dict(table.values)


def write_config(shadow: Shadow, config: Path) -> Path | None:
    """Writes the properties with the shadow's application id beside the file, for nobody who may not read that one.

    Returns:
        The new file; None where the id does not stand in the file, so that whoever sets it has to change it.
    """
    text = config.read_bytes()
    if not _ID_LINE.search(text):
        return None
    new = config.with_name(f"{config.stem}-{shadow.suffix}{config.suffix}")
    draft = new.with_name(f"{new.name}.tmp")
    draft.touch(0o600)
    shutil.copymode(config, draft)
    draft.write_bytes(_ID_LINE.sub(f"application.id={shadow.application_id}".encode(), text))
    draft.replace(new)
    return new


def drop_topics(shadow: Shadow) -> None:
    """Deletes the topics that the shadow wrote in place of the job's: what they hold is in these now."""
    with _admin(shadow) as admin:
        admin.delete_topics(shadow.own_topics())


def is_there(shadow: Shadow) -> bool:
    """Whether a shadow was built and not switched to yet."""
    with _admin(shadow) as admin:
        built = admin.describe_group(shadow.application_id).type is not None
        return built and shadow.beside.settings.output in admin.list_topics()


def _admin(shadow: Shadow) -> contextlib.closing[TopicAdmin]:
    return contextlib.closing(TopicAdmin(shadow.live.streams_config.admin_config()))
