"""The rejected topic: which lines lie in it, and sending some of them in again.

The topic itself knows what was replayed. The transaction that sends a line to the input topic writes a mark into the
line's partition of the rejected topic too: a record with neither key nor value, and the line's offset as a header. So a
line is in the input again if, and only if, it is marked. Committed offsets could only say that all up to some place is
done, but lines are chosen by place or reason; and the input topic may have lost what was replayed, while a mark lies
behind its line and retention deletes from the front, so that it goes no sooner than the line.

Another kind of mark, one in each partition, says that the totals were begun anew (a rebuild, a switch): lines before it
may be counted now, by a release that finds nothing wrong with them, or were rejected once more, behind it. So none of
them is replayed, but those that the input did not hold any more when the totals were begun, which the mark says.

Replays of an application share one transactional id, by which rebuilds and switches write their marks, too. A second
one ends the first one's transaction before it reads, and then reads up to what any transaction has written, so it sees
the marks of all that ever will be visible.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from course_revenue import headers
from course_revenue.contract import REASONS, BrokenLineError, check
from course_revenue.errors import RefusedError
from headrace.errors import SerializationException, TaskMigratedException
from headrace.records import TopicPartition
from headrace.topics import TopicReader, TransactionalWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from course_revenue.headers import Place
    from course_revenue.model import PurchaseLine
    from course_revenue.settings import Settings
    from headrace.topics import TopicAdmin, TopicRecord, TopicWriter

REPLAY: Final = "rejected-replay"
"""Behind the application id and a hyphen: the transactional id of replays, and of the marks that end them."""

_SHOWN: Final = 5


class RejectedLine(NamedTuple):
    """A record of the rejected topic.

    ``source`` is where it lay in the input, None where its headers do not say. ``read_again``: totals that were begun
    anew after it was rejected have counted it, or it was rejected once more.
    """

    record: TopicRecord
    reason: str
    source: Place | None
    replayed: bool
    read_again: bool

    @property
    def place(self) -> tuple[int, int]:
        """Partition and offset in the rejected topic."""
        return self.record.partition, self.record.offset


@dataclass(frozen=True, slots=True)
class Selection:
    """Which lines to replay: of those not replayed yet all, those of some reasons, or those at some places.

    ``places`` are partitions and offsets of the rejected topic. ``leave_broken``: those that are broken still are left
    out, and else they refuse the whole.
    """

    reasons: frozenset[str] = frozenset()
    places: frozenset[tuple[int, int]] = frozenset()
    leave_broken: bool = False


def rejected_lines(records: Iterable[TopicRecord]) -> list[RejectedLine]:
    """The rejected lines among the records of the topic, by partition and offset, with what the marks say of them.

    A rebuild rejects a line once more: it lies here twice then, and once either is replayed, both are.
    """
    found: list[TopicRecord] = []
    replayed: set[tuple[int, int]] = set()
    marks: dict[int, TopicRecord] = {}
    for record in records:
        # a line that was rejected again has the headers of its replay, too
        if headers.text(record, headers.REASON) is not None:
            found.append(record)
        elif (offset := headers.number(record, headers.REPLAYED_OFFSET)) is not None:
            replayed.add((record.partition, offset))
        elif headers.text(record, headers.REBUILT) is not None:
            last = marks.get(record.partition)
            marks[record.partition] = record if last is None or last.offset < record.offset else last
    found.sort(key=lambda record: (record.partition, record.offset))
    sent_in = {headers.source(record) for record in found if (record.partition, record.offset) in replayed} - {None}
    return [
        RejectedLine(
            record,
            headers.text(record, headers.REASON) or "",
            source := headers.source(record),
            (record.partition, record.offset) in replayed or source in sent_in,
            (mark := marks.get(record.partition)) is not None and _read_again(record, source, mark),
        )
        for record in found
    ]


def _read_again(record: TopicRecord, source: Place | None, mark: TopicRecord) -> bool:
    if record.offset > mark.offset:
        return False
    return source is None or not any(
        (begin.topic, begin.partition) == (source.topic, source.partition) and source.offset < begin.offset
        for begin in headers.places(mark, headers.REBUILT_WITHOUT)
    )


class SinceRebuilt(NamedTuple):
    """The lines that a job has rejected since its totals were begun.

    ``marks`` has the application id of the last mark, by partition.
    """

    lines: list[TopicRecord]
    marks: dict[int, str]


def since_rebuilt(records: Iterable[TopicRecord]) -> SinceRebuilt:
    """Of the records of the topic, those of each partition in their order, the lines behind the last marks."""
    lines: dict[int, list[TopicRecord]] = {}
    marks: dict[int, str] = {}
    for record in records:
        if headers.text(record, headers.REASON) is not None:
            lines.setdefault(record.partition, []).append(record)
        elif (application_id := headers.text(record, headers.REBUILT)) is not None:
            lines.pop(record.partition, None)
            marks[record.partition] = application_id
    return SinceRebuilt([record for partition in sorted(lines) for record in lines[partition]], marks)


def ever_held(admin: TopicAdmin, topic: str, partitions: int) -> bool:
    """Whether the topic has, or had, a record: without a mark nobody can say whose lines its retention has taken."""
    ends = admin.list_offsets([TopicPartition(topic, number) for number in range(partitions)], "latest")
    return any(end > 0 for end in ends.values())


@contextlib.contextmanager
def only_writer(
    bootstrap_servers: str, application_id: str, *, client: Mapping[str, Any] | None = None, timeout_s: float = 60.0
) -> Generator[TransactionalWriter]:
    """What replays send with, and those write their marks with that end them. Commits at the end of the block.

    Raises:
        RefusedError: another one was opened for the application meanwhile. Nothing was sent.
        TimeoutException: the brokers do not answer. Should it come with the commit, nobody knows yet what was sent.
    """
    transactional_id = f"{application_id}-{REPLAY}"
    try:
        with TransactionalWriter(bootstrap_servers, transactional_id, client=client, timeout_s=timeout_s) as writer:
            yield writer
    except TaskMigratedException as error:
        raise RefusedError(
            f"a replay of rejected lines, a rebuild or a switch of {application_id} was begun meanwhile, or the"
            " transaction outlived its time: nothing was sent. Give this command again when no other goes on"
        ) from error


def mark_rebuilt(
    writer: TopicWriter | TransactionalWriter,
    topic: str,
    partitions: int,
    application_id: str,
    begins: Iterable[Place] = (),
) -> None:
    """Marks that the totals of an application are begun anew.

    Args:
        writer: to the brokers.
        topic: the rejected topic.
        partitions: how many it has.
        application_id: whose totals.
        begins: where the input begins, of each partition that has lost its first lines: they are not read again.
    """
    without = [(headers.REBUILT_WITHOUT, str(place).encode()) for place in begins]
    for partition in range(partitions):
        mark = [(headers.REBUILT, application_id.encode()), *without]
        writer.send(topic, None, None, headers=[*mark], partition=partition)


def read_rejected(
    bootstrap_servers: str,
    settings: Settings,
    *,
    all_written: bool = False,
    client: Mapping[str, Any] | None = None,
    timeout_s: float = 60.0,
) -> list[RejectedLine]:
    """The lines of the rejected topic up to its present end.

    Args:
        bootstrap_servers: ``host:port`` list.
        settings: the topic's name.
        all_written: wait for transactions that are open now, as those of a job that goes on.
        client: more librdkafka settings, such as security.
        timeout_s: longest wait without progress, in seconds.

    Raises:
        MissingSourceTopicException: the topic does not exist.
        TimeoutException: the brokers do not answer, or a transaction stays open.
    """
    with TopicReader(bootstrap_servers, settings.rejected, client=client, timeout_s=timeout_s) as reader:
        return rejected_lines(reader.to_end(ends=reader.written_ends() if all_written else None))


class Chosen(NamedTuple):
    """The lines to replay, how many others were read again since they were rejected, and the reasons in the topic.

    ``broken`` is how many are broken still, by why.
    """

    lines: list[RejectedLine]
    read_again: int
    reasons: frozenset[str]
    broken: Mapping[str, int]


def choose(
    lines: Iterable[RejectedLine], selection: Selection, decode: Callable[[TopicRecord], PurchaseLine | None]
) -> Chosen:
    """The lines to replay.

    Args:
        lines: all of the topic. Of those that were rejected more than once from one place in the input, one is chosen,
            and none of those that were read again: they would count twice.
        selection: which of them.
        decode: gives a record's line; for checking that it keeps the contract now.

    Raises:
        RefusedError: a place has no rejected line, or one that was replayed already or read again; no rule has a
            reason, and no line; or a line is broken still and is not to be left out: replayed, it would be rejected
            again, or stop the job.
    """
    known = {line.place: line for line in lines}
    for place in sorted(selection.places):
        _may_be_replayed(place, known.get(place))
    reasons = frozenset(line.reason for line in known.values())
    unknown = sorted(selection.reasons - reasons - REASONS)
    if unknown:
        raise RefusedError(
            f"no line was rejected for {', '.join(unknown)}, and no rule has that name. In the topic are:"
            f" {', '.join(sorted(reasons)) or 'none'}. The rules are: {', '.join(sorted(REASONS))}"
        )
    chosen: list[RejectedLine] = []
    sources: set[Place] = set()
    left_out: set[Place | tuple[int, int]] = set()
    for line in known.values():
        wanted = (line.place in selection.places or not selection.places) and (
            line.reason in selection.reasons or not selection.reasons
        )
        if not wanted or line.replayed or line.source in sources:
            continue
        if line.read_again:
            left_out.add(line.source or line.place)
            continue
        chosen.append(line)
        if line.source is not None:
            sources.add(line.source)
    judged = [(line, _still_broken(line, decode)) for line in chosen]
    broken = [(line, why) for line, why in judged if why is not None]
    if broken and not selection.leave_broken:
        some = "; ".join(f"{_named(line.place)} ({why})" for line, why in broken[:_SHOWN])
        more = f" and {len(broken) - _SHOWN} more" if len(broken) > _SHOWN else ""
        raise RefusedError(
            f"{len(broken)} of {len(chosen)} lines still break the contract of this release: {some}{more}. Replayed,"
            " they would be rejected again, or stop the job: --leave-broken replays the others"
        )
    kept = [line for line, why in judged if why is None]
    return Chosen(kept, len(left_out - sources), reasons, Counter(why for _, why in broken))


def _may_be_replayed(place: tuple[int, int], line: RejectedLine | None) -> None:
    if line is None:
        raise RefusedError(f"there is no rejected line at {_named(place)}: course-revenue rejected list shows them")
    if line.replayed:
        raise RefusedError(f"the line at {_named(place)} was replayed already")
    if line.read_again:
        raise RefusedError(
            f"the line at {_named(place)} was rejected before the totals were begun anew (a rebuild, a switch), which"
            " has read it again: it is counted, or rejected once more behind it. Replayed, it would count twice"
        )


def replay(
    bootstrap_servers: str,
    settings: Settings,
    application_id: str,
    selection: Selection,
    decode: Callable[[TopicRecord], PurchaseLine | None],
    *,
    by: str,
    dry_run: bool = False,
    client: Mapping[str, Any] | None = None,
    timeout_s: float = 60.0,
) -> Chosen:
    """Sends rejected lines to the input topic again, all of them in one transaction.

    Key, value, timestamp, partition and the producer's own headers are those that the line had; more headers say where
    it was rejected and taken from.

    Args:
        bootstrap_servers: ``host:port`` list.
        settings: the topics' names.
        application_id: the job's.
        selection: which lines.
        decode: see ``choose``.
        by: who asks for it; kept with the mark.
        dry_run: only say which lines it would be.
        client: more librdkafka settings, such as security.
        timeout_s: longest wait for the brokers without progress, in seconds.

    Returns:
        The lines that were, or would be, sent, and what was left out.

    Raises:
        RefusedError: see ``choose`` and ``only_writer``. Nothing was sent.
        TimeoutException: the brokers do not answer, or a transaction stays open. Should it come with the commit, the
            list shows whether the lines were replayed.
    """
    if dry_run:
        return choose(read_rejected(bootstrap_servers, settings, client=client, timeout_s=timeout_s), selection, decode)
    with only_writer(bootstrap_servers, application_id, client=client, timeout_s=timeout_s) as writer:
        lines = read_rejected(bootstrap_servers, settings, all_written=True, client=client, timeout_s=timeout_s)
        chosen = choose(lines, selection, decode)
        for line in chosen.lines:
            record = line.record
            taken_from = [
                (headers.REPLAYED_PARTITION, str(record.partition).encode()),
                (headers.REPLAYED_OFFSET, str(record.offset).encode()),
            ]
            source = [] if line.source is None else headers.source_headers(line.source)
            writer.send(
                settings.lines,
                record.key,
                record.value,
                timestamp_ms=record.timestamp,
                headers=[*headers.producers_own(record.headers), *source, *taken_from],
                partition=line.source.partition if line.source and line.source.topic == settings.lines else None,
            )
            mark = [*taken_from, (headers.REPLAYED_BY, by.encode())]
            writer.send(settings.rejected, None, None, headers=[*mark], partition=record.partition)
    return chosen


def _still_broken(line: RejectedLine, decode: Callable[[TopicRecord], PurchaseLine | None]) -> str | None:
    try:
        check(decode(line.record))
    except BrokenLineError as broken:
        return broken.reason
    except SerializationException:
        return "undecodable"
    return None


def _named(place: tuple[int, int]) -> str:
    return f"{place[0]}:{place[1]}"
