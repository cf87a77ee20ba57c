"""What must be true of the brokers before the job runs: looked at, then judged, each finding with what to do.

``look`` asks the brokers, ``judge`` decides (pure). A refusal is something that makes totals wrong or stops the job
later; a warning is something that a rebuild or a failure would show.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from course_revenue.contract import OnBrokenLine
from course_revenue.formats import formats
from course_revenue.settings import Dedupe
from course_revenue.succession import Succession, succession
from course_revenue.topics import PARTITIONS, wanted_topics
from course_revenue.topology import STORE, build_topology
from headrace.errors import (
    AuthorizationException,
    ConfigException,
    KafkaException,
    StreamsException,
    TimeoutException,
)
from headrace.records import TopicPartition
from headrace.topics import TopicAdmin, TopicReader, TransactionalWriter, partition_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from course_revenue.settings import Settings
    from headrace import StreamsConfig
    from headrace.records import OffsetAndMetadata
    from headrace.topics import TopicSetting

PROBE: Final = "check"
"""Behind the application id and a hyphen: the transactional id by which transactions are tried."""

_DAY_MS: Final = 24 * 3_600_000
_TIMEOUT_S: Final = 15.0


class Finding(NamedTuple):
    """What is wrong, and the command (or setting) that puts it right."""

    what: str
    fix: str


@dataclass(frozen=True, slots=True)
class Findings:
    """What a check found. The job may run when nothing is refused."""

    refusals: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()

    def lines(self) -> list[str]:
        """The findings for a person."""
        return [
            line
            for kind, findings in (("refused", self.refusals), ("warning", self.warnings))
            for finding in findings
            for line in (f"{kind}: {finding.what}", f"  {finding.fix}")
        ]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the job needs.

    Attributes:
        application_id: whose group and internal topics are looked at.
        brokers: ``host:port`` list, for the commands.
        options: those of the commands that findings name, see ``options.as_given``; None when there was no file.
        settings: the product's own.
        repartition: repartition topics, which have as many partitions as the catalog.
        changelogs: by changelog, the settings that it is made with.
        transactions: whether the processing guarantee needs them.
    """

    application_id: str
    brokers: str
    options: str | None
    settings: Settings
    repartition: frozenset[str]
    changelogs: Mapping[str, Mapping[str, str]]
    transactions: bool

    @property
    def totals(self) -> str:
        """The changelog of the totals."""
        return f"{self.application_id}-{STORE}-changelog"

    @property
    def holding(self) -> frozenset[str]:
        """The internal topics without which a job that has counted lines cannot go on.

        They hold its totals and what is in none yet. The memory of lines that come again may begin empty, as when it is
        turned on later.
        """
        return self.repartition | {self.totals}


@dataclass(frozen=True, slots=True)
class Seen:
    """What the brokers said.

    Attributes:
        partitions: number of partitions of the topics that exist.
        configs: what holds for them.
        replicas: the least number of replicas that a partition of theirs has.
        starts: log starts of the input topics, the repartition topics and the changelog of the totals.
        transactions: why transactions do not work; None when they do, are not needed, or it is not known.
        untried: why that is not known: the brokers were busy, or are on their way back.
        counted: whether the job's committed offsets say that it has read lines; None: there are none of the lines.
        totals: whether its changelog has totals though it has no committed offsets.
        emptied: whether nothing was ever written to it, though lines went into totals, and the output topic has some.
        succession: who takes the job's place; None: nobody.
    """

    partitions: Mapping[str, int]
    configs: Mapping[str, Mapping[str, TopicSetting]]
    replicas: Mapping[str, int] = field(default_factory=dict[str, int])
    starts: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    transactions: str | None = None
    untried: str | None = None
    counted: bool | None = False
    totals: bool = False
    emptied: bool = False
    succession: Succession | None = None

    def has_committed(self, needs: Wanted) -> bool:
        """Whether a job with totals has once committed offsets: under exactly-once in any case, both come together.

        Else records of the repartition topic were deleted: that is done behind committed offsets alone.
        """
        return needs.transactions or any(
            start > 0 for tp, start in self.starts.items() if tp.topic in needs.repartition
        )

    def value(self, topic: str, name: str) -> str:
        """The config that holds for a topic."""
        setting = self.configs.get(topic, {}).get(name)
        return "" if setting is None else setting.value

    def own(self, topic: str, name: str) -> str | None:
        """The config set on the topic itself."""
        setting = self.configs.get(topic, {}).get(name)
        return setting.value if setting is not None and setting.own else None

    def policy(self, topic: str) -> frozenset[str]:
        """The words of a topic's ``cleanup.policy``."""
        return frozenset(word.strip() for word in self.value(topic, "cleanup.policy").split(","))


def wanted(brokers: str, options: str | None, settings: Settings, streams: StreamsConfig) -> Wanted:
    """What the job of a configuration needs.

    Raises:
        ConfigException: a topic of the product has a name that an internal topic of the application may have.
    """
    application_id = str(streams["application.id"])
    for topic in (settings.lines, settings.courses, settings.output, settings.rejected):
        if topic.startswith(f"{application_id}-") and topic.endswith(("-changelog", "-repartition")):
            raise ConfigException(
                f"{topic} is the name of an internal topic of {application_id}: a rebuild or a reset would delete it."
                " Give the topic another name"
            )
    values = formats(settings.format, streams.originals())
    parts = build_topology(settings, streams.values(), values=values).build(application_id).subtopologies
    sources = {topic for part in parts for topic in part.source_changelogs}
    return Wanted(
        application_id,
        brokers,
        options,
        settings,
        frozenset(name for part in parts for name in part.repartition_topics),
        {name: topic.config for part in parts for name, topic in part.changelog_topics.items() if name not in sources},
        streams["processing.guarantee"] == "exactly_once_v2",
    )


def check(
    brokers: str, options: str | None, settings: Settings, streams: StreamsConfig, *, starting: bool = False
) -> Findings:
    """Looks at the brokers and judges. Changes nothing, but for an empty transaction that is begun by nobody.

    Args:
        brokers: ``host:port`` list.
        options: those of the commands that the findings name, see ``options.as_given``.
        settings: the product's own settings.
        streams: the application's.
        starting: whether the job starts next. Who may not see its group may not join it either, and is told so then.

    Raises:
        TimeoutException: the brokers do not answer.
        AuthorizationException: they do not tell us.
    """
    needs = wanted(brokers, options, settings, streams)
    admin = TopicAdmin(streams.admin_config(), timeout_ms=int(_TIMEOUT_S * 1000))
    try:
        seen = look(admin, needs, starting=starting)
        if seen.counted is None and needs.totals in seen.partitions:
            there = _has_records(brokers, needs.totals, streams)
            # once more, and waiting for transactions: another instance may just have committed its first one
            totals = there and not _of_lines(needs, admin.group_offsets(needs.application_id, stable=True))
            seen = replace(seen, totals=totals)
        if needs.transactions:
            seen = _try_transaction(admin, brokers, streams, seen)
    finally:
        admin.close()
    return judge(needs, seen)


def look(admin: TopicAdmin, needs: Wanted, *, starting: bool = False) -> Seen:
    """Asks the brokers about every topic that the job needs, and about its group; see ``check``."""
    settings = needs.settings
    # before the topics: an instance that starts at the same time makes its topics first, and commits then
    try:
        committed = admin.group_offsets(needs.application_id)
    except AuthorizationException:
        if not starting:
            raise
        committed = None
    topics = {*_own_topics(settings), *needs.repartition, *needs.changelogs}
    partitions = admin.partition_counts(topics)

    def of(*names: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for topic in names for number in range(partitions.get(topic, 0))]

    starts = admin.list_offsets(of(settings.lines, settings.courses, *needs.repartition, needs.totals), "earliest")
    ends = admin.list_offsets(of(needs.totals, settings.output), "latest")
    held = {tp.topic for tp, end in ends.items() if end > 0}
    read = _of_lines(needs, committed or {})
    # not by the offsets: they go past what belongs to no committed transaction, too
    summed = any(partition_time(at) >= 0 for tp, at in (committed or {}).items() if tp.topic in needs.repartition)
    return Seen(
        partitions,
        admin.topic_settings(partitions),
        admin.replication_factors(partitions),
        starts,
        # who may not see them is told so by the group
        counted=None if committed is not None and not read else any(at > starts.get(tp, 0) for tp, at in read.items()),
        emptied=summed and needs.totals in partitions and held == {settings.output},
        succession=succession(committed or {}, settings.lines),
    )


def _of_lines(needs: Wanted, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> dict[TopicPartition, int]:
    """The committed offsets of the lines; without them the job begins at the first one."""
    return {tp: at.offset for tp, at in committed.items() if tp.topic == needs.settings.lines}


def _try_transaction(admin: TopicAdmin, brokers: str, streams: StreamsConfig, seen: Seen) -> Seen:
    transactional_id = f"{streams['application.id']}-{PROBE}"
    try:
        TransactionalWriter(brokers, transactional_id, client=streams.admin_config(), timeout_s=_TIMEOUT_S).close()
    except TimeoutException as late:
        # coordinators that move or load answer later, and the job waits for them: only what waiting cannot mend refuses
        try:
            admin.check_transactions()
        except StreamsException as error:
            return replace(seen, transactions=str(error))
        return replace(seen, untried=str(late))
    except KafkaException as error:
        return replace(seen, transactions=str(error))
    return seen


def _has_records(brokers: str, topic: str, streams: StreamsConfig) -> bool:
    """Whether it has a committed record; one of a transaction that did not commit is none."""
    try:
        with TopicReader(brokers, topic, client=streams.admin_config(), timeout_s=_TIMEOUT_S) as reader:
            return any(True for _ in reader.to_end(_TIMEOUT_S))
    except AuthorizationException:
        # who only checks need not read it; the job reads it in any case
        return False


def judge(needs: Wanted, seen: Seen) -> Findings:
    """Decides. Pure."""
    return Findings(tuple(_refusals(needs, seen)), tuple(_warnings(needs, seen)))


def _own_topics(settings: Settings) -> list[str]:
    topics = [settings.lines, settings.courses, settings.output]
    return [*topics, settings.rejected] if settings.on_broken_line is OnBrokenLine.REJECT else topics


def _refusals(needs: Wanted, seen: Seen) -> Iterator[Finding]:
    settings = needs.settings
    if seen.succession is not None:
        yield _succeeded(needs, seen.succession)
    for topic in _own_topics(settings):
        if topic not in seen.partitions:
            yield Finding(f"topic {topic} does not exist", _create(needs, seen, topic))
    yield from _counts(needs, seen)
    if seen.counted:
        for topic in sorted(needs.holding - seen.partitions.keys()):
            yield Finding(
                f"{topic} is missing, though {needs.application_id} has counted lines: what it held would be in no"
                " total. Somebody deleted it, or a rebuild was cut short: stop every instance, and rebuild",
                f"course-revenue rebuild {_as_given(needs)}, first with --dry-run",
            )
    if seen.emptied:
        yield Finding(
            f"{needs.totals} is empty, though {needs.settings.output} has totals: somebody deleted it, and it was made"
            " anew. Totals would begin at zero, or fall to what local state still has: stop every instance, and"
            " rebuild",
            f"course-revenue rebuild {_as_given(needs)}, first with --dry-run",
        )
    if seen.totals and seen.has_committed(needs):
        yield Finding(
            f"{needs.application_id} has no committed offsets of {settings.lines}, but {needs.totals} has totals: it"
            " would count every line once more on top of them. The brokers forget the offsets of a job that is stopped"
            " for longer than offsets.retention.minutes, or somebody deleted them, or its group",
            f"course-revenue rebuild {_as_given(needs)}, first with --dry-run",
        )
    if settings.dedupe is Dedupe.LINE_KEY and not needs.transactions:
        yield Finding(
            "course.revenue.dedupe=line-key needs exactly_once_v2: an instance that is killed would leave lines"
            " remembered as counted that are in no total, and they would never be",
            "set processing.guarantee=exactly_once_v2, or course.revenue.dedupe=off",
        )
    for topic, made_with in sorted(needs.changelogs.items()):
        if topic in seen.partitions:
            yield from _changelog(needs, seen, topic, made_with)
    if settings.output in seen.partitions and "compact" not in seen.policy(settings.output):
        yield Finding(
            f"the output topic {settings.output} is not compacted: the total of a course that sells nothing for a while"
            " would be deleted",
            _alter(needs, settings.output, "cleanup.policy=compact"),
        )
    rejecting = settings.on_broken_line is OnBrokenLine.REJECT and settings.rejected in seen.partitions
    if rejecting and "compact" in seen.policy(settings.rejected):
        yield Finding(
            f"the rejected topic {settings.rejected} is compacted: of two lines with one key the first would be lost",
            _alter(needs, settings.rejected, "cleanup.policy=delete"),
        )
    if seen.transactions is not None:
        yield Finding(
            f"the brokers cannot do transactions, which exactly_once_v2 needs: {seen.transactions}",
            f"course-revenue acls {_as_given(needs)} --for run prints the permissions that it needs; the brokers need a"
            " transaction.state.log.replication.factor and min.isr that as many of them as there are can fulfil",
        )


def _succeeded(needs: Wanted, to: Succession) -> Finding:
    if not to.done:
        return Finding(
            f"a switch from {needs.application_id} to {to.application_id} was begun and has not ended",
            f"course-revenue rebuild {_as_given(needs)} --shadow --switch ends it",
        )
    return Finding(
        f"{to.application_id} has taken the place of {needs.application_id}: both would write to"
        f" {needs.settings.output}, and totals would fall",
        f"start the instances with the file that has application.id={to.application_id}; where the switch was cut short"
        f" and there is none, course-revenue rebuild {_as_given(needs)} --shadow --switch writes it",
    )


def _counts(needs: Wanted, seen: Seen) -> Iterator[Finding]:
    courses = needs.settings.courses
    count = seen.partitions.get(courses)
    for topic in sorted(needs.repartition | needs.changelogs.keys()):
        has = seen.partitions.get(topic)
        if count is not None and has is not None and has != count:
            yield Finding(
                f"{courses} has {count} partitions and {topic} has {has}: lines would not meet their course, nor totals"
                " their state. Another partition count is a rebuild: stop every instance, rebuild, start",
                f"course-revenue rebuild {_as_given(needs)}, first with --dry-run",
            )


def _changelog(needs: Wanted, seen: Seen, topic: str, made_with: Mapping[str, str]) -> Iterator[Finding]:
    policy, should = seen.policy(topic), made_with.get("cleanup.policy", "compact")
    if policy != frozenset(should.split(",")):
        yield Finding(
            f"changelog {topic} has cleanup.policy={seen.value(topic, 'cleanup.policy')} instead of {should}: a restore"
            " would come up short, and totals fall",
            _alter(needs, topic, f"cleanup.policy={should}"),
        )
    retention_ms, least_ms = seen.own(topic, "retention.ms"), made_with.get("retention.ms")
    if retention_ms is None:
        return
    if least_ms is None:
        yield Finding(
            f"changelog {topic} has a retention.ms of its own, {retention_ms}: state would be deleted by age",
            _alter(needs, topic, "retention.ms", delete=True),
        )
    elif 0 <= int(retention_ms) < int(least_ms):
        yield Finding(
            f"changelog {topic} has retention.ms={retention_ms}, but the store keeps rows for {least_ms}",
            _alter(needs, topic, f"retention.ms={least_ms}"),
        )


def _warnings(needs: Wanted, seen: Seen) -> Iterator[Finding]:
    lines, courses = needs.settings.lines, needs.settings.courses
    if seen.untried is not None:
        yield Finding(
            f"whether the brokers can do transactions is not known: {seen.untried}",
            "the job waits for them, up to task.timeout.ms; if this comes back, the brokers need a"
            " transaction.state.log.replication.factor and min.isr that as many of them as there are can fulfil",
        )
    if seen.totals and not seen.has_committed(needs):
        yield Finding(
            f"{needs.application_id} has no committed offsets of {lines}, but {needs.totals} has totals: lines that"
            " were counted before the first commit count once more, as at_least_once allows. It is so when the job was"
            " killed in its first seconds; had it run for longer, its offsets are lost and every line counts twice",
            f"course-revenue rebuild {_as_given(needs)}, first with --dry-run",
        )
    # compaction does not move a log's start
    cut = [tp for tp, start in sorted(seen.starts.items()) if tp.topic == needs.totals and start > 0]
    if cut:
        yield Finding(
            f"changelog {needs.totals} has lost records ({cut[0]} begins at offset {seen.starts[cut[0]]}): local state"
            " may have what they said; state that is restored does not, and totals fall",
            f"stop every instance, and course-revenue rebuild {_as_given(needs)}, first with --dry-run",
        )
    if lines in seen.partitions:
        yield from _gaps(needs, seen, lines)
    if courses in seen.partitions and seen.policy(courses) != frozenset({"compact"}):
        yield Finding(
            f"{courses} has cleanup.policy={seen.value(courses, 'cleanup.policy')}: rows of the catalog go by age, and"
            " after a rebuild the lines of their courses are flagged dimension_missing",
            _alter(needs, courses, "cleanup.policy=compact"),
        )
    output = needs.settings.output
    if output in seen.partitions and {"compact", "delete"} <= seen.policy(output):
        yield Finding(
            f"{output} is deleted from, too: readers lose the total of a course that sells nothing for a while",
            _alter(needs, output, "cleanup.policy=compact"),
        )
    has, internal = seen.partitions.get(output), sorted(needs.repartition & seen.partitions.keys())
    if has is not None and internal and has != (count := seen.partitions[internal[0]]):
        yield Finding(
            f"{output} has {has} partitions and {internal[0]} {count}: if partitions were added to it, courses that lie"
            " in another one now have an older total, too, which a reader may take for the latest",
            f"ignore this, here and at every start, when {output} was made with {has} partitions; else stop every"
            f" instance, delete {output}, make it anew, and course-revenue rebuild {_as_given(needs)}",
        )
    yield from _weaker(needs, seen)


def _gaps(needs: Wanted, seen: Seen, lines: str) -> Iterator[Finding]:
    gone = {tp: start for tp, start in seen.starts.items() if tp.topic == lines and start > 0}
    retention_ms, size = seen.value(lines, "retention.ms"), seen.value(lines, "retention.bytes")
    deletes = "delete" in seen.policy(lines)
    limits: list[str] = []
    if deletes and retention_ms not in ("", "-1"):
        limits.append(f"retention.ms={retention_ms} ({int(retention_ms) / _DAY_MS:.1f} days)")
    if deletes and size not in ("", "-1"):
        limits.append(f"retention.bytes={size}")
    if gone:
        first = min(gone)
        yield Finding(
            f"{lines} has lost its first lines (of {len(gone)} partitions; {first} begins at offset {gone[first]}): the"
            " totals have them, and a rebuild would start from that gap and come out lower",
            "before a rebuild, load what is missing from the lake; never reset without it",
        )
    if limits:
        yield Finding(
            f"{lines} keeps lines for {' and '.join(limits)} only: a rebuild later than that would start from a gap",
            _alter(needs, lines, "retention.ms=-1,retention.bytes=-1"),
        )
    if not deletes:
        yield Finding(
            f"{lines} is compacted: of two lines with one key a rebuild would see the later one only",
            _alter(needs, lines, "cleanup.policy=delete"),
        )


def _weaker(needs: Wanted, seen: Seen) -> Iterator[Finding]:
    """Changelogs are production data: no weaker than the topic that they are made of."""
    lines = needs.settings.lines
    if lines not in seen.partitions:
        return
    for topic in sorted(needs.changelogs.keys() & seen.partitions.keys()):
        if seen.replicas.get(topic, 0) < seen.replicas.get(lines, 0):
            yield Finding(
                f"changelog {topic} has {seen.replicas[topic]} replicas, {lines} has {seen.replicas[lines]}",
                f"replication.factor={seen.replicas[lines]} in the properties is for topics to come; move this one with"
                f" kafka-reassign-partitions.sh --bootstrap-server {needs.brokers}",
            )
        least = seen.value(lines, "min.insync.replicas")
        if least and int(seen.value(topic, "min.insync.replicas") or 1) < int(least):
            yield Finding(
                f"changelog {topic} has a lower min.insync.replicas than {lines}",
                _alter(needs, topic, f"min.insync.replicas={least}"),
            )


def _as_given(needs: Wanted) -> str:
    return f"--bootstrap-server {needs.brokers}" if needs.options is None else needs.options


def _create(needs: Wanted, seen: Seen, topic: str) -> str:
    """The command that makes a topic, with as many partitions as the others have."""
    counts = {seen.partitions[name] for name in _own_topics(needs.settings) if name in seen.partitions}
    if counts <= {PARTITIONS}:
        return f"course-revenue topics {_as_given(needs)}"
    if len(counts) == 1:
        return f"course-revenue topics {_as_given(needs)} --partitions {counts.pop()}"
    # the product's own command makes all of them alike
    count = seen.partitions.get(needs.settings.courses, max(counts))
    (config,) = (wanted.config for wanted in wanted_topics(needs.settings) if wanted.name == topic)
    settings = " ".join(f"--config {name}={value}" for name, value in config.items())
    return (
        f"kafka-topics.sh --bootstrap-server {needs.brokers} --create --topic {topic} --partitions {count} {settings}"
    )


def _alter(needs: Wanted, topic: str, config: str, *, delete: bool = False) -> str:
    # a value with a comma is put in brackets
    name, sign, value = config.partition("=")
    quoted = f"{name}=[{value}]" if sign and "," in value and "=" not in value else config
    return (
        f"kafka-configs.sh --bootstrap-server {needs.brokers} --alter --entity-type topics --entity-name {topic}"
        f" {'--delete-config' if delete else '--add-config'} '{quoted}'"
    )
