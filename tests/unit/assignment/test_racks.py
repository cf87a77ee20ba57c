"""Exchanges between processes in racks: never dearer, as cheap as can be, and over at the first look."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.assignment import AssignmentSettings, MemberState, place
from headrace.assignment.lags import Lags
from headrace.assignment.racks import STATELESS, Exchange, RackCosts, Racks, nearer, racks_of
from headrace.assignment.standby import StandbyPlacement
from headrace.records import TaskId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Places = dict[TaskId, bytes]


def process(number: int) -> bytes:
    return bytes([number]) * 16


@st.composite
def places(draw: st.DrawFn) -> tuple[Places, dict[bytes, int], dict[tuple[TaskId, bytes], int]]:
    tasks = [TaskId(sub, number) for sub in range(2) for number in range(draw(st.integers(0, 3)))]
    processes = [process(number) for number in range(draw(st.integers(1, 3)))]
    at = {task: draw(st.sampled_from(processes)) for task in tasks}
    weights = {one: draw(st.integers(1, 2)) for one in processes}
    costs = {(task, one): draw(st.integers(0, 12)) for task in tasks for one in processes}
    return at, weights, costs


def alternatives(at: Places) -> Iterator[Places]:
    """Every assignment with the same number of tasks on each process."""
    for chosen in product(*[sorted(set(at.values()))] * len(at)):
        if Counter(chosen) == Counter(at.values()):
            yield dict(zip(at, chosen, strict=True))


def total(at: Places, costs: Mapping[tuple[TaskId, bytes], int]) -> int:
    return sum(costs[task, one] for task, one in at.items())


def uneven(at: Places, weights: Mapping[bytes, int]) -> int:
    """By how many tasks sub-topologies are off their fair shares, in all."""
    off = 0
    for sub in {task.subtopology for task in at}:
        count = sum(task.subtopology == sub for task in at)
        for one, weight in weights.items():
            here = sum(task.subtopology == sub and at[task] == one for task in at)
            least, most = count * weight // sum(weights.values()), -(-count * weight // sum(weights.values()))
            off += max(0, here - most) + max(0, least - here)
    return off


@settings(max_examples=150)
@given(places())
def test_nothing_with_the_same_numbers_is_cheaper(
    world: tuple[Places, dict[bytes, int], dict[tuple[TaskId, bytes], int]],
) -> None:
    at, weights, costs = world
    after = Exchange(at, weights, lambda task, one: costs[task, one], balance=False).run()
    assert Counter(after.values()) == Counter(at.values())
    assert total(after, costs) == min((total(other, costs) for other in alternatives(at)), default=0)
    assert Exchange(after, weights, lambda task, one: costs[task, one], balance=False).run() == after


@settings(max_examples=150)
@given(places())
def test_balanced_sub_topologies_come_first_and_then_nothing_is_cheaper(
    world: tuple[Places, dict[bytes, int], dict[tuple[TaskId, bytes], int]],
) -> None:
    at, weights, costs = world
    after = Exchange(at, weights, lambda task, one: costs[task, one], balance=True).run()
    assert Counter(after.values()) == Counter(at.values())
    best = min(((uneven(other, weights), total(other, costs)) for other in alternatives(at)), default=(0, 0))
    assert (uneven(after, weights), total(after, costs)) == best


TASKS = [TaskId(0, number) for number in range(4)]
SOURCES = {task: [TopicPartition("in", task.partition)] for task in TASKS}
CHANGELOGS = {task: [TopicPartition("log", task.partition)] for task in TASKS}


def racks(*of_partitions: str) -> Racks:
    """Processes 1 and 2 in racks a and b, and where the partitions of the topic and of the changelog are."""
    where = {TopicPartition(topic, n): {rack} for n, rack in enumerate(of_partitions) for topic in ("in", "log")}
    return Racks({process(1): "a", process(2): "b"}, where, SOURCES, CHANGELOGS)


def members(one: set[int], two: set[int]) -> dict[str, MemberState]:
    return {
        name: MemberState(process(number), frozenset(TaskId(0, n) for n in owned), generation=1)
        for number, (name, owned) in enumerate((("one", one), ("two", two)), start=1)
    }


def given_to(costs: RackCosts) -> tuple[set[int], set[int]]:
    """What two instances have that ran 0, 1 and 2, 3, when all but 3 is in the other one's rack."""
    group = members({0, 1}, {2, 3})
    home = {task: state.process_id for state in group.values() for task in state.owned}
    target = {name: state.owned for name, state in group.items()}
    after = nearer(target, group, [(TASKS, costs)], home, racks("b", "b", "a", "b"), balance=False)
    return {task.partition for task in after["one"]}, {task.partition for task in after["two"]}


def test_traffic_is_weighed_against_moves() -> None:
    assert given_to(RackCosts(10, 1)) == ({1, 2}, {0, 3})
    assert given_to(STATELESS) == ({1, 2}, {0, 3}), "a second exchange would win one crossing and lose another"
    assert given_to(RackCosts(1, 10)) == ({0, 1}, {2, 3})
    assert given_to(RackCosts(0, 1)) == ({0, 1}, {2, 3})


def test_an_instances_tasks_go_to_the_members_that_gave_some_up() -> None:
    group = {
        "one-1": MemberState(process(1), frozenset({TASKS[0]}), generation=1),
        "one-2": MemberState(process(1), frozenset({TASKS[1]}), generation=1),
        "two-1": MemberState(process(2), frozenset({TASKS[2]}), generation=1),
        "two-2": MemberState(process(2), frozenset({TASKS[3]}), generation=1),
    }
    home = {task: state.process_id for state in group.values() for task in state.owned}
    target = {name: state.owned for name, state in group.items()}
    after = nearer(target, group, [(TASKS, RackCosts(10, 1))], home, racks("b", "a", "a", "b"), balance=False)
    assert after == {
        "one-1": frozenset({TASKS[2]}),
        "one-2": frozenset({TASKS[1]}),
        "two-1": frozenset({TASKS[0]}),
        "two-2": frozenset({TASKS[3]}),
    }


def test_with_the_costs_of_the_sticky_assignor_what_runs_stays() -> None:
    group = members({0, 1}, {2, 3})
    where = racks("b", "b", "a", "a")
    for warm_up, moves in ((True, True), (False, False)):
        rules = AssignmentSettings(acceptable_lag=10**9, rack_strategy="min_traffic", warm_up=warm_up)
        placed = place(TASKS, TASKS, group, group, dict.fromkeys(TASKS, 0), rules, where)
        assert (placed.active["one"] == frozenset(TASKS[2:])) is moves


def test_copies_are_exchanged_for_less_traffic_unless_tags_forbid_it() -> None:
    zones = {1: "n", 2: "s", 3: "n", 4: "s"}
    for tags, expected in (((), {process(3): {TASKS[1]}, process(4): {TASKS[0]}}), (("zone",), None)):
        group = {
            f"m{number}": MemberState(process(number), tags={"zone": zone}, generation=1)
            for number, zone in zones.items()
        }
        group["m3"] = MemberState(process(3), tags={"zone": "n"}, standbys=frozenset({TASKS[0]}), generation=1)
        group["m4"] = MemberState(process(4), tags={"zone": "s"}, standbys=frozenset({TASKS[1]}), generation=1)
        # the active tasks are where the copies' zones are not, so an exchange brings each into its own zone
        active = {"m1": {TASKS[1]}, "m2": {TASKS[0]}, "m3": set[TaskId](), "m4": set[TaskId]()}
        lags = Lags(group, TASKS[:2], None, 0)
        placement = StandbyPlacement(group, active, lags, tags)
        before = {one: set(tasks) for one, tasks in placement.place(TASKS[:2], 1, {}).items()}
        in_racks = {process(number): "ab"[number % 2] for number in zones}
        where = {TopicPartition("log", 0): {"a"}, TopicPartition("log", 1): {"b"}}
        placement.exchange(Racks(in_racks, where, SOURCES, CHANGELOGS), RackCosts(10, 1), {})
        after = placement.place((), 0, {})
        if expected is None:
            assert after == before
        else:
            assert {one: tasks for one, tasks in after.items() if tasks} == expected


def test_racks_count_only_when_every_member_names_its_process_one() -> None:
    one, two = MemberState(process(1), rack="a"), MemberState(process(2), rack="b")
    assert racks_of({"m": one, "n": two}) == {process(1): "a", process(2): "b"}
    assert racks_of({"m": one, "n": MemberState(process(2))}) is None
    assert racks_of({"m": one, "n": MemberState(process(1), rack="c")}) is None
