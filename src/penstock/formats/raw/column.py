"""The only column of a ``raw`` table: its types and their sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.errors import Problem, SchemaError
from penstock.types import BinaryType, Field, PrimitiveType, RowType, StringType

_WIRE = {"BOOLEAN": "u1", "TINYINT": "i1", "SMALLINT": "i2", "INT": "i4", "BIGINT": "i8", "FLOAT": "f4", "DOUBLE": "f8"}


def find_only_column(schema: RowType) -> Field:
    """The only column. Raises SchemaError if there is not exactly one, or if raw does not support its type."""
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
                    f"the raw format does not support {column.type}",
                    column.name,
                    hint="use a string, bytes, BOOLEAN, an integer, FLOAT or DOUBLE",
                ),
            )
        )
    return column


def wire_type(name: str, big: bool) -> np.dtype[Any]:
    """The layout of a number of this type in a message."""
    return np.dtype(_WIRE[name]).newbyteorder(">" if big else "<")
