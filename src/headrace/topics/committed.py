"""What an application has written beside its committed offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.engine.offsets import decode_metadata

if TYPE_CHECKING:
    from headrace.records import OffsetAndMetadata


def partition_time(committed: OffsetAndMetadata) -> int:
    """The greatest timestamp (epoch ms) of what an application, ours or Java's, has processed of a partition.

    -1 where it has processed nothing of it, whatever the offset: that also goes past what no transaction committed.
    """
    return decode_metadata(committed.metadata)[0]
