"""What the csv format reads and writes, by Flink's rules and Jackson's dialect."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import OptionsError, SchemaError
from penstock.formats.csv.exact_reader import ExactCsvReader
from penstock.formats.csv.factory import FORMAT
from penstock.formats.csv.options import CsvOptions
from penstock.spi import Decoded
from penstock.types import arrow_schema, parse_columns

UTC = dt.UTC


def decode(columns: str, *messages: str | bytes | None, **options: Any) -> Decoded:
    given = [each.encode() if isinstance(each, str) else each for each in messages]
    schema = parse_columns(columns)
    decoded = FORMAT.decoder(schema, CsvOptions(**options)).decode(pa.array(given, pa.binary()))
    decoded.rows.validate(full=True)
    assert decoded.rows.schema == arrow_schema(schema)
    return decoded


def row(columns: str, message: str, **options: Any) -> list[Any]:
    decoded = decode(columns, message, **options)
    assert decoded.bad == ()
    return [column[0].as_py() for column in decoded.rows.columns]


def encode(columns: str, *rows: list[Any], **options: Any) -> list[str]:
    schema = parse_columns(columns)
    arrow = arrow_schema(schema)
    batch = pa.RecordBatch.from_arrays(
        [pa.array([values[index] for values in rows], field.type) for index, field in enumerate(arrow)], schema=arrow
    )
    messages = FORMAT.encoder(schema, CsvOptions(**options)).encode(batch)
    messages.validate(full=True)
    return [message.decode() for message in messages.to_pylist()]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("BOOLEAN", "true", True),
        ("BOOLEAN", " TRUE", True),
        ("BOOLEAN", "abc", False),
        ("BOOLEAN", "", None),
        ("TINYINT", " 12 ", 12),
        ("INT", "+5", 5),
        ("INT", "", None),
        ("BIGINT", "-9223372036854775808", -(2**63)),
        ("FLOAT", "0.1", 0.10000000149011612),
        ("DOUBLE", " 1e3 ", 1000.0),
        ("DOUBLE", "1.5f", 1.5),
        ("DECIMAL(5, 1)", "12.25", Decimal("12.3")),
        ("DECIMAL(3, 1)", "100", None),
        ("STRING", "", ""),
        ("STRING", '""', ""),
        ("STRING", '"a,""b"""', 'a,"b"'),
        ("STRING", 'a"b', 'a"b'),
        ("STRING", '"two\nlines"', "two\nlines"),
        ("STRING", "é€😀", "é€😀"),
        ("STRING", " x ", " x "),
        ("BYTES", "QUI=", b"AB"),
        ("BYTES", "", b""),
        ("DATE", "2024-2-3", dt.date(2024, 2, 3)),
        ("DATE", "2021-02-30", dt.date(2021, 3, 2)),
        ("TIME", "01:02", dt.time(1, 2)),
        ("TIME(2)", "01:02:03.456", dt.time(1, 2, 3, 450000)),
        ("TIMESTAMP(3)", " 2024-01-02 03:04:05.6 ", dt.datetime(2024, 1, 2, 3, 4, 5, 600000)),
        ("TIMESTAMP_LTZ(3)", "2024-01-02 03:04:05Z", dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("ARRAY<INT>", "1;;3", [1, None, 3]),
        ("ARRAY<STRING>", "", []),
        ("ROW<a INT, b STRING>", "1;x", {"a": 1, "b": "x"}),
        ("ROW<a INT, b STRING>", "1;x;y", {"a": 1, "b": "x"}),
    ],
)
def test_values_read(kind: str, text: str, expected: Any) -> None:
    assert row(f"v {kind}, w INT", f"{text},7") == [expected, 7]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("TINYINT", "128"),
        ("INT", "1.0"),
        ("DOUBLE", "x"),
        ("DECIMAL(5, 1)", " 1"),
        ("BYTES", "QQ"),
        ("DATE", "20240101"),
        ("TIME", "25:00:00"),
        ("TIMESTAMP(3)", "2024-01-02"),
        ("TIMESTAMP_LTZ(3)", "2024-01-02 03:04:05"),
        ("ARRAY<INT>", "1;x"),
        ("ROW<a INT, b INT>", "1"),
    ],
)
def test_a_value_that_does_not_fit_is_bad_or_null(kind: str, text: str) -> None:
    refused = decode(f"v {kind}, w INT", f"{text},7")
    assert (refused.rows.num_rows, [(bad.index, bad.field) for bad in refused.bad]) == (0, [(0, "v")])
    ignored = decode(f"v {kind}, w INT", f"{text},7", ignore_parse_errors=True)
    assert (ignored.rows.num_rows, ignored.rows.column(1).to_pylist(), ignored.bad) == (1, [7], ())


@pytest.mark.parametrize("message", ["", "1", "1,2,3", '1,"x', '1,"x"y', b"1,\xff", "#1,2", " \n # 1"])
@pytest.mark.parametrize("ignore", [False, True])
def test_invalid_rows_are_listed(message: str | bytes, ignore: bool) -> None:
    decoded = decode("a STRING, b STRING", "x,y", message, None, "z,", ignore_parse_errors=ignore, allow_comments=True)
    if ignore and message == "1":  # too few values are NULL then
        assert decoded.bad == ()
        assert decoded.rows.column(1).to_pylist() == ["y", None, ""]
        return
    assert [bad.index for bad in decoded.bad] == [1]
    assert decoded.origin is not None
    assert decoded.origin.tolist() == [0, 3]
    assert decoded.rows.column(0).to_pylist() == ["x", "z"]


@pytest.mark.parametrize(
    ("options", "message", "expected"),
    [
        ({"field_delimiter": "\t"}, "a,b\t1", ["a,b", 1]),
        ({"field_delimiter": "§"}, "a§1", ["a", 1]),
        ({"quote_character": "'"}, "'a,''b',1", ["a,'b", 1]),
        ({"disable_quote_character": True}, '"a",1', ['"a"', 1]),
        ({"escape_character": "\\"}, r"a\,b\n\\,1", ["a,b\n\\", 1]),
        ({"escape_character": "\\"}, r'"a\"b",1', ['a"b', 1]),
        ({"null_literal": "n/a"}, "n/a,n/a", [None, None]),
        ({"null_literal": "n/a"}, ",1", ["", 1]),
        ({"empty_string_as_null": True}, ",1", [None, 1]),
        ({"allow_comments": True}, "#x\n#y\na,1", ["a", 1]),
        ({"allow_comments": True}, " #x\r\n\n  # y\n a,1", ["a", 1]),
        ({"allow_comments": True}, ' "a",1', ["a", 1]),
        ({"ignore_first_line": True}, "s,i\r\na,1\r\n", ["a", 1]),
        ({"ignore_first_line": True}, '"s\na,1\nb,2', ["a", 1]),
        ({"ignore_first_line": True, "allow_comments": True}, "#x\ns,i\n#y\na,1", ["a", 1]),
        ({"trim_spaces": True}, ' a b , "1" ', ["a b", 1]),
        ({"ignore_trailing_unmappable": True}, "a,1,2,3", ["a", 1]),
        ({}, "a,1,", ["a", 1]),
        ({}, "a,1, ", ["a", 1]),
        ({}, "a,1\nb,2", ["a", 1]),
        ({}, "\ufeffa,1", ["a", 1]),
        ({"ignore_parse_errors": True}, "a", ["a", None]),
    ],
)
def test_dialects(options: dict[str, Any], message: str, expected: list[Any]) -> None:
    assert row("s STRING, i INT", message, **options) == expected


def test_strictness_is_optional() -> None:
    assert decode("s STRING, i INT", "a,1,", allow_trailing_comma=False).bad[0].index == 0
    assert decode("s STRING, i INT", "a", ignore_parse_errors=True, fail_on_missing_columns=True).bad[0].index == 0


def test_common_lines_never_reach_the_exact_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExactCsvReader, "row", lambda self, message: pytest.fail(f"exact path for {message!r}"))
    columns = "b BOOLEAN, i INT, d DOUBLE, n DECIMAL(9, 2), s STRING, t STRING, da DATE, ts TIMESTAMP(3), e INT"
    assert row(columns, 'true,-1,0.5,1.25,"a, é",,2024-01-01,"2024-01-01 00:00:00.5",')[4:6] == ["a, é", ""]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("BOOLEAN", True, "true"),
        ("BIGINT", -5, "-5"),
        ("DOUBLE", 1e10, "1.0E10"),
        ("DOUBLE", float("nan"), "NaN"),
        ("FLOAT", 0.1, "0.1"),
        ("DECIMAL(10, 2)", Decimal(100000), "100000.00"),
        ("DECIMAL(38, 2)", Decimal("1000000000000000000000000000000.50"), "1000000000000000000000000000000.50"),
        ("STRING", "plain-text.1", "plain-text.1"),
        ("STRING", "", ""),
        ("STRING", "two words", '"two words"'),
        ("STRING", 'say "x"', '"say ""x"""'),
        ("STRING", "é", "é"),
        ("STRING", "x" * 24, "x" * 24),
        ("STRING", "x" * 25, f'"{"x" * 25}"'),
        ("STRING", "😀" * 12, "😀" * 12),
        ("STRING", "😀" * 13, f'"{"😀" * 13}"'),
        ("BYTES", b"AB", "QUI="),
        ("BYTES", b"\xfb", '"+w=="'),
        ("DATE", dt.date(2024, 1, 2), "2024-01-02"),
        ("TIME", dt.time(1, 2, 3), "01:02:03"),
        ("TIME(3)", dt.time(1, 2, 3, 450000), "01:02:03.45"),
        ("TIMESTAMP(3)", dt.datetime(2024, 1, 2, 3, 4, 5, 600000), '"2024-01-02 03:04:05.6"'),
        ("TIMESTAMP_LTZ(3)", dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), '"2024-01-02 03:04:05Z"'),
        ("ARRAY<STRING>", ["a", None, "b c"], '"a;;b c"'),
        ("ROW<a INT, b BOOLEAN>", {"a": 1, "b": None}, "1;"),
        ("INT", None, ""),
    ],
)
def test_values_written(kind: str, value: Any, expected: str) -> None:
    assert encode(f"v {kind}, w INT", [value, 7]) == [f"{expected},7"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, '"a ""b""",100000.0,'),
        ({"scientific_decimals": False}, '"a ""b""",100000.0,'),
        ({"null_literal": "NULL"}, '"a ""b""",100000.0,NULL'),
        ({"field_delimiter": "|"}, '"a ""b"""|100000.0|'),
        ({"quote_character": "'"}, "'a \"b\"',100000.0,"),
        ({"disable_quote_character": True}, 'a "b",100000.0,'),
        ({"escape_character": "b"}, '"a ""bb""",100000.0,'),
    ],
)
def test_dialects_written(options: dict[str, Any], expected: str) -> None:
    assert encode("s STRING, n DECIMAL(8, 1), i INT", ['a "b"', Decimal(100000), None], **options) == [expected]


def test_what_is_written_reads_back() -> None:
    columns = (
        "s STRING, y BYTES, i INT, d DOUBLE, n DECIMAL(20, 2), ts TIMESTAMP(3), a ARRAY<INT>, r ROW<x INT, y STRING>"
    )
    rows = [
        [
            'q"u,o\nte',
            b"\x00\xff",
            None,
            0.1,
            Decimal("1E+5"),
            dt.datetime(2024, 1, 2, 3, 4, 5),
            [1, 2],
            {"x": 1, "y": "z"},
        ],
        ["", b"", 5, None, None, None, [], None],
    ]
    messages = encode(columns, *rows)
    decoded = decode(columns, *messages)
    assert decoded.bad == ()
    assert [list(each.values()) for each in decoded.rows.to_pylist()] == rows


def test_slices() -> None:
    batch = pa.RecordBatch.from_pydict({"i": pa.array(range(10), pa.int32()), "s": ["x" * n for n in range(10)]})
    encoder = FORMAT.encoder(parse_columns("i INT, s STRING"), CsvOptions())
    whole = encoder.encode(batch)
    assert encoder.encode(batch.slice(8, 1)).to_pylist() == whole.to_pylist()[8:9]
    decoder = FORMAT.decoder(parse_columns("i INT, s STRING"), CsvOptions())
    assert decoder.decode(whole.slice(3, 4)).rows.to_pylist() == batch.slice(3, 4).to_pylist()
    assert decoder.decode(whole.slice(3, 0)).rows.num_rows == 0
    assert pickle.loads(pickle.dumps(decoder)) == decoder


@pytest.mark.parametrize(
    "kind", ["MAP<STRING, INT>", "ARRAY<ARRAY<INT>>", "ROW<a ROW<b INT>>", "TIME(6)", "ARRAY<TIME(9)>"]
)
def test_types_that_csv_does_not_have(kind: str) -> None:
    for make in (FORMAT.decoder, FORMAT.encoder):
        with pytest.raises(SchemaError, match="'bad'"):
            make(parse_columns(f"ok INT, bad {kind}"), CsvOptions())


def test_options_that_contradict_each_other() -> None:
    with pytest.raises(OptionsError, match=r"'csv\.quote-character'.*disable-quote-character"):
        CsvOptions.from_text({"csv.disable-quote-character": "true", "csv.quote-character": "'"}, prefix="csv.")
    with pytest.raises(OptionsError, match="must differ"):
        CsvOptions.from_text({"field-delimiter": '"'})
    for key in ("field-delimiter", "quote-character", "escape-character", "array-element-delimiter"):
        for text in ("||", ""):
            with pytest.raises(OptionsError, match=f"'{key}': expected one character"):
                CsvOptions.from_text({key: text})
    for text, mark in (
        ("\\t", "\t"),
        ("\\u0001", "\x01"),
        ("\\001", "\x01"),
        ("\\1", "\x01"),
        ("\\", "\\"),
        ("\x01", "\x01"),
    ):
        assert CsvOptions.from_text({"field-delimiter": text}).field_delimiter == mark


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"field_delimiter": "§"}, '"a ""b"""§100000.0§'),
        ({"quote_character": "§"}, '§a "b"§,100000.0,'),
        ({"escape_character": "§", "null_literal": "-"}, '"a ""b""",100000.0,-'),
        ({"field_delimiter": "§", "disable_quote_character": True}, 'a "b"§100000.0§'),
    ],
)
def test_marks_beyond_ascii_are_written(options: dict[str, Any], expected: str) -> None:
    assert encode("s STRING, n DECIMAL(8, 1), i INT", ['a "b"', Decimal(100000), None], **options) == [expected]


def test_a_table_without_columns_has_empty_lines() -> None:
    rows = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    for delimiter in ",§":
        encoder = FORMAT.encoder(parse_columns("i INT").select(()), CsvOptions(field_delimiter=delimiter))
        assert encoder.encode(rows).to_pylist() == [b"", b""]
