"""Kafka for PySpark: SQL tables, pipelines and exactly-once delivery, in Python, without a jar."""

__version__ = "0.1.0"
