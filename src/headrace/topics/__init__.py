"""Plain readers and writers of topics for what stands beside an application: tools, loaders, dashboards, checks.

``TopicReader`` reads a topic from its beginning; ``LatestByKey`` keeps the newest value of every key, which is how an
output topic of totals is meant to be read; ``TopicWriter`` sends records and knows that they arrived,
``TransactionalWriter`` sends some of them together or not at all. Readers see committed records only, and say up to
which offsets they have read. ``TopicAdmin`` asks about topics, offsets and groups, and changes them.
"""

from __future__ import annotations

from headrace.kafka import GroupDescription, NewTopic, TopicAdmin, TopicSetting
from headrace.topics.committed import partition_time
from headrace.topics.creation import ensure_topics
from headrace.topics.latest import LatestByKey
from headrace.topics.reader import TopicReader, TopicRecord
from headrace.topics.writer import TopicWriter, TransactionalWriter

__all__ = [
    "GroupDescription",
    "LatestByKey",
    "NewTopic",
    "TopicAdmin",
    "TopicReader",
    "TopicRecord",
    "TopicSetting",
    "TopicWriter",
    "TransactionalWriter",
    "ensure_topics",
    "partition_time",
]
