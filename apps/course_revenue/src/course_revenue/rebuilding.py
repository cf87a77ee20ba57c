"""Making the totals anew from the first line on: what that would do, why not, and doing it.

``look`` asks the brokers, ``plan`` decides (pure), ``carry_out`` acts. Only the one application id is touched: its
committed offsets, its internal topics, its local state here. The output topic stays: the job writes every course's
total again, and a reader that overwrites by key sees it climb from the first line to where it was.

Killed at any point, the same command does it again: every step may be repeated. The library deletes internal topics
before it sets offsets: an instance that is started in between is told by the check that they are missing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from course_revenue import dedupe, preflight
from course_revenue.adjustments import Adjustment, read_adjustments
from course_revenue.following import Watched
from course_revenue.formats import formats
from course_revenue.headers import Place
from course_revenue.rejected import ever_held, mark_rebuilt, only_writer
from course_revenue.settings import COMMIT_BEFORE
from course_revenue.topology import build_topology
from headrace import KafkaStreams, StreamsConfig, TopicPartition
from headrace.errors import IllegalStateException, StreamsException
from headrace.tools import reset
from headrace.topics import TopicWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from course_revenue.options import Target
    from course_revenue.preflight import Seen, Wanted
    from headrace import Topology
    from headrace.tools.reset import ClusterView, ResetPlan, ResetRequest
    from headrace.tools.reset_offsets import Positions
    from headrace.topics import TopicAdmin, TransactionalWriter

_INSTANCE: Final = "instance-*"
"""Where ``--instances`` keeps the state of each."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job that is to be rebuilt: its topology and what follows from it.

    Attributes:
        application_id: its id.
        topology: what it runs.
        needs: what it needs of the brokers.
        request: the reset of it.
        state_dirs: the state directories with something of this id in them, on this machine.
        adjustments: what it was moved past by hand.
    """

    application_id: str
    topology: Topology
    needs: Wanted
    request: ResetRequest
    state_dirs: tuple[Path, ...]
    adjustments: tuple[Adjustment, ...]

    @property
    def watched(self) -> Watched:
        """Where to look how far it is."""
        settings = self.needs.settings
        return Watched(self.application_id, settings.lines, (settings.courses,), self.needs.repartition)

    def stepping(self) -> list[str]:
        """The setting by which an instance stands before each record that it was moved past, when that one stops it."""
        places = [str(Place(one.topic, one.partition, one.offset)) for one in self.adjustments]
        return [f"{COMMIT_BEFORE}={','.join(places)}"] if places else []


@dataclass(frozen=True, slots=True)
class View:
    """What the brokers said."""

    cluster: ClusterView
    seen: Seen


@dataclass(frozen=True, slots=True)
class Plan:
    """What a rebuild would do, and why not (``refusals``; empty: it may).

    ``again`` is about how many lines are read again, ``lost`` how many of the first lines of each partition are gone.
    """

    job: Job
    reset: ResetPlan
    again: int
    lost: Mapping[TopicPartition, int]
    refusals: tuple[str, ...]

    def lines(self) -> list[str]:
        """The plan for a person."""
        settings, adjusted = self.job.needs.settings, len(self.job.adjustments)
        out = [f"rebuild of application {self.job.application_id} at {self.job.needs.brokers}:"]
        if self.reset.delete_group:
            out.append(f"  delete the streams group {self.job.application_id}")
        out += [f"  delete topic {topic}" for topic in self.reset.delete]
        for topic in self.job.request.input_topics:
            count = sum(tp.topic == topic for tp in self.reset.offsets)
            out.append(f"  set the offsets of {topic} ({count} partitions) to its start")
        out += [f"  remove the local state in {at / self.job.application_id}" for at in self.job.state_dirs]
        out.append(f"  read about {self.again:,} lines again")
        out.append(f"  keep {settings.output}: its readers see each total begin anew and climb to where it was")
        if adjusted:
            out.append(f"  pass again {adjusted} records that {settings.adjustments} names, each when it stops the job")
        if self.lost:
            out.append(f"  without {sum(self.lost.values()):,} lines that {settings.lines} does not hold any more")
        return out + [f"refused: {why}" for why in self.refusals]


def job_of(at: Target, options: str) -> Job:
    """The job of a configuration. Asks nobody.

    Args:
        at: its brokers and settings.
        options: of the commands that are named, see ``options.as_given``.

    Raises:
        ConfigException: ``application.id`` is missing, or a setting is wrong.
    """
    application_id, streams = at.application_id, at.streams_config
    topology = build_topology(at.settings, streams.values(), values=formats(at.settings.format, at.properties))
    inputs, internal = reset.application_topics(topology, application_id)
    # also while lines are not deduped: when they are again, those it knows would be left out, and in no total
    internal |= {f"{application_id}-{dedupe.STORE}-changelog"}
    state_dir = Path(streams.state_dir)
    known = read_adjustments(Path(at.settings.adjustments))
    return Job(
        application_id,
        topology,
        preflight.wanted(at.brokers, options, at.settings, streams),
        reset.ResetRequest(application_id, inputs, internal_topics=internal),
        tuple(
            directory
            for directory in (state_dir, *sorted(state_dir.glob(_INSTANCE)))
            if (directory / application_id).is_dir()
        ),
        tuple(one for one in known if one.application_id == application_id and one.topic == at.settings.lines),
    )


def look(admin: TopicAdmin, job: Job) -> View:
    """Asks the brokers for everything that ``plan`` needs. Changes nothing."""
    return View(reset.look(admin, job.request), preflight.look(admin, job.needs))


def plan(job: Job, view: View, *, from_gap: bool = False) -> Plan:
    """Decides. Pure.

    Args:
        job: which job.
        view: what the brokers said.
        from_gap: whether lines may be missing at the beginning.
    """
    lines = job.needs.settings.lines
    positions = view.cluster.positions
    group = view.cluster.group
    refusals: list[str] = []
    if group.active:
        refusals.append(live(job, view.cluster))
        # the tool's own words name an option of its own
        group = replace(group, members=(), state="Empty")
    reset_plan = reset.plan_reset(job.request, replace(view.cluster, group=group))
    refusals += [*reset_plan.refusals, *_what_stays_wrong(job, view.seen)]
    lost = lost_lines(lines, positions.starts)
    if lost and not from_gap:
        refusals.append(gap(lines, lost))
    return Plan(job, reset_plan, lines_to_read(lines, positions), lost, tuple(refusals))


def lines_to_read(lines: str, positions: Positions) -> int:
    """About how many lines there are."""
    return sum(positions.ends[tp] - start for tp, start in positions.starts.items() if tp.topic == lines)


def lost_lines(lines: str, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """By partition, how many of its first lines are gone, where any are."""
    return {tp: start for tp, start in starts.items() if tp.topic == lines and start > 0}


def gap(lines: str, lost: Mapping[TopicPartition, int]) -> str:
    """Why a rebuild that begins with a gap is refused."""
    first = min(lost)
    return (
        f"{lines} does not hold its first lines any more: up to {sum(lost.values()):,} of them, in {len(lost)}"
        f" partitions ({first} begins at offset {lost[first]}). The totals would come out without them. Load them"
        " from the lake first; or, when the totals are to be without them, add --from-gap"
    )


def live(job: Job, view: ClusterView) -> str:
    """Why a rebuild with live instances is refused, and how to stop them."""
    members = ", ".join(sorted(f"{one.client_id} at {one.host.lstrip('/')}" for one in view.group.members))
    return (
        f"instances are live: {view.group.type} group {job.application_id} is {view.group.state}"
        f"{f' ({members})' if members else ''}. Stop each: kill -TERM its 'course-revenue run' (systemctl stop, kubectl"
        " scale --replicas=0); one that was killed leaves by itself after session.timeout.ms. Then give this command"
        " again"
    )


def _what_stays_wrong(job: Job, seen: Seen) -> Sequence[str]:
    """What would keep the job from starting after its internal topics are gone."""
    internal = job.needs.repartition | job.needs.changelogs.keys()
    left = {topic: count for topic, count in seen.partitions.items() if topic not in internal}
    findings = preflight.judge(job.needs, replace(seen, partitions=left, counted=False, emptied=False))
    return [f"{finding.what}: {finding.fix}" for finding in findings.refusals]


def carry_out(admin: TopicAdmin, decided: Plan, streams: StreamsConfig) -> None:
    """Removes local state, resets the application id at the brokers, and says so in the rejected topic meanwhile.

    Raises:
        LockException: a process uses the local state. Nothing was changed.
        IllegalStateException: the plan has refusals. Nothing was changed.
        RefusedError: a replay of rejected lines was begun meanwhile. Local state is gone, and perhaps internal topics:
            the command has to be given again.
        TimeoutException: a transaction of the job stays open, or the brokers do not answer.
        StreamsException: a step failed, as when an instance was started meanwhile; the command may be given again.
    """
    job = decided.job
    if decided.refusals:
        raise IllegalStateException(f"nothing was changed: {'; '.join(decided.refusals)}")
    # an offset inside an unfinished transaction could still replace one that is set here
    if reset.look(admin, job.request).group.type is not None:
        admin.group_offsets(job.application_id, stable=True)
    for directory in job.state_dirs:
        _remove_state(job.topology, streams, directory)
    topic = job.needs.settings.rejected
    count = admin.partition_counts([topic]).get(topic, 0)
    if ever_held(admin, topic, count):
        begins = [Place(tp.topic, tp.partition, start) for tp, start in sorted(decided.lost.items())]
        with _marking(admin, job, streams) as writer:
            # between the two no instance starts, nor goes on where it was: a mark says that lines are read again
            admin.delete_topics(decided.reset.delete)
            mark_rebuilt(writer, topic, count, job.application_id, begins)
    reset.carry_out(admin, decided.reset)


def _marking(
    admin: TopicAdmin, job: Job, streams: StreamsConfig
) -> AbstractContextManager[TopicWriter | TransactionalWriter]:
    """What marks are written with: by what ends a replay that is under way, and each later one sees them.

    Brokers that cannot have transactions have no replays either.
    """
    client = streams.admin_config()
    try:
        admin.check_transactions()
    except StreamsException:
        return TopicWriter(job.needs.brokers, client=client)
    return only_writer(job.needs.brokers, job.application_id, client=client)


def _remove_state(topology: Topology, streams: StreamsConfig, directory: Path) -> None:
    client = KafkaStreams(topology, StreamsConfig.load(streams.originals(), {"state.dir": str(directory)}))
    try:
        client.clean_up()
    finally:
        client.close()
