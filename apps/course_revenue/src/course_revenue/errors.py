"""What the product's commands refuse."""

from __future__ import annotations

from headrace.errors import KafkaException


class RefusedError(KafkaException):
    """A command would do harm as things are; nothing was changed. The message says what to do."""
