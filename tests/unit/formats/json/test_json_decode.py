"""What the json format makes of messages, by Flink's rules."""

from __future__ import annotations

import datetime as dt
import math
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import SchemaError
from penstock.formats.json.exact_reader import ExactJsonReader
from penstock.formats.json.factory import FORMAT
from penstock.formats.json.options import JsonOptions, TimestampStandard
from penstock.spi import Decoded, formats
from penstock.types import arrow_schema, parse_columns

ISO = {"timestamp_standard": TimestampStandard.ISO_8601}
OFFSET = {"timestamp_standard": TimestampStandard.ISO_8601_WITH_OFFSET}
UTC = dt.UTC
WIDE = {"i": 123456789012345678, "n": None}


def decode(columns: str, *messages: str | bytes | None, **options: Any) -> Decoded:
    given = [each.encode() if isinstance(each, str) else each for each in messages]
    schema = parse_columns(columns)
    decoded = FORMAT.decoder(schema, JsonOptions(**options)).decode(pa.array(given, pa.binary()))
    decoded.rows.validate(full=True)
    assert decoded.rows.schema == arrow_schema(schema)
    return decoded


def value(kind: str, text: str, **options: Any) -> Any:
    decoded = decode(f"v {kind}", f'{{"v":{text}}}', **options)
    assert decoded.bad == ()
    return decoded.rows.column(0)[0].as_py()


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("BOOLEAN", "true", True),
        ("BOOLEAN", "1", False),
        ("BOOLEAN", '" TRUE "', True),
        ("BOOLEAN", '"abc"', False),
        ("TINYINT", "-128", -128),
        ("SMALLINT", '"-32768"', -32768),
        ("INT", '" +7 "', 7),
        ("INT", "112.013", 112),
        ("INT", "-2.9", -2),
        ("INT", "1e3", 1000),
        ("BIGINT", "9223372036854775807", 2**63 - 1),
        ("BIGINT", "9.3e18", None),
        ("FLOAT", "0.1", 0.10000000149011612),
        ("FLOAT", "16777217", 16777216.0),
        ("FLOAT", "1.00000005960464477540", 1.0000001192092896),
        ("FLOAT", "1e39", float("inf")),
        ("DOUBLE", "0.1", 0.1),
        ("DOUBLE", "123456789012345678", 123456789012345680.0),
        ("DOUBLE", "2.2250738585072011e-308", 2.225073858507201e-308),
        ("DOUBLE", '"0x1.8p1"', 3.0),
        ("DOUBLE", '"-Infinity"', float("-inf")),
        ("DECIMAL(10, 2)", "1.005", Decimal("1.01")),
        ("DECIMAL(10, 2)", "-1.005", Decimal("-1.01")),
        ("DECIMAL(10, 2)", '" 12.3 "', Decimal("12.30")),
        ("DECIMAL(4, 2)", "99.995", None),
        ("DECIMAL(4, 2)", "1e100", None),
        ("DECIMAL(38, 0)", "99999999999999999999999999999999999999", Decimal(10**38 - 1)),
        ("STRING", '"a\\n\\u00e9\\ud83d\\ude00"', "a\né😀"),
        ("STRING", '"tab\there"', "tab\there"),
        ("STRING", '"\\ud800x"', "?x"),
        ("STRING", "1.50", "1.50"),
        ("STRING", "true", "true"),
        ("STRING", '{"a" : [1, 1.50, "x\\u0001", null], "b":{}, "a":2}', '{"a":2,"b":{}}'),
        ("STRING", "[1e400, -1e400, 1e-400]", '["Infinity","-Infinity",0.0]'),
        ("STRING", '[1e5, -0, {"k":"\\/"}]', '[100000.0,0,{"k":"/"}]'),
        ("BYTES", '"QUJD"', b"ABC"),
        ("BYTES", '"QQ=="', b"A"),
        ("BYTES", '""', b""),
        ("DATE", '"2024-02-29"', dt.date(2024, 2, 29)),
        ("TIME", '"23:59:58.987"', dt.time(23, 59, 58)),
        ("TIME(3)", '"23:59:58.9876"', dt.time(23, 59, 58, 987000)),
        ("TIMESTAMP(3)", '"2024-02-29 01:02:03"', dt.datetime(2024, 2, 29, 1, 2, 3)),
        ("TIMESTAMP(3)", '"1969-12-31 23:59:59.9999999"', dt.datetime(1969, 12, 31, 23, 59, 59, 999999)),
        ("TIMESTAMP(3)", '"2021-02-30 00:00:00"', dt.datetime(2021, 2, 28)),
        ("TIMESTAMP(3)", '"2021-01-01 24:00:00"', dt.datetime(2021, 1, 2)),
        ("TIMESTAMP_LTZ(3)", '"2024-02-29 01:02:03.5Z"', dt.datetime(2024, 2, 29, 1, 2, 3, 500000, UTC)),
        ("ARRAY<INT>", "[1, null, 2.5]", [1, None, 2]),
        ("MAP<STRING, INT>", '{"a":1,"b":null,"a":3}', [("a", 3), ("b", None)]),
        ("ROW<x INT, y ROW<z STRING>>", '{"y":{"z":"q"},"u":1}', {"x": None, "y": {"z": "q"}}),
        ("STRING", "null", None),
    ],
)
def test_values(kind: str, text: str, expected: Any) -> None:
    if kind == "BIGINT" and expected is None:
        assert decode("v BIGINT", f'{{"v":{text}}}').bad[0].field == "v"
    else:
        assert value(kind, text) == expected


@pytest.mark.parametrize(
    ("kind", "text", "options", "expected"),
    [
        ("TIMESTAMP(3)", '"2024-02-29T01:02"', ISO, dt.datetime(2024, 2, 29, 1, 2)),
        ("TIMESTAMP(3)", '"2024-02-29T01:02:03.25"', ISO, dt.datetime(2024, 2, 29, 1, 2, 3, 250000)),
        ("TIMESTAMP_LTZ(3)", '"2024-02-29T01:02:03Z"', ISO, dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC)),
        ("TIMESTAMP_LTZ(3)", '"2024-02-29T01:02:03+02:00"', OFFSET, dt.datetime(2024, 2, 28, 23, 2, 3, tzinfo=UTC)),
        ("TIMESTAMP(3)", '"2024-02-29t01:02"', ISO, dt.datetime(2024, 2, 29, 1, 2)),
        ("STRING", "1.50", {"json_parser": False}, "1.5"),
        ("FLOAT", "1.00000005960464477540", {"json_parser": False}, 1.0),
        ("DOUBLE", "1e400", {"json_parser": False}, float("inf")),
        ("ROW<i BIGINT, n DECIMAL(3, 1)>", '{"i":123456789012345678.9}', {"json_parser": False}, WIDE),
    ],
)
def test_values_under_options(kind: str, text: str, options: dict[str, Any], expected: Any) -> None:
    assert value(kind, text, **options) == expected


@pytest.mark.parametrize(
    ("columns", "json_parser", "texts", "signs"),
    [
        ("v DOUBLE", True, ["-0", "-0.0", '"-0"'], [-1, -1, -1]),
        ("v DOUBLE", False, ["-0", "-0.0", "-0e5", '"-0"'], [1, -1, -1, -1]),
        ("v FLOAT", False, ["-0", "-0.0", '"-0"'], [1, -1, -1]),
        ("v DOUBLE, n DECIMAL(3, 1)", False, ["-0", "-0.0", "-0e5", "-1e-400", '"-0"'], [1, 1, 1, -1, -1]),
        ("v DOUBLE, n DECIMAL(3, 1)", True, ["-0", "-0.0"], [-1, -1]),
    ],
)
def test_zero_has_the_sign_that_the_parser_keeps(
    columns: str, json_parser: bool, texts: list[str], signs: list[int]
) -> None:
    found = decode(columns, *(f'{{"v":{text}}}' for text in texts), json_parser=json_parser).rows.column(0).to_pylist()
    assert found == [0.0] * len(texts)
    assert [math.copysign(1, each) for each in found] == signs


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("TINYINT", "128"),
        ("TINYINT", "1.0"),
        ("SMALLINT", "32768"),
        ("INT", "2147483648"),
        ("INT", '"1.0"'),
        ("INT", "true"),
        ("INT", "{}"),
        ("BIGINT", "9223372036854775808"),
        ("DOUBLE", '"x"'),
        ("DECIMAL(4, 2)", '"x"'),
        ("BYTES", '"QQ"'),
        ("BYTES", "1"),
        ("DATE", '"2021-02-29"'),
        ("DATE", '"2021-1-1"'),
        ("TIME", '"1:02:03"'),
        ("TIMESTAMP(3)", '"2021-01-01T00:00:00"'),
        ("TIMESTAMP(3)", '"2021-01-01 00:00"'),
        ("TIMESTAMP_LTZ(3)", '"2021-01-01 00:00:00"'),
        ("TIMESTAMP_LTZ(3)", '"2021-01-01 00:00:00+08:00"'),
        ("ARRAY<INT>", "1"),
        ("MAP<STRING, INT>", "[]"),
        ("ROW<x INT>", '"x"'),
        ("BOOLEAN", "{}"),
    ],
)
def test_a_value_that_does_not_fit_is_bad_or_null(kind: str, text: str) -> None:
    message = f'{{"v":{text},"w":1}}'
    refused = decode(f"v {kind}, w INT", message)
    assert refused.rows.num_rows == 0
    assert [(bad.index, bad.field) for bad in refused.bad] == [(0, "v")]
    ignored = decode(f"v {kind}, w INT", message, ignore_parse_errors=True)
    assert ignored.bad == ()
    assert ignored.rows.to_pylist() == [{"v": None, "w": 1}]


@pytest.mark.parametrize(
    "message",
    [
        "{",
        '{"v":1',
        '{"v":01}',
        '{"v":1.}',
        '{"v":.5}',
        '{"v":+1}',
        '{"v":NaN}',
        '{"v":1,}',
        "{'v':1}",
        '{"v" 1}',
        '{"v":tru}',
        '{"v":"\\x"}',
        '{"v":"a}',
        "1",
        "[1]",
        "null",
        b'{"v":"\xff"}',
        b'{"u":"\xc0\x80"}',
        '{"u":' + "[" * 1001 + "]" * 1001 + "}",
        '{"u":' + "1" * 1001 + "}",
    ],
)
@pytest.mark.parametrize("ignore", [False, True])
def test_invalid_json_is_listed_and_gives_no_row(message: str | bytes, ignore: bool) -> None:
    decoded = decode("v STRING", '{"v":"a"}', message, '{"v":"b"}', ignore_parse_errors=ignore)
    assert decoded.rows.column(0).to_pylist() == ["a", "b"]
    assert decoded.origin is not None
    assert decoded.origin.tolist() == [0, 2]
    assert [bad.index for bad in decoded.bad] == [1]
    assert decoded.bad[0].reason


def test_text_after_the_object_is_ignored() -> None:
    assert decode("v INT", b'{"v":1} \xff}').rows.to_pylist() == [{"v": 1}]


def test_nesting_up_to_the_limit_is_read() -> None:
    assert decode("v INT", '{"u":' + "[" * 999 + "]" * 999 + ',"v":1}').rows.to_pylist() == [{"v": 1}]


def test_null_and_empty_messages_give_no_row() -> None:
    decoded = decode("v INT", None, "", '{"v":1}', None)
    assert decoded.rows.to_pylist() == [{"v": 1}]
    assert decoded.origin is not None
    assert decoded.origin.tolist() == [2]
    assert decoded.bad == ()


def test_a_top_level_array_gives_a_row_for_each_object() -> None:
    decoded = decode("v INT", '{"v":0}', '[{"v":1},{"v":2}]', "[]")
    assert decoded.rows.column(0).to_pylist() == [0, 1, 2]
    assert decoded.origin is not None
    assert decoded.origin.tolist() == [0, 1, 1]


def test_an_array_with_other_values_gives_its_rows_if_errors_are_ignored() -> None:
    messages = ['[{"v":1},5,{"v":2}]', "[null]", '[{"v":"x"},[{"v":3}]]', '{"v":4}']
    refused = decode("v INT", *messages)
    assert [bad.index for bad in refused.bad] == [0, 1, 2]
    assert refused.rows.to_pylist() == [{"v": 4}]
    for json_parser in (True, False):
        ignored = decode("v INT", *messages, ignore_parse_errors=True, json_parser=json_parser)
        assert [bad.reason for bad in ignored.bad] == [
            "expected a JSON object, or an array of them, not '5'",
            "expected a JSON object, or an array of them, not null",
            "expected a JSON object, or an array of them, not an array",
        ]
        assert ignored.rows.column(0).to_pylist() == [1, 2, None, 4]
        assert ignored.origin is not None
        assert ignored.origin.tolist() == [0, 0, 2, 3]


@pytest.mark.parametrize("rest", ['{"v":', '{"v":}]', '{"v":2}}', "]", '{"v":"\ud800'])
def test_the_streaming_parser_gives_the_rows_before_invalid_json(rest: str) -> None:
    message = b'[{"v":1},' + rest.encode("utf-8", "surrogatepass")
    assert decode("v INT", message).rows.num_rows == 0
    found = decode("v INT", message, ignore_parse_errors=True)
    assert found.rows.column(0).to_pylist()[0] == 1
    assert [bad.index for bad in found.bad] == [0]
    tree = decode("v INT", message, ignore_parse_errors=True, json_parser=False)
    assert (tree.rows.num_rows, [bad.index for bad in tree.bad]) == (0, [0])


def test_the_streaming_parser_stops_after_as_many_fields_as_columns() -> None:
    message = '{"a":1,"a":2,"b":3}'
    assert decode("a INT, b INT", message).rows.to_pylist() == [{"a": 2, "b": None}]
    assert decode("a INT, b INT", message, json_parser=False).rows.to_pylist() == [{"a": 2, "b": 3}]


def test_names_are_matched_exactly() -> None:
    columns = '`A` INT, `a` INT, `é"\\` INT, `` INT'.replace(", `` INT", "")
    decoded = decode(columns, '{"a":1,"A":2,"\\u00e9\\"\\\\":3,"aa":4}')
    assert decoded.rows.to_pylist() == [{"A": 2, "a": 1, 'é"\\': 3}]


def test_a_missing_field_is_null_or_refused() -> None:
    assert decode("a INT, b INT", '{"b":1}').rows.to_pylist() == [{"a": None, "b": 1}]
    refused = decode("a INT, b INT", '{"b":1}', '{"a":null,"b":1}', fail_on_missing_field=True)
    assert refused.rows.to_pylist() == [{"a": None, "b": 1}]
    assert [(bad.index, bad.field) for bad in refused.bad] == [(0, "a")]


def test_nested_values_that_do_not_fit_become_null_when_ignored() -> None:
    decoded = decode(
        "a ARRAY<INT>, m MAP<STRING, INT>, r ROW<x INT, y INT>",
        '{"a":[1,"x"],"m":{"k":"x","l":2},"r":{"x":"x","y":3}}',
        ignore_parse_errors=True,
    )
    assert decoded.rows.to_pylist() == [{"a": [1, None], "m": [("k", None), ("l", 2)], "r": {"x": None, "y": 3}}]


def test_a_nested_field_is_named_by_its_path() -> None:
    assert decode("r ROW<x ROW<y INT>>", '{"r":{"x":{"y":"z"}}}').bad[0].field == "r.x.y"


def test_slices_and_other_encodings() -> None:
    decoder = FORMAT.decoder(parse_columns("v STRING"), JsonOptions())
    given = pa.array([b'{"v":"0"}', b'{"v":"1"}', None, '{"v":"é"}'.encode("utf-16-be"), b'\xef\xbb\xbf{"v":"4"}'])
    assert decoder.decode(given.slice(1)).rows.column(0).to_pylist() == ["1", "é", "4"]
    assert decoder.decode(given.slice(1, 1)).origin is None
    empty = decoder.decode(given.slice(5))
    assert (empty.rows.num_rows, empty.bad) == (0, ())


def test_common_records_never_reach_the_exact_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExactJsonReader, "read_rows", lambda self, message: pytest.fail(f"exact path for {message!r}"))
    columns = (
        "b BOOLEAN, i INT, d DOUBLE, f FLOAT, n DECIMAL(20, 3), s STRING, y BYTES, da DATE, ti TIME(3), ts TIMESTAMP(3)"
    )
    message = (
        '{"b":false,"i":-7,"unknown":{"x":[1,{"y":"\\u0041"}]},"d":0.30000000000000004,"f":1.5,"n":"12.5",'
        ' "s":"q\\"é","y":"QQ==","da":"2024-01-01","ti":"01:02:03.5","ts":"2024-01-01 00:00:00.123"}'
    )
    row = decode(columns, message).rows.to_pylist()[0]
    assert (row["i"], row["d"], row["n"], row["s"], row["y"]) == (
        -7,
        0.30000000000000004,
        Decimal("12.500"),
        'q"é',
        b"A",
    )


def test_maps_need_text_keys() -> None:
    with pytest.raises(SchemaError, match=r"'m'.*are strings[\s\S]*'n'"):
        decode("m MAP<INT, INT>, ok MAP<STRING, INT>, n ARRAY<MAP<DATE, INT>>")


def test_decoders_are_found_and_travel() -> None:
    fmt = formats.get("JSON")
    decoder = fmt.decoder(
        parse_columns("v INT"), fmt.options.from_text({"json.ignore-parse-errors": "true"}, prefix="json.")
    )
    decoder.decode(pa.array([b'{"v":1}']))
    travelled = pickle.loads(pickle.dumps(decoder))
    assert travelled == decoder
    assert travelled.ignores_errors
    assert travelled.decode(pa.array([b'{"v":"x"}'])).rows.to_pylist() == [{"v": None}]


def test_origin_is_int64() -> None:
    origin = decode("v INT", None, '{"v":1}').origin
    assert origin is not None
    assert origin.dtype == np.int64


def test_a_schema_without_columns_still_has_rows() -> None:
    schema = parse_columns("v INT").select(())
    decoded = FORMAT.decoder(schema, JsonOptions()).decode(pa.array([b"{}", None, b'{"a":1}', b"[{},{}]"]))
    assert decoded.rows.num_rows == 4
    assert decoded.origin is not None
    assert decoded.origin.tolist() == [0, 2, 3, 3]
    messages = FORMAT.encoder(schema, JsonOptions()).encode(decoded.rows)
    assert messages.to_pylist() == [b"{}"] * 4


def test_times_within_nested_columns() -> None:
    columns = "a ARRAY<TIMESTAMP(3)>, r ROW<d DATE, t TIME(3), z TIMESTAMP_LTZ(3)>, m MAP<STRING, DECIMAL(5, 2)>"
    message = (
        '{"a":["2024-01-02 03:04:05.5",null],"r":{"d":"2024-01-01","t":"01:02:03.5","z":"2024-01-01 00:00:00Z"},'
        '"m":{"k":1.01}}'
    )
    decoded = decode(columns, message)
    encoder = FORMAT.encoder(parse_columns(columns), JsonOptions())
    assert encoder.encode(decoded.rows).to_pylist() == [message.encode()]


@pytest.mark.parametrize(
    "text",
    ["1e99999999999", '"1e99999999999"', "1e9999", "0e00000000000001", f"-1.5e-{10**20}", f'{{"a":[1e{10**20}]}}'],
)
@pytest.mark.parametrize("json_parser", [True, False])
def test_extreme_exponents_never_raise(text: str, json_parser: bool) -> None:
    columns = "n DECIMAL(5, 2), d DOUBLE, f FLOAT, i BIGINT, s STRING"
    decoded = decode(columns, *(f'{{"{name}":{text}}}' for name in "ndfis"), json_parser=json_parser)
    assert decoded.rows.num_rows + len(decoded.bad) == 5


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("INT", f'"{"x" * 10**6}"', f"expected a whole number, not '{'x' * 100}...', 1000000 characters"),
        ("BIGINT", "9" * 900, f"'{'9' * 100}...', 900 characters is out of the range of BIGINT"),
        ("DATE", f'"{"é" * 200}"', f"expected a date 'yyyy-MM-dd', not '{'é' * 100}...', 200 characters"),
        ("ARRAY<INT>", f'"{"x" * 101}"', f"expected an array, not '{'x' * 100}...', 101 characters"),
        ("ARRAY<INT>", "{}", "expected an array, not an object"),
        ("ROW<a INT>", "5", "expected an object for a row, not '5'"),
        ("MAP<STRING, INT>", "[]", "expected an object for a map, not an array"),
        ("DECIMAL(5, 2)", "true", "expected a number, not 'true'"),
        ("BYTES", "1", "expected base64 text, not '1'"),
        ("STRING", "tru", "expected a value, not 't', at character 6"),
    ],
)
def test_errors_name_the_value_and_shorten_it(kind: str, text: str, reason: str) -> None:
    assert [bad.reason for bad in decode(f"v {kind}", f'{{"v":{text}}}').bad] == [reason]
