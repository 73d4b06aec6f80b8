"""What sources and sinks have in common."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from penstock.common import DeserializationSchema, SerializationSchema
from penstock.options import Origin
from penstock.spi import Column, Surface, TableDefinition

__all__ = ["DeliveryGuarantee", "client_options", "format_options", "table_to_read"]


class DeliveryGuarantee(enum.Enum):
    """What a failure may do to the records written."""

    #: Neither lost nor repeated: one Kafka transaction per batch.
    EXACTLY_ONCE = 0
    #: Not lost; repeated when a batch is done again.
    AT_LEAST_ONCE = 1
    #: Lost or repeated.
    NONE = 2

    @property
    def text(self) -> str:
        """The value of the option ``sink.delivery-guarantee``."""
        return self.name.lower().replace("_", "-")


def client_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Kafka's own properties, as a table says them."""
    return {f"properties.{key}": str(value) for key, value in properties.items()}


def format_options(schema: DeserializationSchema | SerializationSchema, option: str, prefix: str) -> dict[str, str]:
    """The format and its options, as a table says them."""
    return {option: schema.format, **{f"{prefix}{schema.format}.{key}": value for key, value in schema.options}}


def table_to_read(
    name: str, schema: DeserializationSchema, options: Mapping[str, str], objects: Mapping[str, Any] | None = None
) -> TableDefinition:
    """The table of the values that ``schema`` reads."""
    columns = tuple(Column(each.name, each.type) for each in schema.type_info.row.fields)
    given = {**options, **format_options(schema, "format", "")}
    return TableDefinition(name, columns, given, Origin(f"source '{name}'"), Surface.BUILDER, objects=objects or {})
