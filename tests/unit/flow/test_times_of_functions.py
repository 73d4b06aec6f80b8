"""Event time is measured where the rows are: behind the user's functions, if there are any."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Types
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkGenerator, WatermarkOutput
from penstock.datastream.function_chain import TIMESTAMP_TYPE, WATERMARK, FunctionChain
from penstock.datastream.function_steps import Step
from penstock.errors import UnsupportedError
from penstock.flow.graph.planner import Planner
from penstock.flow.kernels.session import Session
from penstock.plan.expressions import ColumnRef
from penstock.plan.nodes import AssignWatermarks, Item, Job, MapRows, Node, project, scans
from penstock.plan.planning import plan_job
from penstock.plan.walk import rewrite
from tests.corpora import parsed
from tests.unit.flow.running import Row, Running, shown

QUERY = (
    "SELECT k, CAST(window_end AS STRING), CAST(COUNT(*) AS STRING), CAST(SUM(n) AS STRING) "
    "FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY k, window_start, window_end"
)
CALLED: list[Any] = []


def change(rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """What a flat_map with a timestamp assigner does: no row of an odd number; each other one twice, and later."""
    for k, n, ts in rows:
        CALLED.append(n)
        if n % 2 == 0:
            yield k, n, ts + timedelta(seconds=10)
            yield k, n + 1, ts + timedelta(seconds=n)


class WithFunction(Running):
    """A query whose table's watermark is that of the rows that a function makes."""

    def unplanned(self) -> Job:
        def called(node: Node) -> Node:
            if isinstance(node, AssignWatermarks):
                return replace(node, input=MapRows(node.input.schema, node.input, change))
            return node

        job = super().unplanned()
        return replace(job, sinks=rewrite(job.sinks, called))


def random_tasks(numbers: random.Random, batch: int) -> list[list[Row]]:
    """The rows of two tasks, whose times go on with the batches."""
    return [
        [("ab"[numbers.randrange(2)], numbers.randrange(9), 1000 * (2 * batch + numbers.randrange(6)))
         for _ in range(numbers.randrange(6))]
        for _ in range(2)
    ]  # fmt: skip


def changed(rows: list[Row]) -> list[Row]:
    return [
        row for k, n, ms in rows if n is not None and ms is not None and n % 2 == 0
        for row in ((k, n, ms + 10_000), (k, n + 1, ms + 1000 * n))
    ]  # fmt: skip


@pytest.mark.parametrize("owners", [1, 3])
def test_windows_follow_the_times_that_a_function_gives(tmp_path: Path, owners: int):
    """As if the table had the function's rows, with the watermark of each partition, and after a restart."""
    with_function = WithFunction(QUERY, str(tmp_path / "function"))
    of_table = Running(QUERY, str(tmp_path / "table"))
    numbers, closed = random.Random(1), 0
    for batch in range(12):
        tasks = random_tasks(numbers, batch)
        found = with_function.run(tasks, owners, partitions=(0, 1, 0), ended=batch == 11)
        expected = of_table.run(list(map(changed, tasks)), owners, partitions=(0, 1, 0), ended=batch == 11)
        assert sorted(found) == sorted(expected)
        assert with_function.late == of_table.late
        closed += bool(found) and batch < 11
        if batch == 5:
            with_function.start()
    assert closed > 2


class Time(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return (value[2] - datetime(1970, 1, 1)) // timedelta(milliseconds=1)


class Newest(WatermarkGenerator):
    """Two seconds behind the newest value, as the watermark of the table is."""

    def __init__(self) -> None:
        self.newest = 0

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        self.newest = max(self.newest, event_timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(self.newest - 2000)


class WithGenerator(Running):
    """A query whose table's watermark is that of a generator in Python."""

    def unplanned(self) -> Job:
        job = super().unplanned()
        return replace(job, sinks=rewrite(job.sinks, generated))


def generated(node: Node) -> Node:
    if not isinstance(node, AssignWatermarks):
        return node
    info = Types.ROW_NAMED(["k", "n", "ts"], [Types.STRING(), Types.INT(), Types.SQL_TIMESTAMP()])
    steps = Step("timestamps", Time(), info, "extract_timestamp"), Step("watermarks", Newest, info)
    chain = FunctionChain(steps, info)
    made = MapRows(chain.schema, node.input, chain)
    assigned = AssignWatermarks(made.schema, made, "ts", ColumnRef(WATERMARK, type=TIMESTAMP_TYPE))
    return project(
        assigned, tuple(Item(each.name, ColumnRef(each.name, type=each.type)) for each in node.schema.fields)
    )


@pytest.mark.parametrize("owners", [1, 3])
def test_windows_follow_the_watermarks_of_a_generator(tmp_path: Path, owners: int):
    """Each partition has its own, also where a batch of a task has rows of several."""
    with_generator, of_table = (make(QUERY, str(tmp_path / make.__name__)) for make in (WithGenerator, Running))
    numbers, closed = random.Random(1), 0
    for batch in range(12):
        tasks = random_tasks(numbers, batch)
        found, expected = (
            each.run(tasks, owners, partitions=(0, 1, 0), ended=batch == 11) for each in (with_generator, of_table)
        )
        assert sorted(found) == sorted(expected)
        assert with_generator.late == of_table.late
        closed += bool(found) and batch < 11
    assert closed > 2


def test_a_function_is_called_once_for_its_rows_and_their_times(tmp_path: Path):
    running = WithFunction(QUERY, str(tmp_path))
    CALLED.clear()
    first = running.run([[("a", 2, 0), ("a", 3, 0), ("b", 4, 0)]])
    assert CALLED == [2, 3, 4]
    assert sorted(first) == [("a", shown(5000), "1", "3"), ("b", shown(5000), "1", "5")]  # by the rows at 10 s

    second = running.run([[("a", 8, 9000)]])
    assert CALLED == [2, 3, 4, 8]
    assert sorted(second) == [("a", shown(15_000), "1", "2"), ("b", shown(15_000), "1", "4")]  # by that at 19 s


def test_event_time_of_chance_is_refused():
    """It would be measured of other values than the rows have."""
    table = "CREATE TABLE r (k STRING, n INT, ts AS TO_TIMESTAMP_LTZ(RAND_INTEGER(n), 3), WATERMARK FOR ts AS ts) "
    options = "WITH ('connector' = 'any', 'mode' = 'I');"
    script = (
        f"{table}{options} CREATE TABLE t (n BIGINT) {options} INSERT INTO t SELECT COUNT(*) FROM "
        "TABLE(TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end"
    )
    (sink,) = plan_job(parsed(script).jobs[0]).sinks
    with pytest.raises(UnsupportedError, match=r"table 'r': the event time is by RAND_INTEGER\(.*, which has another"):
        Planner(scans(sink), Session("UTC")).add(sink, 0)
