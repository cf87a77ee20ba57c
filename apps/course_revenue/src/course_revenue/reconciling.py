"""Reconciling a job with its input at a consistent cut: SQL over the input = totals + lines in the repartition topic.

The totals are read up to now before the cut, so that only a moment's records are left to read behind it: what is read
long after a cut could have been compacted away. The input is read last; it only grows. Where the job has purged the
repartition topic meanwhile, the next cut is taken.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from course_revenue import headers, postgres, preflight
from course_revenue.adjustments import read_adjustments, skipped
from course_revenue.checks import InputSums, Reconciliation, reconcile
from course_revenue.cut import Cut, JobTopics, take_cut
from course_revenue.errors import NoCutError
from course_revenue.ledger import Ledger
from course_revenue.model import PurchaseLine
from course_revenue.rejected import since_rebuilt
from course_revenue.settings import Dedupe, Settings
from course_revenue.totals import open_totals
from headrace.errors import ConfigException
from headrace.records import TopicPartition
from headrace.serdes import JsonDeserializer
from headrace.topics import TopicAdmin, TopicReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from course_revenue.formats import Formats
    from course_revenue.model import Revenue
    from course_revenue.options import Target
    from headrace.topics import TopicRecord

_TRIES: Final = 5
_TELL_EVERY: Final = 10_000


@dataclass(frozen=True, slots=True)
class Landed:
    """A PostgreSQL table of lines: how to reach it, and its name, with a schema or without."""

    dsn: str
    table: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found.

    ``begins`` has the partitions of the input whose first records are gone, and where they begin; ``rejected_begins``
    those of the rejected topic that have lost lines which the job has rejected.
    """

    topics: JobTopics
    cut: Cut
    comparison: Reconciliation
    begins: Mapping[int, int]
    rejected_begins: Mapping[int, int]


def reconcile_job(
    at: Target,
    *,
    timeout_s: float,
    landed: Landed | None = None,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> Outcome:
    """Takes a cut of a job, running or not, and compares both sides of it.

    Args:
        at: the job's brokers and settings.
        timeout_s: how long to look for a cut, and the longest wait for the brokers without progress, in seconds.
        landed: a table that takes the input's place on the SQL side.
        tell: told now and then how many records of how many were read.

    Raises:
        NoCutError: there was no quiet moment in time; the message says what to do.
        MissingSourceTopicException: the lines topic or the output topic does not exist.
        TimeoutException: the brokers do not answer.
        ConfigException: the table cannot be read.
    """
    topics = job_topics(at)
    admin = TopicAdmin({**at.client, "bootstrap.servers": at.brokers})
    try:
        return _Reconciling(at, topics, admin, timeout_s).run(landed, tell)
    finally:
        admin.close()


def job_topics(at: Target) -> JobTopics:
    """The topics that a cut of the job goes through."""
    settings, streams = at.settings, at.streams_config
    application_id = at.application_id
    needs = preflight.wanted(at.brokers, None, settings, streams)
    (repartition,) = needs.repartition
    return JobTopics(
        application_id, settings.lines, repartition, settings.output, settings.rejected, needs.transactions
    )


class _Reconciling:
    """The steps, and what they share."""

    def __init__(self, at: Target, topics: JobTopics, admin: TopicAdmin, timeout_s: float) -> None:
        self._at = at
        self._settings: Settings = at.settings
        self._values: Formats = at.values
        self._topics = topics
        self._admin = admin
        self._timeout_s = timeout_s

    def run(self, landed: Landed | None, tell: Callable[[int, int], None]) -> Outcome:
        known = read_adjustments(Path(self._settings.adjustments))
        decode = self._values.decode_line(self._topics.lines)
        with (
            Ledger(decode, skipped(known, self._settings, self._topics.application_id)) as ledger,
            self._reader(self._topics.lines) as lines,
        ):
            cut, totals, flight = self._cut()
            ledger.add_flight(flight)
            begins = {partition: start for partition, start in lines.positions().items() if start > 0}
            rejected_begins = self._read_rejected(ledger, cut)
            if landed is not None:
                _take_in(landed, ledger)
            # a table may be ahead of the cut: its lines are looked for behind it, too
            ends = cut.lines if landed is None else {p: max(end, cut.lines[p]) for p, end in lines.ends().items()}
            total = sum(max(0, end - begins.get(partition, 0)) for partition, end in ends.items())
            ledger.add_lines(_counted(lines.up_to(ends, self._timeout_s), total, tell), cut.lines)
            if self._settings.dedupe is Dedupe.LINE_KEY and cut.repartition:
                ledger.leave_out_repeats(self._settings.dedupe_retention_ms, len(cut.repartition))
            strict = self._at.stops_at_undecodable
            sums = InputSums(*ledger.sums(all_rejected=not rejected_begins, lost_undecodable=strict))
            if landed is not None:
                sums = InputSums(sums.courses, sums.fates, *ledger.landed())
        return Outcome(self._topics, cut, reconcile(sums, totals), begins, rejected_begins)

    def _cut(self) -> tuple[Cut, Mapping[str, Revenue], list[PurchaseLine]]:
        """A cut, the totals of it, and the lines of the repartition topic that are under way in it."""
        at = self._at
        with open_totals(at.brokers, self._settings, client=at.client, values=self._values) as table:
            table.read_to_end(self._timeout_s)
            for _ in range(_TRIES):
                cut = take_cut(self._admin, self._topics, self._timeout_s)
                table.read_up_to(cut.output, self._timeout_s)
                flight = self._flight(cut)
                if flight is not None:
                    return cut, dict(table.values), flight
        raise NoCutError(
            f"{self._topics.repartition} was purged {_TRIES} times before it was read: raise"
            " repartition.purge.interval.ms of the job (30000 is the default), or stop the instances"
        )

    def _flight(self, cut: Cut) -> list[PurchaseLine] | None:
        """The lines between the committed offsets and the ends; None when the job has purged some of them by now."""
        start = {p: at for p, at in cut.repartition.items() if at < cut.repartition_ends[p]}
        if not start:
            return []
        topic = self._topics.repartition
        decode = JsonDeserializer(PurchaseLine).bind(topic)
        ends = {partition: cut.repartition_ends[partition] for partition in start}
        with self._reader(topic, start) as reader:
            found = [decode(record.value) for record in reader.up_to(ends, self._timeout_s) if record.value is not None]
        begins = self._admin.list_offsets([TopicPartition(topic, partition) for partition in start], "earliest")
        return found if all(begins[TopicPartition(topic, p)] <= at for p, at in start.items()) else None

    def _read_rejected(self, ledger: Ledger, cut: Cut) -> dict[int, int]:
        """Takes in what the job has rejected; where partitions begin that may have lost some of it."""
        if not cut.rejected:
            return {}
        with self._reader(self._topics.rejected) as reader:
            begins = reader.positions()
            found = since_rebuilt(reader.up_to(cut.rejected, self._timeout_s))
        places = (headers.source(record) for record in found.lines)
        ledger.add_rejected(
            (place.partition, place.offset)
            for place in places
            if place is not None and place.topic == self._topics.lines
        )
        return {partition: start for partition, start in begins.items() if start > 0 and partition not in found.marks}

    def _reader(self, topic: str, start: Mapping[int, int] | None = None) -> TopicReader:
        at = self._at
        return TopicReader(at.brokers, topic, client=at.client, timeout_s=self._timeout_s, start=start)


def _take_in(landed: Landed, ledger: Ledger) -> None:
    with tempfile.TemporaryDirectory(prefix="course-revenue-") as directory:
        file = Path(directory) / "lines.csv"
        if not postgres.export_lines(landed.dsn, landed.table, file):
            raise ConfigException(
                f"table {landed.table} has no rows: every line would be one that it does not have yet. Look whether it"
                " is the right one, and whether its import worked"
            )
        ledger.add_landed(file)


def _counted(records: Iterable[TopicRecord], total: int, tell: Callable[[int, int], None]) -> Iterator[TopicRecord]:
    for done, record in enumerate(records, 1):
        if done % _TELL_EVERY == 0:
            tell(done, total)
        yield record
    tell(total, total)
