"""Random queries over random changes: however these are cut into batches, tasks and owners, the table at the end is
what the query means, and nothing is taken back that is not there."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import hypothesis
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import UnsupportedError
from penstock.flow.graph.dataflow import Dataflow
from penstock.flow.graph.planner import Planner
from penstock.plan.nodes import Materialize, Scan, Sink, scans
from penstock.plan.planning import plan_job
from penstock.plan.traits import traits
from penstock.spi import HIDDEN, KIND, Output
from penstock.types import RowKind, RowType, arrow_schema
from tests.changelogs import SEEDS
from tests.corpora import parsed
from tests.interpreter import Row, bag, rows_of
from tests.queries import MORE_QUERIES, TABLES
from tests.unit.flow.driver import Driver

COLUMNS = ("k", "v", "n")
#: A kind, and the values of a row.
Change = tuple[RowKind, tuple[Any, ...]]
Table = Counter[tuple[Any, ...]]


def _values(rng: random.Random, **given: Any) -> tuple[Any, ...]:
    found = {"k": rng.choice([None, 0, 1, 2, 3]), "v": rng.choice([None, "a", "b"]), "n": rng.randrange(4)}
    return tuple((found | given).values())


def _streams(rng: random.Random) -> dict[str, list[Change]]:
    """Changes of the tables: additions to a, upserts and deletions by k of b, additions and deletions of c."""
    size = rng.choice([3, 12])
    upserts = [RowKind.UPDATE_AFTER, RowKind.UPDATE_AFTER, RowKind.DELETE]
    changes: list[Change] = []
    live: list[tuple[Any, ...]] = []
    for _ in range(size):
        if live and rng.random() < 0.4:
            changes.append((RowKind.DELETE, live.pop(rng.randrange(len(live)))))
        else:
            live.append(_values(rng))
            changes.append((RowKind.INSERT, live[-1]))
    return {
        "a": [(RowKind.INSERT, (*_values(rng), at * 1000)) for at in range(size)],
        "b": [(rng.choice(upserts), _values(rng, k=rng.randrange(4))) for _ in range(size)],
        "c": changes,
    }


def _tables(changes: dict[str, list[Change]]) -> dict[str, list[Row]]:
    """The tables that the changes end with."""
    keyed: dict[Any, tuple[Any, ...]] = {}
    for kind, values in changes["b"]:
        keyed.pop(values[0], None)
        if kind is not RowKind.DELETE:
            keyed[values[0]] = values
    plain = Counter(values for kind, values in changes["c"] if kind is RowKind.INSERT)
    plain.subtract(values for kind, values in changes["c"] if kind is RowKind.DELETE)
    rows = {"a": [values for _, values in changes["a"]], "b": [*keyed.values()], "c": [*plain.elements()]}
    return {name: [dict(zip((*COLUMNS, "ts"), each, strict=False)) for each in found] for name, found in rows.items()}


def _batch(changes: Sequence[Change], schema: RowType) -> pa.RecordBatch:
    """Changes as a scan gives them."""
    columns = zip(*(values for _, values in changes), strict=True)
    arrays = [pa.array(column, each.type) for column, each in zip(columns, arrow_schema(schema), strict=True)]
    hidden = [pa.array([0] * len(changes), pa.int32()), pa.array(range(len(changes)), pa.int64())]
    kinds = pa.array([int(kind) for kind, _ in changes], pa.int8())
    return pa.RecordBatch.from_arrays([*arrays, *hidden, kinds], names=[*schema.names, *HIDDEN.names, KIND])


def _applied(table: Table, batches: Sequence[pa.RecordBatch], key: int) -> Table:
    """A table after changes. It keeps one row for each value of its first ``key`` columns, or all rows without a
    key."""
    for batch in batches:
        *columns, kinds = (batch.column(name).to_pylist() for name in (*COLUMNS, KIND))
        for *values, kind in zip(*columns, kinds, strict=True):
            row, added = tuple(values), kind in (RowKind.INSERT, RowKind.UPDATE_AFTER)
            if key:
                table = Counter({each: 1 for each in table if each[:key] != row[:key]})
            elif not added:
                assert table[row] > 0, f"{row} is taken back, but is not there"
            if added or not key:
                table[row] += 1 if added else -1
    return table


def _one_of_each(rows: Table, found: Table) -> Table:
    """One of the rows for each value of their first two columns: the one that was found, if it is among them."""
    return Counter({row[:2]: row for row in (*rows, *(rows & found))}.values())


def _literal(scan: Scan) -> list[Row]:
    """The rows of VALUES."""
    found: list[Row] = scan.spec.rows.select(list(scan.schema.names)).to_pylist()  # type: ignore[attr-defined]
    return found


def _planned(query: str, into: str) -> tuple[Sink, Planner]:
    """The sink, and the way to it; rejects a query that is refused, or that keeps no state."""
    if into == "keyed":
        query = f"SELECT * FROM ({query}) AS o WHERE k IS NOT NULL AND v IS NOT NULL"
    try:
        (job,) = parsed(f"{TABLES} INSERT INTO {into} {query}").jobs
        (sink,) = plan_job(job).sinks
        planner = Planner(scans(sink))
        planner.add(sink, 0)
    except UnsupportedError:
        hypothesis.reject()
    hypothesis.assume(planner.vertices)
    keys = traits(sink).upsert_keys
    hypothesis.assume(into == "bag" or any(set(key) <= {"k", "v"} for key in keys))
    return sink, planner


@settings(max_examples=len(SEEDS), deadline=None)
@given(MORE_QUERIES, st.integers(0, 1 << 30), st.sampled_from(["bag", "keyed"]))
def test_a_query_gives_what_it_means(tmp_path_factory, query, seed, into):
    rng = random.Random(seed)
    sink, planner = _planned(query, into)
    output = Output(0, sink.table, sink.spec, sink.schema)
    storage = str(tmp_path_factory.mktemp("state"))
    flow = Dataflow(
        tuple(planner.branches), planner.ordered(), (output,), storage, generators=tuple(planner.generators)
    )
    driver = Driver(flow)
    changes = _streams(rng)
    waiting = [
        changes.get(scan.table) or [(RowKind.INSERT, tuple(row.values())) for row in _literal(scan)]
        for scan in planner.scans
    ]
    found: Table = Counter()
    while any(waiting):
        tasks = []
        for number, scan in enumerate(planner.scans):
            count = rng.choice([1, 3, 50])
            part, waiting[number] = waiting[number][:count], waiting[number][count:]
            if part:
                tasks.append((number, [_batch(part, scan.schema)]))
        rng.shuffle(tasks)
        given = driver.run(tasks, rng.choice([1, 2, 5]), ended=not any(waiting))
        found = _applied(found, given, 2 if into == "keyed" else 0)

    last_rows = isinstance(sink.input, Materialize)
    meant = replace(sink, input=sink.input.input) if isinstance(sink.input, Materialize) else sink
    rows = bag(rows_of(meant, _tables(changes), _literal, of_nothing=False), COLUMNS)
    assert +found == (_one_of_each(rows, found) if last_rows else rows)
