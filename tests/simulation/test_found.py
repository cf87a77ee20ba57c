"""Faults of the product that the simulation has found, each made to happen again."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headrace.assignment import AssignmentInfo, MemberAssignment, encode_assignment
from headrace.kafka.group_client import GroupSettings
from simulation.member import Connection
from simulation.plan import Fault, Plan, draw
from simulation.process import Disk, Process
from simulation.run import run
from simulation.world import APPLICATION, World

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.assignment import GroupMember
    from headrace.records import TopicPartition


def _plan(*faults: Fault, exactly_once: bool = True) -> Plan:
    """A quiet run with a record every 0.2 s."""
    return replace(
        draw(0),
        streams=False,
        exactly_once=exactly_once,
        repartitioned=True,
        persistent=True,
        standbys=0,
        instances=2,
        threads=1,
        partitions=1,
        loss=0.0,
        slow_markers=0.0,
        stale_ends=0.0,
        inputs=[(0.2 * number, 0, "x0") for number in range(1, 70)],
        faults=list(faults),
    )


class _Listener:
    """A member without tasks that counts its joins."""

    joins = 0

    def subscription(self) -> tuple[Sequence[str], bytes, Iterable[TopicPartition], int]:
        return ("in",), b"", (), -1

    def perform_assignment(self, members: Sequence[GroupMember]) -> Mapping[str, MemberAssignment]:
        nothing = encode_assignment(AssignmentInfo())
        return {member.member_id: MemberAssignment((), nothing) for member in members}

    def joined(self, generation: int, assignment: MemberAssignment) -> None:
        self.joins += 1

    def fell_out(self, reason: str) -> None:
        pass

    def fenced(self) -> None:
        pass


def test_a_wish_to_join_again_outlives_the_join_that_is_under_way() -> None:
    """Revoked tasks were closed behind a JoinGroup that still claimed them, and then nobody was given them."""
    world = World(_plan())
    process, listener = Process("i0", Disk("i0", 0), world.clock), _Listener()
    connection = Connection(world, process, GroupSettings(APPLICATION, None, 6_000, 1_500, 12_000), listener)
    connection.advance()
    connection.request_rejoin()
    world.clock.sleep(1.0)
    assert listener.joins == 1
    connection.advance()
    world.clock.sleep(1.0)
    assert listener.joins == 2
    connection.advance()
    world.clock.sleep(1.0)
    assert listener.joins == 2


def test_a_thawed_instance_whose_records_were_purged_by_their_new_owner_joins_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its position was out of range then, and the thread ended by that."""
    # which moments make it happen changes with every request that the product sends more or less
    with caplog.at_level(logging.WARNING):
        for tenths in range(25, 40):
            run(World(_plan(Fault(tenths / 10, "freeze", 0, 9.0), Fault(tenths / 10, "freeze", 1, 1.5))), logs=True)
            if "app-rows-repartition-0 is read elsewhere" in caplog.text:
                return
    pytest.fail("no moment makes it happen")


def test_an_instance_that_is_stopped_while_no_broker_answers_ends_without_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its state was ERROR, and the uncaught exception handler was asked, for a TimeoutException."""
    world = World(_plan(Fault(4.0, "outage", 0, 20.0), Fault(4.5, "stop", 0, 0.0), Fault(5.0, "stop", 1, 0.0)))
    with caplog.at_level(logging.WARNING):
        run(world, logs=True)
    assert "ends although the brokers do not answer" in caplog.text


@pytest.mark.parametrize("streams", [False, True])
def test_an_instance_that_could_not_say_that_it_leaves_goes_on_as_its_member(streams: bool) -> None:
    """Its member was forgotten all the same, and stood in the group beside the next one until its session was over."""
    world = World(replace(_plan(Fault(4.0, "abandon", 0, 3.0)), streams=streams))
    instance, left = world.instances[0], list[dict[str, int]]()

    def look() -> None:
        if instance.process is None or instance.alive:
            world.clock.at(0.05, look)
        else:
            left.append(dict(instance.disk.members))

    world.clock.at(4.0, look)
    run(world)
    assert [list(members.values()) for members in left] == [[1]]
