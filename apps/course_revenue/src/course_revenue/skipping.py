"""Moving the job past one poison record, with a written adjustment.

The last resort: the record is in no total afterwards. Everything is looked at first; then the adjustment is written,
then the offset is moved. Killed in between, the same command does the rest.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from course_revenue.adjustments import Adjustment, digest, record
from course_revenue.errors import RefusedError
from course_revenue.settings import COMMIT_BEFORE, WAIT_AT_BROKEN
from headrace import TopicPartition
from headrace.errors import TimeoutException
from headrace.records import OffsetAndMetadata
from headrace.topics import TopicAdmin, TopicReader

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from course_revenue.headers import Place
    from course_revenue.jobs import JobProcess
    from course_revenue.options import Target
    from headrace.topics import TopicRecord

_LOOK_S: Final = 0.25
_COMMIT_MS: Final = 200
_WAIT_MS: Final = 30_000
"""How long an instance goes on while one of its tasks waits at another record."""


class NotNextError(RefusedError):
    """The job has not come as far as the record."""


@dataclass(frozen=True, slots=True)
class SkipRequest:
    """Which record to move past, and why.

    ``readable`` are the topics that the job reads. ``again`` is the adjustment by which it was passed before: the
    record must be the same, or another one would be passed unseen.
    """

    application_id: str
    place: Place
    reason: str
    by: str
    readable: Collection[str]
    again: Adjustment | None = None


def skip(
    bootstrap_servers: str,
    request: SkipRequest,
    file: Path,
    *,
    dry_run: bool = False,
    client: Mapping[str, Any] | None = None,
    timeout_s: float = 60.0,
) -> Adjustment:
    """Moves the job past a record.

    Args:
        bootstrap_servers: ``host:port`` list.
        request: what to do.
        file: where the adjustment is written.
        dry_run: only look.
        client: more librdkafka settings, such as security.
        timeout_s: of each wait for the brokers, in seconds.

    Returns:
        The adjustment that was, or would be, written.

    Raises:
        NotNextError: records lie before it that are not counted. Nothing was changed.
        RefusedError: instances are running, the job is past the record, there is none, or no such partition. Nothing
            was changed.
        MissingSourceTopicException: there is no such topic.
        TimeoutException: the brokers do not answer, or a transaction that moves offsets stays open.
        StreamsException: the offset could not be moved, as when an instance was started meanwhile. The adjustment may
            be written by then: the same command goes on from there.
    """
    place = request.place
    if place.topic not in request.readable:
        raise RefusedError(f"the job does not read {place.topic}: it reads {', '.join(sorted(request.readable))}")
    partition = TopicPartition(place.topic, place.partition)
    admin = TopicAdmin({**(client or {}), "bootstrap.servers": bootstrap_servers}, timeout_ms=int(timeout_s * 1000))
    try:
        group = admin.describe_group(request.application_id)
        if group.active:
            raise RefusedError(
                f"group {request.application_id} has live members (state {group.state}): stop every instance first"
            )
        _look_for(admin, place)
        # an offset inside an unfinished transaction could still replace the one that is set here
        committed = admin.group_offsets(request.application_id, stable=True) if group.type is not None else {}
        before = committed.get(partition)
        start = before.offset if before is not None else _log_start(admin, partition)
        if start > place.offset:
            raise RefusedError(f"the job is past it already: its offset in {partition} is {start}")
        found = _next_record(bootstrap_servers, place, start, client, timeout_s)
        if found is None or found.offset != place.offset:
            stands = "no record" if found is None else f"the record at offset {found.offset}"
            raise NotNextError(
                f"the job stands before {stands} of {partition}, not before offset {place.offset}: only the record that"
                " stops it can be skipped"
            )
        adjustment = Adjustment(
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            by=request.by,
            application_id=request.application_id,
            topic=place.topic,
            partition=place.partition,
            offset=place.offset,
            reason=request.reason,
            sha256=digest(found.value),
        )
        if request.again is not None and request.again.sha256 != adjustment.sha256:
            raise RefusedError(f"{place} is not the record that was skipped before: skip it by hand, if it has to be")
        if not dry_run:
            record(file, adjustment)
            # the metadata is the task's stream time: it goes on from there
            metadata = "" if before is None else before.metadata
            admin.alter_group_offsets(
                request.application_id, {partition: OffsetAndMetadata(place.offset + 1, metadata)}
            )
        return adjustment
    finally:
        admin.close()


def _look_for(admin: TopicAdmin, place: Place) -> None:
    """Refuses a place behind the end of its partition: an instance would wait for the record that comes there."""
    count = admin.partition_counts([place.topic]).get(place.topic)
    if count is None:
        return  # the reader says that there is none
    if place.partition >= count:
        raise RefusedError(f"{place.topic} has {count} partitions, and no partition {place.partition}")
    partition = TopicPartition(place.topic, place.partition)
    end = admin.list_offsets([partition], "latest")[partition]
    if place.offset >= end:
        raise RefusedError(f"there is no record at offset {place.offset} of {partition}: it ends at {end}")


def _log_start(admin: TopicAdmin, partition: TopicPartition) -> int:
    if partition.topic not in admin.partition_counts([partition.topic]):
        return 0  # the reader says that there is none
    return admin.list_offsets([partition], "earliest")[partition]


def _next_record(
    bootstrap_servers: str, place: Place, start: int, client: Mapping[str, Any] | None, timeout_s: float
) -> TopicRecord | None:
    """The first record from ``start`` on, None when there is none up to the record that is meant."""
    at = {place.partition: start}
    with TopicReader(bootstrap_servers, place.topic, client=client, timeout_s=timeout_s, start=at) as reader:
        deadline = time.monotonic() + timeout_s
        while reader.positions()[place.partition] <= place.offset:
            for found in reader.poll():
                return found
            if reader.has_reached(reader.written_ends()):
                return None
            if time.monotonic() > deadline:
                raise TimeoutException(f"{place} cannot be read within {timeout_s} s: is a transaction open before it?")
    return None


def stepping(at: Target, place: Place) -> list[str]:
    """The settings of an instance that is to come to a record that stops the job, and no further."""
    # a job that passes over what does not decode never waits for it either
    waits = [f"{WAIT_AT_BROKEN}=true"] if at.stops_at_undecodable else []
    return [*waits, f"{COMMIT_BEFORE}={place}", f"task.timeout.ms={_WAIT_MS}", f"commit.interval.ms={_COMMIT_MS}"]


def bring_before(instance: JobProcess, request: SkipRequest, at: Target, *, timeout_s: float = 3600.0) -> None:
    """Runs an instance until the record has stopped it, so that everything before the record is counted.

    It is not ended when it stands before the record: that it does not get past it is known only when it ends by itself,
    at once or after ``task.timeout.ms``. When another record ends it before, it is started again, as long as it comes
    nearer.

    Args:
        instance: with the settings of ``stepping``; it has ended when this returns.
        request: which record.
        at: the brokers.
        timeout_s: longest wait, in seconds.

    Raises:
        RefusedError: the record does not stop the job: it is past it now.
        TimeoutException: the job is not there after so long.
    """
    place = request.place
    partition = TopicPartition(place.topic, place.partition)
    admin = TopicAdmin(at.streams_config.admin_config())
    deadline = time.monotonic() + timeout_s

    def committed() -> int:
        entry = admin.group_offsets(request.application_id).get(partition)
        return -1 if entry is None else entry.offset

    try:
        here, before = committed(), None
        while here < place.offset and here != before:
            before = here
            with instance:
                while here <= place.offset and instance.pid is not None:
                    time.sleep(_LOOK_S)
                    here = committed()
                    if time.monotonic() > deadline:
                        raise TimeoutException(f"the job does not come to {place} within {timeout_s:.0f} s")
            here = committed()
        if here > place.offset:
            raise RefusedError(f"{place} does not stop the job: it is counted, and nothing was skipped")
    finally:
        admin.close()
