"""What the product's commands refuse, and how they fail."""

from __future__ import annotations

from headrace.errors import KafkaException


class RefusedError(KafkaException):
    """A command would do harm as things are; nothing was changed. The message says what to do."""


class JobFailedError(KafkaException):
    """An instance that a command started has ended by itself; the message has the end of its log."""


class NoCutError(KafkaException):
    """There was no moment at which input and totals could be compared. The message says what to do."""


class LakeError(KafkaException):
    """The totals cannot be landed in the table, or read from it, as things are. The message says what to do."""
