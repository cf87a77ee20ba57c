"""Plain readers and writers of topics for what stands beside an application: tools, loaders, dashboards, checks.

``TopicReader`` reads a topic from its beginning; ``LatestByKey`` keeps the newest value of every key, which is how an
output topic of totals is meant to be read; ``TopicWriter`` sends records and knows that they arrived. Readers see
committed records only, and say up to which offsets they have read.
"""

from __future__ import annotations

from headrace.kafka import NewTopic
from headrace.topics.creation import ensure_topics
from headrace.topics.latest import LatestByKey
from headrace.topics.reader import TopicReader, TopicRecord
from headrace.topics.writer import TopicWriter

__all__ = ["LatestByKey", "NewTopic", "TopicReader", "TopicRecord", "TopicWriter", "ensure_topics"]
