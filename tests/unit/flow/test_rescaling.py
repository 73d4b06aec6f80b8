"""State that is divided among another number of tasks: tables stay exact."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.flow.graph.dataflow import Dataflow
from penstock.flow.graph.planner import Planner
from penstock.flow.state.segments import END
from penstock.plan.nodes import scans
from penstock.plan.planning import plan_job
from penstock.spi import KIND, Output
from penstock.types import RowKind
from tests.corpora import parsed
from tests.unit.flow.driver import Driver

TABLES = (
    "CREATE TABLE a (k BIGINT, v BIGINT) WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D');"
    "CREATE TABLE b (k BIGINT, w STRING) WITH ('connector' = 'any', 'mode' = 'I');"
)
#: Queries, and what they give for the rows of both tables.
QUERIES = {
    "groups": (
        "CREATE TABLE s (k BIGINT, n BIGINT, most BIGINT) WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D');"
        "INSERT INTO s SELECT k, COUNT(*), MAX(v) FROM a GROUP BY k",
        ("k", "n", "most"),
    ),
    "left join": (
        "CREATE TABLE s (k BIGINT, v BIGINT, w STRING) WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D');"
        "INSERT INTO s SELECT a.k, v, w FROM a LEFT JOIN b ON a.k = b.k",
        ("k", "v", "w"),
    ),
    "sums over rows": (
        "CREATE TABLE s (k BIGINT, v BIGINT, n BIGINT) WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D');"
        "INSERT INTO s SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY v) FROM a",
        ("k", "v", "n"),
    ),
}
#: The owners of each batch.
PARALLELISM = [2] * 4 + [8] * 4 + [2] * 4


def recomputed(
    query: str, left: Counter[tuple[int, int]], right: Counter[tuple[int, str]]
) -> Counter[tuple[object, ...]]:
    if query == "groups":
        values: dict[int, list[int]] = {}
        for (k, v), times in left.items():
            values.setdefault(k, []).extend([v] * times)
        return Counter({(k, len(each), max(each)): 1 for k, each in values.items() if each})
    if query == "sums over rows":
        rows = list(left.elements())
        return Counter((k, v, sum(each for key, each in rows if key == k and each <= v)) for k, v in rows)
    result: Counter[tuple[object, ...]] = Counter()
    for (k, v), times in left.items():
        matches = [(w, count) for (other, w), count in right.items() if other == k]
        for w, count in matches or [(None, 1)]:
            result[k, v, w] += times * count
    return +result


@pytest.mark.parametrize("query", QUERIES)
def test_tables_are_exact_from_two_tasks_to_eight_and_back(query: str, tmp_path: Path) -> None:
    rng = random.Random(7)
    sql, names = QUERIES[query]
    (job,) = parsed(TABLES + sql).jobs
    (sink,) = plan_job(job).sinks
    planner = Planner(scans(sink))
    planner.add(sink, 0)
    output = Output(0, sink.table, sink.spec, sink.schema)
    driver = Driver(Dataflow(tuple(planner.branches), planner.ordered(), (output,), str(tmp_path)))
    tables = [scan.table for scan in planner.scans]
    left: Counter[tuple[int, int]] = Counter()
    right: Counter[tuple[int, str]] = Counter()
    found: Counter[tuple[object, ...]] = Counter()
    for owners in PARALLELISM:
        kinds, rows = [], []
        for _ in range(300):
            row = (rng.randrange(500), rng.randrange(5))
            kind = RowKind.DELETE if left[row] and rng.random() < 0.5 else RowKind.INSERT
            left[row] += 1 if kind is RowKind.INSERT else -1
            kinds.append(int(kind))
            rows.append(row)
        columns = {"k": [k for k, _ in rows], "v": [v for _, v in rows], KIND: pa.array(kinds, pa.int8())}
        tasks = [(tables.index("a"), [pa.record_batch(columns)])]
        if "b" in tables:
            others = [(rng.randrange(500), rng.choice("xyz")) for _ in range(20)]
            right.update(others)
            columns = {"k": [k for k, _ in others], "w": [w for _, w in others]}
            tasks.append((tables.index("b"), [pa.record_batch(columns)]))
        for batch in driver.run(tasks, owners):
            for *values, kind in zip(*(batch.column(name).to_pylist() for name in (*names, KIND)), strict=True):
                added = kind in (RowKind.INSERT, RowKind.UPDATE_AFTER)
                found[tuple(values)] += 1 if added else -1
        assert +found == recomputed(query, left, right)
        assert min(found.values(), default=0) >= 0
    for stored in driver.manifest.operators.values():
        for refs in stored.values():
            assert all(0 <= ref.low < ref.high <= END for ref in refs)
