"""What the avro format reads and writes; the bytes are those of fastavro."""

from __future__ import annotations

import datetime as dt
import io
import json
import pickle
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import OptionsError, RecordError, SchemaError
from penstock.formats.avro.datum import DatumReader, DatumWriter, Spans
from penstock.formats.avro.derived_schema import derive_schema
from penstock.formats.avro.factory import FORMAT
from penstock.formats.avro.options import AvroOptions, Encoding
from penstock.formats.avro.schema import format_schema, schema_document
from penstock.spi import BadRecord, Decoded, formats
from penstock.types import RowType, arrow_schema, parse_columns

UTC = dt.UTC


def decode(columns: str, *messages: bytes | None, **options: Any) -> Decoded:
    schema = parse_columns(columns)
    decoded = FORMAT.decoder(schema, AvroOptions(**options)).decode(pa.array(messages, pa.binary()))
    decoded.rows.validate(full=True)
    assert decoded.rows.schema == arrow_schema(schema)
    return decoded


def batch(columns: str, *rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=arrow_schema(parse_columns(columns)))


def encode(columns: str, *rows: dict[str, Any], **options: Any) -> list[bytes]:
    messages = FORMAT.encoder(parse_columns(columns), AvroOptions(**options)).encode(batch(columns, *rows))
    messages.validate(full=True)
    return messages.to_pylist()


def record(*fields: Any) -> str:
    """The JSON of a record schema with these fields, each (name, type) or the field itself."""
    found = [each if isinstance(each, dict) else {"name": each[0], "type": each[1]} for each in fields]
    return json.dumps({"type": "record", "name": "R", "fields": found})


def written(schema: Any, value: Any) -> bytes:
    """The value as fastavro writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), value)
    return out.getvalue()


def single(logical: str, kind: Any = "long", **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **more}


FIXED = {"type": "fixed", "name": "F", "size": 3}
MOMENT = dt.datetime(2024, 2, 29, 23, 59, 59, 123000)

#: Column, Avro type, what fastavro writes, what the column has.
BOTH_WAYS = [
    ("BOOLEAN", "boolean", True, True),
    ("TINYINT", "int", -128, -128),
    ("SMALLINT", "int", 32767, 32767),
    ("INT", "int", -(2**31), -(2**31)),
    ("BIGINT", "long", 2**63 - 1, 2**63 - 1),
    ("BIGINT", "long", -(2**63), -(2**63)),
    ("FLOAT", "float", 0.10000000149011612, 0.10000000149011612),
    ("DOUBLE", "double", -0.1, -0.1),
    ("STRING", "string", "é€😀", "é€😀"),
    ("CHAR(2)", "string", "", ""),
    ("BYTES", "bytes", b"\x00\xff", b"\x00\xff"),
    ("DECIMAL(4, 2)", single("decimal", "bytes", precision=4, scale=2), Decimal("-12.34"), Decimal("-12.34")),
    ("DECIMAL(38, 0)", single("decimal", "bytes", precision=38), Decimal(10**38 - 1), Decimal(10**38 - 1)),
    ("DECIMAL(38, 0)", single("decimal", "bytes", precision=38), Decimal(1 - 10**38), Decimal(1 - 10**38)),
    ("DATE", single("date", "int"), dt.date(1969, 12, 31), dt.date(1969, 12, 31)),
    ("TIME(3)", single("time-millis", "int"), dt.time(23, 59, 59, 999000), dt.time(23, 59, 59, 999000)),
    ("TIMESTAMP(3)", single("timestamp-millis"), MOMENT.replace(tzinfo=UTC), MOMENT),
    ("ARRAY<INT NOT NULL>", {"type": "array", "items": "int"}, [1, -1, 64], [1, -1, 64]),
    ("ARRAY<STRING>", {"type": "array", "items": ["null", "string"]}, ["a", None], ["a", None]),
    ("MAP<STRING, BIGINT>", {"type": "map", "values": ["null", "long"]}, {"a": 1, "": None}, [("a", 1), ("", None)]),
    (
        "ROW<a INT, b ROW<c STRING> NOT NULL>",
        {
            "type": "record",
            "name": "A",
            "fields": [
                {"name": "a", "type": ["null", "int"]},
                {"name": "b", "type": {**json.loads(record(("c", ["null", "string"]))), "name": "B"}},
            ],
        },
        {"a": 1, "b": {"c": None}},
        {"a": 1, "b": {"c": None}},
    ),
]
TIMES = [
    ("TIMESTAMP(3)", "local-timestamp-millis", MOMENT, MOMENT),
    ("TIMESTAMP(6)", "local-timestamp-micros", MOMENT.replace(microsecond=1), MOMENT.replace(microsecond=1)),
    ("TIMESTAMP_LTZ(3)", "timestamp-millis", MOMENT.replace(tzinfo=UTC), MOMENT.replace(tzinfo=UTC)),
    ("TIMESTAMP_LTZ(6)", "timestamp-micros", MOMENT.replace(tzinfo=UTC), MOMENT.replace(tzinfo=UTC)),
]


@pytest.mark.parametrize(("kind", "schema", "there", "here"), BOTH_WAYS)
@pytest.mark.parametrize("nullable", [False, True])
def test_each_type_both_ways(kind: str, schema: Any, there: Any, here: Any, nullable: bool) -> None:
    columns = f"v {kind}{'' if nullable else ' NOT NULL'}, w INT NOT NULL"
    text = record(("v", ["null", schema] if nullable else schema), ("w", "int"))
    values = [{"v": there, "w": 7}, *([{"v": None, "w": 8}] if nullable else [])]
    rows = [{"v": here, "w": 7}, *([{"v": None, "w": 8}] if nullable else [])]
    messages = [written(text, value) for value in values]
    assert decode(columns, *messages).rows.to_pylist() == rows
    assert encode(columns, *rows) == messages
    assert encode(columns, *rows, schema=text) == messages


@pytest.mark.parametrize(("kind", "logical", "there", "here"), TIMES)
def test_timestamps_without_the_legacy_mapping(kind: str, logical: str, there: Any, here: Any) -> None:
    message = written(record(("v", ["null", single(logical)])), {"v": there})
    assert decode(f"v {kind}", message, legacy_timestamps=False).rows.to_pylist() == [{"v": here}]
    assert encode(f"v {kind}", {"v": here}, legacy_timestamps=False) == [message]


def test_nanoseconds_are_cut_to_the_microseconds_of_the_column() -> None:
    messages = [written(record(("v", "long")), {"v": nanos}) for nanos in (1999, -1)]
    decoded = decode("v TIMESTAMP(9) NOT NULL", *messages, legacy_timestamps=False)
    assert decoded.rows.column("v").view(pa.int64()).to_pylist() == [1, -1]
    again = FORMAT.encoder(parse_columns("v TIMESTAMP(9) NOT NULL"), AvroOptions(legacy_timestamps=False))
    assert again.encode(decoded.rows).to_pylist() == [
        written(record(("v", "long")), {"v": nanos}) for nanos in (1000, -1000)
    ]


def test_milliseconds_are_rounded_down_when_written() -> None:
    before = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)
    assert encode("v TIMESTAMP(3) NOT NULL", {"v": before}) == [b"\x01"]
    assert encode("v TIME(3) NOT NULL", {"v": dt.time(0, 0, 0, 1999)}) == [b"\x02"]


DERIVED = [
    ("v BOOLEAN NOT NULL", True, "boolean"),
    ("v BOOLEAN", True, ["null", "boolean"]),
    ("v TINYINT NOT NULL", True, "int"),
    ("v SMALLINT NOT NULL", True, "int"),
    ("v INT NOT NULL", True, "int"),
    ("v BIGINT NOT NULL", True, "long"),
    ("v FLOAT NOT NULL", True, "float"),
    ("v DOUBLE NOT NULL", True, "double"),
    ("v VARCHAR(5) NOT NULL", True, "string"),
    ("v BINARY(5) NOT NULL", True, "bytes"),
    ("v DATE NOT NULL", True, single("date", "int")),
    ("v TIME NOT NULL", True, single("time-millis", "int")),
    ("v DECIMAL(5, 2) NOT NULL", True, single("decimal", "bytes", precision=5, scale=2)),
    ("v TIMESTAMP(0) NOT NULL", True, single("timestamp-millis")),
    ("v TIMESTAMP(3) NOT NULL", False, single("local-timestamp-millis")),
    ("v TIMESTAMP(4) NOT NULL", False, single("local-timestamp-micros")),
    ("v TIMESTAMP(7) NOT NULL", False, single("local-timestamp-nanos")),
    ("v TIMESTAMP_LTZ(3) NOT NULL", False, single("timestamp-millis")),
    ("v TIMESTAMP_LTZ(6) NOT NULL", False, single("timestamp-micros")),
    ("v TIMESTAMP_LTZ(9) NOT NULL", False, single("timestamp-nanos")),
    ("v ARRAY<TIMESTAMP(3) NOT NULL> NOT NULL", False, {"type": "array", "items": single("timestamp-millis")}),
    ("v MAP<STRING, INT> NOT NULL", True, {"type": "map", "values": ["null", "int"]}),
    ("v MULTISET<STRING> NOT NULL", True, {"type": "map", "values": ["null", "int"]}),
    (
        "v ARRAY<ROW<a INT NOT NULL, b ROW<c INT>>> NOT NULL",
        True,
        {
            "type": "array",
            "items": [
                "null",
                {
                    "type": "record",
                    "name": "record_v",
                    "fields": [
                        {"name": "a", "type": "int"},
                        {
                            "name": "b",
                            "type": [
                                "null",
                                {
                                    "type": "record",
                                    "name": "record_v_b",
                                    "fields": [{"name": "c", "type": ["null", "int"], "default": None}],
                                },
                            ],
                            "default": None,
                        },
                    ],
                },
            ],
        },
    ),
]


@pytest.mark.parametrize(("columns", "legacy", "expected"), DERIVED)
def test_the_schema_of_a_table(columns: str, legacy: bool, expected: Any) -> None:
    document = schema_document(derive_schema(parse_columns(columns), legacy))
    default = {"default": None} if "NOT NULL" not in columns else {}
    assert document == {
        "type": "record",
        "name": "record",
        "namespace": "org.apache.flink.avro.generated",
        "fields": [{"name": "v", "type": expected, **default}],
    }


def test_the_text_of_a_schema_is_that_of_flinks_library() -> None:
    """As Avro 1.12.1 for Java writes it; registries may compare texts."""
    columns = "id BIGINT NOT NULL, `at` DATE, n DECIMAL(5, 2) NOT NULL, r ROW<a STRING NOT NULL> NOT NULL"
    assert format_schema(derive_schema(parse_columns(columns))) == (
        '{"type":"record","name":"record","namespace":"org.apache.flink.avro.generated","fields":['
        '{"name":"id","type":"long"},'
        '{"name":"at","type":["null",{"type":"int","logicalType":"date"}],"default":null},'
        '{"name":"n","type":{"type":"bytes","logicalType":"decimal","precision":5,"scale":2}},'
        '{"name":"r","type":{"type":"record","name":"record_r","fields":[{"name":"a","type":"string"}]}}]}'
    )


@pytest.mark.parametrize(
    ("columns", "legacy", "problem"),
    [
        ("v TIME(4)", True, "'v': avro supports TIME with a precision of 0 to 3, not 4"),
        ("v TIMESTAMP(4)", True, "'v': the legacy mapping of timestamps has no TIMESTAMP(4)"),
        ("v TIMESTAMP_LTZ(3)", True, "'v': the legacy mapping of timestamps has no TIMESTAMP_LTZ(3)"),
        ("v ARRAY<TIMESTAMP_LTZ(3)>", False, "'v': the legacy mapping of timestamps has no TIMESTAMP_LTZ(3)"),
        ("v ROW<a MAP<INT, INT>>", True, "'v.a': keys of Avro maps are strings"),
        ("`a-b` INT", True, "'a-b': an Avro name consists of letters, digits and '_'"),
        ("`1a` INT", True, "'1a': an Avro name"),
        (
            "a ROW<b ROW<c INT>>, a_b ROW<c STRING>",
            True,
            "'a_b': another record of the schema has the same name, record_a_b, and other fields",
        ),
    ],
)
def test_columns_that_avro_cannot_hold(columns: str, legacy: bool, problem: str) -> None:
    for make in (FORMAT.decoder, FORMAT.encoder):
        with pytest.raises(SchemaError) as caught:
            make(parse_columns(columns), AvroOptions(legacy_timestamps=legacy))
        assert problem in str(caught.value)


def test_records_of_the_same_name_and_fields_are_one() -> None:
    columns, row = "a ROW<b ROW<c INT>>, a_b ROW<c INT>", {"a": {"b": {"c": 1}}, "a_b": {"c": 2}}
    assert format_schema(derive_schema(parse_columns(columns))).count('"name":"record_a_b"') == 1
    assert decode(columns, *encode(columns, row)).rows.to_pylist() == [row]


def test_all_columns_that_avro_cannot_hold_are_named() -> None:
    with pytest.raises(SchemaError) as caught:
        FORMAT.decoder(parse_columns("a TIME(6), b INT, c TIMESTAMP(9)"), AvroOptions())
    assert [problem.key for problem in caught.value.problems] == ["a", "c"]


COLUMNS = "i INT NOT NULL, s STRING, a ARRAY<BIGINT NOT NULL>, t TIME, n DECIMAL(3, 1), b BOOLEAN, m MAP<STRING, INT>"
GOOD = (
    b"\x02"
    + b"\x02\x02x"
    + b"\x02\x02\x04\x00"
    + b"\x02\x02"
    + b"\x02\x02\x05"
    + b"\x02\x01"
    + b"\x02\x02\x02k\x00\x00"
)


def test_a_message_by_hand() -> None:
    assert decode(COLUMNS, GOOD).rows.to_pylist() == [
        {"i": 1, "s": "x", "a": [2], "t": dt.time(0, 0, 0, 1000), "n": Decimal("0.5"), "b": True, "m": [("k", None)]}
    ]


CUT = "the message ends inside this value"
LENGTH = "a length is negative, or larger than the rest of the message"


@pytest.mark.parametrize(
    ("message", "field", "reason"),
    [
        (b"", "i", CUT),
        (b"\x80", "i", CUT),
        (b"\x80\x80\x80\x80\x80\x00", "i", "a number has more bytes than its type allows"),
        (b"\x02", "s", CUT),
        (b"\x02\x04", "s", "the union has no such branch"),
        (b"\x02\x01", "s", "the union has no such branch"),
        (b"\x02\x02", "s", CUT),
        (b"\x02\x02\x01", "s", LENGTH),
        (b"\x02\x02\x04x", "s", LENGTH),
        (b"\x02\x02\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "s", LENGTH),
        (b"\x02\x02\x02\xff", "s", "not well-formed UTF-8"),
        (b"\x02\x02\x06\xed\xa0\x80", "s", "not well-formed UTF-8"),
        (b"\x02\x00\x02\x04\x02", "a", LENGTH),
        (b"\x02\x00\x02\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02", "a", LENGTH),
        (b"\x02\x00\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02\x02", "a", LENGTH),
        (b"\x02\x00\x02\x01\x01\x02\x00", "a", LENGTH),
        (b"\x02\x00\x02\x02" + b"\x80" * 10 + b"\x00", "a", "a number has more bytes than its type allows"),
        (b"\x02\x00\x00\x02\x01", "t", "out of the range of the column's type"),
        (b"\x02\x00\x00\x02\x80\xb8\x99\xa9\x80\x00", "t", "a number has more bytes than its type allows"),
        (b"\x02\x00\x00\x02\x80\xf0\xb2\x52", "t", "out of the range of the column's type"),
        (b"\x02\x00\x00\x00\x02\x00", "n", "the decimal has no digits"),
        (b"\x02\x00\x00\x00\x00\x02", "b", CUT),
        (GOOD[:-3], "m", LENGTH),
        (GOOD[:-1], "m", CUT),
    ],
)
def test_broken_messages(message: bytes, field: str, reason: str) -> None:
    decoded = decode(COLUMNS, GOOD, message, None, GOOD)
    assert decoded.bad == (BadRecord(1, reason, field),)
    assert decoded.rows.num_rows == 2
    assert decoded.origin is not None
    assert decoded.origin.tolist() == [0, 3]
    assert decoded.rows.slice(0, 1).to_pylist() == decoded.rows.slice(1, 1).to_pylist()


def test_bytes_after_a_record_are_ignored() -> None:
    assert decode("i INT NOT NULL", b"\x02\xff\xff").rows.to_pylist() == [{"i": 1}]


def test_a_null_message_is_no_row_and_an_empty_one_is_a_record_without_fields() -> None:
    decoded = decode("r ROW<> NOT NULL", None, b"")
    assert (decoded.rows.to_pylist(), decoded.bad) == ([{"r": {}}], ())
    assert decoded.origin is not None
    assert decoded.origin.tolist() == [1]


def test_items_without_bytes_are_limited() -> None:
    def count(items: int) -> bytes:
        return written(record(("c", "long")), {"c": items}) + b"\x00"

    decoded = decode("a ARRAY<ROW<> NOT NULL> NOT NULL", count(3), count(1001), count(2**62))
    assert decoded.rows.to_pylist() == [{"a": [{}, {}, {}]}]
    assert decoded.bad == tuple(BadRecord(index, "more than 1000 items that take no bytes", "a") for index in (1, 2))


def test_numbers_are_read_as_by_java() -> None:
    columns = "b BOOLEAN NOT NULL, t TINYINT NOT NULL, i INT NOT NULL"
    message = b"\x02" + b"\x80\x04" + b"\x80\x80\x80\x80\x70"
    assert decode(columns, message).rows.to_pylist() == [{"b": False, "t": 0, "i": 0}]


def test_decimals_of_any_length() -> None:
    columns = "n DECIMAL(3, 1) NOT NULL, m DECIMAL(38, 0)"
    texts = [
        (b"\x00" * 20 + b"\x0c", b"\xff" * 30),
        (b"\x03\xe8", b"\x01" + b"\x00" * 16),
        (b"\x80", b"\x00" + b"\xff" * 16),
    ]
    schema = record(("n", "bytes"), ("m", ["null", "bytes"]))
    decoded = decode(columns, *(written(schema, {"n": one, "m": two}) for one, two in texts))
    assert decoded.rows.to_pylist() == [
        {"n": Decimal("1.2"), "m": Decimal(-1)},
        {"n": None, "m": None},
        {"n": Decimal("-12.8"), "m": None},
    ]


def test_blocks_with_sizes() -> None:
    a = b"\x03\x04\x02\x04" + b"\x02\x06" + b"\x00"
    m = b"\x01\x08\x02k\x02\x02" + b"\x02\x02l\x00" + b"\x00"
    decoded = decode("a ARRAY<INT NOT NULL> NOT NULL, m MAP<STRING, INT> NOT NULL", a + m)
    assert decoded.rows.to_pylist() == [{"a": [1, 2, 3], "m": [("k", 1), ("l", None)]}]


def test_of_a_key_given_twice_the_last_value_counts() -> None:
    twice = b"\x06\x02k\x02\x02l\x04\x02k\x06\x00"
    once = b"\x02\x02k\x02\x00"
    many = (
        b"\xc8\x01" + b"".join(bytes([2 * len(str(key))]) + str(key).encode() + b"\x02" for key in range(100)) + b"\x00"
    )
    broken = twice[:-1] + b"\x04\x02k"
    decoded = decode("m MAP<STRING, INT NOT NULL> NOT NULL", once, twice, many, broken)
    assert decoded.bad == (BadRecord(3, LENGTH, "m"),)
    assert decoded.rows.to_pylist() == [
        {"m": [("k", 1)]},
        {"m": [("k", 3), ("l", 2)]},
        {"m": [(str(key), 1) for key in range(100)]},
    ]
    again = many[:-1] + b"\x04\x02x\x04\x0499\x06\x00"
    decoded = decode("m MAP<STRING, INT NOT NULL> NOT NULL", again, many)
    assert decoded.rows.to_pylist()[0] == {"m": [*((str(key), 1) for key in range(99)), ("99", 3), ("x", 2)]}
    assert decoded.rows.num_rows == 2


def test_maps_of_any_size() -> None:
    schema = record(("m", {"type": "map", "values": "int"}))
    values = [{f"key {key}": key for key in range(size)} for size in (0, 1, 16, 17, 31, 32, 33, 1000, 32768, 32769)]
    decoded = decode("m MAP<STRING, INT NOT NULL> NOT NULL", *(written(schema, {"m": each}) for each in values))
    assert [dict(row["m"]) for row in decoded.rows.to_pylist()] == values


def test_lists_longer_than_the_reserved_room() -> None:
    schema = record(("a", {"type": "array", "items": {"type": "array", "items": "string"}}))
    values = [{"a": [[str(item)] * (item % 5) for item in range(size)]} for size in (0, 500, 1, 3000)]
    decoded = decode("a ARRAY<ARRAY<STRING NOT NULL> NOT NULL> NOT NULL", *(written(schema, each) for each in values))
    assert decoded.rows.to_pylist() == values


def test_slices_of_nested_columns_are_written() -> None:
    columns = "r ROW<a ARRAY<STRING>, m MAP<STRING, ROW<x DECIMAL(5, 1), y BOOLEAN>>>, f FLOAT"
    rows = [
        {"r": {"a": [str(index), None], "m": [("k", {"x": Decimal(index), "y": index % 2 == 0})]}, "f": index / 2}
        if index % 3
        else {"r": None, "f": None}
        for index in range(20)
    ]
    whole = batch(columns, *rows)
    encoder = FORMAT.encoder(parse_columns(columns), AvroOptions())
    expected = encoder.encode(whole).to_pylist()
    schema = json.dumps(schema_document(derive_schema(parse_columns(columns))))
    assert expected == [written(schema, {**row, "r": _for_fastavro(row["r"])}) for row in rows]
    assert [encoder.encode(whole.slice(at, 3)).to_pylist() for at in range(18)] == [
        expected[at : at + 3] for at in range(18)
    ]


def _for_fastavro(row: Any) -> Any:
    return row and {"a": row["a"], "m": dict(row["m"])}


@pytest.mark.parametrize(
    ("columns", "row", "options", "field", "reason"),
    [
        ("i INT NOT NULL", {"i": None}, {}, "i", "NULL, but the Avro schema does not allow null"),
        ("a ARRAY<INT NOT NULL>", {"a": [None]}, {}, "a", "NULL, but the Avro schema does not allow null"),
        (
            "v TIMESTAMP(9)",
            {"v": dt.datetime(9999, 1, 1)},
            {"legacy_timestamps": False},
            "v",
            "out of the range of the Avro type",
        ),
        (
            "v STRING",
            {"v": "C"},
            {"schema": record(("v", {"type": "enum", "name": "E", "symbols": ["A", "AC"]}))},
            "v",
            "the enum of the Avro schema has no such symbol",
        ),
        (
            "v BYTES",
            {"v": b"1234"},
            {"schema": record(("v", FIXED))},
            "v",
            "not of the fixed size in the Avro schema",
        ),
        (
            "v DECIMAL(8, 0)",
            {"v": Decimal(2**23)},
            {"schema": record(("v", {**FIXED, "logicalType": "decimal", "precision": 6}))},
            "v",
            "out of the range of the Avro type",
        ),
    ],
)
def test_rows_that_the_schema_cannot_hold(
    columns: str, row: dict[str, Any], options: dict[str, Any], field: str, reason: str
) -> None:
    good = batch(columns, row)
    with pytest.raises(RecordError) as caught:
        FORMAT.encoder(parse_columns(columns), AvroOptions(**options)).encode(good)
    assert (caught.value.offset, caught.value.field, caught.value.reason) == (0, field, reason)


def test_a_batch_without_rows_and_a_table_without_columns() -> None:
    assert decode("a ARRAY<STRING>").rows.num_rows == 0
    assert encode("a ARRAY<STRING>") == []
    nothing = FORMAT.decoder(RowType((), nullable=False), AvroOptions())
    assert nothing.decode(pa.array([b"", b"\x02"], pa.binary())).rows.num_rows == 2


def test_decoder_and_encoder_can_be_pickled() -> None:
    schema = parse_columns("a ARRAY<INT>, s STRING")
    options = AvroOptions(schema=record(("s", ["null", "string"]), ("a", {"type": "array", "items": "int"})))
    decoder, encoder = FORMAT.decoder(schema, options), FORMAT.encoder(schema, options)
    rows = pa.RecordBatch.from_pylist([{"a": [1], "s": "x"}], schema=arrow_schema(schema))
    for twin in (encoder, pickle.loads(pickle.dumps(encoder))):
        messages = twin.encode(rows)
        assert messages.to_pylist() == [b"\x02\x02x\x02\x02\x00"]
        for reader in (decoder, pickle.loads(pickle.dumps(decoder))):
            assert reader.decode(messages).rows.to_pylist() == rows.to_pylist()
    assert not decoder.ignores_errors


JSON_CASES = [
    ("i INT", {"i": 1}, '{"i":{"int":1}}'),
    ("i INT", {"i": None}, '{"i":null}'),
    ("s STRING NOT NULL", {"s": "é"}, '{"s":"é"}'),
    ("y BYTES NOT NULL", {"y": b"\x00\xff"}, '{"y":"\\u0000ÿ"}'),
    ("d DOUBLE", {"d": 1.5}, '{"d":{"double":1.5}}'),
    ("a ARRAY<INT>", {"a": [1, None]}, '{"a":{"array":[{"int":1},null]}}'),
    ("m MAP<STRING, INT> NOT NULL", {"m": [("k", 1)]}, '{"m":{"k":{"int":1}}}'),
    (
        "r ROW<x DATE>",
        {"r": {"x": dt.date(1970, 1, 2)}},
        '{"r":{"org.apache.flink.avro.generated.record_r":{"x":{"int":1}}}}',
    ),
    ("t TIMESTAMP(3) NOT NULL", {"t": dt.datetime(1970, 1, 1, 0, 0, 1)}, '{"t":1000}'),
    ("n DECIMAL(3, 1)", {"n": Decimal("1.2")}, '{"n":{"bytes":"\\f"}}'),
    (  # as Avro for Java writes it
        "s STRING NOT NULL, y BYTES NOT NULL, f FLOAT NOT NULL",
        {"s": 'a\x1f\x7fé\u2028中😀/"\\\b', "y": b'\x05\x1f\x7f\x80\xff"\\\n', "f": 1.100000023841858},
        '{"s":"a\\u001F\x7fé\u2028中\\uD83D\\uDE00/\\"\\\\\\b","y":"\\u0005\\u001F\x7f\x80ÿ\\"\\\\\\n","f":1.1}',
    ),
    (
        "f FLOAT, d DOUBLE NOT NULL",
        {"f": float("-inf"), "d": float("inf")},
        '{"f":{"float":"-Infinity"},"d":"Infinity"}',
    ),
]


@pytest.mark.parametrize(("columns", "row", "text"), JSON_CASES)
def test_avro_json_both_ways(columns: str, row: dict[str, Any], text: str) -> None:
    assert encode(columns, row, encoding=Encoding.JSON) == [text.encode()]
    decoded = decode(columns, None, text.encode(), b" " + text.encode() + b" ", encoding=Encoding.JSON)
    assert (decoded.rows.to_pylist(), decoded.bad) == ([row, row], ())


@pytest.mark.parametrize(
    ("columns", "text", "field", "reason"),
    [
        ("i INT", "", "", "not JSON: Expecting value"),
        ("i INT", "{", "", "not JSON: "),
        ("i INT", "\xff", "", "not JSON: 'utf-8' codec"),
        ("i INT", '{"i": {"int": NaN}}', "", "not JSON: 'NaN'"),
        ("i INT", "[" * 100_000, "", "not JSON: "),
        ("i INT", "[]", "", "expected an object for a record, not an array"),
        ("i INT", "{}", "i", "the JSON of its record lacks this field"),
        ("i INT", '{"i": 1}', "i", "expected null or an object with one field, named after a type of (null, int)"),
        ("i INT", '{"i": {"long": 1}}', "i", "expected null or an object"),
        ("i INT", '{"i": {"int": "x"}}', "i", 'expected int, not "x"'),
        ("i INT NOT NULL", '{"i": 2147483648}', "i", "expected int, not 2147483648"),
        ("i INT NOT NULL", '{"i": true}', "i", "expected int, not true"),
        ("i INT NOT NULL", '{"i": null}', "i", "expected int, not null"),
        ("i INT NOT NULL", '{"i": 1e400}', "i", "expected int, not Infinity"),
        ("b BOOLEAN NOT NULL", '{"b": 1}', "b", "expected boolean, not 1"),
        ("d DOUBLE NOT NULL", '{"d": "1"}', "d", 'expected double, not "1"'),
        ("s STRING NOT NULL", '{"s": 1}', "s", "expected string, not 1"),
        ("s STRING NOT NULL", '{"s": "\\ud800"}', "s", "the string has half of a surrogate pair"),
        ("y BYTES NOT NULL", '{"y": []}', "y", "expected bytes, not an array"),
        ("a ARRAY<INT> NOT NULL", '{"a": {}}', "a", "expected an array, not an object"),
        ("m MAP<STRING, INT> NOT NULL", '{"m": []}', "m", "expected an object for a map, not an array"),
        ("r ROW<x INT NOT NULL> NOT NULL", '{"r": {"x": []}}', "r.x", "expected int, not an array"),
    ],
)
def test_broken_avro_json(columns: str, text: str, field: str, reason: str) -> None:
    decoded = decode(columns, text.encode("latin-1"), None, encoding=Encoding.JSON)
    assert (decoded.rows.num_rows, len(decoded.bad)) == (0, 1)
    assert (decoded.bad[0].index, decoded.bad[0].field) == (0, field)
    assert decoded.bad[0].reason.startswith(reason)


def test_deep_avro_json_is_refused_where_it_does_not_fit() -> None:
    texts = [b'{"i": ' + b"[" * depth + b"]" * depth + b"}" for depth in range(1, 1100)]
    decoded = decode("i INT NOT NULL", *texts, encoding=Encoding.JSON)
    assert [bad.index for bad in decoded.bad] == list(range(len(texts)))
    assert decoded.bad[0].reason == "expected int, not an array"


def test_fields_that_avro_json_has_beside_the_columns_are_ignored() -> None:
    assert decode("i INT NOT NULL", b'{"x": 2, "i": 1}', encoding=Encoding.JSON).rows.to_pylist() == [{"i": 1}]


def test_numbers_of_avro_json_are_read_as_by_java() -> None:
    columns = "i INT NOT NULL, f FLOAT NOT NULL, d DOUBLE NOT NULL"
    text = b'{"d": 1e400, "i": -1.9, "f": 1e300}'
    infinite = float("inf")
    assert decode(columns, text, encoding=Encoding.JSON).rows.to_pylist() == [{"i": -1, "f": infinite, "d": infinite}]
    assert encode(columns, {"i": 1, "f": 0.1, "d": 1e16}, encoding=Encoding.JSON) == [b'{"i":1,"f":0.1,"d":1.0E16}']


@pytest.mark.parametrize("count", [0, 1, 63, 64, 8191, 8192, 100_000])
def test_long_lists_in_avro_json(count: int) -> None:
    columns, row = "a ARRAY<DOUBLE NOT NULL> NOT NULL, n ARRAY<INT>", {"a": [0.0] * count, "n": [None] * count}
    (text,) = encode(columns, row, encoding=Encoding.JSON)
    assert text.decode() == f'{{"a":[{",".join(["0.0"] * count)}],"n":{{"array":[{",".join(["null"] * count)}]}}}}'
    short = text.replace(b"0.0", b"0")
    assert decode(columns, text, short, text, encoding=Encoding.JSON).rows.to_pylist() == [row, row, row]


def test_control_characters_that_are_not_escaped_are_refused_in_avro_json() -> None:
    decoded = decode("s STRING NOT NULL", b'{"s":"a\x01"}', b'{"s":"0123456789\n"}', encoding=Encoding.JSON)
    assert [bad.reason.partition(":")[0] for bad in decoded.bad] == ["not JSON", "not JSON"]


def test_fixed_and_enums_in_avro_json() -> None:
    text = record(("y", FIXED), ("s", {"type": "enum", "name": "E", "symbols": ["A", "B"]}))
    messages = [b'{"y":"a\xc3\xbfc","s":"B"}', b'{"y":"ab","s":"B"}', b'{"y":"abc","s":"C"}', b'{"y":"abc","s":[]}']
    decoded = decode("y BYTES, s STRING", *messages, schema=text, encoding=Encoding.JSON)
    assert decoded.rows.to_pylist() == [{"y": b"a\xffc", "s": "B"}]
    assert [(bad.index, bad.field) for bad in decoded.bad] == [(1, "y"), (2, "s"), (3, "s")]
    assert encode("y BYTES, s STRING", *decoded.rows.to_pylist(), schema=text, encoding=Encoding.JSON) == messages[:1]


def test_options() -> None:
    given = {
        "avro.encoding": "JSON",
        "avro.codec": "deflate",
        "avro.timestamp_mapping.legacy": "false",
        "avro.open.fastread": "true",
    }
    bound = AvroOptions.from_text(given, prefix="avro.")
    assert (bound.encoding, bound.codec, bound.legacy_timestamps) == (Encoding.JSON, "deflate", False)
    assert formats.get("avro").options is AvroOptions


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "an Avro schema must be a JSON document"),
        ('"string"', "expected the schema of a record"),
        ("{}", "a schema needs a 'type'"),
        (record(("a", "nope")), "a: the type 'nope' is used, but not defined before"),
        (record(("a", ["null", "R"])), "a: 'R' contains itself; recursive types are not supported"),
        (record(("a", ["int", "int"])), "a: a union must not have a type twice: int, int"),
        (record(("a", "int"), ("a", "int")), "record 'R' has a field twice"),
        (record(("a", {"type": "array"})), "a: array needs 'items'"),
        (record(("a", FIXED), ("b", FIXED)), "b: 'F' is defined twice"),
        (record(("a", {"type": "fixed", "name": "F", "size": -1})), "a: fixed 'F' needs a 'size'"),
        (record(("a", {"type": "enum", "name": "E", "symbols": ["A"], "default": "B"})), "is not one of its symbols"),
    ],
)
def test_schemas_that_are_none(schema: str, reason: str) -> None:
    with pytest.raises(OptionsError, match=r"avro\.schema") as caught:
        AvroOptions.from_text({"avro.schema": schema}, prefix="avro.")
    assert reason in str(caught.value)


def test_wide_unions_in_avro_json() -> None:
    text = record(("a", ["null", "long", "string", FIXED, {"type": "enum", "name": "x.E", "symbols": ["A"]}]))
    given = [b'{"a":{"string":"x"}}', b'{"a":{"x.E":"A"}}', b'{"a":null}', b'{"a":{"E":"A"}}', b'{"a":{"F":"abc"}}']
    decoded = decode("a STRING", *given, schema=text, encoding=Encoding.JSON)
    assert decoded.rows.to_pylist() == [{"a": "x"}, {"a": "A"}, {"a": None}]
    assert [bad.index for bad in decoded.bad] == [3, 4]


def test_a_key_given_twice_beside_all_that_a_union_may_be() -> None:
    branches = ["null", "int", "long", FIXED, "bytes", {"type": "array", "items": ["null", FIXED["name"]]}]
    text = record(("u", branches), ("m", {"type": "map", "values": "int"}), ("v", "int"))
    twice = b"\x04\x02k\x02\x02k\x06\x00"
    given = [b"\x00", b"\x02\x0a", b"\x04\x0a", b"\x06abc", b"\x08\x06abc", b"\x0a\x04\x00\x02abc\x00"]
    decoded = decode("m MAP<STRING, INT>, v INT", *(union + twice + b"\x0e" for union in given), schema=text)
    assert (decoded.rows.to_pylist(), decoded.bad) == ([{"m": [("k", 3)], "v": 7}] * len(given), ())


def test_a_prefix_before_each_record() -> None:
    row = parse_columns("i INT NOT NULL")
    data, offsets = DatumWriter(derive_schema(row), row, b"\x00\x01").write(batch("i INT NOT NULL", {"i": 1}, {"i": 2}))
    assert (data[: offsets[-1]].tobytes(), offsets.tolist()) == (b"\x00\x01\x02\x00\x01\x04", [0, 3, 6])
    shifted = Spans(data, offsets[:-1] + 2, offsets[1:], np.zeros(2, np.uint8))
    assert DatumReader(derive_schema(row), derive_schema(row), row).read(shifted).rows.to_pylist() == [
        {"i": 1},
        {"i": 2},
    ]
