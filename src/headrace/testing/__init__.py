"""What tests of topologies and of the library stand on: the driver, mock contexts and a local Kafka cluster."""

from headrace.testing.driver import TestInputTopic, TestOutputTopic, TestRecord, TopologyTestDriver
from headrace.testing.mock_context import (
    CapturedForward,
    CapturedPunctuator,
    MockFixedKeyProcessorContext,
    MockProcessorContext,
    fixed_key_record,
)

__all__ = [
    "CapturedForward",
    "CapturedPunctuator",
    "MockFixedKeyProcessorContext",
    "MockProcessorContext",
    "TestInputTopic",
    "TestOutputTopic",
    "TestRecord",
    "TopologyTestDriver",
    "fixed_key_record",
]
