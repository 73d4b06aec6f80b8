"""What the raw format reads and writes, by Flink's rules."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import OptionsError, SchemaError
from penstock.formats.raw.factory import FORMAT
from penstock.formats.raw.options import Endianness, RawOptions
from penstock.types import arrow_schema, parse_columns


def both_ways(kind: str, values: list[Any], messages: list[bytes | None], **options: Any) -> None:
    schema, bound = parse_columns(f"v {kind}"), RawOptions(**options)
    decoded = FORMAT.decoder(schema, bound).decode(pa.array(messages, pa.binary()))
    decoded.rows.validate(full=True)
    assert decoded.rows.schema == arrow_schema(schema)
    assert (decoded.rows.column(0).to_pylist(), decoded.origin, decoded.bad) == (values, None, ())
    rows = pa.RecordBatch.from_arrays([pa.array(values, arrow_schema(schema).field(0).type)], names=["v"])
    written = FORMAT.encoder(schema, bound).encode(rows)
    written.validate(full=True)
    assert written.to_pylist() == messages
    assert FORMAT.encoder(schema, bound).encode(rows.slice(1)).to_pylist() == messages[1:]


@pytest.mark.parametrize(
    ("kind", "values", "big"),
    [
        ("BOOLEAN", [True, None, False], ["01", None, "00"]),
        ("TINYINT", [-1, None, 127], ["ff", None, "7f"]),
        ("SMALLINT", [-2, None, 258], ["fffe", None, "0102"]),
        ("INT", [-2, None, 16909060], ["fffffffe", None, "01020304"]),
        ("BIGINT", [-(2**63), None, 1], ["8000000000000000", None, "0000000000000001"]),
        ("FLOAT", [1.5, None, -math.inf], ["3fc00000", None, "ff800000"]),
        ("DOUBLE", [1.5, None, -0.0], ["3ff8000000000000", None, "8000000000000000"]),
    ],
)
def test_numbers(kind: str, values: list[Any], big: list[str | None]) -> None:
    messages = [None if text is None else bytes.fromhex(text) for text in big]
    both_ways(kind, values, messages)
    little = [None if message is None else message[::-1] for message in messages]
    both_ways(kind, values, little, endianness=Endianness.LITTLE)


def test_any_byte_but_zero_is_true() -> None:
    decoder = FORMAT.decoder(parse_columns("v BOOLEAN"), RawOptions())
    assert decoder.decode(pa.array([b"\x02", b"\x80"])).rows.column(0).to_pylist() == [True, True]


@pytest.mark.parametrize("kind", ["BYTES", "VARBINARY(3)", "BINARY(2)"])
def test_bytes(kind: str) -> None:
    both_ways(kind, [b"\x00\xff", None, b""], [b"\x00\xff", None, b""])


@pytest.mark.parametrize(
    ("charset", "messages"),
    [
        ("UTF-8", ["é".encode(), None, b""]),
        ("utf8", ["é".encode(), None, b""]),
        ("ISO-8859-1", [b"\xe9", None, b""]),
        ("UTF-16LE", [b"\xe9\x00", None, b""]),
        ("UTF-16", [b"\xfe\xff\x00\xe9", None, b""]),
        ("UTF-32", [b"\x00\x00\x00\xe9", None, b""]),
    ],
)
def test_text(charset: str, messages: list[bytes | None]) -> None:
    both_ways("STRING", ["é", None, ""], messages, charset=charset)


@pytest.mark.parametrize(
    ("charset", "message", "expected"),
    [
        ("UTF-8", b"a\xffb", "a\ufffdb"),
        ("UTF-8", b"\xe2\x82", "\ufffd"),
        ("UTF-8", b"\xed\xa0\x80x", "\ufffdx"),
        ("UTF-8", b"\xc0\x80", "\ufffd\ufffd"),
        ("US-ASCII", b"a\xe9", "a\ufffd"),
        ("UTF-16", b"\x00a", "a"),
        ("UTF-16", b"\xff\xfea\x00", "a"),
        ("UTF-32", b"\x00\x00\x00a", "a"),
        ("UTF-32", b"\xff\xfe\x00\x00a\x00\x00\x00", "a"),
    ],
)
def test_malformed_text_is_replaced_as_java_does(charset: str, message: bytes, expected: str) -> None:
    decoder = FORMAT.decoder(parse_columns("v STRING"), RawOptions(charset=charset))
    assert decoder.decode(pa.array([b"", message, None])).rows.column(0).to_pylist() == ["", expected, None]


def test_unmappable_text_becomes_a_question_mark() -> None:
    encoder = FORMAT.encoder(parse_columns("v STRING"), RawOptions(charset="ISO-8859-1"))
    assert encoder.encode(pa.RecordBatch.from_pydict({"v": ["€"]})).to_pylist() == [b"?"]


def test_text_and_bytes_are_not_copied() -> None:
    messages = pa.array([b"some", b"text"])
    for kind in ("STRING", "BYTES"):
        column = FORMAT.decoder(parse_columns(f"v {kind}"), RawOptions()).decode(messages).rows.column(0)
        assert column.buffers()[2].address == messages.buffers()[2].address


def test_a_message_of_the_wrong_length_is_bad() -> None:
    decoder = FORMAT.decoder(parse_columns("v INT"), RawOptions())
    decoded = decoder.decode(pa.array([b"\0\0\0\1", b"\0", None, b"", b"\0\0\0\2"]).slice(0))
    assert decoded.rows.column(0).to_pylist() == [1, None, 2]
    assert decoded.origin is not None
    assert decoded.origin.tolist() == [0, 2, 4]
    assert [(bad.index, bad.field, bad.reason) for bad in decoded.bad] == [
        (1, "v", "INT takes 4 bytes, not 1"),
        (3, "v", "INT takes 4 bytes, not 0"),
    ]
    assert decoder.decode(pa.array([b"\0", b"\0\0\0\7"]).slice(1)).rows.column(0).to_pylist() == [7]
    assert decoder.decode(pa.array([], pa.binary())).rows.num_rows == 0
    assert pickle.loads(pickle.dumps(decoder)) == decoder


@pytest.mark.parametrize("columns", ["a INT, b INT", "v DATE", "v ARRAY<INT>", "v DECIMAL(5, 2)"])
def test_schemas_that_raw_cannot_hold(columns: str) -> None:
    for make in (FORMAT.decoder, FORMAT.encoder):
        with pytest.raises(SchemaError, match="raw format"):
            make(parse_columns(columns), RawOptions())


def test_options() -> None:
    given = {"raw.charset": "UTF-16", "raw.endianness": "LITTLE_ENDIAN"}
    assert RawOptions.from_text(given, prefix="raw.") == RawOptions(charset="UTF-16", endianness=Endianness.LITTLE)
    for charset in ("klingon", "base64"):
        with pytest.raises(OptionsError, match=r"'raw\.charset'.*unknown charset"):
            RawOptions.from_text({"raw.charset": charset}, prefix="raw.")
