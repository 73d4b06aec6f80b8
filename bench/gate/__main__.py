"""Jobs with state, beside what one would use instead: Flink 2.2 with state on the heap and in RocksDB, and Spark's own
stateful operators. JSON in, an upsert-kafka table out, exactly-once; Spark's connector can only write at least once.

All sides run in turn, round after round, on one broker. Each is a process that stays. The first round warms up and is
checked: a side whose table lacks a record is left out. A job's time is that from its start to its end. Peers are found
by the environment:

    BENCH_FLINK_PYTHON      a Python with apache-flink 2.2
    BENCH_FLINK_KAFKA_JAR   flink-sql-connector-kafka
    BENCH_SPARK_PYTHON      a Python with pyspark, pandas, pyarrow and protobuf
    BENCH_SPARK_KAFKA_JARS  a folder: spark-sql-kafka, spark-token-provider-kafka, kafka-clients, commons-pool2
    BENCH_ROCKSDICT         a site-packages with rocksdict

A peer that is missing is left out, and the page says so.

Usage: ``python -m bench.gate [--jobs] [--stores] [--restart] [--latency] [--kills N]``. Without any
of them: jobs and stores.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.gate.delays import percentiles
from bench.gate.kills import run_with_kills
from bench.gate.queries import BOUNDED, Query, changed_groups, groups, join, script
from bench.gate.report import Measured, Report
from bench.gate.restarts import seconds_to_commit
from bench.gate.sides import Run, Side, SideError, flink_side, penstock_side, spark_side
from bench.gate.stores import compare, missing
from bench.gate.topics import Documents, Found, Topics, changes, facts, names
from penstock_testing.services import KafkaCluster

#: Of transactions; Flink's own is longer than brokers allow.
_FLINK_SINK = {
    "properties.transaction.timeout.ms": "600000",
    "properties.linger.ms": "50",
    "properties.batch.size": "1000000",
}
_MINI_BATCHES = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "50000",
}
_HEAP, _ROCKS = {"state.backend.type": "hashmap"}, {"state.backend.type": "rocksdb"}


@dataclass(frozen=True, eq=False)
class Case:
    """A query on a side: ``task`` is what its process gets for a target topic and a folder for its checkpoint."""

    name: str
    query: Query
    side: Side
    task: Callable[[str, str], dict[str, Any]]


def main() -> int:
    """Measure, print the page, and write JSON."""
    arguments = _arguments()
    some = arguments.jobs or arguments.stores or arguments.restart or arguments.latency or arguments.kills
    report = Report()
    if arguments.stores or not some:
        _stores(arguments, report)
    if arguments.jobs or arguments.restart or arguments.latency or arguments.kills or not some:
        with _broker(arguments.bootstrap) as bootstrap:
            topics = Topics.of(bootstrap)
            if arguments.jobs or not some:
                _jobs(arguments, topics, report)
            if arguments.restart:
                for keys in dict.fromkeys((1000, arguments.restart_keys)):
                    report.restarts[keys] = seconds_to_commit(topics, keys, arguments.rounds, arguments.limit)
                    _say(f"restart with {keys:,} keys: {report.restarts[keys]}")
            if arguments.kills:
                report.kills = run_with_kills(topics, arguments.kills, arguments.seed, arguments.limit, _say)
            if arguments.latency:
                keys, rate = 1000, arguments.rate
                found = percentiles(topics.bootstrap, keys, rate, arguments.seconds)
                report.latency = {**found, "keys": keys, "rate": rate}
    print(report.page())
    if arguments.json:
        arguments.json.write_text(json.dumps(report.document(), indent=1) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench.gate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", action="store_true", help="bounded jobs of all sides")
    parser.add_argument("--stores", action="store_true", help="penstock's state and an embedded store, in one process")
    parser.add_argument("--restart", action="store_true", help="restarts of a killed job")
    parser.add_argument("--kills", type=int, default=0, help="kill a job so often, and compare its tables in the end")
    parser.add_argument("--seed", type=int, default=1, help="of the moments of --kills")
    parser.add_argument("--latency", action="store_true", help="from produced to visible")
    parser.add_argument("--records", type=int, default=2_000_000, help="of each query, a multiple of 8")
    parser.add_argument("--slow-records", type=int, default=200_000, help="for transformWithState")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="comma-separated beginnings of sides, as the page names them")
    parser.add_argument("--queries", default="", help="comma-separated parts of queries' names")
    parser.add_argument("--each-row", action="store_true", help="Flink without mini-batches, too")
    parser.add_argument(
        "--per-batch", type=int, help="most records of a batch of penstock and Spark; default 1,000,000"
    )
    parser.add_argument("--store-keys", type=int, default=1_000_000)
    parser.add_argument("--store-rows", type=int, default=200_000)
    parser.add_argument("--restart-keys", type=int, default=10_000_000)
    parser.add_argument("--rate", type=int, default=1000, help="records per second of --latency")
    parser.add_argument("--seconds", type=float, default=60.0, help="of --latency, after a warm-up")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds after which a job is given up")
    parser.add_argument("--bootstrap", help="a broker that runs already")
    parser.add_argument("--json", type=Path, help="write the findings to this file")
    return parser.parse_args()


@contextmanager
def _broker(running: str | None) -> Iterator[str]:
    """The address of a broker that runs already, or of a new one."""
    if running:
        yield running
        return
    with KafkaCluster(brokers=1, properties={"file.delete.delay.ms": "1000"}) as cluster:
        yield cluster.bootstrap


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _stores(arguments: argparse.Namespace, report: Report) -> None:
    if lacks := missing():
        report.notes.append(f"the embedded store: {lacks}")
    else:
        report.stores = compare(arguments.store_keys, arguments.store_rows, max(5, arguments.rounds))
        report.store_rows = arguments.store_rows


# --- jobs ----------------------------------------------------------------------------------------------------------


def _jobs(arguments: argparse.Namespace, topics: Topics, report: Report) -> None:
    sides: dict[str, Side] = {"penstock": penstock_side()}
    for name, side in (("flink", flink_side()), ("spark", spark_side())):
        if isinstance(side, str):
            report.notes.append(f"{name}: {side}")
        else:
            sides[name] = side
    for side in sides.values():
        side.limit = arguments.limit
    try:
        report.jobs = _measure(_cases(arguments, topics, sides), arguments.rounds, topics, report.notes)
    finally:
        for side in sides.values():
            side.close()


def _cases(arguments: argparse.Namespace, topics: Topics, sides: dict[str, Side]) -> list[Case]:
    plan = Cases(arguments, topics, sides)
    cases = [case for query in plan.queries() for case in plan.select(query)]
    return [each for each in cases if each.name.startswith(tuple(arguments.only.split(",")))]


@dataclass(frozen=True)
class Cases:
    """Makes the records of queries, and the cases of each."""

    arguments: argparse.Namespace
    topics: Topics
    sides: dict[str, Side]

    def queries(self) -> Iterator[Query]:
        """The queries that are wanted, with their records in topics."""
        records = self.arguments.records
        half, users = records // 2, max(1, min(1_000_000, records // 2))
        wanted = self.arguments.queries.split(",")
        plain: list[str] = []

        def write_once() -> str:
            if not plain:
                plain.append(self.topics.make_plain(records))
            return plain[0]

        makers: dict[str, Callable[[str], Query]] = {
            "GROUP BY, a million keys": lambda name: groups(name, write_once(), "user_id", records),
            "GROUP BY, 1,000 keys": lambda name: groups(name, write_once(), "category_id", records),
            "GROUP BY over changes": lambda name: changed_groups(
                name, self._fill_topic(records, changes(records, users)), records
            ),
            "regular join": lambda name: join(
                name, self._fill_topic(half, facts(half, half)), self._fill_topic(half, names(half)), records
            ),
        }
        for name, make in makers.items():
            if any(part in name for part in wanted):
                _say(f"writing the records of: {name}")
                yield make(name)

    def select(self, query: Query) -> Iterator[Case]:
        """Those of a query."""
        yield from self._penstock(query)
        if "flink" in self.sides:
            yield from self._flink(query)
        if "spark" in self.sides and query.name.startswith("GROUP BY, "):
            yield from self._spark(query)

    def _fill_topic(self, records: int, documents: Documents) -> str:
        name = self.topics.create()
        self.topics.fill(name, records, documents)
        return name

    def _penstock(self, query: Query) -> Iterator[Case]:
        options = dict(BOUNDED)
        if self.arguments.per_batch:
            options["scan.max-records-per-trigger"] = str(self.arguments.per_batch)

        def task(target: str, folder: str) -> dict[str, Any]:
            statements = query.statements(self.topics.bootstrap, target, options, {})
            return {"sql": script({"execution.checkpointing.dir": folder}, statements)}

        yield Case("penstock", query, self.sides["penstock"], task)

    def _flink(self, query: Query) -> Iterator[Case]:
        for state, settings in (("heap", _HEAP), ("RocksDB", _ROCKS)):
            yield self._flink_case(f"flink {state}, mini-batches", query, settings | _MINI_BATCHES)
            if self.arguments.each_row:
                yield self._flink_case(f"flink {state}, each row", query, settings)

    def _flink_case(self, name: str, query: Query, settings: Mapping[str, str]) -> Case:
        def task(target: str, folder: str) -> dict[str, Any]:
            statements = query.statements(self.topics.bootstrap, target, BOUNDED, _FLINK_SINK)
            return {
                "settings": {**settings, "execution.checkpointing.dir": f"file://{folder}"},
                "statements": statements,
            }

        return Case(name, query, self.sides["flink"], task)

    def _spark(self, query: Query) -> Iterator[Case]:
        yield self._spark_case("spark groupBy, heap", query, "groupBy", "hdfs")
        yield self._spark_case("spark groupBy, RocksDB", query, "groupBy", "rocksdb")
        count = min(self.arguments.slow_records, query.records)
        (source,) = query.sources
        few = replace(query, sources=[replace(source, topic=self.topics.make_plain(count))], records=count, total=count)
        yield self._spark_case("spark transformWithState", few, "transformWithState", "rocksdb")

    def _spark_case(self, name: str, query: Query, how: str, provider: str) -> Case:
        (source,) = query.sources

        def task(target: str, folder: str) -> dict[str, Any]:
            return {
                "how": how,
                "provider": provider,
                "bootstrap": self.topics.bootstrap,
                "source": source.topic,
                "target": target,
                "columns": source.columns,
                "key": query.key,
                "per_batch": self.arguments.per_batch or 1_000_000,
                "folder": folder,
            }

        return Case(name, query, self.sides["spark"], task)


def _measure(cases: Sequence[Case], rounds: int, topics: Topics, notes: list[str]) -> list[Measured]:
    """The medians' runs of all cases that went well; what went wrong is noted."""
    runs: dict[Case, list[Run]] = {case: [] for case in cases}
    rows: dict[Case, int] = {}
    for number in range(rounds + 1):
        for case in list(runs):
            target = topics.create()
            try:
                with tempfile.TemporaryDirectory(prefix="penstock-gate-") as folder:
                    run = case.side.run(case.task(target, folder))
                if number:
                    runs[case].append(run)
                else:
                    rows[case] = _check(case, topics.read_table(target))
            except SideError as error:
                notes.append(f"{case.name}, {case.query.name}: {error}")
                del runs[case]
                case.side.close()
                _say(notes[-1])
                continue
            finally:
                topics.drop(target)
            note = f"round {number}" if number else f"warm-up ({rows[case]:,} rows)"
            _say(f"{note}: {case.query.name}: {case.name}: {run.seconds:.2f} s, CPU {run.cpu:.1f} s")
    return [Measured(case.query.name, case.name, case.query.records, rows[case], taken) for case, taken in runs.items()]


def _check(case: Case, found: Found) -> int:
    """The rows of a result. Raises SideError if records are missing in it, or are counted twice."""
    if found.total != case.query.total:
        raise SideError(f"the totals count {found.total:,} of {case.query.total:,} records")
    return found.rows


if __name__ == "__main__":
    sys.exit(main())
