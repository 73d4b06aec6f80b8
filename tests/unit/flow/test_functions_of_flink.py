"""Every function held against what Flink answered (``tests/recorded/functions.json``): types, values, failures."""

from __future__ import annotations

import base64
import json
import re
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import DefinitionError
from penstock.flow.expressions import Evaluator, compile_expression
from penstock.flow.kernels.rowwise import computed_each
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import failed_rows
from penstock.formats.exact.timestamps import date_text, time_text, timestamp_text
from penstock.sql import expression
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

ANSWERS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "recorded" / "functions.json").read_text("utf-8")
)
SCHEMA = parse_columns(grid.COLUMNS)
SESSION = Session("UTC", alone=True)
#: Where the answers differ, and why.
DIFFERENT = {
    "POSITION(NULL IN x)": "NULL has a type here",
    "CAST(mp AS STRING)": "the order of a map is not defined",
    **dict.fromkeys(("MAP_KEYS(mp)", "MAP_VALUES(mp)", "MAP_ENTRIES(mp)"), "the order of a map is not defined"),
    **dict.fromkeys(
        (
            f"{name}(js, '{path}')"
            for name in ("JSON_VALUE", "JSON_QUERY", "JSON_EXISTS")
            for path in grid.REFUSED_PATHS
        ),
        "the path is refused",
    ),
}


@pytest.fixture(scope="module")
def rows() -> pa.RecordBatch:
    given = grid.rows()
    columns = [
        pa.array([read(field.type, row[field.name]) for row in given], arrow_type(field.type))
        for field in SCHEMA.fields
    ]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(SCHEMA))


def test_every_answer_is_of_the_grid():
    assert ANSWERS.keys() <= set(grid.expressions())
    assert DIFFERENT.keys() <= ANSWERS.keys()


def test_functions_give_what_flink_gives(rows):
    wrong = {}
    for sql, answer in ANSWERS.items():
        found = difference(sql, answer, rows)
        if (found is None) == (sql in DIFFERENT):
            wrong[sql] = found
    assert wrong == {}


def difference(sql: str, answer: dict[str, Any], rows: pa.RecordBatch) -> str | None:
    """How penstock's answer differs, None if it does not."""
    try:
        bound = expression(sql, SCHEMA)
    except DefinitionError as error:
        return None if "error" in answer else f"refused: {error}"
    if "error" in answer:
        return f"is accepted; Flink: {answer['error']}"
    if summary(str(bound.type)) != summary(answer["type"]):
        return f"is {bound.type}, not {answer['type']}"
    compiled = compile_expression(bound, rows.schema, SESSION)
    if not isinstance(compiled, Evaluator):
        return f"has no kernel: {compiled}"
    (vector,) = compiled.vectors(rows)
    failed = failed_rows(vector.failures, rows.num_rows)
    if "fails" in answer:
        return None if failed.any() else f"does not fail; Flink: {answer['fails']}"
    made = numbered(vector.spread(rows.num_rows)).to_pylist()
    for row, (value, wanted) in enumerate(zip(made, answer["values"], strict=True)):
        shown = "a failure" if failed[row] else text(bound.type, value)
        if shown != expected(bound.type, wanted):
            return f"is {shown!r}, not {wanted!r}, of {given(sql, row)}"
    return None


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
            return datetime.fromisoformat(value.rstrip("Z"))
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
            return timestamp_text(value, zone=zoned)
        case TimeType():
            return time_text(value)
    match root(data_type):
        case "DECIMAL":
            return f"{value:f}"
        case "FLOAT":
            return repr(np.float32(value))
        case "DOUBLE":
            return repr(float(value))
        case "DATE":
            return date_text(value)
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
            return f"{Decimal(value):f}"
        case "FLOAT":
            return repr(np.float32(value))
        case "DOUBLE":
            return repr(float(value))
        case "STRING":
            return re.sub("[\ud800-\udfff]", "?", value)  # half a character becomes a question mark once it is stored
    return value


def test_equal_numbers_that_are_written_differently_are_computed_apart():
    texts = computed_each(str, pa.string(), [pa.array([0.0, -0.0, 0.0])])
    assert texts.values.to_pylist() == ["0.0", "-0.0", "0.0"]
