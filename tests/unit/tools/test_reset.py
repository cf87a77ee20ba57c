from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.errors import ConfigException
from headrace.kafka import GroupDescription, GroupMemberDescription
from headrace.records import OffsetAndMetadata, TopicPartition
from headrace.tools.reset import ClusterView, ResetRequest, plan_reset, reset
from headrace.tools.reset_offsets import Positions

if TYPE_CHECKING:
    from headrace.kafka.admin import GroupType

IN0 = TopicPartition("in", 0)


def view(
    *topics: str,
    groups: tuple[str, ...] = (),
    kind: GroupType | None = "classic",
    active: bool = False,
    committed: dict[TopicPartition, OffsetAndMetadata] | None = None,
) -> ClusterView:
    member = GroupMemberDescription("m", None, "c", "/127.0.0.1", frozenset())
    state, members = ("Stable", (member,)) if active else ("Empty", ())
    return ClusterView(
        topics=frozenset(topics) | {"in"},
        group=GroupDescription("a", kind, state, members),
        group_ids=frozenset({"a", *groups}),
        positions=Positions({IN0: 5}, {IN0: 90}, committed=committed or {}),
    )


def test_offsets_go_to_start_end_or_into_the_log() -> None:
    def offset(to: object) -> int:
        return plan_reset(ResetRequest("a", ("in",), to), view()).offsets[IN0]  # type: ignore[arg-type]

    assert [offset("earliest"), offset("latest"), offset(40), offset(0), offset(1000)] == [5, 90, 40, 5, 90]


def test_without_a_topology_only_names_that_can_be_no_other_ids_are_deleted() -> None:
    plan = plan_reset(
        ResetRequest("a"),
        view(
            "a-store-changelog",
            "a-KSTREAM-KEY-SELECT-0000000004-repartition",
            "a-commerce.courses-STATE-STORE-0000000001-changelog",
            "a-b-store-changelog",
            "a-output",
            "ab-store-changelog",
            "other-a-store-changelog",
        ),
    )
    assert plan.delete == (
        "a-KSTREAM-KEY-SELECT-0000000004-repartition",
        "a-commerce.courses-STATE-STORE-0000000001-changelog",
        "a-store-changelog",
    )
    assert [topic for topic, _ in plan.kept] == ["a-b-store-changelog"]
    assert "application a-b" in plan.kept[0][1]


def test_a_group_of_a_longer_or_shorter_id_keeps_what_could_be_its_own() -> None:
    longer = plan_reset(ResetRequest("a"), view("a-KSTREAM-KEY-SELECT-0000000004-repartition", groups=("a-KSTREAM",)))
    assert longer.delete == ()
    shorter = plan_reset(ResetRequest("a-b"), view("a-b-store-changelog", groups=("a-b",)))
    assert shorter.delete == ()
    assert "application a," in shorter.kept[0][1]


def test_a_topology_names_exactly_what_is_deleted() -> None:
    named = frozenset({"a-b-store-changelog", "a-gone-changelog"})
    plan = plan_reset(
        ResetRequest("a", internal_topics=named), view("a-b-store-changelog", "a-store-changelog", groups=("a-b",))
    )
    assert plan.delete == ("a-b-store-changelog",)
    assert plan.kept == ()


def test_committed_offsets_of_deleted_topics_go_too() -> None:
    gone, stays = TopicPartition("a-x-repartition", 0), TopicPartition("in", 0)
    committed = {gone: OffsetAndMetadata(7), stays: OffsetAndMetadata(8)}
    assert plan_reset(ResetRequest("a"), view("a-x-repartition", committed=committed)).forget == (gone,)


def test_a_streams_group_goes_with_its_topology_and_its_other_offsets_stay() -> None:
    gone, other = TopicPartition("a-x-repartition", 0), TopicPartition("other", 0)
    committed = {gone: OffsetAndMetadata(7), IN0: OffsetAndMetadata(8), other: OffsetAndMetadata(9, "m")}
    plan = plan_reset(ResetRequest("a", ("in",)), view("a-x-repartition", kind="streams", committed=committed))
    assert (plan.delete_group, plan.keep, plan.offsets) == (True, {other: OffsetAndMetadata(9, "m")}, {IN0: 5})
    assert any("delete the streams group a" in line for line in plan.lines())
    classic = plan_reset(ResetRequest("a", ("in",)), view("a-x-repartition", committed=committed))
    assert (classic.delete_group, classic.keep) == (False, {})


@pytest.mark.parametrize("kind", ["classic", "streams"])
def test_active_members_refuse_and_force_removes_them(kind: GroupType) -> None:
    assert "has active members" in plan_reset(ResetRequest("a"), view(kind=kind, active=True)).refusals[0]
    forced = plan_reset(ResetRequest("a", force=True), view(kind=kind, active=True))
    assert forced.refusals == ()
    assert forced.remove_members


@pytest.mark.parametrize("kind", ["consumer", "share"])
def test_an_active_group_that_is_no_applications_is_seen_and_cannot_be_forced(kind: GroupType) -> None:
    assert "has active members" in plan_reset(ResetRequest("a"), view(kind=kind, active=True)).refusals[0]
    forced = plan_reset(ResetRequest("a", force=True), view(kind=kind, active=True))
    assert "its members stay" in forced.refusals[0]
    assert not forced.remove_members


def test_a_missing_input_topic_refuses_everything() -> None:
    assert plan_reset(ResetRequest("a", ("in", "none")), view()).refusals == ("input topic none does not exist",)


def test_force_and_dry_run_exclude_each_other_before_the_brokers_are_asked() -> None:
    with pytest.raises(ConfigException, match="cannot be part of a --dry-run"):
        reset(None, ResetRequest("a", force=True), dry_run=True)  # type: ignore[arg-type]  # never looked at
