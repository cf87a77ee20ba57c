"""The application reset tool: brings an application id back to its start, and touches nothing of any other id.

Three steps that can be read apart: ``look`` asks the brokers, ``plan_reset`` decides (pure), ``carry_out`` acts.
Unlike the Java tool a dry run changes nothing at all, groups of every protocol count as active, and no topic is
deleted on the strength of its name alone when that name could be another application's. Source of the rules:
``kafka.tools.StreamsResetter`` (4.4).

Local state is not the brokers': a store whose changelog topic was deleted drops its rows by itself at the next start.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from headrace.errors import ConfigException, IllegalStateException, TimeoutException
from headrace.records import OffsetAndMetadata, TopicPartition
from headrace.tools.reset_offsets import AtTime, Positions, plan_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headrace.kafka import GroupDescription, TopicAdmin
    from headrace.tools.reset_offsets import ResetTo
    from headrace.topology import Topology

_INTERNAL_SUFFIX: Final = re.compile(
    r"-(changelog|repartition|subscription-registration-topic|subscription-response-topic)$"
    r"|-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic$"
)
_GENERATED_NAME: Final = re.compile(r"(KSTREAM|KTABLE)-[A-Z-]+-\d{10}|[^-]+-STATE-STORE-\d{10}")
_MEMBERS_GONE_S: Final = 30.0
_FORGOTTEN_S: Final = 60.0
_LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class ResetRequest:
    """What is asked for.

    ``internal_topics`` are the full names of the application's internal topics, when its topology is known; None means
    that they are told by their names. ``force`` removes members first, such as those of killed instances, which stay
    until their sessions run out. An instance that still lives would join again: stop it before. ``uncommitted`` is
    where the application begins when nothing is committed, see ``plan_offsets``.
    """

    application_id: str
    input_topics: tuple[str, ...] = ()
    to: ResetTo = "earliest"
    internal_topics: frozenset[str] | None = None
    force: bool = False
    uncommitted: Literal["earliest", "latest"] | None = "earliest"


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What the brokers said."""

    topics: frozenset[str]
    group: GroupDescription
    group_ids: frozenset[str]
    positions: Positions


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """What would be done, and why not.

    ``offsets`` are committed for the input topics; ``forget`` are partitions of deleted topics whose committed offsets
    go with them; ``delete`` are topics; ``kept`` are topics that look internal but could be another application's, with
    the reason. A streams group goes as a whole (``delete_group``), since it keeps its topology, and ``keep`` is what of
    its committed offsets is set again. ``notes`` say where an offset is not the one that was asked for. ``refusals``
    are why nothing may be done (empty: it may).
    """

    application_id: str
    offsets: Mapping[TopicPartition, int]
    forget: tuple[TopicPartition, ...]
    delete: tuple[str, ...]
    kept: tuple[tuple[str, str], ...]
    remove_members: bool = False
    delete_group: bool = False
    keep: Mapping[TopicPartition, OffsetAndMetadata] = field(
        default_factory=dict["TopicPartition", "OffsetAndMetadata"]
    )
    notes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = field(default=())

    def lines(self) -> list[str]:
        """The plan for a person, one step a line."""
        out = [f"cannot reset: {why}" for why in self.refusals]
        if self.remove_members:
            out.append(f"remove the members of group {self.application_id}")
        if self.delete_group:
            out.append(f"delete the streams group {self.application_id}: it keeps its former topology for ever")
        if not self.offsets:
            out.append("no input topic is named (--input-topics, --topology): no offset is set")
        out += self.notes
        out += [f"set the offset of {tp} to {offset}" for tp, offset in sorted(self.offsets.items())]
        out += [f"delete topic {topic}" for topic in self.delete]
        out += [f"keep topic {topic}: {why}" for topic, why in self.kept]
        return out


def reset(
    admin: TopicAdmin, request: ResetRequest, *, dry_run: bool = False, tell: Callable[[str], None] = lambda _: None
) -> ResetPlan:
    """Resets an application, or says what that would do.

    Args:
        admin: an administrator of the cluster.
        request: what to do.
        dry_run: only look and plan; never together with ``force``.
        tell: told every line of the plan before anything is done.

    Returns:
        The plan that was, or would be, carried out.

    Raises:
        ConfigException: ``dry_run`` together with ``force``, or nothing of a request makes sense.
        IllegalStateException: the plan has refusals and this is no dry run. Nothing was changed.
    """
    if dry_run and request.force:
        raise ConfigException("--force removes the members first, so it cannot be part of a --dry-run: leave one out")
    if not request.application_id:
        raise ConfigException("the application id is empty")
    if isinstance(request.to, int) and request.to < 0:
        raise ConfigException(f"offset {request.to} is negative: an offset is 0 or more")
    plan = plan_reset(request, look(admin, request))
    # what is refused is not listed as if it were done
    for line in plan.lines() if dry_run or not plan.refusals else plan.lines()[: len(plan.refusals)]:
        tell(line)
    if not dry_run:
        carry_out(admin, plan)
    return plan


def application_topics(topology: Topology, application_id: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """What an application reads and what it owns, by its topology.

    Returns:
        The source topics that are not internal, sorted, and the full names of the internal topics.
    """
    parts = topology.build(application_id).subtopologies
    repartitions = {topic for part in parts for topic in part.repartition_topics}
    sources = {topic for part in parts for topic in part.source_topics} - repartitions
    # a table may use its source topic as its changelog: that one is the producer's, never ours to delete
    changelogs = {topic for part in parts for topic in part.changelog_topics} - sources
    return tuple(sorted(sources)), frozenset(repartitions | changelogs)


def look(admin: TopicAdmin, request: ResetRequest) -> ClusterView:
    """Asks the brokers for everything that ``plan_reset`` needs. Changes nothing.

    Raises:
        AuthorizationException: a permission is missing, which the message names. That of describing an internal topic
            is missed only where the topology names the topic: brokers leave it out of the list of all topics.
        TimeoutException: the brokers do not answer.
    """
    # one that may not be described would not be deleted, and nobody would know
    admin.partition_counts(request.internal_topics or ())
    group = admin.describe_group(request.application_id)
    partitions = [
        TopicPartition(topic, number)
        for topic, count in admin.partition_counts(request.input_topics).items()
        for number in range(count)
    ]
    return ClusterView(
        topics=admin.list_topics(),
        group=group,
        group_ids=frozenset(admin.list_groups()),
        positions=Positions(
            starts=admin.list_offsets(partitions, "earliest"),
            ends=admin.list_offsets(partitions, "latest"),
            at_time=admin.list_offsets(partitions, request.to.epoch_ms) if isinstance(request.to, AtTime) else {},
            committed=admin.group_offsets(request.application_id) if group.type is not None else {},
        ),
    )


def plan_reset(request: ResetRequest, view: ClusterView) -> ResetPlan:
    """Decides. Pure.

    A topic is deleted when the topology names it; without a topology, when its name is an internal one of this id and
    can be no other's: ``a-b-store-changelog`` is an internal topic of ``a`` and of ``a-b`` alike, and is kept.
    """
    refusals: list[str] = []
    remove_members = False
    if view.group.active:
        kind = f"{view.group.type or 'unknown'} group {request.application_id}"
        if not request.force:
            refusals.append(
                f"{kind} has active members (state {view.group.state}): stop every instance, or use --force"
            )
        elif view.group.type not in ("classic", "streams"):
            refusals.append(f"{kind} is of no Kafka Streams application, its members stay: stop them, or check the id")
        else:
            remove_members = True
    refusals += [f"input topic {topic} does not exist" for topic in request.input_topics if topic not in view.topics]
    delete, kept = _choose_topics(request, view)
    refusals += [
        f"{topic} is given as an input topic, but is internal to {request.application_id}"
        for topic in request.input_topics
        if topic in delete
    ]
    read_anew = plan_offsets(request.to, view.positions, request.uncommitted)
    refusals += read_anew.refusals
    offsets, committed = read_anew.offsets, view.positions.committed
    streams = view.group.type == "streams"
    return ResetPlan(
        application_id=request.application_id,
        offsets=offsets,
        forget=tuple(sorted(tp for tp in committed if tp.topic in delete)),
        delete=delete,
        kept=kept,
        remove_members=remove_members,
        delete_group=streams,
        keep={tp: entry for tp, entry in committed.items() if streams and tp.topic not in delete and tp not in offsets},
        notes=read_anew.notes,
        refusals=tuple(refusals),
    )


def carry_out(admin: TopicAdmin, plan: ResetPlan) -> None:
    """Does what a plan says. Topics go first: with offsets at the start beside old state all would be counted twice.

    Raises:
        IllegalStateException: the plan has refusals; nothing was changed.
        TimeoutException: members did not leave in time; nothing else was changed. Or the brokers do not answer.
        StreamsException: a step failed. The whole may be tried again: every step may be repeated.
    """
    if plan.refusals:
        raise IllegalStateException(f"nothing was reset: {'; '.join(plan.refusals)}")
    if plan.remove_members:
        _remove_members(admin, plan.application_id)
    admin.delete_topics(plan.delete)
    offsets = {tp: OffsetAndMetadata(offset) for tp, offset in plan.offsets.items()}
    if plan.delete_group:
        admin.delete_group(plan.application_id)
        admin.alter_group_offsets(plan.application_id, {**plan.keep, **offsets})
    else:
        _await_forgotten(admin, plan)
        admin.alter_group_offsets(plan.application_id, offsets)


def _await_forgotten(admin: TopicAdmin, plan: ResetPlan) -> None:
    """Waits until the brokers have forgotten the offsets of topics that they deleted, as they do by themselves.

    In topics made anew under the old names these offsets would pass over records. The brokers do not delete offsets of
    topics that they do not have when they are asked to.
    """
    deadline = time.monotonic() + _FORGOTTEN_S
    while left := sorted(set(plan.forget) & admin.group_offsets(plan.application_id).keys()):
        if time.monotonic() > deadline:
            raise TimeoutException(
                f"the topic of {left[0]} is deleted, but group {plan.application_id} still has an offset in it after"
                f" {_FORGOTTEN_S:.0f} s: the offsets of the input topics were not set. Try again"
            )
        time.sleep(_LOOK_S)


def _remove_members(admin: TopicAdmin, group_id: str) -> None:
    deadline = time.monotonic() + _MEMBERS_GONE_S
    while True:
        group = admin.describe_group(group_id)
        if not group.active:
            return
        if time.monotonic() > deadline:
            raise TimeoutException(
                f"members of group {group_id} still join after {_MEMBERS_GONE_S:.0f} s of removing them:"
                " stop the instances"
            )
        admin.remove_members(group, "application reset")
        time.sleep(0.2)


def _choose_topics(request: ResetRequest, view: ClusterView) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    if request.internal_topics is not None:
        return tuple(sorted(request.internal_topics & view.topics)), ()
    delete: list[str] = []
    kept: list[tuple[str, str]] = []
    for topic in sorted(view.topics - set(request.input_topics)):
        suffix = _INTERNAL_SUFFIX.search(topic)
        if suffix is None or not topic.startswith(f"{request.application_id}-"):
            continue
        base = (
            topic[len(request.application_id) + 1 : suffix.start()]
            if suffix.start() > len(request.application_id)
            else ""
        )
        owner = _other_owner(request.application_id, topic, view.group_ids)
        if owner is not None:
            kept.append((topic, f"it may belong to application {owner}, which is a group of these brokers"))
        elif "-" in base and _GENERATED_NAME.fullmatch(base) is None:
            kept.append(
                (
                    topic,
                    f"it may belong to application {request.application_id}-{base.partition('-')[0]}; --topology tells",
                )
            )
        else:
            delete.append(topic)
    return tuple(delete), tuple(kept)


def _other_owner(application_id: str, topic: str, group_ids: Iterable[str]) -> str | None:
    """Another group whose internal topic this could be by its name; the longest such id."""
    others = [one for one in group_ids if one != application_id and topic.startswith(f"{one}-")]
    return max(others, key=len, default=None)


__all__ = [
    "ClusterView",
    "ResetPlan",
    "ResetRequest",
    "application_topics",
    "carry_out",
    "look",
    "plan_reset",
    "reset",
]
