"""Formats: a column of messages to typed columns, and back. One folder each; they know neither Kafka nor Spark."""
