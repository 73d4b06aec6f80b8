"""The compiled loop and the exact path give the same answer to any message."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.exact.merge import merge_exact_rows
from penstock.formats.json.decode import JsonDecoder
from penstock.formats.json.exact_reader import ExactJsonReader
from penstock.formats.json.options import JsonOptions, TimestampStandard
from penstock.loops.record_status import EXACT, NO_ROW
from penstock.spi import Decoded
from penstock.types import RowType, arrow_schema, parse_columns

COLUMNS = {
    "b": "BOOLEAN",
    "t": "TINYINT",
    "s": "SMALLINT",
    "i": "INT",
    "l": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "n": "DECIMAL(10, 2)",
    "w": "DECIMAL(38, 5)",
    "x": "STRING",
    "y": "BYTES",
    "da": "DATE",
    "ti": "TIME(3)",
    "ts": "TIMESTAMP(3)",
    "lz": "TIMESTAMP_LTZ(3)",
    "é": "VARCHAR(3)",
}
SCHEMA = parse_columns(", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items()))

NUMBERS = st.one_of(
    st.integers().map(str),
    st.integers(-200, 200).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9).map(str),
    st.tuples(st.integers(0, 10**20), st.integers(-340, 320)).map(lambda pair: f"{pair[0]}e{pair[1]}"),
    st.from_regex(r"-?[0-9]{0,20}\.?[0-9]{0,20}([eE][+-]?[0-9]{0,3})?", fullmatch=True),
    st.sampled_from(["-0", "-0.0", "0.5", "00", "1.", "-", "9223372036854775808", "16777217.0", "1e400", "127", "128"]),
)
WORDS = st.sampled_from(["true", "false", "null", "True", "nul", "NaN", "nullx"])
TEMPORAL = st.one_of(
    st.datetimes().map(lambda at: at.isoformat(" ")),
    st.datetimes().map(lambda at: at.isoformat("T")),
    st.datetimes().map(lambda at: at.isoformat(" ") + "Z"),
    st.datetimes().map(lambda at: at.isoformat("T", "minutes") + "Z"),
    st.dates().map(str),
    st.times().map(str),
    st.from_regex(
        r"20[0-9]{2}-[01][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{0,10})?Z?", fullmatch=True
    ),
    st.sampled_from(
        ["2021-02-30", "2021-02-30 00:00:00", "2021-01-01 24:00:00", "24:00:00", "12:00:00.", "0000-01-01"]
    ),
)
RAW_TEXT = st.one_of(
    st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters='"\\'), max_size=8),
    st.lists(
        st.sampled_from(
            [
                "a",
                "\\n",
                '\\"',
                "\\\\",
                "\\/",
                "\\u0041",
                "\\u00e9",
                "\\u20AC",
                "\\ud83d\\ude00",
                "\\uD83C\\uDF88",
                "\\uDBFF\\uDFFF",
                "\\ude00",
                "\\ud83d\\u0041",
                "\\ud800",
                "\\x",
                "\\u12",
                "\t",
            ]
        ),
        max_size=4,
    ).map("".join),
    st.sampled_from(
        ["QUJD", "QUI=", "QQ==", "QQ=", "QQ", " QUJD", "true", " TRUE ", "12", " 12", "+5", "1.5", "0x1p3", "1e2"]
    ),
    NUMBERS,
    TEMPORAL,
)
STRINGS = RAW_TEXT.map(lambda text: f'"{text}"')
BLANK = st.sampled_from(["", "", "", "", " ", " ", "\n\t", "\r", "\x0b"])
VALUES = st.recursive(
    st.one_of(NUMBERS, WORDS, STRINGS, STRINGS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: f"[{','.join(parts)}]"),
        st.lists(st.tuples(RAW_TEXT, inner), max_size=3).map(
            lambda pairs: "{" + ", ".join(f'"{name}" :{value}' for name, value in pairs) + "}"
        ),
    ),
    max_leaves=5,
)
KEYS = st.one_of(
    st.sampled_from(list(COLUMNS)), st.sampled_from(list(COLUMNS)), st.sampled_from(["other", "\\u0062", "", "bb"])
)


INTEGERS = st.integers(-130, 130).map(str)
TEXTS = st.lists(st.sampled_from(["a", "é", "€", "😀", "\t", "\\n", '\\"', "\\u00e9"]), max_size=6).map(
    lambda parts: f'"{"".join(parts)}"'
)
DECIMALS = st.decimals(-1000, 1000, places=2).map(str)
FLOATS = st.floats(-1e300, 1e300).map(repr)
MOMENTS = st.datetimes().map(lambda at: at.isoformat(" "))
GOOD = st.recursive(
    st.one_of(DECIMALS, FLOATS, TEXTS, st.sampled_from(["true", "false", "null"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        st.lists(st.tuples(TEXTS, inner), max_size=3).map(
            lambda pairs: "{" + ",".join(f"{name} : {value}" for name, value in pairs) + "}"
        ),
    ),
    max_leaves=5,
)
FITTING: dict[str, st.SearchStrategy[str]] = {
    "b": st.sampled_from(["true", "false"]),
    **dict.fromkeys("tsil", st.one_of(INTEGERS, INTEGERS.map(lambda text: f'"{text}"'))),
    "l": st.one_of(INTEGERS, st.integers(-(2**63), 2**63).map(str)),
    **dict.fromkeys("fd", st.one_of(DECIMALS, FLOATS, INTEGERS)),
    **dict.fromkeys("nw", st.one_of(DECIMALS, INTEGERS, DECIMALS.map(lambda text: f'"{text}"'))),
    "x": st.one_of(TEXTS, DECIMALS, INTEGERS),
    "y": st.binary(max_size=7).map(lambda data: f'"{base64.b64encode(data).decode()}"'),
    "da": st.dates().map(lambda day: f'"{day}"'),
    "ti": st.times().map(lambda time: f'"{time}"'),
    "ts": MOMENTS.map(lambda text: f'"{text}"'),
    "lz": MOMENTS.map(lambda text: f'"{text}Z"'),
    "é": TEXTS,
}


@st.composite
def objects(draw: Callable[..., Any]) -> str:
    names = draw(st.one_of(st.lists(KEYS, max_size=6), st.just([*COLUMNS, "b", "other", "i"])))
    blank = draw(BLANK) if draw(st.integers(0, 4)) == 4 else ""
    wild = draw(st.integers(0, 3)) == 3
    pairs = [
        f'"{name}"{blank}:{blank}{draw(VALUES if wild else st.one_of(FITTING.get(name, GOOD), st.just("null")))}'
        for name in names
    ]
    return blank + "{" + f"{blank},{blank}".join(pairs) + "}"


@st.composite
def messages(draw: Callable[..., Any]) -> bytes:
    found = [draw(objects()) for _ in range(draw(st.integers(1, 2)))]
    text = (found[0] if draw(st.integers(0, 5)) < 5 else f"[{','.join(found)}]").encode()
    match draw(st.integers(0, 11)):
        case 9:
            at = draw(st.integers(0, len(text) - 1))
            return text[:at] + draw(st.binary(max_size=2)) + text[at + 1 :]
        case 10:
            return text[: draw(st.integers(0, len(text)))]
        case 11:
            return text + draw(st.sampled_from([b"}", b" {}", b"\xff", b","]))
    return text


OPTIONS = st.builds(
    JsonOptions,
    ignore_parse_errors=st.booleans(),
    timestamp_standard=st.sampled_from(TimestampStandard),
    json_parser=st.booleans(),
)


def by_the_loop(schema: RowType, options: JsonOptions, given: list[bytes | None]) -> tuple[Any, ...]:
    decoded = JsonDecoder(schema, options).decode(pa.array(given, pa.binary()))
    decoded.rows.validate(full=True)
    return answer(decoded)


def by_the_exact_path(schema: RowType, options: JsonOptions, given: list[bytes | None]) -> tuple[Any, ...]:
    reader, arrow = ExactJsonReader(schema, options), arrow_schema(schema)
    status = np.array([EXACT if message else NO_ROW for message in given], np.uint8)
    nothing = pa.RecordBatch.from_arrays([pa.nulls(len(given), each.type) for each in arrow], schema=arrow)
    return answer(merge_exact_rows(nothing, status, lambda index: reader.read_rows(given[index] or b"")))


def answer(decoded: Decoded) -> tuple[Any, ...]:
    origin = list(range(decoded.rows.num_rows)) if decoded.origin is None else decoded.origin.tolist()
    columns = [
        column.view(pa.int32() if pa.types.is_date32(column.type) else pa.int64()).to_pylist()
        if pa.types.is_temporal(column.type)
        else list(map(repr, column.to_pylist()))
        for column in decoded.rows.columns
    ]
    return columns, origin, decoded.bad


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(messages(), st.sampled_from([None, b""])), min_size=1, max_size=4), OPTIONS)
def test_both_paths_agree(given: list[bytes | None], options: JsonOptions) -> None:
    assert by_the_loop(SCHEMA, options, given) == by_the_exact_path(SCHEMA, options, given)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["i", "d", "f", "n", "w", "x"]), st.one_of(NUMBERS, STRINGS)), max_size=20))
def test_both_paths_agree_on_single_values(pairs: list[tuple[str, str]]) -> None:
    given: list[bytes | None] = [f'{{"{name}":{value}}}'.encode() for name, value in pairs]
    assert by_the_loop(SCHEMA, JsonOptions(), given) == by_the_exact_path(SCHEMA, JsonOptions(), given)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["x STRING", "x STRING, n DECIMAL(5, 2)"]), st.lists(st.one_of(NUMBERS, DECIMALS), max_size=20))
def test_both_paths_agree_on_numbers_as_the_tree_parser_shows_them(columns: str, found: list[str]) -> None:
    given: list[bytes | None] = [f'{{"x":{each}}}'.encode() for each in found]
    schema, options = parse_columns(columns), JsonOptions(json_parser=False)
    assert by_the_loop(schema, options, given) == by_the_exact_path(schema, options, given)
