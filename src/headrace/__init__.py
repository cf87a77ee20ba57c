"""Kafka Streams for Python."""
