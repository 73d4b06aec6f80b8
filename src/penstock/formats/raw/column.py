"""The one column of a ``raw`` table: which types it may have and how wide they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.errors import Problem, SchemaError
from penstock.types import BinaryType, Field, PrimitiveType, RowType, StringType

__all__ = ["only_column", "wire_type"]

_WIRE = {"BOOLEAN": "u1", "TINYINT": "i1", "SMALLINT": "i2", "INT": "i4", "BIGINT": "i8", "FLOAT": "f4", "DOUBLE": "f8"}


def only_column(schema: RowType) -> Field:
    """The column. Raises SchemaError when there is not exactly one, or its type is not one that raw knows."""
    if len(schema.fields) != 1:
        names = ", ".join(f"'{name}'" for name in schema.names) or "none"
        raise SchemaError((Problem(f"the raw format needs exactly one physical column, not {names}"),))
    column = schema.fields[0]
    known = isinstance(column.type, StringType | BinaryType) or (
        isinstance(column.type, PrimitiveType) and column.type.name in _WIRE
    )
    if not known:
        raise SchemaError(
            (
                Problem(
                    f"the raw format has no {column.type}",
                    column.name,
                    hint="it has text, bytes, BOOLEAN, the integers, FLOAT and DOUBLE",
                ),
            )
        )
    return column


def wire_type(name: str, big: bool) -> np.dtype[Any]:
    """How a number of this type lies in a message."""
    return np.dtype(_WIRE[name]).newbyteorder(">" if big else "<")
