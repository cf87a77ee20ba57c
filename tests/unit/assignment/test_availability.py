"""Standby tasks, warm-ups and what becomes of them round by round, from any start."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.assignment import RUNNING_OFFSET, AssignmentSettings, MemberState, place
from headrace.assignment.racks import Racks
from headrace.records import TaskId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headrace.assignment import Placement

END = 1_000_000
LAG = 100


def process(number: int) -> bytes:
    return bytes([number]) * 16


@dataclass
class World:
    """A group that follows its leader: owned tasks, and how far every process is with the state of each."""

    tasks: list[TaskId]
    stateful: frozenset[TaskId]
    members: dict[str, MemberState]
    offsets: dict[bytes, dict[TaskId, int]]
    rules: AssignmentSettings
    racks: Racks | None = None
    moved: set[TaskId] = field(default_factory=set["TaskId"])
    given: Placement | None = field(default=None)

    def round(self, *, restore: bool) -> bool:
        """A rebalance and what members do after it; returns whether anything is different from before."""
        members = {
            name: replace(state, offsets=self.offsets.setdefault(state.process_id, {}))
            for name, state in self.members.items()
        }
        ends = dict.fromkeys(self.stateful, END)
        placed = self.given = place(self.tasks, self.stateful, members, members, ends, self.rules, self.racks)
        self.check(placed)
        before = self.members
        self.members = {
            name: replace(state, owned=placed.handed_out[name], standbys=placed.standby[name], generation=1)
            for name, state in before.items()
        }
        for name, state in self.members.items():
            offsets = self.offsets[state.process_id]
            for task in before[name].owned - state.owned:
                self.moved.add(task)
                if task in offsets:
                    offsets[task] = END
            for task in state.owned & self.stateful:
                offsets[task] = RUNNING_OFFSET
            for task in state.standbys:
                offsets[task] = END if restore else max(offsets.get(task, 0), 0)
        return self.members != before

    def check(self, placed: Placement) -> None:
        members = self.members
        active = [task for tasks in placed.active.values() for task in tasks]
        assert sorted(active) == sorted(self.tasks)
        running: dict[TaskId, str] = {}
        for name, state in members.items():
            for task in state.owned | placed.handed_out[name]:
                assert running.setdefault(task, name) == name, "two members at a time"
        copies: dict[tuple[bytes, TaskId], str] = {}
        for name, tasks in placed.standby.items():
            assert tasks <= self.stateful
            assert members[name].follows or not tasks
            for task in tasks:
                assert copies.setdefault((members[name].process_id, task), name) == name, "two copies in a process"
                assert task not in placed.handed_out[name]
        for name, tasks in placed.handed_out.items():
            for task in tasks & self.stateful:
                assert (members[name].process_id, task) not in copies, "a copy beside the active task"

    def settle(self, rounds: int) -> None:
        for _ in range(rounds):
            if not self.round(restore=True):
                assert self.given is not None
                assert not self.given.unsettled
                return
        raise AssertionError("it does not settle")


@st.composite
def worlds(draw: st.DrawFn) -> World:
    tasks = [TaskId(sub, number) for sub in range(draw(st.integers(1, 3))) for number in range(draw(st.integers(1, 5)))]
    stateful = frozenset(task for task in tasks if task.subtopology != 1)
    names = sorted(draw(st.sets(st.sampled_from([f"m{number}" for number in range(6)]), min_size=1)))
    owner = {task: draw(st.sampled_from([*names, ""])) for task in tasks}
    members = {
        name: MemberState(
            process(draw(st.integers(1, 4))),
            frozenset(task for task in tasks if owner[task] == name),
            generation=1,
            tags={"zone": draw(st.sampled_from("ab"))},
            follows=draw(st.sampled_from([True, True, True, False])),
        )
        for name in names
    }
    offsets: dict[bytes, dict[TaskId, int]] = {}
    for state in members.values():
        known = (
            draw(st.dictionaries(st.sampled_from(sorted(stateful)), st.integers(0, END), max_size=4))
            if stateful
            else {}
        )
        offsets.setdefault(state.process_id, {}).update(known)
    for state in members.values():
        offsets[state.process_id].update(dict.fromkeys(state.owned & stateful, RUNNING_OFFSET))
    rules = AssignmentSettings(
        draw(st.integers(0, 2)), LAG, draw(st.integers(1, 3)), tags=draw(st.sampled_from([(), ("zone",)]))
    )
    return World(tasks, stateful, members, offsets, rules)


@settings(max_examples=60)
@given(worlds())
def test_it_settles_from_any_start_with_one_owner_at_a_time(world: World) -> None:
    world.settle(rounds=60)
    counts = [len(state.owned) for state in world.members.values()]
    assert max(counts) - min(counts) <= 1
    check_state_and_copies(world)


def check_state_and_copies(world: World) -> None:
    """Tasks with state are spread evenly, and have their copies on other processes."""
    with_state = [len(state.owned & world.stateful) for state in world.members.values()]
    assert max(with_state) - min(with_state) <= 1
    homes = {task: state.process_id for state in world.members.values() for task in state.owned}
    able = {state.process_id for state in world.members.values() if state.follows}
    for task in world.stateful:
        copies = [state.process_id for state in world.members.values() if task in state.standbys]
        assert len(copies) == len(set(copies)) == min(world.rules.standby_replicas, len(able - {homes[task]}))
        assert homes[task] not in copies


@st.composite
def in_racks(draw: st.DrawFn) -> World:
    world = draw(worlds())
    racks = st.sampled_from("xyz")
    processes = {state.process_id: draw(racks) for state in world.members.values()}
    sources = {task: [TopicPartition(f"in{task.subtopology}", task.partition)] for task in world.tasks}
    changelogs = {task: [TopicPartition(f"log{task.subtopology}", task.partition)] for task in world.stateful}
    partitions = [tp for tps in (*sources.values(), *changelogs.values()) for tp in tps]
    replicas = {tp: frozenset(draw(st.sets(racks, min_size=1, max_size=2))) for tp in partitions}
    world.racks = Racks(processes, replicas, sources, changelogs)
    strategy: Any = draw(st.sampled_from(["min_traffic", "balance_subtopology"]))
    costs = st.sampled_from([None, 0, 1, 10])
    world.rules = replace(world.rules, rack_strategy=strategy, traffic_cost=draw(costs), non_overlap_cost=draw(costs))
    return world


@settings(max_examples=60)
@given(in_racks())
def test_it_settles_with_racks_too(world: World) -> None:
    world.settle(rounds=60)
    check_state_and_copies(world)


@settings(max_examples=60)
@given(worlds())
def test_tasks_with_state_move_no_more_than_balance_asks_for(world: World) -> None:
    members = world.members
    base, extra = divmod(len(world.stateful), len(members))
    running = world.stateful & {task for state in members.values() for task in state.owned}
    owned = sorted((len(state.owned & world.stateful) for state in members.values()), reverse=True)
    fewest = sum(max(0, count - base - (place < extra)) for place, count in enumerate(owned))
    world.settle(rounds=60)
    # a task that nobody runs may begin where its state is, and may then change places with another: both have moved
    assert len(world.moved & world.stateful) <= fewest + 2 * len(world.stateful - running)


@given(worlds())
def test_while_copies_do_not_follow_owners_keep_their_tasks(world: World) -> None:
    """No state arrives anywhere: what runs goes on where it is, and no more warm-ups are made than allowed."""
    world.rules = replace(world.rules, standby_replicas=0)
    world.members = {name: replace(state, follows=True) for name, state in world.members.items()}
    world.offsets = {
        state.process_id: dict.fromkeys(
            (t for other in world.members.values() if other.process_id == state.process_id for t in other.owned), -2
        )
        for state in world.members.values()
    }
    before = {task: state.process_id for state in world.members.values() for task in state.owned & world.stateful}
    world.round(restore=False)
    after = {task: state.process_id for state in world.members.values() for task in state.owned & world.stateful}
    assert before.items() <= after.items() | {
        (task, home) for task, home in before.items() if task not in after
    }  # given up only to a thread of the same process
    assert world.given is not None
    warming = sum(len(tasks) for tasks in world.given.standby.values())
    moving = sum(len(world.given.active[name] - world.given.handed_out[name]) for name in world.members)
    assert warming <= world.rules.max_warmups + moving


def two_instances(offsets: Mapping[TaskId, int], rules: AssignmentSettings) -> tuple[list[TaskId], Placement]:
    tasks = [TaskId(0, number) for number in range(4)]
    members = {
        "old": MemberState(process(1), frozenset(tasks), offsets=dict.fromkeys(tasks, RUNNING_OFFSET), generation=1),
        "new": MemberState(process(2), offsets=offsets),
    }
    return tasks, place(tasks, tasks, members, members, dict.fromkeys(tasks, END), rules)


def test_a_new_instance_warms_up_before_tasks_move() -> None:
    tasks, placed = two_instances({}, AssignmentSettings(max_warmups=1))
    assert placed.active["old"] == set(tasks)
    assert placed.unsettled
    (warming,) = placed.standby["new"]
    tasks, placed = two_instances({warming: END - 10_000}, AssignmentSettings(max_warmups=1))
    assert placed.active["new"] == {warming}
    assert placed.handed_out["new"] == set()
    assert warming in placed.standby["new"], "its copy is kept until it becomes the active task"


def test_within_the_acceptable_lag_tasks_move_at_once() -> None:
    _, placed = two_instances({}, AssignmentSettings(acceptable_lag=END))
    assert len(placed.active["new"]) == 2
    assert not placed.unsettled


def test_the_sticky_assignor_moves_at_once_wherever_the_state_is() -> None:
    _, placed = two_instances({}, AssignmentSettings(warm_up=False))
    assert len(placed.active["new"]) == 2
    assert not placed.unsettled


def test_a_dead_instances_tasks_go_to_their_standbys() -> None:
    tasks = [TaskId(0, number) for number in range(6)]
    halves = {2: frozenset(tasks[::2]), 3: frozenset(tasks[1::2])}
    members = {
        f"m{number}": MemberState(process(number), standbys=held, offsets=dict.fromkeys(held, END - 5), generation=1)
        for number, held in halves.items()
    }
    placed = place(tasks, tasks, members, members, dict.fromkeys(tasks, END), AssignmentSettings(1))
    assert placed.handed_out == {"m2": halves[2], "m3": halves[3]}
    assert placed.standby == {"m2": halves[3], "m3": halves[2]}


def test_without_ends_nothing_that_runs_moves() -> None:
    tasks = [TaskId(0, number) for number in range(4)]
    members = {"old": MemberState(process(1), frozenset(tasks), generation=1), "new": MemberState(process(2))}
    placed = place(tasks, tasks, members, members, None, AssignmentSettings())
    assert placed.active["old"] == set(tasks)
    assert placed.unsettled


def zones(members: Mapping[str, tuple[int, str]], replicas: int) -> list[list[str]]:
    tasks = [TaskId(0, number) for number in range(6)]
    states = {name: MemberState(process(number), tags={"zone": zone}) for name, (number, zone) in members.items()}
    placed = place(tasks, tasks, states, states, dict.fromkeys(tasks, 0), AssignmentSettings(replicas, tags=("zone",)))

    def zones_of(task: TaskId) -> Collection[str]:
        return [states[n].tags["zone"] for n in states if task in placed.handed_out[n] | placed.standby[n]]

    return [sorted(zones_of(task)) for task in tasks]


def test_copies_are_in_other_zones() -> None:
    members = {"m1": (1, "a"), "m2": (2, "a"), "m3": (3, "b"), "m4": (4, "b")}
    assert zones(members, 1) == [["a", "b"]] * 6


def test_with_too_few_zones_there_still_are_copies() -> None:
    members = {"m1": (1, "a"), "m2": (2, "a"), "m3": (3, "b")}
    assert zones(members, 2) == [["a", "a", "b"]] * 6


def test_older_members_run_tasks_and_get_no_copies() -> None:
    tasks = [TaskId(0, number) for number in range(4)]
    members = {
        "new": MemberState(process(1), frozenset(tasks), offsets=dict.fromkeys(tasks, RUNNING_OFFSET), generation=1),
        "old": MemberState(process(2), follows=False),
    }
    placed = place(tasks, tasks, members, members, dict.fromkeys(tasks, END), AssignmentSettings(1))
    assert len(placed.active["old"]) == 2
    assert placed.standby["old"] == set()
    assert placed.standby["new"] == placed.active["old"]


def test_a_task_that_its_owner_still_restores_goes_to_who_has_its_state() -> None:
    task = TaskId(0, 0)
    members = {
        "restoring": MemberState(process(1), frozenset({task}), offsets={task: 10}, generation=1),
        "back": MemberState(process(2), offsets={task: END - 10}),
    }
    placed = place([task], [task], members, members, {task: END}, AssignmentSettings())
    assert placed.active == {"restoring": set(), "back": {task}}
    members["back"] = MemberState(process(2), offsets={task: 20_000})
    placed = place([task], [task], members, members, {task: END}, AssignmentSettings())
    assert placed.active == {"restoring": {task}, "back": set()}, "neither is ready: it stays"


def test_what_is_caught_up_moves_there_and_not_to_another_new_instance() -> None:
    tasks = [TaskId(0, 0), TaskId(0, 1)]
    for ready, other in ((2, 3), (3, 2)):
        members = {
            "old": MemberState(
                process(1), frozenset(tasks), offsets=dict.fromkeys(tasks, RUNNING_OFFSET), generation=1
            ),
            f"m{ready}": MemberState(process(ready), standbys=frozenset(tasks), offsets=dict.fromkeys(tasks, END)),
            f"m{other}": MemberState(process(other)),
        }
        placed = place(tasks, tasks, members, members, dict.fromkeys(tasks, END), AssignmentSettings())
        assert len(placed.active[f"m{ready}"]) == 1
        assert not placed.unsettled
