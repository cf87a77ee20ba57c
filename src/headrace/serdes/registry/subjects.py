"""Names of subjects. Source: ``io.confluent.kafka.serializers.subject`` (Confluent 8)."""

from __future__ import annotations

from abc import ABC, abstractmethod

from headrace.errors import SerializationException


class SubjectNameStrategy(ABC):
    """Makes the subject under which the schemas of a topic's keys or values are versioned."""

    @abstractmethod
    def subject_name(self, topic: str, is_key: bool, record_name: str | None) -> str:
        """The subject.

        Args:
            topic: Topic of the record.
            is_key: Whether the schema is of keys.
            record_name: Full name of the record in the schema; None where it has none.

        Raises:
            SerializationException: The strategy needs a record name and there is none.
        """


class TopicNameStrategy(SubjectNameStrategy):
    """``{topic}-key`` or ``{topic}-value``: one line of versions a topic."""

    def subject_name(self, topic: str, is_key: bool, record_name: str | None) -> str:
        """See the base."""
        return f"{topic}-{'key' if is_key else 'value'}"


class RecordNameStrategy(SubjectNameStrategy):
    """The record's full name: one line of versions for a record type, whatever topic it is in."""

    def subject_name(self, topic: str, is_key: bool, record_name: str | None) -> str:
        """See the base."""
        return _needed(record_name, topic, is_key, type(self).__name__)


class TopicRecordNameStrategy(SubjectNameStrategy):
    """``{topic}-{record name}``: one line of versions for each record type of a topic."""

    def subject_name(self, topic: str, is_key: bool, record_name: str | None) -> str:
        """See the base."""
        return f"{topic}-{_needed(record_name, topic, is_key, type(self).__name__)}"


def _needed(record_name: str | None, topic: str, is_key: bool, strategy: str) -> str:
    if record_name is None:
        raise SerializationException(
            f"The {'key' if is_key else 'value'} for topic '{topic}' has a schema without a name, and {strategy} makes "
            "the subject of the name: use a record, or TopicNameStrategy"
        )
    return record_name
