"""Rows with a time to live, against what Flink does with one row at a time; and how much state is left of them."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import CheckpointError
from penstock.flow.graph.dataflow import Dataflow
from penstock.flow.graph.planner import Planner
from penstock.flow.kernels.session import Session
from penstock.flow.operators.aggregate import GroupAggregateOperator
from penstock.flow.operators.contract import Operator
from penstock.flow.operators.deduplicate import DeduplicateOperator
from penstock.flow.operators.join import JoinOperator
from penstock.flow.operators.materialize import MaterializeOperator
from penstock.flow.operators.node_operators import JobFacts, make_operator
from penstock.flow.operators.normalize import NormalizeOperator
from penstock.flow.operators.rank import RankOperator
from penstock.flow.operators.set_operation import SetOperator
from penstock.flow.state import compaction
from penstock.plan.nodes import (
    AggregateCall,
    Deduplicate,
    Frame,
    GroupAggregate,
    Join,
    JoinKind,
    Materialize,
    Normalize,
    OverAggregate,
    OverCall,
    Rank,
    SetKind,
    SetOperation,
    SortColumn,
    scans,
)
from penstock.plan.planning import plan_job
from penstock.spi import Output
from penstock.types import BIGINT, INT, Field, RowKind, RowType
from tests.changelogs import SEEDS, Change, Row, Runner
from tests.corpora import parsed
from tests.tables import given_rows
from tests.unit.flow.driver import Driver

ROWS = RowType((Field("k", INT), Field("v", BIGINT)))
OTHERS = RowType((Field("k2", INT), Field("w", BIGINT)))
CALLS = (("n", "COUNT", None), ("s", "SUM", "v"), ("most", "MAX", "v"))
TTL = 10
RANK = Rank(ROWS, given_rows(ROWS), ("k",), (SortColumn("v"),), 1, 2, uid="r")


def over(frame: Frame, *, processing: bool) -> Operator:
    """A sum over the rows of a partition, in the order of processing time or of a column."""
    row = RowType((*ROWS.fields, Field("n", BIGINT)), nullable=False)
    order = () if processing else (SortColumn("v"),)
    node = OverAggregate(
        row,
        given_rows(ROWS),
        ("k",),
        order,
        (OverCall("n", "SUM", BIGINT, "v"),),
        frame,
        processing=processing,
        uid="o",
    )
    return make_operator(node, JobFacts(Session("UTC")))


def groups(*calls: tuple[str, str, str | None], distinct: bool = False) -> GroupAggregateOperator:
    made = tuple(
        AggregateCall(name, function, BIGINT, column, distinct and column is not None)
        for name, function, column in calls
    )
    schema = RowType((Field("k", INT), *(Field(each.name, BIGINT) for each in made)))
    return GroupAggregateOperator.from_node(
        GroupAggregate(schema, given_rows(ROWS), ("k",), made, uid="g"), retracts=True
    )


def join(kind: JoinKind) -> JoinOperator:
    both = RowType((*ROWS.fields, *OTHERS.fields))
    return JoinOperator.from_node(
        Join(both, given_rows(ROWS), given_rows(OTHERS), kind, ("k",), ("k2",), uid="j"), timed=True
    )


class FlinkGroups:
    """Flink's GROUP BY with COUNT and SUM: a group without state takes nothing back."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[int, int, int]] = {}

    def result(self, key: int, now: int) -> Row | None:
        count, total, seen = self.kept.get(key, (0, 0, 0))
        return (key, count, total) if count and seen > now - TTL else None

    def process(self, row: Row, weight: int, now: int) -> Iterator[Change]:
        key, value = row
        old = self.result(key, now)
        if old is None and weight < 0:
            return
        _, count, total = old or (key, 0, 0)
        self.kept[key] = count + weight, total + weight * value, now
        new = self.result(key, now)
        if old == new:
            return
        if old:
            yield old, -1
        if new:
            yield new, 1


class FlinkJoin:
    """Flink's regular join: each row that is kept without a match has a number of matches."""

    def __init__(self, kind: JoinKind, ttls: tuple[int | None, ...]) -> None:
        self.ttls = ttls
        self.kept = (kind in (JoinKind.LEFT, JoinKind.FULL), kind in (JoinKind.RIGHT, JoinKind.FULL))
        #: By side and key the rows: how often they came, their matches, and when they were written.
        self.rows: tuple[dict[int, dict[Row, list[int]]], ...] = (defaultdict(dict), defaultdict(dict))

    def _alive(self, side: int, key: int, now: int) -> dict[Row, list[int]]:
        ttl = self.ttls[side]
        found = self.rows[side][key]
        return {row: each for row, each in found.items() if ttl is None or each[2] > now - ttl}

    def process(self, side: int, row: Row, weight: int, now: int) -> Iterator[Change]:
        key, nulls = row[0], (None, None)

        def pair(own: Row, other: Row) -> Row:
            return (*own, *other) if side == 0 else (*other, *own)

        mine, others = self._alive(side, key, now), self._alive(1 - side, key, now)
        count = sum(each[0] for each in others.values())
        if weight > 0:
            self.rows[side][key][row] = [mine.get(row, [0])[0] + 1, count, now]
        elif row in mine:
            mine[row][0] -= 1
            mine[row][2] = now
            if not mine[row][0]:
                del self.rows[side][key][row]
        if not others and self.kept[side]:
            yield pair(row, nulls), weight
        for other, each in others.items():
            yield pair(row, other), weight * each[0]
            if not self.kept[1 - side]:
                continue
            before, after = each[1], max(each[1] + weight, 0)
            each[1:] = after, now
            if (before == 0) != (after == 0):
                yield pair(nulls, other), each[0] if after == 0 else -each[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_forget_as_in_flink(seed: int) -> None:
    rng = random.Random(seed)
    runner, model, now = Runner(groups(*CALLS[:2]), rng, (TTL,)), FlinkGroups(), 1000
    for _ in range(30):
        now += rng.choice([0, 1, 4, 9, 10, 11])
        runner.now_ms = now
        row, weight = (rng.randrange(3), rng.randrange(3)), rng.choice([1, 1, 1, -1])
        assert runner.run([(row, weight)]) == list(model.process(row, weight, now))


#: Those that are joined without windows.
KINDS = (JoinKind.INNER, JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL)


@pytest.mark.parametrize("seed", SEEDS)
def test_joins_forget_as_in_flink(seed: int) -> None:
    rng = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    ttls = rng.choice([(TTL, TTL), (TTL, None), (None, TTL), (TTL, 3 * TTL)])
    runner, model, now = Runner(join(kind), rng, ttls), FlinkJoin(kind, ttls), 1000
    live: list[tuple[int, Row]] = []
    for _ in range(30):
        now += rng.choice([0, 1, 4, 9, 10, 11])
        runner.now_ms = now
        if live and rng.random() < 0.3:
            side, row = live.pop(rng.randrange(len(live)))
            weight = -1
        else:
            side, row, weight = rng.randrange(2), (rng.randrange(2), rng.randrange(2)), 1
            live.append((side, row))
        inputs: list[list[Change]] = [[], []]
        inputs[side].append((row, weight))
        found = Counter(dict(runner.run(*inputs)))
        wanted: Counter[Row] = Counter()
        for each, times in model.process(side, row, weight, now):
            wanted[each] += times
        assert found == Counter({each: times for each, times in wanted.items() if times})


def test_a_retraction_that_comes_first_is_left_out_and_the_rest_of_its_batch_counts() -> None:
    runner = Runner(groups(*CALLS[:2]), random.Random(1), (TTL,), 1000)
    runner.run([((1, 5), 1)])
    runner.now_ms += TTL
    assert runner.run([((1, 5), -1), ((1, 7), 1), ((1, 7), -1), ((1, 8), 1)]) == [((1, 1, 8), 1)]


def test_a_group_that_is_written_again_lives_on() -> None:
    runner = Runner(groups(*CALLS[:2]), random.Random(1), (TTL,), 1000)
    runner.run([((1, 5), 1)])
    runner.now_ms += TTL - 1
    assert runner.run([((1, 7), 1), ((1, 7), -1)]) == []
    runner.now_ms += TTL - 1
    assert runner.run([((1, 1), 1)]) == [((1, 1, 5), -1), ((1, 2, 6), 1)]


def test_the_first_row_of_a_key_comes_again_when_it_was_forgotten() -> None:
    operator = DeduplicateOperator.from_node(Deduplicate(ROWS, given_rows(ROWS), ("k",), uid="d"))
    runner = Runner(operator, random.Random(1), (TTL,), 1000)
    assert runner.run([((1, 5), 1)]) == [((1, 5), 1)]
    runner.now_ms += TTL - 1
    assert runner.run([((1, 6), 1)]) == []
    runner.now_ms += 1
    assert runner.run([((1, 7), 1)]) == [((1, 7), 1)]


def _fresh(batch: int, each: int) -> Row:
    return batch * 100 + each, each


def _same(batch: int, each: int) -> Row:
    return each % 3, batch * 100 + each


#: Steps, and the changes that grow their state.
GROWING: dict[str, tuple[Operator, Callable[[int, int], Row]]] = {
    "groups": (groups(*CALLS), _fresh),
    "the values of a group": (groups(*CALLS), _same),
    "the distinct values of a group": (groups(("n", "COUNT", "v"), distinct=True), _same),
    "inner join": (join(JoinKind.INNER), _fresh),
    "outer join": (join(JoinKind.FULL), _same),
    "changes": (NormalizeOperator.from_node(Normalize(ROWS, given_rows(ROWS), ("k",), uid="c")), _fresh),
    "ranks": (RankOperator.from_node(RANK, retracts=False), _fresh),
    "ranks of rows that change": (RankOperator.from_node(RANK, retracts=True), _fresh),
    "compared rows": (
        SetOperator.from_node(SetOperation(ROWS, given_rows(ROWS), given_rows(ROWS), SetKind.INTERSECT, uid="i")),
        _fresh,
    ),
    "rows in their order": (over(Frame(), processing=False), _fresh),
    "all rows before a row": (over(Frame(), processing=True), _fresh),
    "rows of frames": (over(Frame(rows=True, start=-2), processing=True), _fresh),
    "last rows": (MaterializeOperator.from_node(Materialize(ROWS, given_rows(ROWS), ("k",), uid="m")), _fresh),
    "first rows": (DeduplicateOperator.from_node(Deduplicate(ROWS, given_rows(ROWS), ("k",), uid="d")), _fresh),
}


@pytest.mark.parametrize("step", GROWING)
def test_state_does_not_grow_beyond_its_time_to_live(step: str) -> None:
    operator, row = GROWING[step]
    runner = Runner(operator, random.Random(1), (TTL,) * len(operator.inputs), 1000)
    mark = int(RowKind.INSERT) if operator.inputs[0].kinds else 1
    sizes = []
    for batch in range(60):
        runner.now_ms += 1
        changes = [(row(batch, each), mark) for each in range(10)]
        runner.run(
            *([changes] * (2 if step in ("inner join", "compared rows") else 1)),
            *([[]] if step == "outer join" else []),
        )
        sizes.append((sum(runner.stored().values()), runner.segment_rows()))
    live = (
        10
        * TTL
        * (2 if "join" in step or "compared" in step or "groups" in step or "values" in step or "frames" in step else 1)
        + 10
    )
    assert max(size for size, _ in sizes[30:]) <= 2 * live
    assert max(size for _, size in sizes[30:]) <= 4 * live


def test_rows_of_before_are_forgotten_a_time_to_live_after_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "_SMALL", 8)  # so that the first segment is not merged at once
    for step, fresh, known in (
        ("counts", [((1, 1, 9), 1)], [((2, 2, 11), -1), ((2, 3, 20), 1)]),
        ("changes", [((1, 9), 1)], [((2, 6), -1), ((2, 9), 1)]),
        ("first rows", [((1, 9), 1)], [((2, 9), 1)]),
    ):
        operator = groups(*CALLS[:2]) if step == "counts" else GROWING[step][0]
        mark = int(RowKind.INSERT) if operator.inputs[0].kinds else 1
        runner = Runner(operator, random.Random(1), now_ms=1000)
        runner.run([((key, 5), mark) for key in range(60)])
        runner.ttls, runner.now_ms = (TTL,), 2000
        runner.run([((1, 7), mark)])
        runner.now_ms += TTL - 1
        runner.run([((2, 6), mark)])
        assert runner.segment_rows() >= 60
        runner.now_ms += 1
        runner.run([((70, 1), mark)])  # merged with the other new rows
        assert runner.run([((1, 9), mark)]) == fresh, step
        assert runner.run([((2, 9), mark)]) == known, step
        assert runner.segment_rows() < 60  # that of before is gone


def test_a_join_with_rows_refuses_a_time_to_live() -> None:
    runner = Runner(join(JoinKind.INNER), random.Random(1), now_ms=1000)
    runner.run([((1, 5), 1)], [((1, 6), 1)])
    runner.ttls, runner.now_ms = (TTL, TTL), 9000
    with pytest.raises(CheckpointError, match="it had no time to live"):
        runner.run([((1, 7), 1)], [])


def test_state_without_a_time_to_live_grows() -> None:
    runner = Runner(groups(*CALLS), random.Random(1))
    for batch in range(10):
        runner.run([(_fresh(batch, each), 1) for each in range(10)])
    assert runner.stored()["groups"] == 100


def test_times_to_live_of_a_job_reach_its_steps(tmp_path: Path) -> None:
    sql = (
        "SET 'table.exec.state.ttl' = '10 ms'; CREATE TABLE a (k INT, v BIGINT) WITH ('connector' = 'any', 'mode' = "
        "'I'); CREATE TABLE s (k INT, n BIGINT, t BIGINT) WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D'); "
        "INSERT INTO s SELECT k, COUNT(*), SUM(v) FROM a GROUP BY k"
    )
    (job,) = parsed(sql).jobs
    (sink,) = plan_job(job).sinks
    planner = Planner(scans(sink), ttl=job.settings.state_ttl)
    planner.add(sink, 0)
    output = Output(0, sink.table, sink.spec, sink.schema)
    driver = Driver(Dataflow(tuple(planner.branches), planner.ordered(), (output,), str(tmp_path)))
    batch = pa.record_batch({"k": pa.array([1], pa.int32()), "v": pa.array([5], pa.int64())})
    found = []
    for now in (1000, 1009, 1019):
        driver.now_ms = now
        rows = [row for each in driver.run([(0, [batch])], 1) for row in each.to_pylist()]
        found.append([(row["k"], row["n"], row["t"]) for row in rows])
    assert found == [[(1, 1, 5)], [(1, 1, 5), (1, 2, 10)], [(1, 1, 5)]]
    assert driver.manifest.time_ms == 1019
