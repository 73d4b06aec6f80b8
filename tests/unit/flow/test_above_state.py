"""Expressions where rows are read, above operators with state, and beside UNNEST: the same values, and none refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import DefinitionError
from penstock.flow.graph.dataflow import Dataflow
from penstock.flow.graph.planner import Planner
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import failed_rows
from penstock.flow.rows.expressions import Evaluator, compile_expression
from penstock.plan.nodes import Sink, scans
from penstock.plan.planning import plan_job
from penstock.plan.scalar_functions import is_deterministic
from penstock.spi import HIDDEN, Output
from penstock.sql import parse_expression
from penstock.types import NullType, RowType, arrow_schema, arrow_type, parse_columns
from tests.corpora import parsed
from tests.recorded import grid as recorded
from tests.unit.flow import grid
from tests.unit.flow.driver import Driver
from tests.unit.flow.test_functions_of_flink import ANSWERS, numbered, read

TABLES = """
CREATE TABLE o (id INT, k STRING, amount DECIMAL(10, 2), price DECIMAL(20, 4), v DOUBLE, at TIMESTAMP_LTZ(3))
  WITH ('connector' = 'any', 'mode' = 'I');
CREATE TABLE r (id INT, rate DECIMAL(12, 6)) WITH ('connector' = 'any', 'mode' = 'I');
"""
#: So many expressions are in one job.
AT_ONCE = 120
PLACES = {
    "where rows are read": "g",
    "above a join": "(SELECT g.* FROM g JOIN h ON g.place = h.place) AS j",
    "beside UNNEST": "g, UNNEST(ARRAY[TRUE]) AS u (elements_value)",
}


def planner_of(script: str, zone: str) -> tuple[Sink, Planner]:
    """The plan of the only insertion of a script."""
    (job,) = parsed(script).jobs
    (sink,) = plan_job(job).sinks
    planner = Planner(scans(sink), Session(zone))
    planner.add(sink, 0)
    return sink, planner


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT k, SUM(price) * 1.19 FROM o GROUP BY k", "k STRING, c DECIMAL(38, 6)"),
        ("SELECT k, SUM(amount) / 1000 FROM o GROUP BY k", "k STRING, c DECIMAL(38, 6)"),
        ("SELECT k, SUM(amount) / SUM(price) FROM o GROUP BY k", "k STRING, c DECIMAL(38, 6)"),
        ("SELECT k, amount / rate FROM o JOIN r ON o.id = r.id", "k STRING, c DECIMAL(38, 6)"),
        ("SELECT k, ROUND(AVG(v), 2) FROM o GROUP BY k", "k STRING, c DOUBLE"),
        ("SELECT k, CAST(STDDEV_SAMP(v) AS DECIMAL(20, 6)) FROM o GROUP BY k", "k STRING, c DECIMAL(20, 6)"),
        ("SELECT k, MAX(at) + INTERVAL '1' DAY FROM o GROUP BY k", "k STRING, c TIMESTAMP_LTZ(3)"),
        ("SELECT k, CAST(AVG(v) AS STRING) FROM o GROUP BY k HAVING POWER(AVG(v), 2) > 1", "k STRING, c STRING"),
    ],
)
def test_reports_compute_with_what_groups_and_joins_give(query: str, columns: str):
    create = f"CREATE TABLE t ({columns}) WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D');"
    planner_of(f"{TABLES} {create} INSERT INTO t {query}", "America/New_York")


def rows_of_recorded() -> pa.RecordBatch:
    schema = parse_columns(recorded.COLUMNS)
    given = recorded.rows()
    columns = [pa.array([read(f.type, row[f.name]) for row in given], arrow_type(f.type)) for f in schema.fields]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema))


def known(texts: Sequence[str], schema: RowType, rows: pa.RecordBatch, zone: str) -> Iterator[tuple[str, str, bool]]:
    """The expressions that are computed, with their types, and whether they give the same values for all rows each
    time."""
    for sql in dict.fromkeys(texts):
        if "values" not in ANSWERS.get(sql, {"values": []}):
            continue  # Flink refuses it, or fails
        try:
            bound = parse_expression(sql, schema)
        except DefinitionError:
            continue
        found = compile_expression(bound, rows.schema, Session(zone))
        if isinstance(bound.type, NullType) or not isinstance(found, Evaluator):
            continue
        (vector,) = found.vectors(rows)
        steady = is_deterministic(bound) and not failed_rows(vector.failures, rows.num_rows).any()
        yield sql, bound.type.with_nullability(True).text(), steady


@pytest.mark.parametrize("zone", ["UTC", recorded.ZONE])
@pytest.mark.parametrize("which", ["recorded", "limits"])
def test_the_whole_grid_is_computed_alike_in_all_places(which: str, zone: str, tmp_path: Path):
    if which == "recorded":
        schema, rows, texts = parse_columns(recorded.COLUMNS), rows_of_recorded(), recorded.expressions()
    else:
        schema, rows, texts = grid.SCHEMA, grid.table(), list(grid.expressions())
    if zone != "UTC":
        texts = [each for each in texts if "lz" in each or "LTZ" in each or "UNIX" in each]
    columns = ", ".join(f"`{field.name}` {field.type.text()}" for field in schema.fields)
    tables = "CREATE TABLE h (place INT) WITH ('connector' = 'any', 'mode' = 'I');"
    tables += f"CREATE TABLE g (place INT, {columns}) WITH ('connector' = 'any', 'mode' = 'I');"
    given = rows.add_column(0, pa.field("place", pa.int32()), pa.array(range(len(rows)), pa.int32()))
    found = known(texts, schema, rows, zone)
    for number, chunk in enumerate(iter(lambda: list(islice(found, AT_ONCE)), [])):
        steady = [(sql, kind) for sql, kind, good in chunk if good]
        made = {
            place: values(tables, source, steady, given, zone, tmp_path / str(number))
            for place, source in PLACES.items()
        }
        for at, (sql, _) in enumerate(steady, 1):
            assert len({repr(each[at]) for each in made.values()}) == 1, sql
        for sql, kind, good in chunk:
            if not good:
                for source in PLACES.values():
                    planner_of(script(tables, source, [(sql, kind)]), zone)


def script(tables: str, source: str, items: Sequence[tuple[str, str]]) -> str:
    made = ", ".join(f"c{at} {kind}" for at, (_, kind) in enumerate(items))
    selected = ", ".join(f"{sql} AS c{at}" for at, (sql, _) in enumerate(items))
    create = f"CREATE TABLE made (place INT, {made}) WITH ('connector' = 'any', 'mode' = 'I');"
    return f"{tables}{create} INSERT INTO made SELECT place, {selected} FROM {source}"


def values(
    tables: str, source: str, items: Sequence[tuple[str, str]], given: pa.RecordBatch, zone: str, folder: Path
) -> list[list[Any]]:
    """The values of each item, in the order of the rows."""
    text = script(tables, source, items)
    sink, planner = planner_of(text, zone)
    output = Output(0, sink.table, sink.spec, sink.schema)
    folder.mkdir(exist_ok=True)
    flow = Dataflow(tuple(planner.branches), planner.ordered(), (output,), str(folder))
    both = {"g": with_hidden(given), "h": with_hidden(given.select(["place"]))}
    tasks = [(at, [chosen(both[scan.table], scan.schema.names)]) for at, scan in enumerate(planner.scans)]
    found = Driver(flow).run(tasks, 1)
    table = pa.Table.from_batches([chosen(each, sink.schema.names) for each in found]).sort_by("place")
    return [numbered(column.combine_chunks()).to_pylist() for column in table.columns]


def with_hidden(rows: pa.RecordBatch) -> pa.RecordBatch:
    zeros, places = pa.array([0] * len(rows), pa.int32()), pa.array(range(len(rows)), pa.int64())
    return pa.RecordBatch.from_arrays([*rows.columns, zeros, places], names=[*rows.schema.names, *HIDDEN.names])


def chosen(rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    kept = [each for each in rows.schema.names if each in names or each in HIDDEN.names]
    return rows.select(kept)
