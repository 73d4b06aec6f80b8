"""The schema of a table as Kafka Connect describes it: ``schema`` in messages that contain theirs.

The types are those of the values as they are written: a date is a string.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.types import ArrayType, DataType, DecimalType, MapType, PrimitiveType, RowType

_NAMES = {
    "BOOLEAN": "boolean",
    "TINYINT": "int16",
    "SMALLINT": "int16",
    "INT": "int32",
    "BIGINT": "int64",
    "FLOAT": "float",
    "DOUBLE": "double",
}


def describe_change(row: RowType) -> Mapping[str, Any]:
    """The schema of changes of rows: ``before`` and ``after``."""
    images = [{**_describe_row(row), "optional": True, "field": name} for name in ("before", "after")]
    return {"type": "struct", "fields": images, "optional": False}


def _describe_row(row: RowType) -> dict[str, Any]:
    return {"type": "struct", "fields": [{**_describe(each.type), "field": each.name} for each in row.fields]}


def _describe(data_type: DataType) -> dict[str, Any]:
    match data_type:
        case RowType():
            found = _describe_row(data_type)
        case ArrayType(element=element):
            found = {"type": "array", "items": _describe(element)}
        case MapType(key=key, value=value):
            found = {"type": "map", "keys": _describe(key), "values": _describe(value)}
        case PrimitiveType(name=name) if name in _NAMES:
            found = {"type": _NAMES[name]}
        case DecimalType():
            found = {"type": "double"}
        case _:
            found = {"type": "string"}
    return {**found, "optional": data_type.nullable}
