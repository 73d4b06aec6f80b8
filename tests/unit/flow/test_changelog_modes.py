"""Every changelog mode that a table may declare: the query gives what its table is, or the mode is refused."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.common import Row
from penstock.connectors import values
from penstock.errors import SchemaError
from penstock.flow.graph.dataflow import Dataflow
from penstock.flow.graph.planner import Planner
from penstock.plan.checks import check_settings
from penstock.plan.nodes import Job, scans
from penstock.plan.planning import plan_job
from penstock.spi import HIDDEN, KIND, Output
from penstock.sql import parse_script
from penstock.types import RowKind
from tests.unit.flow.driver import Driver

INSERT, BEFORE, AFTER, DELETE = RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE
NAMES = {INSERT: "I", BEFORE: "UB", AFTER: "UA", DELETE: "D"}
MODES = [frozenset(each) for each in chain.from_iterable(combinations(RowKind, size) for size in range(1, 5))]
Values = tuple[Any, ...]

QUERIES = {
    "rows": ("SELECT id, c, v FROM t", "id INT, c INT, v INT"),
    "rows of some": ("SELECT id, c, v FROM t WHERE v > 1", "id INT, c INT, v INT"),
    "groups": ("SELECT c, SUM(v), COUNT(*) FROM t GROUP BY c", "c INT, s INT, n BIGINT"),
    "pairs": ("SELECT a.id, b.v FROM t AS a JOIN t AS b ON a.id = b.c", "id INT, v INT"),
    "first rows": (
        "SELECT id, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY c ORDER BY v, id) AS n FROM t) WHERE n = 1",
        "id INT, v INT",
    ),
}


@dataclass(frozen=True)
class Mode:
    """The kinds that a table may give, whether it has a PRIMARY KEY, and whether its changes may be repeated."""

    kinds: frozenset[RowKind]
    keyed: bool
    repeats: bool = False

    def __str__(self) -> str:
        return f"{self.text}{' by key' * self.keyed}{' repeated' * self.repeats}"

    @property
    def text(self) -> str:
        return ",".join(NAMES[kind] for kind in RowKind if kind in self.kinds)

    @property
    def upserts(self) -> bool:
        """Whether a row replaces that of its key, which no change before it says."""
        return AFTER in self.kinds and BEFORE not in self.kinds

    @property
    def refused(self) -> str:
        """Why the mode has no meaning."""
        if self.upserts and not self.keyed:
            return "gives the row after an update without the row before it"
        if BEFORE in self.kinds and AFTER not in self.kinds:
            return "gives the row before an update without the row after it"
        changing = not self.kinds <= {INSERT}
        return "needs a PRIMARY KEY" if self.repeats and changing and not self.keyed else ""


EVERY = [Mode(kinds, keyed, repeats) for kinds in MODES for keyed in (False, True) for repeats in (False, True)]


def changes(mode: Mode, rng: random.Random) -> tuple[list[Row], list[Values]]:
    """Rows of a table by its mode, and those that it ends with."""
    made: list[tuple[RowKind, Values]] = []
    live: dict[int, Values] = {}
    for step in range(30):
        key = rng.randrange(6) if mode.kinds - {INSERT} else step
        new, old = (key, rng.randrange(6), rng.randrange(4)), live.get(key)
        if old is not None and DELETE in mode.kinds and rng.random() < 0.4:
            partial = mode.upserts and rng.random() < 0.5
            made.append((DELETE, (key, None, None) if partial else old))
            del live[key]
        elif old is not None and AFTER in mode.kinds:
            made += [(BEFORE, old)] if BEFORE in mode.kinds else []
            made.append((AFTER, new))
            live[key] = new
        elif old is None and mode.kinds & {INSERT, AFTER}:
            made.append((INSERT if INSERT in mode.kinds else AFTER, new))
            live[key] = new
        if mode.repeats and mode.keyed and made and mode.kinds - {INSERT} and rng.random() < 0.2:
            made.append(made[-1])
    rows = [Row(*cells) for _, cells in made]
    for row, (kind, _) in zip(rows, made, strict=True):
        row.set_row_kind(kind)
    return rows, [*live.values()]


def meant(query: str, rows: Sequence[Values]) -> Counter[Values]:
    if query == "groups":
        groups: dict[int, list[int]] = {}
        for _, c, v in rows:
            groups.setdefault(c, []).append(v)
        return Counter((c, sum(each), len(each)) for c, each in groups.items())
    if query == "pairs":
        return Counter((one[0], other[2]) for one in rows for other in rows if one[0] == other[1])
    if query == "first rows":
        found: dict[int, tuple[int, int]] = {}
        for key, c, v in rows:
            found[c] = min(found.get(c, (v, key)), (v, key))
        return Counter((key, v) for v, key in found.values())
    return Counter(row for row in rows if query == "rows" or row[2] > 1)


def job_of(mode: Mode, query: str, data_id: str) -> Job:
    select, into = QUERIES[query]
    key = ", PRIMARY KEY (id) NOT ENFORCED" if mode.keyed else ""
    options = f"'connector' = 'values', 'data-id' = '{data_id}', 'changelog-mode' = '{mode.text}'"
    text = (
        f"SET 'table.exec.source.cdc-events-duplicate' = '{str(mode.repeats).lower()}';\n"
        f"CREATE TABLE t (id INT, c INT, v INT{key}) WITH ({options});\n"
        f"CREATE TABLE o ({into}) WITH ('connector' = 'values', 'sink-insert-only' = 'false');\n"
        f"INSERT INTO o {select};"
    )
    job = plan_job(parse_script(text).jobs[0])
    check_settings(job)
    return job


def table_of(job: Job, rng: random.Random, folder: Path) -> Counter[Values]:
    """What the job's table ends with, its rows in batches; raises AssertionError for a row that is taken back and is
    not there."""
    (sink,) = job.sinks
    planner = Planner(scans(sink))
    planner.add(sink, 0)
    output = Output(0, sink.table, sink.spec, sink.schema)
    driver = Driver(Dataflow(tuple(planner.branches), planner.ordered(), (output,), str(folder)))
    found: Counter[Values] = Counter()
    (scan,) = planner.scans
    for batch in _cut(scan.spec.rows, rng):  # type: ignore[attr-defined]
        for rows in driver.run([(0, [batch])], rng.choice([1, 3])):
            *columns, kinds = (rows.column(name).to_pylist() for name in (*sink.schema.names, KIND))
            for *cells, kind in zip(*columns, kinds, strict=True):
                found[tuple(cells)] += 1 if kind in (INSERT, AFTER) else -1
                assert found[tuple(cells)] >= 0, f"{cells} is taken back, but is not there"
    return +found


def _cut(rows: pa.RecordBatch, rng: random.Random) -> Iterator[pa.RecordBatch]:
    size = rng.choice([1, 4, 30])
    for first in range(0, rows.num_rows, size):
        part = rows.slice(first, size)
        hidden = [pa.array([0] * len(part), pa.int32()), pa.array(range(first, first + len(part)), pa.int64())]
        names = [name for name in part.schema.names if name != KIND]
        columns = [*(part.column(name) for name in names), *hidden, part.column(KIND)]
        yield pa.RecordBatch.from_arrays(columns, names=[*names, *HIDDEN.names, KIND])


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("mode", EVERY, ids=str)
def test_a_mode_gives_the_table_that_it_means_or_is_refused(mode: Mode, query: str, tmp_path: Path) -> None:
    rng = random.Random(f"{mode} {query}")
    rows, left = changes(mode, rng)
    data_id = values.register(rows)
    try:
        if mode.refused:
            with pytest.raises(SchemaError, match=f"table 't'.*{mode.refused}"):
                job_of(mode, query, data_id)
            return
        assert table_of(job_of(mode, query, data_id), rng, tmp_path) == meant(query, left)
    finally:
        values.forget(data_id)
