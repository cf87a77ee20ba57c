"""What each command needs to be allowed on brokers with ACLs, and no more, for the settings of a job.

The lists were found on a broker with ACLs: with each, its command does what it is for; without any one of its grants it
does not. Read and Write each bring Describe with them.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from course_revenue import dedupe
from course_revenue.contract import OnBrokenLine
from course_revenue.preflight import PROBE
from course_revenue.rehearsal import REHEARSAL, rehearsal_id
from course_revenue.rejected import REPLAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from course_revenue.preflight import Wanted


class Grant(NamedTuple):
    """One ACL.

    Attributes:
        operation: Kafka's name of it, such as ``Read``.
        resource: its type, as the option of ``kafka-acls.sh`` is called.
        name: the resource's, or what its name begins with.
        prefixed: whether it is for every name that begins so.
    """

    operation: str
    resource: Literal["topic", "group", "transactional-id"]
    name: str
    prefixed: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """Whose topics and group the commands are about.

    Attributes:
        needs: what the job needs of the brokers.
        makes_topics: whether it makes its internal topics, rather than finding them made.
        shadow: what its shadow needs, of which commands beside it are about.
    """

    needs: Wanted
    makes_topics: bool = True
    shadow: Wanted | None = None

    @property
    def application_id(self) -> str:
        """``application.id``."""
        return self.needs.application_id

    @property
    def internal(self) -> str:
        """What the names of its internal topics, and its transactional ids, begin with."""
        return f"{self.application_id}-"


_Grants: TypeAlias = "Iterator[Grant]"


def _topics(operations: str, *names: str) -> _Grants:
    for name in names:
        for operation in operations.split():
            yield Grant(operation, "topic", name)


def _own(job: Job) -> tuple[str, ...]:
    settings = job.needs.settings
    topics = (settings.lines, settings.courses, settings.output)
    return (*topics, settings.rejected) if settings.on_broken_line is OnBrokenLine.REJECT else topics


def _run(job: Job) -> _Grants:
    settings = job.needs.settings
    yield from _topics("Read DescribeConfigs", settings.lines, settings.courses)
    yield from _topics("Write DescribeConfigs", *_own(job)[2:])
    for operation in ("Create", "Read", "Write", "DescribeConfigs"):
        if operation != "Create" or job.makes_topics:
            yield Grant(operation, "topic", job.internal, prefixed=True)
    # records that were read are deleted; of other internal topics nothing may be
    yield from _topics("Delete", *sorted(job.needs.repartition))
    yield Grant("Read", "group", job.application_id)
    if job.needs.transactions:
        yield Grant("Write", "transactional-id", job.internal, prefixed=True)


def _check(job: Job) -> _Grants:
    yield from _topics("Describe DescribeConfigs", *_own(job))
    # whether it has counted lines, and whether another job has its place
    yield Grant("Describe", "group", job.application_id)
    yield Grant("Describe", "topic", job.internal, prefixed=True)
    yield Grant("DescribeConfigs", "topic", job.internal, prefixed=True)
    if job.needs.transactions:
        yield Grant("Write", "transactional-id", f"{job.internal}{PROBE}")


def _make_topics(job: Job) -> _Grants:
    settings = job.needs.settings
    yield from _topics("Create Describe", settings.lines, settings.courses, settings.output, settings.rejected)


def _load(job: Job) -> _Grants:
    yield from _topics("Write", job.needs.settings.lines, job.needs.settings.courses)


def _totals(job: Job) -> _Grants:
    yield from _topics("Read", job.needs.settings.output)


def _dashboard(job: Job) -> _Grants:
    yield from _totals(job)
    # where that ends which the job reads: by its own word a job that is cut off from the brokers is caught up
    yield from _topics("Describe", job.needs.settings.lines, job.needs.settings.courses, *sorted(job.needs.repartition))


def _reconcile(job: Job) -> _Grants:
    # at a cut of the running job: its offsets, and which transactions are open
    settings = job.needs.settings
    yield from _topics("Read", settings.lines, settings.output, settings.rejected, *sorted(job.needs.repartition))
    yield Grant("Describe", "group", job.application_id)
    if job.needs.transactions:
        yield Grant("Describe", "transactional-id", job.internal, prefixed=True)


def _rejected_list(job: Job) -> _Grants:
    yield from _topics("Read", job.needs.settings.rejected)


def _rejected_replay(job: Job) -> _Grants:
    yield from _topics("Read Write", job.needs.settings.rejected)
    yield from _topics("Write", job.needs.settings.lines)
    yield Grant("Write", "transactional-id", f"{job.internal}{REPLAY}")


def _reset(job: Job) -> _Grants:
    settings = job.needs.settings
    yield from _topics("Read", settings.lines, settings.courses)
    yield from _topics("Delete", *sorted({*job.needs.repartition, *job.needs.changelogs}))
    yield Grant("Read", "group", job.application_id)
    yield Grant("Delete", "group", job.application_id)


def _rebuild(job: Job) -> _Grants:
    # resets, runs an instance of the command's own, and compares
    yield from _run(job)
    yield from _reset(job)
    # what may be left of a time when lines were deduped
    yield from _topics("Delete", f"{job.internal}{dedupe.STORE}-changelog")
    # a mark, where it has lines, by which replays are ended
    yield from _topics("Write", job.needs.settings.rejected)
    yield Grant("Write", "transactional-id", f"{job.internal}{REPLAY}")
    yield from _reconcile(job)


def _shadow(job: Job) -> _Grants:
    # an instance of the command's own under the other application id; both jobs are compared with the input
    assert job.shadow is not None
    beside = Job(job.shadow, job.makes_topics)
    yield from _run(beside)
    yield from _topics("Create", *_own(beside)[2:])
    yield from _reconcile(beside)
    yield from _reconcile(job)


def _switch(job: Job) -> _Grants:
    # totals and lines go where the job's are, and the job is marked as given up
    assert job.shadow is not None
    yield from _shadow(job)
    yield from _topics("Delete", *_own(Job(job.shadow))[2:])
    yield from _topics("Write", job.needs.settings.output, job.needs.settings.rejected)
    yield Grant("Read", "group", job.application_id)
    yield Grant("Write", "transactional-id", f"{job.internal}{REPLAY}")


def _rehearse(job: Job) -> _Grants:
    # on named brokers: topics and an application id that are made up anew each time
    own = ("Create", "Read", "Write", "Delete", "DescribeConfigs")
    for name in (f"{REHEARSAL}-", f"{rehearsal_id(REHEARSAL)}-"):
        yield from (Grant(operation, "topic", name, prefixed=True) for operation in own)
    for operation in ("Read", "Delete"):
        yield Grant(operation, "group", f"{rehearsal_id(REHEARSAL)}-", prefixed=True)
    if job.needs.transactions:
        yield Grant("Write", "transactional-id", f"{rehearsal_id(REHEARSAL)}-", prefixed=True)


_COMMANDS: Final[dict[str, Callable[[Job], _Grants]]] = {
    "run": _run,
    "check": _check,
    "topics": _make_topics,
    "load": _load,
    "totals": _totals,
    "dashboard": _dashboard,
    "lake": _totals,
    "reconcile": _reconcile,
    "rejected list": _rejected_list,
    "rejected replay": _rejected_replay,
    # an instance of the command's own may run up to the record
    "skip-record": _run,
    "reset": _reset,
    "rebuild": _rebuild,
    "rebuild --shadow": _shadow,
    "rebuild --shadow --switch": _switch,
    "rehearse": _rehearse,
}

COMMANDS: Final = tuple(_COMMANDS)
"""The commands that there are lists for; ``reset`` is ``headrace reset``."""


def grants(command: str, job: Job) -> tuple[Grant, ...]:
    """What a command needs, each once; of the job's shadow, too, where the command has one (``job.shadow``).

    Raises:
        KeyError: there is no such command.
    """
    return tuple(dict.fromkeys(_COMMANDS[command](job)))


def script(
    wanted: Iterable[Grant], *, brokers: str, principal: str, command_config: str | None = None, remove: bool = False
) -> list[str]:
    """The ``kafka-acls.sh`` commands that allow it, one for each resource.

    Args:
        wanted: what is to be allowed.
        brokers: ``host:port`` list.
        principal: whom, such as ``User:course-revenue``.
        command_config: a file with the connection of whoever may change ACLs.
        remove: take the ACLs away instead.
    """
    at = f"kafka-acls.sh --bootstrap-server {brokers}"
    at += f" --command-config {shlex.quote(command_config)}" if command_config else ""
    how = f"{'--remove --force' if remove else '--add'} --allow-principal {shlex.quote(principal)}"
    lines: list[str] = []
    for (resource, name, prefixed), same in groupby(_by_resource(wanted), lambda grant: grant[1:]):
        operations = " ".join(f"--operation {grant.operation}" for grant in same)
        kind = " --resource-pattern-type prefixed" if prefixed else ""
        lines.append(f"{at} {how} {operations} --{resource} {name}{kind}")
    return lines


def _by_resource(wanted: Iterable[Grant]) -> list[Grant]:
    found = list(dict.fromkeys(wanted))
    order = list(dict.fromkeys(grant[1:] for grant in found))
    return sorted(found, key=lambda grant: order.index(grant[1:]))
