"""Checks which column fits which field, by Flink's table of types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FeatureSet

from penstock.errors import Problem, SchemaError, nearest
from penstock.loops import type_roots
from penstock.loops.type_roots import nested_root
from penstock.types import ArrayType, DataType, MapType, RowType

#: Descriptors of protobuf's runtime, which has no types for them.
Message: TypeAlias = Any
MessageField: TypeAlias = Any

_F = FieldDescriptor
_WHOLE = (type_roots.TINYINT, type_roots.SMALLINT, type_roots.INT, type_roots.BIGINT)
#: The column types that fit each C++ type of a field: their name in errors, and their type roots.
_COLUMNS: dict[int, tuple[str, tuple[int, ...]]] = {
    _F.CPPTYPE_BOOL: ("BOOLEAN", (type_roots.BOOLEAN,)),
    _F.CPPTYPE_INT32: ("INT", (type_roots.INT,)),
    _F.CPPTYPE_UINT32: ("INT", (type_roots.INT,)),
    _F.CPPTYPE_INT64: ("BIGINT", (type_roots.BIGINT,)),
    _F.CPPTYPE_UINT64: ("BIGINT", (type_roots.BIGINT,)),
    _F.CPPTYPE_FLOAT: ("FLOAT", (type_roots.FLOAT,)),
    _F.CPPTYPE_DOUBLE: ("DOUBLE", (type_roots.DOUBLE,)),
    _F.CPPTYPE_STRING: ("STRING", (type_roots.STRING,)),
    _F.CPPTYPE_ENUM: ("STRING or a whole number", (type_roots.STRING, *_WHOLE)),
    _F.CPPTYPE_MESSAGE: ("ROW", (type_roots.ROW,)),
}
_NAMES = {getattr(_F, name): name.removeprefix("TYPE_").lower() for name in dir(_F) if name.startswith("TYPE_")}


def check(message: Message, schema: RowType) -> None:
    """Raise SchemaError with every column that does not fit its field, or that has no field."""
    problems = tuple(_row_problems(message, schema, ""))
    if problems:
        raise SchemaError(problems)


def is_map(field: MessageField) -> bool:
    """Whether a field is a map, which is a repeated message of keys and values."""
    return bool(field.is_repeated and field.message_type and field.message_type.GetOptions().map_entry)


def must_be_utf8(field: MessageField) -> bool:
    """Whether a message is refused if this string is not well-formed UTF-8: true in proto3, false in proto2."""
    return bool(field._GetFeatures().utf8_validation == FeatureSet.Utf8Validation.VERIFY)


def map_first_names(enum: Any) -> dict[int, str]:
    """The names of an enum's numbers; the first name if several share a number, as in Java."""
    found: dict[int, str] = {}
    for value in enum.values:
        found.setdefault(value.number, value.name)
    return found


def field_path(path: str, name: str) -> str:
    """The path of a field inside a message."""
    return f"{path}.{name}" if path else name


def _row_problems(message: Message, row: RowType, path: str) -> Iterator[Problem]:
    for column in row.fields:
        inner = field_path(path, column.name)
        field = message.fields_by_name.get(column.name)
        if field is None:
            hint = nearest(column.name, [each.name for each in message.fields])
            yield Problem(f"the message {message.full_name} has no such field", inner, hint=hint)
        elif is_map(field):
            if isinstance(column.type, MapType):
                entry = field.message_type.fields_by_name
                yield from _value_problems(entry["key"], column.type.key, f"{inner}.key")
                yield from _value_problems(entry["value"], column.type.value, f"{inner}.value")
            else:
                yield _unfit_problem(inner, "a map", column.type, "MAP")
        elif field.is_repeated:
            if isinstance(column.type, ArrayType):
                yield from _value_problems(field, column.type.element, inner)
            else:
                yield _unfit_problem(inner, "a repeated field", column.type, "ARRAY")
        else:
            yield from _value_problems(field, column.type, inner)


def _value_problems(field: MessageField, data_type: DataType, path: str) -> Iterator[Problem]:
    is_bytes = field.type == _F.TYPE_BYTES
    expected, taken = ("BYTES", (type_roots.BYTES,)) if is_bytes else _COLUMNS[field.cpp_type]
    if nested_root(data_type) not in taken:
        yield _unfit_problem(path, _describe_field(field), data_type, expected)
    elif isinstance(data_type, RowType):
        yield from _row_problems(field.message_type, data_type, path)


def _describe_field(field: MessageField) -> str:
    named = field.message_type or field.enum_type
    return f"{_NAMES[field.type]} {named.full_name}" if named else _NAMES[field.type]


def _unfit_problem(path: str, described: str, data_type: DataType, expected: str) -> Problem:
    return Problem(
        f"the message has {described}, which does not fit a column of type {data_type.with_nullability(True)}",
        path,
        hint=f"expected {expected}",
    )
