"""Members that a dead process left behind leave once, when this one is in the group."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from headrace.runtime.predecessors import Predecessors
from headrace.state.directory import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from headrace.kafka import Membership


class Member:
    """What a membership says of itself, and whom it makes leave."""

    def __init__(self, member_id: str | None = None, ready: bool = True) -> None:
        self.id = member_id
        self.ready = ready
        self.asked: list[frozenset[str]] = []

    def member_id(self) -> str | None:
        return self.id

    def take_over(self, member_ids: Collection[str]) -> bool:
        self.asked.append(frozenset(member_ids))
        return self.ready


def watch(predecessors: Predecessors, index: int, member: Member) -> None:
    predecessors.watch(index, cast("Membership", member))


def crashed(path: Path, *members: str) -> StateDirectory:
    """The directory of a process that died with these members, opened by the next one."""
    first = StateDirectory(path, "app")
    before = Predecessors(first)
    for index, member_id in enumerate(members, start=1):
        watch(before, index, Member(member_id))
    first.close()
    return StateDirectory(path, "app")


def test_the_dead_leave_once_the_newcomer_is_known(tmp_path: Path) -> None:
    directory = crashed(tmp_path, "old-1", "old-2")
    predecessors = Predecessors(directory)
    newcomer = Member()
    watch(predecessors, 1, newcomer)
    assert newcomer.asked == [], "nobody can take their place yet"
    newcomer.id, newcomer.ready = "new", False
    watch(predecessors, 1, newcomer)
    newcomer.ready = True
    watch(predecessors, 1, newcomer)
    watch(predecessors, 1, newcomer)
    assert newcomer.asked == [frozenset({"old-1", "old-2"})] * 2, "asked again until it is done, and then no more"
    assert set(directory.members()) == {"new"}, "who is gone is not looked for at the next start"
    directory.close()


def test_who_left_in_good_order_is_not_looked_for(tmp_path: Path) -> None:
    directory = crashed(tmp_path, "old-1", "old-2")
    predecessors = Predecessors(directory)
    member = Member("new")
    watch(predecessors, 1, member)
    predecessors.left(1)
    directory.close()
    again = StateDirectory(tmp_path, "app")
    assert again.members() == {}
    again.close()


def test_a_second_crash_before_the_first_is_cleared_up_forgets_nobody(tmp_path: Path) -> None:
    directory = crashed(tmp_path, "old-1", "old-2")
    watch(Predecessors(directory), 1, Member("new", ready=False))
    directory.close()
    again = StateDirectory(tmp_path, "app")
    assert set(again.members()) == {"new", "old-1", "old-2"}
    again.close()


def test_a_static_member_makes_only_those_leave_whose_place_nobody_else_takes(tmp_path: Path) -> None:
    directory = crashed(tmp_path, "old-1", "old-2", "old-3")
    predecessors = Predecessors(directory, static_threads=2)
    assert predecessors.dead() == {"old-1", "old-2", "old-3"}
    first, second = Member("new-1"), Member("new-2")
    watch(predecessors, 1, first)
    watch(predecessors, 1, first)
    assert first.asked == [frozenset({"old-1", "old-3"})], "the second thread comes back with the id of its own"
    watch(predecessors, 2, second)
    assert second.asked == [frozenset({"old-2"})]
    assert predecessors.dead() == frozenset()
    assert directory.members() == {"new-1": 1, "new-2": 2}
    directory.close()


def test_a_broken_file_means_nobody(tmp_path: Path) -> None:
    directory = crashed(tmp_path, "old")
    (directory.path / "members.json").write_text("{", encoding="utf-8")
    assert directory.members() == {}
    directory.close()
