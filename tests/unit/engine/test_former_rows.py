"""Output that former versions have kept as rows."""

from __future__ import annotations

import pyarrow as pa

from penstock.engine.runs.former_rows import convert_edges, read_former_rows
from penstock.flow.graph.exchange import EXCHANGE, EdgeKind
from penstock.spi import HIDDEN, KIND, Output
from penstock.types import parse_columns

SCHEMA = parse_columns("id BIGINT, name STRING")
BESIDE = {
    "__partition": pa.array([0, 1, 1], pa.int32()),
    "__offset": pa.array([7, 8, 9], pa.int64()),
    "__kind": pa.array([0, 2, 3], pa.int8()),
}


def outputs(*indexes: int) -> list[Output]:
    return [Output(index, f"t{index}", None, SCHEMA) for index in indexes]


def test_rows_of_the_only_sink_are_in_its_columns() -> None:
    batch = pa.RecordBatch.from_pydict({"id": [1, 2, 3], "name": ["a", None, "c"], **BESIDE})
    ((number, rows, hidden),) = read_former_rows([batch], outputs(0), single=True)
    assert number == 0
    assert rows.to_pydict() == {"id": [1, 2, 3], "name": ["a", None, "c"]}
    assert hidden.to_pydict() == {HIDDEN.names[0]: [0, 1, 1], HIDDEN.names[1]: [7, 8, 9], KIND: [0, 2, 3]}


def test_rows_of_several_sinks_are_in_struct_columns() -> None:
    row = pa.struct([("id", pa.int64()), ("name", pa.string())])
    second = pa.array([{"id": 1, "name": "a"}, None, {"id": 3, "name": None}], row)
    batch = pa.RecordBatch.from_pydict({"sink_2": second, **BESIDE})
    ((number, rows, hidden),) = read_former_rows([batch], outputs(0, 2), single=False)
    assert number == 1, "the number among the outputs of the target"
    assert rows.to_pydict() == {"id": [1, 3], "name": ["a", None]}
    assert hidden.to_pydict() == {HIDDEN.names[0]: [0, 1], HIDDEN.names[1]: [7, 9], KIND: [0, 3]}


def test_a_single_number_named_the_edges_of_former_output() -> None:
    """Versions 1 and 2: each target had the edges of the one before it, less 1000."""
    former = pa.table({"edge": pa.array([-1, -2, -1006, -2001], pa.int32()), "data": [b"a", b"b", b"c", b"d"]})
    for field in EXCHANGE:
        if field.name not in ("kind", "target", "data"):
            former = former.append_column(field, pa.nulls(4, field.type))
    rows = convert_edges(former)
    assert rows.schema == EXCHANGE
    assert rows.select(["kind", "target", "data"]).to_pylist() == [
        {"kind": EdgeKind.ENCODED, "target": 0, "data": b"a"},
        {"kind": EdgeKind.FORMER_ROWS, "target": 0, "data": b"b"},
        {"kind": EdgeKind.RESULTS, "target": 1, "data": b"c"},
        {"kind": EdgeKind.ENCODED, "target": 2, "data": b"d"},
    ]
    assert convert_edges(rows) is rows
