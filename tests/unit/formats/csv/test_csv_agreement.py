"""The compiled loop and the exact path give the same answer to any line."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.formats.csv.decode import CsvDecoder
from penstock.formats.csv.encode import CsvEncoder
from penstock.formats.csv.exact_writer import write_csv_lines
from penstock.formats.csv.options import CsvOptions
from penstock.types import arrow_schema, parse_columns

SCHEMA = parse_columns(
    "b BOOLEAN, i INT, d DOUBLE, n DECIMAL(8, 2), s STRING, y BYTES, da DATE, ti TIME(2), ts TIMESTAMP(3)"
)
CELLS = [
    st.sampled_from(["true", "false", "True", "", "x"]),
    st.one_of(st.integers().map(str), st.sampled_from(["", "07", "+1", " 1", "1.0"])),
    st.one_of(st.floats().map(repr), st.sampled_from(["", "1d", "-0", "1e400", "."])),
    st.one_of(st.decimals(-(10**7), 10**7, places=3).map(str), st.sampled_from(["", " 1", "1e3"])),
    st.text('ab "\\,\n#é', max_size=5),
    st.sampled_from(["QQ==", "QUJD", "", "Q", "nul"]),
    st.one_of(st.dates().map(str), st.sampled_from(["2021-02-30", "2021-2-3", ""])),
    st.one_of(st.times().map(str), st.sampled_from(["24:00:00", "01:02", ""])),
    st.one_of(st.datetimes().map(lambda at: at.isoformat(" ")), st.sampled_from(["2021-02-30 00:00:00", ""])),
]


@st.composite
def lines(draw: Any) -> bytes:
    cells = [draw(cell) for cell in CELLS]
    quoted = [f'"{cell}"' if draw(st.integers(0, 3)) == 3 else cell for cell in cells]
    text = ",".join(quoted[: None if draw(st.integers(0, 5)) < 5 else draw(st.integers(0, 8))])
    blank = draw(st.sampled_from(["", "", "", " ", "\n", " #\n "]))
    return blank.encode() + text.encode() + draw(st.sampled_from([b"", b"", b"", b",", b"\n", b",x", b"\xff"]))


OPTIONS = st.builds(
    CsvOptions,
    ignore_parse_errors=st.booleans(),
    allow_comments=st.booleans(),
    disable_quote_character=st.booleans(),
    escape_character=st.sampled_from([None, None, "\\"]),
    null_literal=st.sampled_from([None, "nul", ""]),
    empty_string_as_null=st.booleans(),
)


def answers(given: list[bytes | None], options: CsvOptions) -> tuple[Any, ...]:
    decoded = CsvDecoder(SCHEMA, options).decode(pa.array(given, pa.binary()))
    decoded.rows.validate(full=True)
    origin = list(range(decoded.rows.num_rows)) if decoded.origin is None else decoded.origin.tolist()
    return list(map(repr, decoded.rows.to_pylist())), origin, decoded.bad


TYPES = arrow_schema(SCHEMA)
ROWS = st.fixed_dictionaries(
    {
        "b": st.none() | st.booleans(),
        "i": st.none() | st.integers(-(2**31), 2**31 - 1),
        "d": st.none() | st.floats(),
        "n": st.none() | st.decimals(-1000, 1000, places=2),
        "s": st.none() | st.text(st.sampled_from("ab ',;\"|\\\n#~é😀"), max_size=30),
        "y": st.none() | st.binary(max_size=20),
        "da": st.none() | st.dates(),
        "ti": st.none() | st.times(),
        "ts": st.none() | st.datetimes(),
    }
)
MARKS = st.builds(
    CsvOptions,
    field_delimiter=st.sampled_from([",", ";", "|", "\t", "~"]),
    disable_quote_character=st.booleans(),
    escape_character=st.sampled_from([None, "\\", "a"]),
    null_literal=st.sampled_from([None, "nul"]),
) | st.builds(CsvOptions, quote_character=st.sampled_from(["'", "|", "a"]))


@settings(max_examples=200, deadline=None)
@given(st.lists(ROWS, max_size=4), MARKS)
def test_both_paths_write_alike(given: list[dict[str, Any]], options: CsvOptions) -> None:
    rows = pa.RecordBatch.from_pylist(given, TYPES)
    assert CsvEncoder(SCHEMA, options).encode(rows).to_pylist() == write_csv_lines(rows, SCHEMA, options)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.none() | lines(), min_size=1, max_size=4), OPTIONS)
def test_both_paths_agree(given: list[bytes | None], options: CsvOptions) -> None:
    answer = answers(given, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CsvDecoder, "_is_plain", property(lambda self: False))
        assert answer == answers(given, options)
