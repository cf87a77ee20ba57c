"""Who takes a job's place, written where every instance of the job would look before it starts.

The mark is the metadata of the committed offsets of the lines, in the group of the job that is given up: the brokers
keep it, no file has to be carried about, and a job that never runs again has no other use for it. It is set before the
first total is put in place and tells how far a switch has come: a switch that was killed goes on, its job stays down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from headrace import TopicPartition
from headrace.records import OffsetAndMetadata

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.topics import TopicAdmin

_BEGUN: Final = "course-revenue: switching to "
_DONE: Final = "course-revenue: switched to "


class Succession(NamedTuple):
    """Which application id takes the place, and whether its totals are in the job's topic."""

    application_id: str
    done: bool


def succession(committed: Mapping[TopicPartition, OffsetAndMetadata], lines: str) -> Succession | None:
    """What the offsets of a group say.

    Args:
        committed: all of them.
        lines: the topic of lines.
    """
    for tp, entry in committed.items():
        for words, done in ((_BEGUN, False), (_DONE, True)):
            if tp.topic == lines and entry.metadata.startswith(words):
                return Succession(entry.metadata.removeprefix(words), done)
    return None


def give_place(admin: TopicAdmin, application_id: str, lines: str, to: Succession) -> None:
    """Marks a job, which must not run, as given up. Its offsets stay what they are.

    Raises:
        StreamsException: an instance runs. Nothing was marked.
    """
    committed = admin.group_offsets(application_id, stable=True)
    partitions = [TopicPartition(lines, number) for number in range(admin.partition_counts([lines])[lines])]
    starts = admin.list_offsets([tp for tp in partitions if tp not in committed], "earliest")
    text = f"{_DONE if to.done else _BEGUN}{to.application_id}"
    admin.alter_group_offsets(
        application_id,
        {tp: OffsetAndMetadata(committed[tp].offset if tp in committed else starts[tp], text) for tp in partitions},
    )
