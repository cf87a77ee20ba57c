"""A run of one seed, with the product's modules in the virtual world."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from headrace.kafka import classic, consumer, coordinator_link, group_admin, producer, streams, streams_member
from headrace.runtime import committer, follower, groups, positions, state_updater, stream_thread, topics
from headrace.state import suppliers
from simulation.clients import Consumer, GroupAdmin, Producer, TopicAdmin
from simulation.clock import VirtualThreading, VirtualTime, VirtualUuid
from simulation.member import Connection
from simulation.plan import draw
from simulation.process import open_body
from simulation.streams_link import StreamsLink
from simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator


_PROBING_MS: Final = 5_000

SEEDS: Final = 2_000
"""From 0 on, these are tested."""


@contextlib.contextmanager
def _virtual(world: World) -> Iterator[None]:
    """Put the world in place of threads, clocks and clients."""

    def here() -> Any:
        return world.clock.current.owner

    settings_of, request_rejoin = groups.assignment_settings, classic.ClassicMembership.request_rejoin

    def rejoins(self: classic.ClassicMembership, reason: str) -> None:
        world.counts["probing rebalances"] += "probing" in reason
        request_rejoin(self, reason)

    threading, time = VirtualThreading(world.clock), VirtualTime(world.clock)
    places: list[tuple[Any, str, Any]] = [
        *((module, "threading", threading) for module in (stream_thread, state_updater, topics)),
        *(
            (module, "time", time)
            for module in (stream_thread, state_updater, topics, committer, follower, positions, producer)
        ),
        (coordinator_link, "time", time),
        (streams, "time", time),
        (stream_thread, "TopicAdmin", lambda config, timeout_ms: TopicAdmin(world, here())),
        (consumer, "Consumer", lambda settings, logger: Consumer(world, here(), settings)),
        (group_admin, "GroupAdmin", lambda config, timeout_ms: GroupAdmin(world, here())),
        (producer, "Producer", lambda settings, logger: Producer(world, here(), settings)),
        (producer, "send_offsets_to_transaction", lambda client, *arguments: client.send_offsets(*arguments)),
        (
            classic,
            "GroupConnection",
            lambda config, settings, share, timeout_ms: Connection(world, here(), settings, share),
        ),
        (
            streams,
            "StreamsConnection",
            lambda config, member, timeout_ms, *told: StreamsLink(world, here(), member),
        ),
        (streams_member, "uuid", VirtualUuid(world.clock)),
        (suppliers, "_open", open_body),
        # most of what happens would be looking again: while a JoinGroup is unanswered, and for standby tasks
        (committer, "_DOUBT_PAUSE_S", 0.2),
        (state_updater, "_POLL_S", 0.5),
        (stream_thread, "_SETTLING_S", 1.0),
        # a minute at least may be set
        (groups, "assignment_settings", lambda config: replace(settings_of(config), probing_interval_ms=_PROBING_MS)),
        (classic.ClassicMembership, "request_rejoin", rejoins),
    ]
    with contextlib.ExitStack() as stack:
        for module, name, value in places:
            stack.enter_context(patch.object(module, name, value))
        yield


def simulate(seed: int, *, logs: bool = False) -> World:
    """Run the schedule of a seed to its end.

    Args:
        seed: Which.
        logs: Whether the product logs, which takes most of the time.

    Raises:
        Violation: Something that must hold does not.
    """
    world = World(draw(seed))
    run(world, logs=logs)
    return world


def run(world: World, *, logs: bool = False) -> None:
    """See :func:`simulate`."""
    disabled = logging.root.manager.disable
    if not logs:
        logging.disable(logging.CRITICAL)
    try:
        with _virtual(world):
            world.run()
    finally:
        logging.disable(disabled)
