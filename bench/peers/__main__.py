"""penstock beside Flink 2.2, with state on the heap and in RocksDB, and beside Spark where it can: in one run, on one
broker, all sides in turn.

Works without state, then Nexmark's queries that penstock has, each from Kafka and, exactly once, to Kafka. The first
round warms up and is checked: all sides have to give as many rows. The environment names the peers, as in
:mod:`bench.gate`; one that is missing is left out, and the findings say so.

Usage: ``python -m bench.peers [--rounds N] [--only WORK,WORK] [--write]``. With ``--write`` the findings go to
``bench/results/latest.json`` and into docs/performance.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.gate.queries import script
from bench.gate.sides import Run, Side, SideError, flink_side, penstock_side, spark_side
from bench.gate.topics import Topics
from bench.latency import latencies
from bench.nexmark.events import SHARES, Events
from bench.nexmark.queries import QUERIES, TABLES, statements
from bench.peers.delays import FilteredJson
from bench.peers.report import Report
from bench.peers.works import PLAIN, Work
from penstock.errors import DefinitionError
from penstock.plan.nodes import scans
from penstock.sql import parse_script
from penstock_testing.services import KafkaCluster

#: Of Flink's transactions; its own time-out is longer than brokers allow.
_FLINK_SINK = {
    "properties.transaction.timeout.ms": "600000",
    "properties.linger.ms": "50",
    "properties.batch.size": "1000000",
}
_FLINK_SETTINGS = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "50000",
    "table.local-time-zone": "UTC",
}
_FLINK = {"flink_heap": "hashmap", "flink_rocksdb": "rocksdb"}


def main() -> int:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(
        prog="bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=2_000_000, help="of works without state")
    parser.add_argument("--events", type=int, default=2_000_000, help="of Nexmark, a multiple of 50")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="comma-separated works, of latency too")
    parser.add_argument("--seconds", type=float, default=60.0, help="of latency, after a warm-up")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a job is given up")
    parser.add_argument("--write", action="store_true", help="write the findings down")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",") if arguments.only else None
    with KafkaCluster(brokers=1, properties={"file.delete.delay.ms": "1000"}) as cluster:
        bench = Bench(Topics.of(cluster.bootstrap), arguments.limit)
        try:
            for work in _works(bench.topics, arguments.records, arguments.events, wanted):
                bench.measure(work, arguments.rounds)
        finally:
            bench.close()
        if wanted is None or "latency" in wanted:
            bench.report.latency(latencies(cluster.bootstrap, 1000, arguments.seconds, FilteredJson()))
    print(bench.report.page())
    if arguments.write:
        bench.report.write()
    return 0


def _works(topics: Topics, records: int, events: int, wanted: list[str] | None) -> Iterator[Work]:
    plain = [name for name in PLAIN if wanted is None or name in wanted]
    if plain:
        source = topics.make_plain(records)
        yield from (Work(name, records, {"src": source}) for name in plain)
        topics.drop(source)
    named = {f"nexmark_{query}": query for query in QUERIES}
    chosen = {name: query for name, query in named.items() if wanted is None or name in wanted}
    reads = {name: tables for name, query in chosen.items() if (tables := _find_tables(query))}
    counts = {table: events * SHARES[table] // sum(SHARES.values()) for table in TABLES}
    filled = {}
    for table in TABLES:
        if any(table in tables for tables in reads.values()):
            filled[table] = topics.create()
            topics.fill(filled[table], counts[table], lambda at, table=table: Events().documents(table, at))
    for name, tables in reads.items():
        yield Work(name, sum(counts[table] for table in tables), {table: filled[table] for table in tables})


def _find_tables(query: str) -> set[str]:
    """The tables that a query reads; none for one that penstock does not have yet."""
    kafka = {"connector": "kafka", "properties.bootstrap.servers": "localhost:1", "topic": "t"}
    options = {table: {**kafka, "format": "json"} for table in (*TABLES, "side_input")}
    try:
        (job,) = parse_script(script({}, statements(query, {**options, "answer": {"connector": "blackhole"}}))).jobs
    except DefinitionError as error:
        _say(f"{query} is left out: {error}")
        return set()
    return {scan.table for scan in scans(*job.sinks)}


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@dataclass
class Bench:
    """The sides of a run, each a process that stays, and what was found."""

    topics: Topics
    limit: float
    report: Report = field(default_factory=Report)
    _sides: dict[str, Side] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._sides["penstock"] = penstock_side()
        for name, side in (("flink", flink_side()), ("spark", spark_side())):
            if isinstance(side, str):
                self.report.notes.append(f"{name} was left out: {side}")
            else:
                self._sides[name] = side
        for each in self._sides.values():
            each.limit = self.limit

    def close(self) -> None:
        """End all sides."""
        for side in self._sides.values():
            side.close()

    def measure(self, work: Work, rounds: int) -> None:
        """Do a work on all sides in turn, once to warm up and then in rounds."""
        runs: dict[str, list[Run]] = {name: [] for name in self._systems(work)}
        rows: dict[str, int] = {}
        for number in range(rounds + 1):
            for name in list(runs):
                try:
                    run, found = self._run(work, name, count=number == 0)
                except SideError as error:
                    self.report.notes.append(f"{work.name}, {name}: {error}")
                    _say(self.report.notes[-1])
                    del runs[name]
                    continue
                if number:
                    runs[name].append(run)
                else:
                    rows[name] = found
                    _say(f"{work.name}: {name}: {found:,} rows")
                _say(f"round {number}: {work.name}: {name}: {run.seconds:.2f} s, CPU {run.cpu:.1f} s")
        for name in [name for name in rows if rows[name] != rows.get("penstock", rows[name])]:
            self.report.notes.append(f"{work.name}: {name} gives {rows[name]:,} rows, penstock {rows['penstock']:,}")
        self.report.add(work.name, work.records, runs)

    def _systems(self, work: Work) -> Iterator[str]:
        yield "penstock"
        if "flink" in self._sides:
            yield from _FLINK if work.name.startswith("nexmark_") else ("flink_heap",)
        if "spark" in self._sides and work.by_spark("", "", "") is not None:
            yield "spark"

    def _run(self, work: Work, system: str, *, count: bool) -> tuple[Run, int]:
        """A job of a system, and how many rows it wrote. Raises SideError."""
        target = self.topics.create()
        side = self._sides[system.partition("_")[0]]
        try:
            with tempfile.TemporaryDirectory(prefix="penstock-peers-") as folder:
                run = side.run(self._task(work, system, target, folder))
            if not count or not work.written:
                return run, 0
            return run, self.topics.read_table(target).rows if work.keyed else self.topics.count(target)
        except SideError:
            side.close()
            raise
        finally:
            self.topics.drop(target)

    def _task(self, work: Work, system: str, target: str, folder: str) -> Mapping[str, Any]:
        bootstrap = self.topics.bootstrap
        if system == "penstock":
            return {"sql": script({"execution.checkpointing.dir": folder}, work.statements(bootstrap, target, {}))}
        if system == "spark":
            task = work.by_spark(bootstrap, target, folder)
            assert task is not None
            return task
        settings = {"execution.checkpointing.dir": f"file://{folder}", "state.backend.type": _FLINK[system]}
        statements = work.statements(bootstrap, target, _FLINK_SINK if work.written else {})
        return {"settings": settings | _FLINK_SETTINGS, "statements": list(statements)}


if __name__ == "__main__":
    sys.exit(main())
