"""The schemas that JSON can hold."""

from __future__ import annotations

from penstock.errors import Problem, SchemaError
from penstock.types import ArrayType, DataType, MapType, RowType, StringType


def check_schema(schema: RowType) -> None:
    """Raise SchemaError with every column that has a map whose keys are not strings."""
    problems = tuple(
        Problem("keys of JSON objects are strings; a map needs a STRING, VARCHAR or CHAR key", field.name)
        for field in schema.fields
        if not _keys_are_text(field.type)
    )
    if problems:
        raise SchemaError(problems)


def _keys_are_text(data_type: DataType) -> bool:
    match data_type:
        case MapType(key=key, value=value):
            return isinstance(key, StringType) and _keys_are_text(value)
        case ArrayType(element=element):
            return _keys_are_text(element)
        case RowType(fields=fields):
            return all(_keys_are_text(field.type) for field in fields)
    return True
