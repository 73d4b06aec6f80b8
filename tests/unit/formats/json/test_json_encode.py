"""What the json format writes: the bytes that Jackson would."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import SchemaError
from penstock.formats.json.exact_writer import write_json_texts
from penstock.formats.json.factory import FORMAT
from penstock.formats.json.options import JsonOptions, TimestampStandard
from penstock.types import arrow_schema, parse_columns

UTC = dt.UTC


def batch(columns: str, *rows: dict[str, Any]) -> pa.RecordBatch:
    schema = arrow_schema(parse_columns(columns))
    return pa.RecordBatch.from_arrays(
        [pa.array([row.get(field.name) for row in rows], field.type) for field in schema], schema=schema
    )


def encode(columns: str, *rows: dict[str, Any], **options: Any) -> list[str]:
    encoder = FORMAT.encoder(parse_columns(columns), JsonOptions(**options))
    messages = encoder.encode(batch(columns, *rows))
    messages.validate(full=True)
    return [message.decode() for message in messages.to_pylist()]


def one(kind: str, value: Any, **options: Any) -> str:
    return encode(f"v {kind}", {"v": value}, **options)[0].removeprefix('{"v":').removesuffix("}")


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("BOOLEAN", True, "true"),
        ("BOOLEAN", False, "false"),
        ("TINYINT", -128, "-128"),
        ("BIGINT", -(2**63), "-9223372036854775808"),
        ("BIGINT", 2**63 - 1, "9223372036854775807"),
        ("FLOAT", 0.1, "0.1"),
        ("FLOAT", 16777216.0, "1.6777216E7"),
        ("DOUBLE", 1.0, "1.0"),
        ("DOUBLE", 1e10, "1.0E10"),
        ("DOUBLE", 1e-5, "1.0E-5"),
        ("DOUBLE", 0.001, "0.001"),
        ("DOUBLE", 1234567.0, "1234567.0"),
        ("DOUBLE", 5e-324, "4.9E-324"),
        ("DOUBLE", -0.0, "-0.0"),
        ("DOUBLE", float("nan"), '"NaN"'),
        ("DOUBLE", float("-inf"), '"-Infinity"'),
        ("DECIMAL(10, 2)", Decimal("27000.00"), "2.7E+4"),
        ("DECIMAL(10, 2)", Decimal("-12.30"), "-12.3"),
        ("DECIMAL(10, 2)", Decimal("0.00"), "0"),
        ("DECIMAL(10, 10)", Decimal("0.0000001"), "1E-7"),
        ("DECIMAL(10, 10)", Decimal("0.000001"), "0.000001"),
        ("DECIMAL(38, 2)", Decimal("123456789012345678901234567890.50"), "123456789012345678901234567890.5"),
        ("DECIMAL(18, 0)", Decimal("454621864049246170"), "4.5462186404924617E+17"),
        ("STRING", 'a"\\/\b\f\n\r\t\x01\x1f\x7fé😀', '"a\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001F\x7fé\\uD83D\\uDE00"'),
        ("BYTES", b"", '""'),
        ("BYTES", b"A", '"QQ=="'),
        ("BYTES", b"AB\xff\xfe", '"QUL//g=="'),
        ("DATE", dt.date(2024, 2, 29), '"2024-02-29"'),
        ("DATE", dt.date(1, 1, 1), '"0001-01-01"'),
        ("TIME", dt.time(1, 2, 3, 999000), '"01:02:03"'),
        ("TIME(3)", dt.time(1, 2, 3, 450000), '"01:02:03.45"'),
        ("TIMESTAMP(3)", dt.datetime(2024, 1, 2, 3, 4, 5), '"2024-01-02 03:04:05"'),
        ("TIMESTAMP(6)", dt.datetime(1969, 12, 31, 23, 59, 59, 120), '"1969-12-31 23:59:59.00012"'),
        ("TIMESTAMP_LTZ(3)", dt.datetime(2024, 1, 2, 3, 4, 5, 100000, UTC), '"2024-01-02 03:04:05.1Z"'),
        ("ARRAY<STRING>", ["a", None], '["a",null]'),
        ("ARRAY<DOUBLE>", [], "[]"),
        ("MAP<STRING, DATE>", [("k", dt.date(2024, 1, 1)), ("l", None)], '{"k":"2024-01-01","l":null}'),
        ("ROW<x INT, y ROW<z BYTES>>", {"x": None, "y": {"z": b"A"}}, '{"x":null,"y":{"z":"QQ=="}}'),
        ("INT", None, "null"),
    ],
)
def test_values(kind: str, value: Any, expected: str) -> None:
    assert one(kind, value) == expected


def test_options_change_the_text() -> None:
    at = dt.datetime(2024, 1, 2, 3, 4, 5, 100000)
    iso, offset = TimestampStandard.ISO_8601, TimestampStandard.ISO_8601_WITH_OFFSET
    assert one("TIMESTAMP(3)", at, timestamp_standard=iso) == '"2024-01-02T03:04:05.1"'
    assert one("TIMESTAMP(3)", at, timestamp_standard=offset) == '"2024-01-02T03:04:05.1Z"'
    assert one("DECIMAL(10, 2)", Decimal("27000.00"), decimal_as_plain_number=True) == "27000.00"
    assert one("DECIMAL(38, 2)", Decimal(10) ** 30, decimal_as_plain_number=True) == "1" + "0" * 30 + ".00"
    assert one("DECIMAL(10, 10)", Decimal("0.0000001"), decimal_as_plain_number=True) == "0.0000001000"


@pytest.mark.parametrize("option", [{"ignore_null_fields": True}, {"write_null_properties": False}])
def test_null_fields_are_left_out(option: dict[str, bool]) -> None:
    rows = [{"a": 1}, {"b": "x"}, {"c": {"x": None}}, {}]
    assert encode("a INT, b STRING, c ROW<x INT>", *rows, **option) == ['{"a":1}', '{"b":"x"}', '{"c":{}}', "{}"]
    assert encode("a INT, b STRING", {})[0] == '{"a":null,"b":null}'


def test_years_beyond_four_digits() -> None:
    days = pa.array([2932897, -719529, None, 0], pa.int32()).view(pa.date32())
    encoder = FORMAT.encoder(parse_columns("d DATE"), JsonOptions())
    messages = encoder.encode(pa.RecordBatch.from_arrays([days], names=["d"]))
    assert [message.decode() for message in messages.to_pylist()] == [
        '{"d":"+10000-01-01"}',
        '{"d":"-0001-12-31"}',
        '{"d":null}',
        '{"d":"1970-01-01"}',
    ]


def test_names_are_escaped_and_keep_their_order() -> None:
    assert encode('`z"` INT, `a` INT', {'z"': 1, "a": 2}) == ['{"z\\"":1,"a":2}']


def test_slices() -> None:
    rows = batch(
        "i INT, s STRING, b BOOLEAN, n DECIMAL(5, 1), a ARRAY<INT>, r ROW<x INT>, m MAP<STRING, INT>",
        *({"i": n, "s": "x" * n, "b": n % 2 == 0, "n": n, "a": [n], "r": {"x": n}, "m": [("k", n)]} for n in range(12)),
    )
    encoder = FORMAT.encoder(
        parse_columns("i INT, s STRING, b BOOLEAN, n DECIMAL(5, 1), a ARRAY<INT>, r ROW<x INT>, m MAP<STRING, INT>"),
        JsonOptions(),
    )
    whole = encoder.encode(rows).to_pylist()
    assert encoder.encode(rows.slice(9, 2)).to_pylist() == whole[9:11]
    assert encoder.encode(rows.slice(0, 0)).to_pylist() == []
    assert pickle.loads(pickle.dumps(encoder)) == encoder


def test_maps_need_text_keys() -> None:
    with pytest.raises(SchemaError, match="keys of JSON objects are strings"):
        FORMAT.encoder(parse_columns("m MAP<INT, INT>"), JsonOptions())


COLUMNS = "b BOOLEAN, i INT, d DOUBLE, n DECIMAL(30, 4), s STRING, y BYTES, da DATE, ti TIME(3), ts TIMESTAMP(6)"
VALUES = {
    "b": st.booleans(),
    "i": st.integers(-(2**31), 2**31 - 1),
    "d": st.floats(allow_nan=False, allow_infinity=False),
    "n": st.integers(-(10**29), 10**29).map(lambda number: Decimal(number).scaleb(-4)),
    "s": st.text(),
    "y": st.binary(),
    "da": st.dates(),
    "ti": st.times().map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
    "ts": st.datetimes(),
}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}), max_size=5))
def test_written_messages_read_back_and_equal_those_of_the_exact_writer(rows: list[dict[str, Any]]) -> None:
    schema, given_rows = parse_columns(COLUMNS), batch(COLUMNS, *rows)
    fmt, options = FORMAT, JsonOptions()
    messages = fmt.encoder(schema, options).encode(given_rows)
    assert fmt.decoder(schema, options).decode(messages).rows.equals(given_rows)
    columns = [
        write_json_texts(column, field.type, options)
        for column, field in zip(given_rows.columns, schema.fields, strict=True)
    ]
    for index, message in enumerate(messages.to_pylist()):
        pairs = [f'"{name}":{column[index] or "null"}' for name, column in zip(schema.names, columns, strict=True)]
        assert message.decode() == "{" + ",".join(pairs) + "}"
