"""Threads go on as the members of a dead process; who is left over of it leaves once, when one is in the group."""

from __future__ import annotations

import threading
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
    before = Predecessors(first, len(members))
    for index, member_id in enumerate(members, start=1):
        watch(before, index, Member(member_id))
    first.close()
    return StateDirectory(path, "app")


def test_each_thread_goes_on_as_the_member_of_its_number(tmp_path: Path) -> None:
    directory = crashed(tmp_path, "old-1", "old-2")
    predecessors = Predecessors(directory, 2)
    assert [predecessors.of(2), predecessors.of(1)] == ["old-2", "old-1"]
    assert predecessors.of(1) is None, "a thread that replaces another is somebody else"
    first = Member("old-1")
    watch(predecessors, 1, first)
    assert first.asked == [], "nobody is left over"
    watch(predecessors, 2, Member("new-2"))  # the brokers no longer knew the old one
    assert directory.members() == {"old-1": 1, "new-2": 2}
    directory.close()


def test_those_left_over_leave_once_a_newcomer_is_known(tmp_path: Path) -> None:
    directory = crashed(tmp_path, "old-1", "old-2", "old-3")
    predecessors = Predecessors(directory, 1)
    newcomer = Member()
    watch(predecessors, 1, newcomer)
    assert newcomer.asked == [], "nobody can take their place yet"
    newcomer.id, newcomer.ready = predecessors.of(1), False
    watch(predecessors, 1, newcomer)
    newcomer.ready = True
    watch(predecessors, 1, newcomer)
    watch(predecessors, 1, newcomer)
    assert newcomer.asked == [frozenset({"old-2", "old-3"})] * 2, "asked again until it is done, and then no more"
    assert directory.members() == {"old-1": 1}, "who is gone is not looked for at the next start"
    directory.close()


def test_transactions_of_threads_that_are_no_more_are_ended_once(tmp_path: Path) -> None:
    """A process with fewer threads after a crash left them to their time-out, and who took the tasks over waited."""
    directory = crashed(tmp_path, "old-1", "old-2", "old-3", "old-4")
    predecessors = Predecessors(directory, 2)
    assert predecessors.of(4) is None, "an added thread ends its own"
    ended: list[int] = []
    predecessors.end_transactions(ended.append)
    predecessors.end_transactions(ended.append)
    assert ended == [3]
    directory.close()


def test_a_thread_that_is_added_meanwhile_waits_until_its_predecessors_transaction_is_over(tmp_path: Path) -> None:
    """Else it could begin one of its own, and lose that in the dead thread's place."""
    directory = crashed(tmp_path, "old-1", "old-2")
    predecessors = Predecessors(directory, 1)
    order: list[str] = []
    begun = threading.Event()

    def end(index: int) -> None:
        adding.start()
        begun.wait(0.2)
        order.append(f"ended {index}")

    def add() -> None:
        predecessors.of(2)
        order.append("added")
        begun.set()

    adding = threading.Thread(target=add)
    predecessors.end_transactions(end)
    adding.join(60)
    assert order == ["ended 2", "added"]
    directory.close()


def test_who_left_in_good_order_is_not_looked_for(tmp_path: Path) -> None:
    directory = crashed(tmp_path, "old-1", "old-2")
    predecessors = Predecessors(directory, 1)
    watch(predecessors, 1, Member(predecessors.of(1)))
    predecessors.left(1)
    directory.close()
    again = StateDirectory(tmp_path, "app")
    assert again.members() == {}
    again.close()


def test_a_second_crash_before_the_first_is_cleared_up_forgets_nobody(tmp_path: Path) -> None:
    directory = crashed(tmp_path, "old-1", "old-2", "old-3")
    predecessors = Predecessors(directory, 2)
    watch(predecessors, 1, Member(predecessors.of(1), ready=False))
    directory.close()
    again = StateDirectory(tmp_path, "app")
    assert again.members() == {"old-1": 1, "old-2": 2, "old-3": 3}
    again.close()


def test_a_broken_file_means_nobody(tmp_path: Path) -> None:
    directory = crashed(tmp_path, "old")
    for content in ("{", "[1]", '{"old": "x"}', '{"old": null}', '{"old": 1e999}'):
        (directory.path / "members.json").write_text(content, encoding="utf-8")
        assert directory.members() == {}
    directory.close()
