"""What a builder was told, as a table's options say it."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.common import DeserializationSchema, SerializationSchema


def prefixed(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties of Kafka's client as options."""
    return {f"properties.{key}": str(value) for key, value in properties.items()}


def format_options(schema: DeserializationSchema | SerializationSchema, option: str, prefix: str) -> dict[str, str]:
    """The format and its options, as a table says them."""
    return {option: schema.format, **{f"{prefix}{schema.format}.{key}": value for key, value in schema.options}}
