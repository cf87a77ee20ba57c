"""Layouts of the messages that kafka-python does not have, written as it writes its own (``streams_protocol``)."""
