"""Builders as tables and their options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.common.serialization import FormatDeserializationSchema, FormatSerializationSchema
from penstock.options import Origin
from penstock.spi import Column, Surface, TableDefinition
from penstock.types import RowType


def built_table(
    side: str, name: str, row: RowType, options: Mapping[str, str], objects: Mapping[str, Any] | None = None
) -> TableDefinition:
    """The table of the source or the sink ``name``; ``side`` says which."""
    columns = tuple(Column(each.name, each.type) for each in row.fields)
    return TableDefinition(name, columns, options, Origin(f"{side} '{name}'"), Surface.BUILDER, objects=objects or {})


def prefixed(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties of Kafka's client as options."""
    return {f"properties.{key}": str(value) for key, value in properties.items()}


def format_options(
    schema: FormatDeserializationSchema | FormatSerializationSchema, option: str, prefix: str
) -> dict[str, str]:
    """The format and its options as a table has them."""
    return {option: schema.format, **{f"{prefix}{schema.format}.{key}": value for key, value in schema.options}}
