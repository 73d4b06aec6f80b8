"""Nested columns as flat buffers and back."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.columns.nested import BASE, CAPACITY, VALID_BASE, WIDTH, NestedColumns, NestedInputs, Shape
from penstock.errors import RecordError
from penstock.types import arrow_schema, parse_columns

COLUMNS = "a INT, r ROW<s STRING, l ARRAY<ROW<x DECIMAL(3, 1), m MAP<STRING, BOOLEAN>>>>, z BIGINT"
ROWS: list[dict[str, Any]] = [
    {"a": 1, "r": {"s": "é", "l": [{"x": Decimal("1.5"), "m": [("k", True), ("l", None)]}, None]}, "z": -1},
    {"a": None, "r": None, "z": 2},
    {"a": 3, "r": {"s": None, "l": []}, "z": None},
    {"a": 4, "r": {"s": "", "l": [{"x": None, "m": []}]}, "z": 4},
    {"a": 5, "r": {"s": "xyz", "l": None}, "z": 5},
]


def test_nodes_stand_in_the_order_of_their_types() -> None:
    shape = Shape.from_row_type(parse_columns(COLUMNS))
    assert [node.name for node in shape.nodes] == ["", "a", "r", "s", "l", "element", "x", "m", "key", "value", "z"]
    assert [node.children for node in shape.nodes[:6]] == [(1, 2, 10), (), (3, 4), (), (5,), (6, 7)]
    assert [index for index, node in enumerate(shape.nodes) if node.repeated] == [5, 6, 7, 8, 9]
    padded, starts = shape.padding
    assert [padded[starts[node] : starts[node + 1]].tolist() for node in (0, 2, 4, 5)] == [
        [0, 1, 2, 3, 4, 10],
        [2, 3, 4],
        [4],
        [5, 6, 7],
    ]


def refilled(rows: pa.RecordBatch, shape: Shape) -> pa.RecordBatch:
    """What was taken out of columns, put back as a loop would."""
    inputs = NestedInputs(shape, rows)
    columns = NestedColumns(shape, rows.num_rows)
    for index, count in enumerate(inputs.counts.tolist()):
        while columns.nodes[index, CAPACITY] < count:
            columns.grow(index)
        width, start = int(columns.nodes[index, WIDTH]), int(inputs.nodes[index, BASE])
        to, valid = int(columns.nodes[index, BASE]), int(columns.nodes[index, VALID_BASE])
        of = int(inputs.nodes[index, VALID_BASE])
        columns.valid[valid : valid + count] = inputs.valid[of : of + count]
        columns.counts[index] = count
        kind = shape.nodes[index].type.text()
        given = inputs.words[start : start + count + 1]
        if kind == "STRING":
            pairs = np.column_stack([given[:-1], np.diff(given)])
            columns.words[to : to + 2 * count] = pairs.reshape(-1)
        elif kind.startswith(("ARRAY", "MAP")):
            columns.words[to : to + count] = given[1:]
        else:
            columns.words[to : to + width * count] = inputs.words[start : start + width * count]
    return columns.batch(inputs.text)


@pytest.mark.parametrize(("first", "size"), [(0, 5), (0, 1), (1, 3), (3, 2), (4, 1), (2, 0)])
def test_any_slice_there_and_back(first: int, size: int) -> None:
    schema = parse_columns(COLUMNS)
    rows = pa.RecordBatch.from_pylist(ROWS, schema=arrow_schema(schema)).slice(first, size)
    found = refilled(rows, Shape.from_row_type(schema))
    found.validate(full=True)
    assert found.to_pylist() == ROWS[first : first + size]


def test_columns_grow_and_keep_their_values() -> None:
    schema = parse_columns("l ARRAY<BIGINT>, i INT")
    rows = pa.RecordBatch.from_pylist([{"l": list(range(1000)), "i": 7}] * 3, schema=arrow_schema(schema))
    assert refilled(rows, Shape.from_row_type(schema)).equals(rows)


def test_more_text_than_a_column_holds_is_refused() -> None:
    columns = NestedColumns(Shape.from_row_type(parse_columns("s STRING")), 2049)
    columns.counts[:], columns.valid[:] = 2049, 1
    columns.words[:] = np.tile([0, 2**20], 2049)
    with pytest.raises(RecordError, match="exceed 2 GiB"):
        columns.batch(np.zeros(2**20, np.uint8))


def test_more_elements_than_a_column_holds_are_refused() -> None:
    columns = NestedColumns(Shape.from_row_type(parse_columns("a ARRAY<INT>")), 1)
    columns.counts[:2], columns.valid[:2], columns.words[0] = 1, 1, 2**31
    with pytest.raises(RecordError, match="exceed 2"):
        columns.batch(np.zeros(0, np.uint8))
