"""Up to where a global store follows its topic: the offsets of all its partitions, in a file beside the stores.

A store's own offset is one number, and a global store is of many partitions. So it counts checkpoints there, and the
file says which offsets belong to the count: rows are written first, then the count, then the file. What a crash leaves
is a store that is at its file's count or past it (then records are read again), or, when the machine died and took the
end of the store's log along, behind it: such a store is emptied and filled anew.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headrace.records import TopicPartition
from headrace.state.disk import read_object, replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from headrace.state.base import StoreBase


class GlobalCheckpoint:
    """The file for the global stores of one client.

    Args:
        path: The file.
        stores: The stores by name.
        topics: Each store's topic.
        topic_ids: The topics' ids: a topic made anew under its old name says nothing about the rows.
    """

    def __init__(
        self,
        path: Path,
        stores: Mapping[str, StoreBase[Any, Any]],
        topics: Mapping[str, str],
        topic_ids: Mapping[str, str],
    ) -> None:
        self._path = path
        self._stores = {name: store for name, store in stores.items() if store.persistent}
        self._topics = topics
        self._ids = topic_ids
        self._saved: dict[TopicPartition, int] = {}

    def load(self) -> dict[TopicPartition, int]:
        """Where to go on reading. A store that the file does not know is emptied: its topic is read from the start."""
        entries = read_object(self._path)
        found: dict[TopicPartition, int] = {}
        for name, store in self._stores.items():
            topic, entry = self._topics[name], entries.get(name)
            if (
                entry is not None
                and entry["topic_id"] == self._ids.get(topic)
                and (store.rows.body.offset() or 0) >= entry["count"]
            ):
                found |= {TopicPartition(topic, int(number)): at for number, at in entry["offsets"].items()}
            else:
                store.rows.body.clear()
        self._saved = dict(found)
        return found

    def forget(self, topic: str) -> None:
        """Empty the store of a topic, which has lost what it would go on from."""
        for name, store in self._stores.items():
            if self._topics[name] == topic:
                store.rows.body.clear()
        self._saved = {tp: offset for tp, offset in self._saved.items() if tp.topic != topic}

    def save(self, positions: Mapping[TopicPartition, int]) -> None:
        """Remember where partitions are read next; all before is in the stores."""
        if not self._stores or positions == self._saved:
            return
        entries: dict[str, Any] = {}
        for name, store in self._stores.items():
            topic, body = self._topics[name], store.rows.body
            count = (body.offset() or 0) + 1
            body.write([], count)
            offsets = {str(tp.partition): offset for tp, offset in positions.items() if tp.topic == topic}
            entries[name] = {"topic_id": self._ids.get(topic), "count": count, "offsets": offsets}
        replace_file(self._path, json.dumps(entries))
        self._saved = dict(positions)
