"""Every function held against what Flink answered (``tests/recorded/functions.json``, and ``functions_in_zone.json`` in
a zone where clocks change): types, values, failures."""

from __future__ import annotations

import base64
import json
import re
from datetime import date, time
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import DefinitionError
from penstock.exact.timestamps import format_date, format_time, format_timestamp, parse_timestamp
from penstock.flow.kernels.rowwise import ValueFailure, compute_each
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import failed_rows
from penstock.flow.rows.expressions import Evaluator, compile_expression
from penstock.sql import parse_expression
from penstock.types import (
    ArrayType,
    DataType,
    MapType,
    RowType,
    TimestampType,
    TimeType,
    arrow_schema,
    arrow_type,
    parse_columns,
)
from penstock.types.logical import root
from tests.recorded import grid

RECORDED = Path(__file__).parents[2] / "recorded"
ANSWERS: dict[str, dict[str, Any]] = json.loads((RECORDED / "functions.json").read_text("utf-8"))
IN_ZONE: dict[str, dict[str, Any]] = json.loads((RECORDED / "functions_in_zone.json").read_text("utf-8"))
SCHEMA = parse_columns(grid.COLUMNS)
WIDE = Context(prec=80)
#: What Flink says as it cannot compute an expression that it accepted: its generated code does not compile, or has no
#: case for the types.
FLAWS = (
    *("CompileException", "CodeGenException", "NullPointerException", "NoSuchElementException", "TableException"),
    *("ClassNotFoundException", "NumberFormatException", "unit MICROSECOND can not", "unit NANOSECOND can not"),
)
#: Moments that are too far away for 64 bits of microseconds fail.
TOO_FAR = ("[DATETIME_OVERFLOW]", "[ARITHMETIC_OVERFLOW]")
#: Why answers differ, and the expressions that do: what ``docs/sql.md`` and the notes of its list of functions say.
DIFFERENT = {
    "the planner takes a column that is compared with itself for equal": r"f = f|d = d",
    "Java compares values in maps as objects, and NULL in them is not the same as NULL": (
        r"MAP\['a', d\] = MAP\['a', e\]|MAP\['x', 1, 'k', CAST\(NULL AS INT\)\] = mp"
    ),
    "rows of fields that are NULL are the same, or they are not": r"ROW\(mp, 1\) = ROW\(mq, 1\)",
    "in Flink, no text equals a BOOLEAN or an interval": (
        r"bo = ('true'|CAST\(bo AS STRING\))|CAST\(bo AS STRING\) = bo|CASE bo WHEN 'true' .*"
        r"|j \* INTERVAL '1' DAY = '1'"
    ),
    "an interval is no number of months or milliseconds": (
        r"COALESCE\(INTERVAL .*, j\)|ARRAY_APPEND\(ia, INTERVAL .*|PRINTF\('%s', INTERVAL .*"
    ),
    "an expression by itself is in no database": r"CURRENT_DATABASE\(\)",
    "LIKE of an empty pattern is not that of '%'": r"x (NOT )?LIKE ''( ESCAPE '!')?",
    "a pattern that is not constant has no escape of its own": r"x LIKE (y|'%' \|\| v)",
    "braces that Java refuses are letters": r"x (NOT )?SIMILAR TO 'a\{\{1,2\}\}%'( ESCAPE '!')?",
    "NULL needs no type": r"x (LIKE|SIMILAR TO) NULL",
    "PI and E are called": r"PI",
    "dates and times are JSON too": r"JSON_STRING\((dt|tm)\)",
    "characters of two units are written as they are": r"JSON_(UN)?QUOTE\(.*",
    "a date has no time": r"(EXTRACT\((MINUTE|SECOND|MILLISECOND) FROM dt\)|(MINUTE|SECOND)\(dt\))",
    "weeks are counted beyond 68 years": r"TIMESTAMPDIFF\(WEEK, .*",
    "a time has no unit above an hour": r"(FLOOR|CEIL)\(tm TO (YEAR|QUARTER|MONTH|WEEK|DAY)\)",
    "a date is its own day": r"CEIL\(dt TO DAY\)",
    "dates have a format too": r"DATE_FORMAT\(dt, .*",
    "texts are exactly by the pattern": r"(TO_DATE|UNIX_TIMESTAMP)\(mo, .*|TO_DATE\(DATE_FORMAT\(ts, .*",
    "letters for eras, quarters, weeks and days of the year are not read": r"TO_TIMESTAMP\(mo, '(D|G|Q|w|nope|kk:K)'\)",
    "paths have no filters and functions": r"JSON_\w+\(js, '(\$\.c\.length\(\)|\$\[\?\(@\.a==1\)\])'\)",
    "it is no pattern": r"TO_TIMESTAMP\('2026-01-31', x\)",
    "letters for zones are not known": r"(DATE_FORMAT|TO_TIMESTAMP)\(mo, '(XXX|VV|z)'\)|FROM_UNIXTIME\(j, '(XXX|z)'\)",
    "numbers of any size have no digits there": r"TRUNCATE\([pb], i\)",
    "ROUND takes up to 999 digits": r"ROUND\([pw], 2147483647\)",
    "only Java's engine looks behind by a variable length, goes on at the last match and knows scripts": (
        r"REGEXP\w*\(x, '(\(\?<=a\+\)b|\(\?<=l\{1,2\}\)o|\\Gl|\\X|\\p\{IsLatin\}\+)'.*"
    ),
    "the text of a FLOAT is the shortest one": r"(TRY_)?CAST\(f AS STRING\)",
    "letters are no numbers, and what is nearly zero is": r"TRY_CAST\((x|nu|mo|v) AS DECIMAL\((5|18), 2\)\)",
    "a time is within its day": r"CAST\(fa AS TIME\(0\)\)",
    "a decimal has no more digits than its type": r"ROUND\([pqwn], j\)",
    "what is rounded to billions of digits is 0": r"ROUND\([bp], i\)",
    "a decimal that became NULL is NULL": r"\(w \* w\) IS NULL",
    "a year is written with all of its digits": r"CAST\(ts \+ INTERVAL '8000' YEAR\(4\) AS STRING\)",
    "a TIME has the digits that it is written with": r"CAST\(TIME .*",
    "types have no length of text in quotes": r"TYPEOF\((ROW\(1, 'a'\)|MAP\['a', 1\]|r, TRUE)\)",
    "it is known before anything runs": r"TYPEOF\(p / q\)",
    "the order of a map is not defined": r"CAST\(mp AS STRING\)|MAP_(KEYS|VALUES|ENTRIES)\(mp\)",
}


#: Those of :data:`IN_ZONE`.
DIFFERENT_IN_ZONE = {
    "letters for zones are not known": DIFFERENT["letters for zones are not known"],
    "Flink rounds in the zone's present offset": r"(FLOOR|CEIL)\(lz TO \w+\)",
    "years before 0 have a sign": r"CAST\(TO_TIMESTAMP_LTZ\(ms, 3\) AS (STRING|VARCHAR\(12\))\)",
    "Flink counts local time before 1970 towards zero": r"EXTRACT\(\w+ FROM lz\)|(YEAR|HOUR|DAYOFMONTH)\(lz\)",
}


@pytest.fixture(scope="module")
def rows() -> pa.RecordBatch:
    given = grid.rows()
    columns = [
        pa.array([read(field.type, row[field.name]) for row in given], arrow_type(field.type))
        for field in SCHEMA.fields
    ]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(SCHEMA))


def test_every_expression_of_the_grid_has_an_answer():
    assert ANSWERS.keys() == set(grid.expressions())
    assert IN_ZONE.keys() == set(grid.local_expressions())


@pytest.mark.parametrize(
    ("zone", "answers", "different"),
    [("UTC", ANSWERS, DIFFERENT), (grid.ZONE, IN_ZONE, DIFFERENT | DIFFERENT_IN_ZONE)],
    ids=["UTC", grid.ZONE],
)
def test_functions_give_what_flink_gives(rows, zone, answers, different):
    wrong, unused = {}, set(DIFFERENT_IN_ZONE if zone == grid.ZONE else DIFFERENT)
    for sql, answer in answers.items():
        found = difference(sql, answer, rows, Session(zone))
        if found is not None:
            reasons = {reason for reason, known in different.items() if re.fullmatch(known, sql)}
            unused -= reasons
            if not reasons:
                wrong[sql] = found
    assert wrong == {}
    assert unused == set()


def difference(sql: str, answer: dict[str, Any], rows: pa.RecordBatch, session: Session) -> str | None:
    """How penstock's answer differs, None if it does not."""
    try:
        bound = parse_expression(sql, SCHEMA)
    except DefinitionError as error:
        return f"refused: {error}" if "values" in answer else None
    if "error" in answer and "Illegal use of 'NULL'" in answer["error"]:
        return None  # NULL needs no type here
    if any(flaw in answer.get("fails", "") for flaw in FLAWS):
        return None
    if "error" in answer:
        return f"is accepted; Flink: {answer['error']}"
    if summary(str(bound.type)) != summary(answer["type"]):
        return f"is {bound.type}, not {answer['type']}"
    compiled = compile_expression(bound, rows.schema, session)
    if not isinstance(compiled, Evaluator) and "fails" in answer:
        return None  # refused before it runs
    if not isinstance(compiled, Evaluator):
        return f"has no kernel: {compiled}"
    (vector,) = compiled.vectors(rows)
    failed = failed_rows(vector.failures, rows.num_rows)
    if "fails" in answer:
        return None if failed.any() else f"does not fail; Flink: {answer['fails']}"
    made = numbered(vector.spread(rows.num_rows)).to_pylist()
    reasons = {row: each.reason(row) for each in vector.failures for row in np.flatnonzero(each.rows).tolist()}
    for row, (value, wanted) in enumerate(zip(made, answer["values"], strict=True)):
        shown = reasons[row] if failed[row] else text(bound.type, value)
        if not same(shown, expected(bound.type, wanted)) and not excused(sql, row, shown, wanted):
            return f"is {shown!r}, not {wanted!r}, of {given(sql, row)}"
    return None


def same(shown: Any, wanted: Any) -> bool:
    """Whether two texts are the same; those of floating-point numbers but for what the library's last digits are."""
    if shown == wanted:
        return True
    try:
        one, other = (float(each.removeprefix("np.float32(").rstrip(")")) for each in (shown, wanted))
    except (AttributeError, ValueError):
        return False
    return "." in wanted and one != 0 != other and bool(np.isclose(one, other, rtol=1e-15, atol=0))


def excused(sql: str, row: int, shown: Any, wanted: Any) -> bool:
    """Whether the value is one of those that ``docs/sql.md`` says differ."""
    if isinstance(shown, str) and shown.startswith(TOO_FAR) and re.search("INTERVAL|TIMESTAMPADD|FROM_UNIXTIME", sql):
        return True
    if (
        isinstance(shown, str)
        and isinstance(wanted, str)
        and re.fullmatch(rf"{re.escape(shown.rstrip('Z'))}\d+Z?", wanted)
    ):
        return True  # digits that the type does not have
    if sql.startswith("FROM_UNIXTIME(ms") and (grid.rows()[row]["ms"] or 0) < 0:
        return True
    early = [value for name, value in given(sql, row).items() if name in ("ts", "us", "lz", "dt", "mo", "fa")]
    return any(isinstance(each, str) and each.strip()[:4] < "1970" for each in early)


def given(sql: str, row: int) -> dict[str, Any]:
    """The values that an expression is computed from."""
    return {name: value for name, value in grid.rows()[row].items() if re.search(rf"\b{name}\b", sql)}


def summary(data_type: str) -> str:
    """A type without lengths and nullability: text in quotes has its length in Flink."""
    plain = re.sub(r"\b(?:VAR)?CHAR\(\d+\)", "STRING", data_type.replace("`", "").replace(" NOT NULL", ""))
    return re.sub(r"\b(?:VAR)?BINARY\(\d+\)", "BYTES", plain)


def read(data_type: DataType, value: Any) -> Any:
    """A value of the grid for Arrow."""
    match data_type:
        case _ if value is None:
            return None
        case ArrayType(element=element):
            return [read(element, each) for each in value]
        case MapType(key=key, value=item):
            return [(read(key, one), read(item, other)) for one, other in value.items()]
        case RowType(fields=fields):
            return {field.name: read(field.type, value.get(field.name)) for field in fields}
        case TimestampType():
            return parse_timestamp(value.rstrip("Z"), iso=False, zone=False)
        case TimeType():
            return time.fromisoformat(value)
    convert = {
        "DECIMAL": Decimal,
        "FLOAT": float,
        "DOUBLE": float,
        "DATE": date.fromisoformat,
        "BYTES": base64.b64decode,
    }
    return convert.get(root(data_type), lambda same: same)(value)  # type: ignore[operator]


def numbered(array: pa.Array) -> pa.Array:
    """Dates and times as numbers, as Python has none after the year 9999."""
    match array.type:
        case kind if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
            return array.cast(pa.int64())
        case kind if pa.types.is_date32(kind):
            return array.cast(pa.int32())
        case kind if pa.types.is_list(kind):
            mask = array.is_null() if array.null_count else None
            return pa.ListArray.from_arrays(array.offsets, numbered(array.values), mask=mask)
        case kind if pa.types.is_struct(kind):
            names = [field.name for field in kind]
            return pa.StructArray.from_arrays(list(map(numbered, array.flatten())), names=names, mask=array.is_null())
    return array


def text(data_type: DataType, value: Any) -> Any:
    """A value as Flink's JSON format writes it, numbers with a point as text."""
    match data_type:
        case _ if value is None:
            return None
        case ArrayType(element=element):
            return [text(element, each) for each in value]
        case MapType(value=item):
            return {str(one): text(item, other) for one, other in value}
        case RowType(fields=fields):
            return [text(field.type, value[field.name]) for field in fields]
        case TimestampType(local_zone=zoned):
            return format_timestamp(value, zone=zoned)
        case TimeType():
            return format_time(value)
    match root(data_type):
        case "DECIMAL":
            return f"{value:f}"
        case "FLOAT":
            return repr(np.float32(value))
        case "DOUBLE":
            return repr(float(value))
        case "DATE":
            return format_date(value)
        case "BYTES":
            return base64.b64encode(value).decode()
    return value


def expected(data_type: DataType, value: Any) -> Any:
    """Flink's answer in the same form."""
    match data_type:
        case _ if value is None:
            return None
        case ArrayType(element=element):
            return [expected(element, each) for each in value]
        case MapType(value=item):
            return {one: expected(item, other) for one, other in value.items()}
        case RowType(fields=fields):
            return [expected(field.type, each) for field, each in zip(fields, value.values(), strict=True)]
    match root(data_type):
        case "DECIMAL":
            return f"{Decimal(value).quantize(Decimal(1).scaleb(-data_type.scale), context=WIDE):f}"  # type: ignore[attr-defined]
        case "FLOAT":
            return repr(np.float32(value))
        case "DOUBLE":
            return repr(float(value))
        case "STRING":
            return re.sub("[\ud800-\udfff]", "?", value)  # half a character becomes a question mark once it is stored
    return value


def test_equal_numbers_that_are_written_differently_are_computed_apart():
    texts = compute_each(str, pa.string(), [pa.array([0.0, -0.0, 0.0])])
    assert texts.values.to_pylist() == ["0.0", "-0.0", "0.0"]


def test_equal_texts_are_computed_once_and_fail_in_all_of_their_rows():
    asked = []

    def doubled(text: str, times: int) -> str:
        asked.append(text)
        if text == "b":
            raise ValueFailure(f"there is no {text}")
        return text * times

    found = compute_each(doubled, pa.string(), [pa.array(["a", "b", None, "a", "b"]), pa.scalar(2)])
    assert asked == ["a", "b"]
    assert found.values.to_pylist() == ["aa", None, None, "aa", None]
    assert [each.rows.tolist() for each in found.failures] == [[False, True, False, False, True]]
    assert found.failures[0].reason(4) == "there is no b"
