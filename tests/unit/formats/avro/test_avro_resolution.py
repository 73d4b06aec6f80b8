"""What was written with one schema, read as another: the rules of Avro's specification, and of Flink's columns."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import SchemaError
from penstock.formats.avro.datum import DatumReader, Spans
from penstock.formats.avro.factory import FORMAT
from penstock.formats.avro.options import AvroOptions
from penstock.formats.avro.schema import Record, format_schema, parse
from penstock.loops.record_status import READ
from penstock.spi import BadRecord, Decoded
from penstock.types import arrow_schema, parse_columns


def record(*fields: Any, name: str = "R") -> str:
    """The JSON of a record schema with these fields, each (name, type) or the field itself."""
    found = [each if isinstance(each, dict) else {"name": each[0], "type": each[1]} for each in fields]
    return json.dumps({"type": "record", "name": name, "fields": found})


def inner(*fields: Any, name: str = "Inner") -> Any:
    return json.loads(record(*fields, name=name))


def logical(name: str, kind: Any = "long", **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def written(schema: str, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), value)
    return out.getvalue()


def decode(columns: str, schema: str, *messages: bytes, legacy: bool = True) -> Decoded:
    options = AvroOptions(schema=schema, legacy_timestamps=legacy)
    decoded = FORMAT.decoder(parse_columns(columns), options).decode(pa.array(messages, pa.binary()))
    decoded.rows.validate(full=True)
    return decoded


FIXED = {"type": "fixed", "name": "F", "size": 2}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
MOMENT = dt.datetime(2024, 2, 29, 1, 2, 3, 456789)
MILLIS = MOMENT.replace(microsecond=456000)
UTC = dt.UTC

#: Column, what was written with, the value there, the value here.
READABLE = [
    ("BIGINT", "int", 5, 5),
    ("FLOAT", "int", 16777217, 16777216.0),
    ("FLOAT", "long", 2**62 + 2**38 + 1, float(2**62 + 2**39)),
    ("DOUBLE", "int", -5, -5.0),
    ("DOUBLE", "long", 2**53 + 1, float(2**53)),
    ("DOUBLE", "float", 0.5, 0.5),
    ("STRING", "bytes", "é".encode(), "é"),
    ("BYTES", "string", "é", "é".encode()),
    ("STRING", logical("uuid", "string"), "8e1b6a3c", "8e1b6a3c"),
    ("STRING", ENUM, "C", "C"),
    ("STRING", ["null", ENUM], "B", "B"),
    ("BYTES", FIXED, b"ab", b"ab"),
    ("BYTES", [FIXED, "null"], None, None),
    ("DECIMAL(6, 1)", logical("decimal", "bytes", precision=3, scale=1), Decimal("12.3"), Decimal("12.3")),
    ("DECIMAL(3, 1)", {**FIXED, **logical("decimal", "fixed", precision=4, scale=1)}, Decimal("-9.9"), Decimal("-9.9")),
    ("DECIMAL(2, 1)", logical("decimal", "bytes", precision=3, scale=1), Decimal("12.3"), None),
    ("DECIMAL(4, 2)", "bytes", b"\x01\x00", Decimal("2.56")),
    ("DATE", "int", 1, dt.date(1970, 1, 2)),
    ("INT", logical("date", "int"), dt.date(1970, 1, 2), 1),
    ("TIME(3)", logical("time-micros"), dt.time(1, 2, 3, 456789), dt.time(1, 2, 3, 456789)),
    ("TIME(3)", "int", 1, dt.time(0, 0, 0, 1000)),
    ("TIMESTAMP(3)", "long", 1500, dt.datetime(1970, 1, 1, 0, 0, 1, 500000)),
    ("TIMESTAMP(3)", logical("timestamp-micros"), MOMENT.replace(tzinfo=UTC), MOMENT),
    ("TIMESTAMP(3)", logical("local-timestamp-micros"), MOMENT, MOMENT),
    ("TIMESTAMP(3)", logical("local-timestamp-millis"), MILLIS, MILLIS),
    ("TIMESTAMP(3)", "int", 1500, dt.datetime(1970, 1, 1, 0, 0, 1, 500000)),
    ("BIGINT", logical("timestamp-millis"), dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 1000),
    ("INT", ["null", "int"], None, None),
    ("INT", ["int", "null"], 1, 1),
    ("INT", ["int", "null"], None, None),
    ("DOUBLE", ["null", "int", "float", "double"], 1.5, 1.5),
    ("DOUBLE", ["null", "int", "string"], 1, 1.0),
    ("INT", ["int"], 3, 3),
    ("STRING", [ENUM, FIXED, "null", "string"], "text", "text"),
    ("STRING", [ENUM, FIXED, "null", "string"], None, None),
    ("ARRAY<BIGINT>", {"type": "array", "items": "int"}, [1, 2], [1, 2]),
    ("ARRAY<BIGINT>", {"type": "array", "items": ["int", "null", "long"]}, [1, None, 2**40], [1, None, 2**40]),
    ("MAP<STRING, DOUBLE>", ["null", {"type": "map", "values": "int"}], {"a": 1}, [("a", 1.0)]),
    (
        "ROW<b BIGINT, a INT>",
        inner(("a", "int"), ("x", "string"), ("b", "int")),
        {"a": 1, "x": "", "b": 2},
        {"b": 2, "a": 1},
    ),
    ("ROW<a INT, c STRING>", ["null", inner(("a", "int"))], {"a": 1}, {"a": 1, "c": None}),
    ("ROW<a INT>", [inner(("b", "int")), inner(("a", "int"), name="Other")], ("Other", {"a": 1}), {"a": 1}),
]


@pytest.mark.parametrize(("kind", "schema", "there", "here"), READABLE)
def test_values_of_another_schema(kind: str, schema: Any, there: Any, here: Any) -> None:
    text = record(("before", "string"), ("v", schema), ("after", "long"))
    message = written(text, {"before": "x", "v": there, "after": 9})
    decoded = decode(f"after BIGINT, v {kind}", text, message, message)
    assert (decoded.rows.to_pylist(), decoded.bad) == ([{"after": 9, "v": here}] * 2, ())


@pytest.mark.parametrize(
    ("kind", "unit", "value"),
    [("TIMESTAMP(3)", "local-timestamp-nanos", 1999), ("TIMESTAMP_LTZ(3)", "timestamp-nanos", 1999)],
)
def test_nanoseconds(kind: str, unit: str, value: int) -> None:
    message = written(record(("v", "long")), {"v": value})
    decoded = decode(f"v {kind}", record(("v", logical(unit))), message, legacy=False)
    assert decoded.rows.column("v").view(pa.int64()).to_pylist() == [1]


SKIPPED = [
    ("null", None),
    ("boolean", True),
    ("int", 2**31 - 1),
    ("long", -(2**63)),
    ("float", 1.0),
    ("double", 1.0),
    ("string", "x" * 200),
    ("bytes", b"y"),
    (FIXED, b"ab"),
    (ENUM, "C"),
    ({"type": "array", "items": {"type": "array", "items": "string"}}, [["a"], [], ["b", "c"]]),
    ({"type": "map", "values": ["null", "int"]}, {"a": None, "b": 1}),
    (["null", inner(("a", {"type": "map", "values": "string"}))], {"a": {"k": "v"}}),
    (["null", "int", inner(("a", "int"))], {"a": 1}),
]


@pytest.mark.parametrize(("schema", "value"), SKIPPED)
def test_fields_without_a_column_are_skipped(schema: Any, value: Any) -> None:
    text = record(("a", "int"), ("skipped", schema), ("b", "int"))
    message = written(text, {"a": 1, "skipped": value, "b": 2})
    assert decode("a INT, b INT", text, message).rows.to_pylist() == [{"a": 1, "b": 2}]
    cut = decode("a INT, b INT", text, *(message[:size] for size in range(len(message))))
    assert len(cut.bad) == len(message)


@pytest.mark.parametrize(
    ("columns", "schema", "problem"),
    [
        ("v INT", "long", "'v': the data has long, which cannot be read as null or int"),
        ("v INT NOT NULL", "long", "'v': the data has long, read as int, which does not fit a column of type INT"),
        ("v FLOAT NOT NULL", "double", "the data has double, read as float,"),
        ("v BOOLEAN", "int", "the data has int, which cannot be read as null or boolean"),
        ("v DATE NOT NULL", logical("time-millis", "int"), "the data has int (time-millis) which does not fit"),
        ("v TIME(3) NOT NULL", logical("timestamp-millis"), "the data has long (timestamp-millis)"),
        ("v TIMESTAMP(3) NOT NULL", logical("time-micros"), "the data has long (time-micros)"),
        (
            "v DECIMAL(3, 1) NOT NULL",
            logical("decimal", "bytes", precision=3, scale=2),
            "the data has bytes (decimal(3, 2)) which does not fit a column of type DECIMAL(3, 1)",
        ),
        ("v ARRAY<INT>", {"type": "map", "values": "int"}, "the data has map, which cannot be read as null or array"),
        (
            "v ARRAY<INT> NOT NULL",
            {"type": "array", "items": "string"},
            "the data has string, which cannot be read as null or int",
        ),
        ("v ROW<a INT>", inner(("a", "string")), "'v.a': the data has string"),
        ("v INT NOT NULL", "null", "the data has null, and the column is NOT NULL"),
        ("w INT NOT NULL", "int", "'w': the data has no such field, and the field has no default"),
        ("v INT", [FIXED, "string"], "the data has fixed 'F', which cannot be read as null or int"),
    ],
)
def test_schemas_that_do_not_fit(columns: str, schema: Any, problem: str) -> None:
    with pytest.raises(SchemaError) as caught:
        decode(columns, record(("v", schema)))
    assert problem in str(caught.value)


def test_branches_that_do_not_fit_refuse_the_message_alone() -> None:
    text = record(("v", ["null", "int", "string"]))
    messages = [written(text, {"v": value}) for value in (1, "x", None)]
    decoded = decode("v BIGINT", text, *messages)
    assert decoded.rows.to_pylist() == [{"v": 1}, {"v": None}]
    assert decoded.bad == (BadRecord(1, "the branch of the union does not fit the column", "v"),)
    decoded = decode("v BIGINT NOT NULL", text, *messages)
    assert [bad.index for bad in decoded.bad] == [1, 2]


def read(columns: str, writer: str, reader: str, *values: Any) -> Decoded | list[Any]:
    """Rows, and None for values that are refused, with a reader's schema that was not made from the columns."""
    there, here = parse(writer), parse(reader)
    assert isinstance(here, Record)
    messages = pa.array([written(writer, value) for value in values], pa.binary())
    reader_of_both = DatumReader(there, here, parse_columns(columns))
    found = reader_of_both.read(Spans.from_messages(messages, np.full(len(values), READ, np.uint8)))
    found.rows.validate(full=True)
    rows = found.rows.to_pylist()
    return [row if status == READ else None for row, status in zip(rows, found.status, strict=True)]


DEFAULTS = [
    ("BOOLEAN", "boolean", True, True),
    ("INT", "int", -70, -70),
    ("BIGINT", "long", 2**60, 2**60),
    ("FLOAT", "float", 0.5, 0.5),
    ("DOUBLE", "double", 1, 1.0),
    ("STRING", "string", "é", "é"),
    ("BYTES", "bytes", "\u00ff", b"\xff"),
    ("BYTES", FIXED, "\u0001\u0002", b"\x01\x02"),
    ("STRING", ENUM, "B", "B"),
    ("STRING", ["null", "string"], None, None),
    ("STRING", ["string", "null"], "x", "x"),
    ("ARRAY<STRING NOT NULL>", {"type": "array", "items": "string"}, ["a", "b"], ["a", "b"]),
    ("ARRAY<STRING NOT NULL>", {"type": "array", "items": "string"}, [], []),
    ("MAP<STRING, INT>", {"type": "map", "values": ["null", "int"]}, {"a": 1, "b": None}, [("a", 1), ("b", None)]),
    ("ROW<a INT, b STRING>", inner(("a", "int"), ("b", ["null", "string"])), {"a": 1, "b": "x"}, {"a": 1, "b": "x"}),
    ("DECIMAL(3, 1)", logical("decimal", "bytes", precision=3, scale=1), "\u000c", Decimal("1.2")),
]


@pytest.mark.parametrize(("kind", "schema", "default", "expected"), DEFAULTS)
def test_defaults_of_missing_fields(kind: str, schema: Any, default: Any, expected: Any) -> None:
    writer, field = record(("a", "int")), {"name": "v", "type": schema, "default": default}
    rows = read(f"a INT, v {kind}", writer, record(field, ("a", "int")), {"a": 1}, {"a": 2})
    assert rows == [{"a": 1, "v": expected}, {"a": 2, "v": expected}]


def test_defaults_inside_of_arrays() -> None:
    writer = record(("a", {"type": "array", "items": inner(("x", "int"))}))
    reader = record(
        ("a", {"type": "array", "items": inner({"name": "y", "type": "string", "default": "d"}, ("x", "int"))})
    )
    found = read("a ARRAY<ROW<x INT, y STRING>>", writer, reader, {"a": [{"x": 1}, {"x": 2}]}, {"a": []})
    assert found == [{"a": [{"x": 1, "y": "d"}, {"x": 2, "y": "d"}]}, {"a": []}]


@pytest.mark.parametrize(
    ("schema", "default"),
    [
        ("int", "x"),
        ("int", 2**31),
        ("int", True),
        ("null", 1),
        (ENUM, "Z"),
        (FIXED, "abc"),
        (["null", "int"], "x"),
        ({"type": "array", "items": "int"}, {}),
        (inner(("a", "int")), {}),
        ("bytes", "€"),
    ],
)
def test_defaults_that_are_none(schema: Any, default: Any) -> None:
    kind = {"fixed": "BYTES", "record": "ROW<a INT>", "array": "ARRAY<INT>", "enum": "STRING"}
    column = kind.get(schema["type"], "INT") if isinstance(schema, dict) else "INT"
    with pytest.raises(SchemaError, match=r"'v': the default .* is wrong"):
        read(f"v {column}", record(), record({"name": "v", "type": schema, "default": default}), {})


def test_aliases_of_fields() -> None:
    reader = record(
        {"name": "new", "type": "long", "aliases": ["older", "old"]},
        {"name": "kept", "type": "int", "aliases": ["old"]},
    )
    writer = record(("kept", "int"), ("old", "int"))
    assert read("new BIGINT, kept INT", writer, reader, {"kept": 1, "old": 2}) == [{"new": 2, "kept": 1}]


def test_enums_that_grew() -> None:
    shrunk = {"type": "enum", "name": "E", "symbols": ["C", "A"]}
    values = [{"v": symbol} for symbol in "ABC"]
    assert read("v STRING", record(("v", ENUM)), record(("v", shrunk)), *values) == [{"v": "A"}, None, {"v": "C"}]
    known = {**shrunk, "default": "A"}
    found = read("v STRING", record(("v", ENUM)), record(("v", known)), *values)
    assert found == [{"v": "A"}, {"v": "A"}, {"v": "C"}]


@pytest.mark.parametrize(
    ("there", "here"),
    [
        (ENUM, {**ENUM, "name": "Other"}),
        (FIXED, {**FIXED, "name": "Other"}),
        (FIXED, {**FIXED, "size": 3}),
        ("string", ENUM),
        ("bytes", FIXED),
        ("string", "int"),
    ],
)
def test_named_types_that_do_not_fit(there: Any, here: Any) -> None:
    column = "BYTES" if "fixed" in json.dumps(here) else "STRING"
    with pytest.raises(SchemaError):
        read(f"v {column}", record(("v", there)), record(("v", here)))


@pytest.mark.parametrize("here", [{**ENUM, "name": "x.E"}, {**ENUM, "name": "Other", "aliases": ["E"]}])
def test_named_types_fit_by_name_or_alias(here: Any) -> None:
    assert read("v STRING", record(("v", ENUM)), record(("v", here)), {"v": "B"}) == [{"v": "B"}]


def test_names_stand_for_the_types_that_they_name() -> None:
    text = json.dumps(
        {
            "type": "record",
            "name": "R",
            "namespace": "x.y",
            "fields": [
                {"name": "a", "type": {**FIXED, "namespace": "z"}},
                {"name": "b", "type": ["null", "z.F"]},
                {"name": "c", "type": inner(("d", "z.F"))},
                {"name": "e", "type": {"type": "array", "items": "Inner"}},
                {"name": "f", "type": "x.y.Inner"},
                {"name": "g", "type": ["null", {**ENUM, "namespace": "", "aliases": ["z.A"]}], "default": None},
            ],
        }
    )
    value = {"a": b"ab", "b": b"cd", "c": {"d": b"ef"}, "e": [{"d": b"gh"}], "f": {"d": b"ij"}, "g": "B"}
    columns = "a BYTES, b BYTES, c ROW<d BYTES>, e ARRAY<ROW<d BYTES>>, f ROW<d BYTES>, g STRING"
    decoded = decode(columns, text, written(text, value))
    assert decoded.rows.to_pylist() == [value]
    assert parse(format_schema(parse(text))) == parse(text)


WRITTEN = [
    ("BIGINT", "long", 1, 1),
    ("INT", "long", 1, 1),
    ("INT", ["null", "long"], None, None),
    ("FLOAT", "double", 0.1, float(np.float32(0.1))),
    ("STRING", ENUM, "B", "B"),
    ("STRING", ["null", ENUM], "C", "C"),
    ("STRING", [FIXED, "null", "string", "int"], "x", "x"),
    ("STRING", [FIXED, "null", "string", "int"], None, None),
    ("BYTES", FIXED, b"ab", b"ab"),
    (
        "DECIMAL(4, 1)",
        {**FIXED, **logical("decimal", "fixed", precision=4, scale=1)},
        Decimal("-999.9"),
        Decimal("-999.9"),
    ),
    (
        "DECIMAL(38, 0)",
        {"type": "fixed", "name": "D", "size": 20, "logicalType": "decimal", "precision": 38, "scale": 0},
        Decimal(-(10**37)),
        Decimal(-(10**37)),
    ),
    ("TIME(3)", logical("time-micros"), dt.time(1, 2, 3, 456000), dt.time(1, 2, 3, 456000)),
    ("TIMESTAMP(3)", logical("timestamp-micros"), MOMENT, MOMENT.replace(tzinfo=UTC)),
    ("TIMESTAMP(3)", logical("local-timestamp-millis"), MOMENT, MOMENT),
    ("ARRAY<INT>", {"type": "array", "items": ["string", "null", "long"]}, [1, None], [1, None]),
    ("MAP<STRING, INT>", {"type": "map", "values": ["int", "null"]}, [("a", 1), ("b", None)], {"a": 1, "b": None}),
    ("ROW<a INT, b INT>", inner(("b", "int"), ("a", ["int", "null"])), {"a": None, "b": 2}, {"a": None, "b": 2}),
]


@pytest.mark.parametrize(("kind", "schema", "here", "there"), WRITTEN)
def test_values_written_by_another_schema(kind: str, schema: Any, here: Any, there: Any) -> None:
    fields = (("v", schema), ("w", "int"), {"name": "more", "type": ["string", "null"], "default": "d"})
    columns, text = f"w INT, v {kind}", record(*fields)
    encoder = FORMAT.encoder(parse_columns(columns), AvroOptions(schema=text))
    rows = pa.RecordBatch.from_pylist([{"w": 1, "v": here}] * 3, schema=arrow_schema(parse_columns(columns)))
    expected = written(text, {"v": there, "w": 1, "more": "d"})
    assert encoder.encode(rows).to_pylist() == [expected] * 3


@pytest.mark.parametrize(
    ("columns", "schema", "problems"),
    [
        ("v INT", record(("v", "string")), ["'v': string cannot hold a column of type INT"]),
        ("v BIGINT", record(("v", "int")), ["'v': int cannot hold a column of type BIGINT"]),
        (
            "v INT",
            record(("v", ["null", "string"])),
            ["'v': no type in a union of null, string fits a column of type INT"],
        ),
        (
            "v INT",
            record(("w", "int")),
            ["'w': the field has neither a column nor a default", "'v': there is no field"],
        ),
        ("r ROW<a INT, b INT>", record(("r", inner(("a", "int")))), ["'r.b': there is no field for this column"]),
        (
            "v INT",
            record(("v", "int"), {"name": "w", "type": "int", "default": "x"}),
            ["'w': the default \"x\" is wrong"],
        ),
        (
            "v BYTES",
            record(("v", logical("decimal", "bytes", precision=3))),
            ["'v': bytes (decimal(3, 0)) cannot hold"],
        ),
        ("v DATE", record(("v", logical("time-millis", "int"))), ["'v': int (time-millis) cannot hold"]),
        ("v ARRAY<INT>", record(("v", {"type": "array", "items": "string"})), ["'v': string cannot hold"]),
        ("v ARRAY<INT>", record(("v", {"type": "map", "values": "int"})), ["'v': map cannot hold"]),
    ],
)
def test_schemas_that_cannot_hold_the_columns(columns: str, schema: str, problems: list[str]) -> None:
    with pytest.raises(SchemaError) as caught:
        FORMAT.encoder(parse_columns(columns), AvroOptions(schema=schema))
    lines = str(caught.value).splitlines()
    assert len(lines) == len(problems)
    assert all(problem in line for problem, line in zip(problems, lines, strict=True))


def test_nesting_has_a_limit() -> None:
    deep: Any = "int"
    for _ in range(65):
        deep = {"type": "array", "items": deep}
    with pytest.raises(SchemaError, match="nested deeper than 64 levels"):
        decode("a INT", record(("a", "int"), ("deep", deep)))


def test_schemas_that_name_a_type_again_and_again_have_a_limit() -> None:
    kind: Any = "int"
    for depth in range(40):
        kind = inner(("a", kind), ("b", f"T{depth - 1}" if depth else "int"), name=f"T{depth}")
    with pytest.raises(SchemaError, match="the schema is longer than 20000 values"):
        decode("a INT", record(("a", "int"), ("wide", kind)))
    with pytest.raises(SchemaError, match="the schema is longer than 20000 values"):
        decode("a INT", record(("a", "int"), ("wide", ["int", "null", kind])))


def test_a_field_of_null_needs_no_column() -> None:
    encoder = FORMAT.encoder(parse_columns("a INT NOT NULL"), AvroOptions(schema=record(("n", "null"), ("a", "int"))))
    rows = pa.RecordBatch.from_pylist([{"a": 1}], schema=arrow_schema(parse_columns("a INT")))
    assert encoder.encode(rows).to_pylist() == [b"\x02"]
