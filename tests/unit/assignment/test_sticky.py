"""The sticky assignment: complete, balanced, sticky, and never two owners through cooperative rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.assignment import MemberState, assign, cooperative, owners
from headrace.records import TaskId

if TYPE_CHECKING:
    from collections.abc import Mapping

TASKS = st.lists(st.builds(TaskId, st.integers(0, 3), st.integers(0, 7)), unique=True, max_size=24)
NAMES = st.sampled_from([f"m{number}" for number in range(7)])


def process(number: int) -> bytes:
    return bytes([number]) * 16


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[TaskId], dict[str, MemberState]]:
    """Tasks and members that own a disjoint part of them, as after any history."""
    tasks = draw(TASKS)
    names = sorted(draw(st.sets(NAMES, min_size=1)))
    owner = {task: draw(st.sampled_from([*names, ""])) for task in tasks}
    stored = draw(st.lists(st.sampled_from(tasks), max_size=8)) if tasks else []
    return tasks, {
        name: MemberState(
            process(draw(st.integers(1, 3))),
            frozenset(task for task in tasks if owner[task] == name),
            frozenset(stored) if draw(st.booleans()) else frozenset(),
            generation=3,
        )
        for name in names
    }


def moves(before: Mapping[str, MemberState], after: Mapping[str, frozenset[TaskId]]) -> int:
    return sum(len(state.owned - after[name]) for name, state in before.items())


@given(groups())
def test_every_task_once_balanced_and_with_the_fewest_moves(group: tuple[list[TaskId], dict[str, MemberState]]) -> None:
    tasks, members = group
    result = assign(tasks, members)
    handed_out = [task for given_tasks in result.values() for task in given_tasks]
    assert sorted(handed_out) == sorted(tasks)
    sizes = [len(given_tasks) for given_tasks in result.values()]
    assert max(sizes) - min(sizes) <= 1
    base, extra = divmod(len(tasks), len(members))
    owned = sorted((len(state.owned) for state in members.values()), reverse=True)
    fewest = sum(max(0, count - base - (place < extra)) for place, count in enumerate(owned))
    assert moves(members, result) == fewest


@given(groups(), st.randoms())
def test_the_same_for_any_order_of_the_input(
    group: tuple[list[TaskId], dict[str, MemberState]], random: object
) -> None:
    tasks, members = group
    shuffled, names = list(tasks), list(members)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis hands a random.Random
    random.shuffle(names)  # type: ignore[attr-defined]  # as above
    assert assign(shuffled, {name: members[name] for name in names}) == assign(tasks, members)


@given(TASKS, st.integers(1, 6))
def test_nothing_moves_when_nothing_changed(tasks: list[TaskId], size: int) -> None:
    fresh = {f"m{number}": MemberState(process(number)) for number in range(size)}
    first = assign(tasks, fresh)
    settled = {name: MemberState(fresh[name].process_id, first[name], generation=1) for name in fresh}
    assert assign(tasks, settled) == first


@given(TASKS, st.integers(1, 6))
def test_a_leaving_members_tasks_alone_move(tasks: list[TaskId], size: int) -> None:
    fresh = {f"m{number}": MemberState(process(number)) for number in range(size + 1)}
    first = assign(tasks, fresh)
    left = {name: MemberState(fresh[name].process_id, first[name], generation=1) for name in fresh if name != "m0"}
    assert moves(left, assign(tasks, left)) == 0


@given(TASKS, st.integers(1, 6))
def test_a_joining_member_takes_just_its_share(tasks: list[TaskId], size: int) -> None:
    fresh = {f"m{number}": MemberState(process(number)) for number in range(size)}
    first = assign(tasks, fresh)
    grown = {name: MemberState(fresh[name].process_id, first[name], generation=1) for name in fresh}
    grown["new"] = MemberState(process(9))
    after = assign(tasks, grown)
    assert moves(grown, after) == len(after["new"]) == len(tasks) // (size + 1)


@given(TASKS, st.integers(1, 5))
def test_a_fresh_start_spreads_each_subtopology(tasks: list[TaskId], size: int) -> None:
    result = assign(tasks, {f"m{number}": MemberState(process(number)) for number in range(size)})
    whole = [number for number in range(4) if all(TaskId(number, p) in tasks for p in range(8))]
    if len(whole) * 8 == len(tasks):  # complete sub-topologies only: the usual case
        for number in whole:
            counts = [sum(task.subtopology == number for task in given_tasks) for given_tasks in result.values()]
            assert max(counts) - min(counts) <= 1


@settings(max_examples=200)
@given(groups(), st.sets(NAMES, max_size=3))
def test_cooperative_rounds_have_one_owner_at_a_time_and_end(
    group: tuple[list[TaskId], dict[str, MemberState]], joining: set[str]
) -> None:
    tasks, members = group
    members |= {name: MemberState(process(4)) for name in joining - members.keys()}
    for _ in range(4):
        target = assign(tasks, members)
        given_now = cooperative(target, members)
        running: dict[TaskId, str] = {}
        for name, state in members.items():
            # At the moment of the assignment a member still runs what it owned, and starts what it is given.
            for task in state.owned | given_now[name]:
                assert running.setdefault(task, name) == name
        if given_now == target:
            break
        members = {
            name: MemberState(state.process_id, given_now[name], state.stored, state.generation + 1)
            for name, state in members.items()
        }
    else:
        raise AssertionError("the rounds do not end")
    assert sorted(task for given_tasks in given_now.values() for task in given_tasks) == sorted(tasks)


def test_of_two_claims_the_newer_generations_counts_and_of_equals_none() -> None:
    task, other = TaskId(0, 0), TaskId(0, 1)
    claims = {
        "old": MemberState(process(1), frozenset({task, other}), generation=4),
        "new": MemberState(process(2), frozenset({task}), generation=5),
        "same": MemberState(process(3), frozenset({other}), generation=4),
    }
    assert owners(claims) == {task: "new"}
    # Both claims of either task withhold it from third members until the claimants have given it up.
    third = {"third": frozenset({task, other}), "old": frozenset[TaskId](), "new": frozenset[TaskId]()}
    assert cooperative(third, claims | {"third": MemberState(process(4))})["third"] == frozenset()


def test_a_free_task_goes_where_its_state_is() -> None:
    tasks = [TaskId(0, partition) for partition in range(4)]
    members = {
        "a": MemberState(process(1), stored=frozenset({TaskId(0, 1), TaskId(0, 3)})),
        "b": MemberState(process(2), stored=frozenset({TaskId(0, 0)})),
    }
    assert assign(tasks, members) == {"a": {TaskId(0, 1), TaskId(0, 3)}, "b": {TaskId(0, 0), TaskId(0, 2)}}


def test_the_one_more_goes_to_the_process_with_fewer_tasks() -> None:
    tasks = [TaskId(0, partition) for partition in range(5)]
    members = {
        "a1": MemberState(process(1)),
        "a2": MemberState(process(1)),
        "b1": MemberState(process(2)),
        "b2": MemberState(process(2)),
    }
    tasks.append(TaskId(0, 5))
    result = assign(tasks, members)
    assert len(result["a1"]) + len(result["a2"]) == len(result["b1"]) + len(result["b2"]) == 3


def test_no_members_and_no_tasks() -> None:
    assert assign([TaskId(0, 0)], {}) == {}
    assert assign([], {"a": MemberState(process(1), frozenset({TaskId(0, 0)}))}) == {"a": frozenset()}
