"""The compiled loops and protobuf's own runtime read and write the same messages, whatever the definition."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.columns.buffers import build_batch
from penstock.errors import RecordError, SchemaError
from penstock.exact.errors import FieldError, Malformed
from penstock.formats.protobuf.column_checks import is_map
from penstock.formats.protobuf.decode import ProtobufDecoder
from penstock.formats.protobuf.definition import Definition
from penstock.formats.protobuf.encode import ProtobufEncoder
from penstock.formats.protobuf.exact_reader import ExactProtobufReader
from penstock.formats.protobuf.options import ProtobufOptions
from penstock.formats.protobuf.wire import LEN
from penstock.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    ArrayType,
    DataType,
    MapType,
    RowType,
    arrow_schema,
)
from tests.unit.formats.protobuf.generated import ENUM, column_values, definitions, fill, messages, rows, written

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@st.composite
def tables(draw: Any) -> tuple[Definition, RowType, list[bytes]]:
    definition = draw(definitions())
    row = draw(rows(definition.message))
    return definition, row, draw(st.lists(messages(definition.message), min_size=1, max_size=6))


def unordered(value: Any) -> Any:
    """Values with the entries of maps in one order, distinguished by their text: NaN equals NaN."""
    if isinstance(value, dict):
        return {name: unordered(each) for name, each in value.items()}
    if isinstance(value, list):
        found = [unordered(each) for each in value]
        return sorted(found, key=repr) if found and isinstance(found[0], tuple) else found
    return tuple(map(unordered, value)) if isinstance(value, tuple) else value


def is_like_java(kind: Any, data: bytes) -> bool:
    """Whether protobuf's runtime for Python reads a message as that for Java does, as far as is known.

    It lets a field of number 0 pass where it knows no field, and drops the entry of a map that has unknown fields.
    """
    try:
        return not differs(kind.FromString(data))
    except DecodeError:
        return True


def differs(message: Any) -> bool:
    maps = {each.number for each in message.DESCRIPTOR.fields if is_map(each)}
    unknown = UnknownFieldSet(message)
    if any(each.field_number in maps and each.wire_type == LEN for each in unknown) or has_number_zero(unknown):
        return True
    for field, value in message.ListFields():
        if field.message_type:
            if is_map(field):
                inner = list(value.values()) if field.message_type.fields_by_name["value"].message_type else []
            else:
                inner = list(value) if field.is_repeated else [value]
            if any(map(differs, inner)):
                return True
    return False


def has_number_zero(fields: UnknownFieldSet) -> bool:
    return any(
        each.field_number == 0 or (isinstance(each.data, UnknownFieldSet) and has_number_zero(each.data))
        for each in fields
    )


@settings(max_examples=100, deadline=None, suppress_health_check=SLOW)
@given(tables(), st.booleans())
def test_messages_are_read_as_the_runtime_reads_them(
    table: tuple[Definition, RowType, list[bytes]], read_defaults: bool
) -> None:
    definition, row, data = table
    kind = GetMessageClass(definition.message)
    data = [each for each in data if is_like_java(kind, each)]
    options = ProtobufOptions(
        message_class_name=definition.name, read_default_values=read_defaults, definition=definition
    )
    decoded = ProtobufDecoder(row, options).decode(pa.array(data, pa.binary()))
    decoded.rows.validate(full=True)
    assert decoded.rows.num_columns == 0 or decoded.rows.schema == arrow_schema(row)
    exact = ExactProtobufReader(definition.message, row, read_defaults)
    expected, refused = [], []
    for index, each in enumerate(data):
        try:
            expected.append(exact.read(each))
        except (FieldError, Malformed):
            refused.append(index)
    assert [bad.index for bad in decoded.bad] == refused
    schema = arrow_schema(row)
    columns = [pa.array([each[field.name] for each in expected], field.type) for field in schema]
    again = build_batch(columns, schema, len(expected))
    assert decoded.rows.num_rows == len(expected)
    assert repr(unordered(decoded.rows.to_pylist())) == repr(unordered(again.to_pylist()))


def of_json(kind: DataType, field: Any, value: Any) -> Any:
    """A value of protobuf's JSON, as the column has it."""
    if isinstance(kind, RowType):
        return json_row(kind, field.message_type, value)
    if field.enum_type:
        number = value if isinstance(value, int) else field.enum_type.values_by_name[value].number
        names = {number: name for name, number in reversed(ENUM)}
        return names.get(number, "UNRECOGNIZED") if kind == STRING else number
    if kind == BYTES:
        return base64.b64decode(value)
    if kind == BOOLEAN:
        return value in (True, "true")
    if kind in (FLOAT, DOUBLE):
        return float(value)
    if kind in (INT, BIGINT):
        bits = 32 if kind == INT else 64
        return (int(value) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
    return value


def json_row(row: RowType, message: Any, document: dict[str, Any]) -> dict[str, Any]:
    """The row of an object of protobuf's JSON that has the fields that are present, or not able to be absent."""
    found: dict[str, Any] = {}
    for each in row.fields:
        field, value = message.fields_by_name[each.name], document.get(each.name)
        if value is None or (field.is_repeated and not value):
            found[each.name] = None
        elif isinstance(each.type, MapType):
            entry = field.message_type.fields_by_name
            found[each.name] = [
                (of_json(each.type.key, entry["key"], key), of_json(each.type.value, entry["value"], inner))
                for key, inner in value.items()
            ]
        elif isinstance(each.type, ArrayType):
            found[each.name] = [of_json(each.type.element, field, inner) for inner in value]
        else:
            found[each.name] = of_json(each.type, field, value)
    return found


@st.composite
def whole_tables(draw: Any) -> tuple[Definition, RowType, list[Any]]:
    definition = draw(definitions())
    kind = GetMessageClass(definition.message)
    return definition, draw(rows(definition.message, narrow=False)), [fill(draw, kind()) for _ in range(3)]


@settings(max_examples=70, deadline=None, suppress_health_check=SLOW)
@given(whole_tables())
def test_messages_are_read_as_their_json_shows_them(table: tuple[Definition, RowType, list[Any]]) -> None:
    definition, row, found = table
    found = [each for each in found if each.IsInitialized()]
    options = ProtobufOptions(message_class_name=definition.name, definition=definition)
    decoded = ProtobufDecoder(row, options).decode(pa.array([each.SerializeToString() for each in found], pa.binary()))
    assert decoded.bad == ()
    documents = [
        json_format.MessageToDict(each, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
        for each in found
    ]
    expected = [json_row(row, definition.message, document) for document in documents]
    schema = arrow_schema(row)
    columns = [pa.array([each[field.name] for each in expected], field.type) for field in schema]
    again = build_batch(columns, schema, len(expected))
    assert repr(unordered(decoded.rows.to_pylist())) == repr(unordered(again.to_pylist()))


@st.composite
def filled_tables(draw: Any) -> tuple[Definition, RowType, list[dict[str, Any]]]:
    definition = draw(definitions())
    row = draw(rows(definition.message))
    values = st.fixed_dictionaries({each.name: column_values(each.type) for each in row.fields})
    return definition, row, draw(st.lists(values, min_size=1, max_size=5))


def lacks_required(message: Any, row: RowType) -> bool:
    """Whether a field that has to be there has no column."""
    columns = {each.name: each.type for each in row.fields}
    for field in message.fields:
        kind = columns.get(field.name)
        if field.is_required and kind is None:
            return True
        inner, found = kind, field
        if isinstance(kind, MapType):
            inner, found = kind.value, field.message_type.fields_by_name["value"]
        elif isinstance(kind, ArrayType):
            inner = kind.element
        if isinstance(inner, RowType) and lacks_required(found.message_type, inner):
            return True
    return False


@settings(max_examples=100, deadline=None, suppress_health_check=SLOW)
@given(filled_tables(), st.sampled_from(["", "null", "é"]))
def test_rows_are_written_as_the_runtime_writes_them(
    table: tuple[Definition, RowType, list[dict[str, Any]]], null_text: str
) -> None:
    definition, row, values = table
    options = ProtobufOptions(
        message_class_name=definition.name, write_null_string_literal=null_text, definition=definition
    )
    kind = GetMessageClass(definition.message)
    expected = [written(kind(), row, each, null_text) for each in values]
    schema = arrow_schema(row)
    columns = [pa.array([each[field.name] for each in values], field.type) for field in schema]
    batch = build_batch(columns, schema, len(values))
    incomplete = [index for index, each in enumerate(expected) if not each.IsInitialized()]
    if lacks_required(definition.message, row):
        with pytest.raises(SchemaError, match="requires this field"):
            ProtobufEncoder(row, options)
        return
    encoder = ProtobufEncoder(row, options)
    if incomplete:
        with pytest.raises(RecordError, match="required") as raised:
            encoder.encode(batch)
        assert raised.value.offset == incomplete[0]
        return
    found = encoder.encode(batch)
    found.validate(full=True)
    for index, (data, message) in enumerate(zip(found.to_pylist(), expected, strict=True)):
        again = kind.FromString(data)
        assert again.SerializeToString(deterministic=True) == message.SerializeToString(deterministic=True)
        assert len(data) == message.ByteSize()
        assert encoder.encode(batch.slice(index, 1)).to_pylist() == [data]
