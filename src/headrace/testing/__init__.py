"""What tests of topologies and of the library stand on: the driver and a local Kafka cluster."""

from headrace.testing.driver import TestInputTopic, TestOutputTopic, TestRecord, TopologyTestDriver

__all__ = ["TestInputTopic", "TestOutputTopic", "TestRecord", "TopologyTestDriver"]
