"""Kafka tables: options, columns and formats of both directions."""
