"""The compiled loops and fastavro read and write the same data, whatever the schema."""

from __future__ import annotations

import datetime as dt
import io
import itertools
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.formats.avro.datum import DatumReader, DatumWriter, Spans
from penstock.formats.avro.derived_schema import derive_schema
from penstock.formats.avro.json_encoding import JsonEncoding
from penstock.formats.avro.read_reasons import READ_REASONS
from penstock.formats.avro.schema import parse, schema_document
from penstock.loops.record_status import READ
from penstock.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    ArrayType,
    DataType,
    DecimalType,
    Field,
    MapType,
    RowType,
    TimestampType,
    TimeType,
)

Pair = tuple[Any, Any]
EPOCH = dt.datetime(1970, 1, 1)

#: Simple types, with what is in Avro's data beside what is in the column.
SIMPLE: list[tuple[DataType, st.SearchStrategy[Pair]]] = [
    (BOOLEAN, st.booleans().map(lambda each: (each, each))),
    (TINYINT, st.integers(-(2**7), 2**7 - 1).map(lambda each: (each, each))),
    (SMALLINT, st.integers(-(2**15), 2**15 - 1).map(lambda each: (each, each))),
    (INT, st.integers(-(2**31), 2**31 - 1).map(lambda each: (each, each))),
    (BIGINT, st.integers(-(2**63), 2**63 - 1).map(lambda each: (each, each))),
    (FLOAT, st.floats(width=32).map(lambda each: (each, each))),
    (DOUBLE, st.floats().map(lambda each: (each, each))),
    (STRING, st.text(max_size=9).map(lambda each: (each, each))),
    (BYTES, st.binary(max_size=9).map(lambda each: (each, each))),
    (DATE, st.dates().map(lambda each: ((each - EPOCH.date()).days, each))),
    (
        TimeType(3),
        st.integers(0, 86_399_999).map(lambda each: (each, (EPOCH + dt.timedelta(milliseconds=each)).time())),
    ),
    (
        TimestampType(3),
        st.integers(-(10**13), 10**13).map(lambda each: (each, EPOCH + dt.timedelta(milliseconds=each))),
    ),
]


def decimals(precision: int, scale: int) -> st.SearchStrategy[Pair]:
    def both(number: int) -> Pair:
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1
        return number.to_bytes(size, "big", signed=True), Decimal(number).scaleb(-scale).quantize(
            Decimal(1).scaleb(-scale)
        )

    return st.integers(-(10**precision) + 1, 10**precision - 1).map(both)


@st.composite
def types(draw: Callable[..., Any], depth: int = 3) -> tuple[DataType, st.SearchStrategy[Pair]]:
    """A type and a strategy of its values."""
    kind, values = draw(nested(depth)) if depth and draw(st.integers(0, 2)) == 0 else draw(simple())
    if draw(st.booleans()):
        return kind.with_nullability(False), values
    return kind, st.one_of(st.just((None, None)), values)


@st.composite
def simple(draw: Callable[..., Any]) -> tuple[DataType, st.SearchStrategy[Pair]]:
    if draw(st.integers(0, 6)) == 0:
        precision = draw(st.integers(1, 28))
        scale = draw(st.integers(0, precision))
        return DecimalType(precision, scale), decimals(precision, scale)
    return draw(st.sampled_from(SIMPLE))


@st.composite
def nested(draw: Callable[..., Any], depth: int) -> tuple[DataType, st.SearchStrategy[Pair]]:
    which = draw(st.integers(0, 2))
    if which == 0:
        return draw(rows(depth - 1))
    kind, values = draw(types(depth - 1))
    if which == 1:
        return ArrayType(kind), st.lists(values, max_size=4).map(
            lambda items: ([raw for raw, _ in items], [value for _, value in items])
        )
    return MapType(STRING.with_nullability(False), kind), st.dictionaries(st.text(max_size=3), values, max_size=4).map(
        lambda pairs: (
            {key: raw for key, (raw, _) in pairs.items()},
            [(key, value) for key, (_, value) in pairs.items()],
        )
    )


@st.composite
def rows(draw: Callable[..., Any], depth: int = 2) -> tuple[RowType, st.SearchStrategy[Pair]]:
    found = [draw(types(depth)) for _ in range(draw(st.integers(1, 4)))]
    names = [f"f{index}" for index in range(len(found))]
    row = RowType(tuple(Field(name, kind) for name, (kind, _) in zip(names, found, strict=True)))
    return row, st.tuples(*(values for _, values in found)).map(
        lambda pairs: (
            dict(zip(names, (raw for raw, _ in pairs), strict=True)),
            dict(zip(names, (value for _, value in pairs), strict=True)),
        )
    )


@st.composite
def tables(draw: Callable[..., Any]) -> tuple[RowType, list[Pair]]:
    row, values = draw(rows())
    return row.with_nullability(False), draw(st.lists(values, min_size=1, max_size=5))


def without_logical(document: Any) -> Any:
    return json.loads(
        json.dumps(document), object_hook=lambda node: {k: v for k, v in node.items() if k != "logicalType"}
    )


def written(document: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(without_logical(document)), value)
    return out.getvalue()


def read(reader: DatumReader, messages: list[bytes]) -> tuple[pa.RecordBatch, list[str]]:
    """The rows, and for each why it was refused."""
    found = reader.read(Spans.from_messages(pa.array(messages, pa.binary()), np.full(len(messages), READ, np.uint8)))
    found.rows.validate(full=True)
    return found.rows, [READ_REASONS.get(reason, "") for reason in found.reasons[:, 0].tolist()]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(tables())
def test_rows_of_any_type_both_ways(table: tuple[RowType, list[Pair]]) -> None:
    row, pairs = table
    schema = derive_schema(row)
    messages = [written(schema_document(schema), raw) for raw, _ in pairs]
    values = [value for _, value in pairs]
    rows, reasons = read(DatumReader(schema, schema, row), messages)
    assert reasons == [""] * len(messages)
    assert repr(rows.to_pylist()) == repr(values)
    data, offsets = DatumWriter(schema, row).write(rows)
    assert [data[start:stop].tobytes() for start, stop in itertools.pairwise(offsets)] == messages
    half = rows.slice(len(messages) // 2)
    data, offsets = DatumWriter(schema, row).write(half)
    assert data[: offsets[-1]].tobytes() == b"".join(messages[len(messages) // 2 :])


def written_as_json(text: JsonEncoding, *data: bytes) -> list[bytes]:
    offsets = np.cumsum([0, *map(len, data)])
    found: list[bytes] = text.texts(np.frombuffer(b"".join(data), np.uint8), offsets).to_pylist()
    return found


def single(document: Any) -> Any:
    """What JSON has, numbers with a fraction as the floats nearest to them."""
    if isinstance(document, dict):
        return {key: single(value) for key, value in document.items()}
    if isinstance(document, list):
        return [single(value) for value in document]
    with np.errstate(over="ignore"):
        return float(np.float32(document)) if isinstance(document, float) else document


def read_from_json(text: JsonEncoding, message: bytes) -> bytes:
    """The binary encoding of a message."""
    data, refusals = text.spans(pa.array([message], pa.binary()), np.full(1, READ, np.uint8))
    assert not refusals
    return data.text[data.starts[0] : data.stops[0]].tobytes()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(tables())
def test_avro_json_of_rows_of_any_type(table: tuple[RowType, list[Pair]]) -> None:
    row, pairs = table
    document = schema_document(derive_schema(row))
    parsed, text = fastavro.parse_schema(without_logical(document)), JsonEncoding(derive_schema(row))
    for raw, _ in pairs:
        if '"": ' in json.dumps(raw, default=repr):
            continue  # fastavro cannot write the JSON of a map with an empty key
        message = written(document, raw)
        out = io.StringIO()
        fastavro.json_writer(out, parsed, [raw])
        there = json.loads(out.getvalue(), parse_constant=str)
        (ours,) = written_as_json(text, message)
        assert single(json.loads(ours)) == single(there)  # fastavro writes a float as the double that it is
        for spelling in (ours, json.dumps(there).encode(), json.dumps(there, ensure_ascii=False, indent=1).encode()):
            again = read_from_json(text, spelling)
            assert again == message or "NaN" in json.dumps(there)
            assert written_as_json(text, again) == [ours]


PROMOTED = {
    "long": ["int"],
    "float": ["int", "long"],
    "double": ["int", "long", "float"],
    "string": ["bytes"],
    "bytes": ["string"],
}
VALUES = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**53), 2**53),
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": st.text(max_size=5),
    "bytes": st.text(max_size=5).map(str.encode),
}


@st.composite
def written_as(draw: Callable[..., Any], reader: Any, name: str) -> tuple[Any, st.SearchStrategy[Any]]:
    """A schema whose data can be read with ``reader``, both as JSON, and its values; each type of a union that it
    makes has values that fastavro cannot take for those of another."""
    if isinstance(reader, list):
        inner, values = draw(written_as(reader[1], name))
        shape = draw(st.integers(0, 3))
        if shape == 0 or isinstance(inner, list):
            return inner, values
        if shape == 1:
            return [inner, "null"], st.none() | values
        if shape == 2 and inner not in ("boolean", "float", "double"):
            return ["null", "boolean", inner], st.none() | values
        return ["null", inner], st.none() | values
    if isinstance(reader, str):
        kind = draw(st.sampled_from([reader, reader, *PROMOTED.get(reader, [])]))
        return kind, VALUES[kind]
    if reader["type"] == "array":
        inner, values = draw(written_as(reader["items"], name))
        return {"type": "array", "items": inner}, st.lists(values, max_size=3)
    if reader["type"] == "map":
        inner, values = draw(written_as(reader["values"], name))
        return {"type": "map", "values": inner}, st.dictionaries(st.text(max_size=3), values, max_size=3)
    fields, values = [], {}
    for each in reader["fields"]:
        if "default" in each and draw(st.integers(0, 4)) == 0:
            continue
        inner, values[each["name"]] = draw(written_as(each["type"], f"{name}_{each['name']}"))
        fields.append({"name": each["name"], "type": inner})
    if draw(st.booleans()):
        inner, extra = draw(st.sampled_from(EXTRA))
        fields.append({"name": "extra", "type": json.loads(json.dumps(inner).replace("NAME", f"{name}_extra"))})
        values["extra"] = extra
    return {"type": "record", "name": name, "fields": draw(st.permutations(fields))}, st.fixed_dictionaries(values)


EXTRA: list[tuple[Any, st.SearchStrategy[Any]]] = [
    *((kind, values) for kind, values in VALUES.items()),
    ({"type": "array", "items": "int"}, st.lists(VALUES["int"], max_size=3)),
    (["null", {"type": "map", "values": ["null", "double"]}], st.none() | st.dictionaries(st.text(), st.floats())),
    ({"type": "enum", "name": "NAME", "symbols": ["A", "B"]}, st.sampled_from("AB")),
    ({"type": "fixed", "name": "NAME", "size": 3}, st.binary(min_size=3, max_size=3)),
    (["null", {"type": "record", "name": "NAME", "fields": [{"name": "x", "type": "string"}]}], st.just({"x": "y"})),
]


PLAIN = [BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, STRING, BYTES]


def plain_types(depth: int = 2) -> st.SearchStrategy[DataType]:
    inner = st.sampled_from(PLAIN)
    found: st.SearchStrategy[DataType] = inner
    if depth:
        deeper = plain_types(depth - 1)
        found = st.one_of(
            inner,
            inner,
            deeper.map(ArrayType),
            deeper.map(lambda kind: MapType(STRING, kind)),
            st.lists(deeper, min_size=1, max_size=3).map(plain_row),
        )
    return st.tuples(found, st.booleans()).map(lambda pair: pair[0].with_nullability(pair[1]))


def plain_row(kinds: list[DataType]) -> RowType:
    return RowType(tuple(Field(f"f{index}", kind) for index, kind in enumerate(kinds)), nullable=False)


@st.composite
def resolutions(draw: Callable[..., Any]) -> tuple[RowType, Any, list[Any]]:
    row = plain_row(draw(st.lists(plain_types(), min_size=1, max_size=4)))
    document = schema_document(derive_schema(row))
    writer, values = draw(written_as(document, document["name"]))
    return row, writer, draw(st.lists(values, min_size=1, max_size=4))


def as_column(kind: DataType, value: Any) -> Any:
    """A value that fastavro gave, as the column has it."""
    if value is None:
        return None
    match kind:
        case RowType(fields=fields):
            return {field.name: as_column(field.type, value[field.name]) for field in fields}
        case ArrayType(element=element):
            return [as_column(element, each) for each in value]
        case MapType(value=inner):
            return [(key, as_column(inner, each)) for key, each in value.items()]
    if kind.text() == "FLOAT":
        return float(np.float32(value))
    return float(value) if kind.text() == "DOUBLE" else value


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(resolutions())
def test_resolution_of_two_schemas(case: tuple[RowType, Any, list[Any]]) -> None:
    row, document, values = case
    reader, writer = derive_schema(row), parse(json.dumps(document))
    messages = [written(document, value) for value in values]
    there, here = fastavro.parse_schema(document), fastavro.parse_schema(schema_document(reader))
    rows, reasons = read(DatumReader(writer, reader, row), messages)
    for message, found, reason in zip(messages, rows.to_pylist(), reasons, strict=True):
        try:
            expected = fastavro.schemaless_reader(io.BytesIO(message), there, here)
        except fastavro._read_common.SchemaResolutionError:
            assert reason == "the branch of the union does not fit the column"
        else:
            assert reason == ""
            assert repr(found) == repr(as_column(row, expected))


MUTATED = RowType(
    (
        Field("b", BOOLEAN),
        Field("i", INT),
        Field("l", BIGINT),
        Field("d", DOUBLE),
        Field("s", STRING),
        Field("y", BYTES),
        Field("a", ArrayType(INT)),
        Field("m", MapType(STRING, STRING)),
        Field("r", RowType((Field("f", FLOAT), Field("g", ArrayType(STRING))))),
    ),
    nullable=False,
)


@st.composite
def mutated(draw: Callable[..., Any]) -> bytes:
    values: dict[str, st.SearchStrategy[Any]] = {
        "b": VALUES["boolean"],
        "i": VALUES["int"],
        "l": VALUES["long"],
        "d": VALUES["double"],
        "s": VALUES["string"],
        "y": VALUES["bytes"],
        "a": st.lists(st.none() | VALUES["int"], max_size=3),
        "m": st.dictionaries(st.text(max_size=2), st.none() | VALUES["string"], max_size=3),
        "r": st.fixed_dictionaries({"f": VALUES["float"], "g": st.lists(VALUES["string"], max_size=2)}),
    }
    value = draw(st.fixed_dictionaries({name: st.none() | inner for name, inner in values.items()}))
    data = bytearray(written(schema_document(derive_schema(MUTATED)), value))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data) - 1))
        change = draw(st.integers(0, 3))
        if change == 0:
            data[at] = draw(st.integers(0, 255))
        elif change == 1:
            data[at:at] = draw(st.binary(min_size=1, max_size=3))
        elif change == 2 and len(data) > 1:
            del data[at]
        else:
            data[at] ^= 1 << draw(st.integers(0, 7))
    return bytes(data)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(mutated(), st.binary(max_size=40)), min_size=1, max_size=5))
def test_broken_messages_are_refused_as_by_fastavro(messages: list[bytes]) -> None:
    schema = derive_schema(MUTATED)
    parsed = fastavro.parse_schema(schema_document(schema))
    rows, reasons = read(DatumReader(schema, schema, MUTATED), messages)
    for message, found, reason in zip(messages, rows.to_pylist(), reasons, strict=True):
        expected, again = outcome(message, parsed)
        if expected is None:
            assert reason != ""
        elif again is not None and message.startswith(again):
            assert reason == ""
            assert repr(found) == repr(as_column(MUTATED, expected))
        elif reason == "":
            # not what a writer makes: fastavro takes ints of 64 bits, and booleans other than 0 and 1 as true
            column = as_column(MUTATED, expected)
            assert {name for name in found if repr(found[name]) != repr(column[name])} <= {"b", "i", "a"}


def outcome(message: bytes, schema: Any) -> tuple[Any, bytes | None]:
    """What fastavro reads, None if it refuses the message, and how it writes that again."""
    try:
        value = fastavro.schemaless_reader(io.BytesIO(message), schema, None)
    except (ValueError, IndexError, EOFError, OverflowError, TypeError):
        return None, None
    try:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, value)
    except ValueError:
        return value, None
    return value, out.getvalue()
