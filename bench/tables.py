"""What many tables cost: a pipeline that finds its tables in a topic of debezium-json messages, and writes them to
topics of debezium-json.

Each number of tables runs with two numbers of events, in turn: the difference is the cost of events, and what is left
of the shorter run is the cost of starting and of making the tables. An event has ten columns and about 500 bytes.
Usage: ``python -m bench.tables [--counts 10,1000] [--per-batch 100000] [--shared] [--postgres] [--changes 20]
[--memory]``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from adbc_driver_postgresql import dbapi
from confluent_kafka import Consumer, Producer

from bench.gate.sides import Run, penstock_side
from bench.gate.topics import PARTITIONS, Documents, Topics
from penstock import engine
from penstock.connectors.postgres.address import parse_address
from penstock.ingest import lower, parse_pipeline
from penstock_testing.services import KafkaCluster
from penstock_testing.services.postgres import PostgresServer

#: Of each topic that is written.
_PARTITIONS = 2
_INSERT, _UPDATE, _DELETE = range(3)


@dataclass(frozen=True)
class Messages:
    """The messages of ``tables`` tables ``db.t0``, ``db.t1``, ... in turn: 7 of 10 are inserts, 2 updates, 1 is a
    delete."""

    tables: int

    def __call__(self, numbers: npt.NDArray[np.int64]) -> pa.BinaryArray:
        """The documents of the messages with these numbers."""
        random = np.random.default_rng(int(numbers[0]))
        op = np.take([_INSERT] * 7 + [_UPDATE] * 2 + [_DELETE], random.integers(0, 10, len(numbers)))
        rows = [_make_rows(numbers, random) for _ in range(2)]
        none = pa.scalar("null")
        before = pc.if_else(pa.array(op == _INSERT), none, rows[0])
        after = pc.if_else(pa.array(op == _DELETE), none, rows[1])
        made = pc.binary_join_element_wise(
            '{"before":', before, ',"after":', after,
            ',"source":{"version":"3.6.1.Final","connector":"mysql","name":"shop","ts_ms":1763640000000,'
            '"snapshot":"false","db":"db","table":"t', _texts(numbers % self.tables),
            '","server_id":223344,"file":"mysql-bin.000003","pos":', _texts(numbers * 500),
            ',"row":0},"op":"', pc.take(pa.array(["c", "u", "d"]), pa.array(op)), '","ts_ms":1763640000123}', "",
        )  # fmt: skip
        return made.cast(pa.binary())


def _make_rows(numbers: npt.NDArray[np.int64], random: np.random.Generator) -> pa.StringArray:
    def some(most: int) -> pa.StringArray:
        return _texts(random.integers(0, most, len(numbers)))

    return pc.binary_join_element_wise(
        '{"id":', _texts(numbers), ',"user_id":', some(1_000_000), ',"item_id":', some(5_000_000),
        ',"quantity":', some(100), ',"price":', some(1000), ".5", ',"paid":',
        pc.take(pa.array(["true", "false"]), pa.array(random.integers(0, 2, len(numbers)))),
        ',"status":"', pc.take(pa.array(["new", "packed", "sent"]), pa.array(random.integers(0, 3, len(numbers)))),
        '","address":"', some(1000), " Long Street, Springfield", '","note":"a note of customer ', some(10_000),
        '","updated_at":', _texts(1_763_640_000_000 + numbers), "}", "",
    )  # fmt: skip


def _texts(numbers: npt.NDArray[np.int64]) -> pa.StringArray:
    return pa.array(numbers).cast(pa.string())


@dataclass(frozen=True)
class Pipelines:
    """Pipelines from topics of a broker: to topics, or to a database."""

    bootstrap: str
    #: The most events of a batch; 0 is any number.
    per_batch: int = 0
    #: Whether all tables go to one topic.
    shared: bool = False
    database: PostgresServer | None = None

    def write(self, source: str, target: str, folder: str, *, bounded: bool = True) -> str:
        """A pipeline from a topic to tables whose names begin with ``target``."""
        kafka = f"type: kafka\n  properties.bootstrap.servers: {self.bootstrap}"
        limit = f"  scan.max-records-per-trigger: {self.per_batch}\n" if self.per_batch else ""
        limit += "  scan.bounded.mode: latest-offset\n" if bounded else ""
        sink = f"{kafka}\n  value.format: debezium-json\n  sink.delivery-guarantee: exactly-once\n"
        sink += f"  sink.transactional-id-prefix: {target}\n" + (f"  topic: {target}\n" if self.shared else "")
        transform = ""
        if self.database is not None:
            sink = f"type: postgres\n  url: {self.database.url}\n  username: {self.database.user}\n"
            sink += f"  password: {self.database.password}\n"
            transform = "transform:\n  - source-table: db.\\.*\n    primary-keys: id\n"
        return (
            f"source:\n  {kafka}\n  topic: {source}\n  value.format: debezium-json\n"
            f"  scan.startup.mode: earliest-offset\n{limit}sink:\n  {sink}{transform}"
            f"route:\n  - source-table: db.t(\\.*)\n    sink-table: {target}.t$1\n"
            f"pipeline:\n  name: {target}\n  state.checkpoints.dir: {folder}\n"
        )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.tables", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--counts", default="10,1000", help="numbers of tables")
    parser.add_argument("--records", type=int, default=500_000, help="events of the shorter run")
    parser.add_argument("--times", type=int, default=4, help="events of the longer run by those of the shorter")
    parser.add_argument("--per-batch", type=int, default=0, help="the most events of a batch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shared", action="store_true", help="write all tables to one topic")
    parser.add_argument("--postgres", action="store_true", help="write to PostgreSQL, and show its COPY and MERGE too")
    parser.add_argument("--changes", type=int, help="measure how long so many changes of a schema take instead")
    parser.add_argument("--memory", action="store_true", help="show the memory of one run over its time instead")
    given = parser.parse_args()
    counts = [int(each) for each in given.counts.split(",")]
    with ExitStack() as opened:
        settings = {"file.delete.delay.ms": "1000", "num.partitions": f"{_PARTITIONS}"}
        cluster = opened.enter_context(KafkaCluster(brokers=1, properties=settings))
        database = opened.enter_context(PostgresServer()) if given.postgres else None
        pipelines = Pipelines(cluster.bootstrap, given.per_batch, given.shared, database)
        topics = Topics.of(cluster.bootstrap)
        if given.changes:
            print(describe_changes(measure_changes(pipelines, topics, given.changes)))
            return 0
        if given.memory:
            for line in _describe_memory(measure_memory(pipelines, topics, counts[0], given.records)):
                print(line)
            return 0
        sizes = given.records, given.records * given.times
        found = _measure(pipelines, topics, counts, sizes, given.rounds)
        if database is not None:
            print(f"COPY and MERGE by one connection: {copy_and_merge(database, given.records):,.0f} events/s")
    print("| tables | start | events/s | CPU µs per event | seconds per event, beside the first | memory, MiB |")
    print("| --- | --- | --- | --- | --- | --- |")
    for line in _lines(sizes, found):
        print(line)
    return 0


def _measure(
    pipelines: Pipelines, topics: Topics, counts: Sequence[int], sizes: tuple[int, int], rounds: int
) -> dict[int, tuple[list[Run], list[Run]]]:
    """The shorter and the longer runs by the number of tables."""
    found: dict[int, tuple[list[Run], list[Run]]] = {count: ([], []) for count in counts}
    sources = {count: [_fill(topics, count, size) for size in sizes] for count in counts}
    side = penstock_side()
    try:
        for number in range(rounds + 1):
            for count in counts:
                for runs, source in zip(found[count], sources[count], strict=True):
                    target = f"bench_{uuid.uuid4().hex[:8]}"  # a topic, or a schema of the database
                    with tempfile.TemporaryDirectory(prefix="penstock-tables-") as folder:
                        run = side.run({"yaml": pipelines.write(source, target, folder)})
                    if number:  # the first round warms up
                        runs.append(run)
    finally:
        side.close()
    return found


def _fill(topics: Topics, tables: int, records: int) -> str:
    name = topics.create()
    documents: Documents = Messages(tables)
    topics.fill(name, records, documents)
    return name


def _lines(sizes: tuple[int, int], found: dict[int, tuple[list[Run], list[Run]]]) -> Iterator[str]:
    first, more = 0.0, sizes[1] - sizes[0]
    for count, (short, long) in found.items():
        seconds = (_median(run.seconds for run in long) - _median(run.seconds for run in short)) / more
        cpu = (_median(run.cpu for run in long) - _median(run.cpu for run in short)) / more
        first = first or seconds
        start = _median(run.seconds for run in short) - seconds * sizes[0]
        memory = ", ".join(f"{_median(run.memory for run in runs) / 2**20:,.0f}" for runs in (short, long))
        yield (
            f"| {count:,} | {start:.2f} s | {1 / seconds:,.0f} | {cpu * 1e6:.1f} | {seconds / first:.2f} | {memory} |"
        )


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


# --- memory ----------------------------------------------------------------------------------------------------------


def measure_memory(pipelines: Pipelines, topics: Topics, tables: int, records: int) -> Run:
    """One run, in processes that have run nothing before."""
    source, target = _fill(topics, tables, records), f"bench_{uuid.uuid4().hex[:8]}"
    with closing(penstock_side()) as side, tempfile.TemporaryDirectory(prefix="penstock-tables-") as folder:
        return side.run({"yaml": pipelines.write(source, target, folder)})


def _describe_memory(run: Run) -> Iterator[str]:
    yield f"{run.seconds:.0f} s"
    yield "| tenth of the run | Python, MiB | JVM, MiB |"
    yield "| --- | --- | --- |"
    for number, part in enumerate(np.array_split(np.array(run.samples), 10), 1):
        python, java = np.median(part, axis=0) / 2**20
        yield f"| {number} | {python:,.0f} | {java:,.0f} |"


# --- changes of schemas ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Changes:
    """Seconds from a record with a new column until a reader sees it, and the longest gaps between the records of
    another table in the same time."""

    seconds: Sequence[float]
    gaps: Sequence[float]


def measure_changes(pipelines: Pipelines, topics: Topics, count: int) -> Changes:
    """Add columns to one of ten tables, one after the other, while all get records all the time."""
    source, target = topics.create(), f"bench-{uuid.uuid4().hex[:8]}"
    producer = Producer({"bootstrap.servers": pipelines.bootstrap, "linger.ms": 0})
    done = threading.Event()

    def write(table: int, **row: object) -> None:
        change = {"op": "c", "before": None, "after": row, "source": {"db": "db", "table": f"t{table}"}}
        producer.produce(source, json.dumps(change).encode(), partition=table % PARTITIONS)
        producer.poll(0)

    def write_all() -> None:
        number = 0
        while not done.wait(0.01):
            for table in range(10):
                write(table, id=number)
            number += 1

    with tempfile.TemporaryDirectory(prefix="penstock-tables-") as folder:
        text = pipelines.write(source, target, folder, bounded=False)
        running = engine.start(lower(parse_pipeline(text, file="bench.yaml"), "bench"), lambda _: None)
        writing = threading.Thread(target=write_all, daemon=True)
        writing.start()
        try:
            seen = _Reader(pipelines.bootstrap, [f"{target}.t0", f"{target}.t1"])
            seen.read_until(lambda: seen.count > 2000)  # until batches follow one another at their usual pace
            seconds, gaps = [], []
            for number in range(count):
                seen.forget_gaps()
                begun, name = time.perf_counter(), f"c{number}"
                write(0, id=-1, **{name: number})
                producer.flush()
                seen.read_until(partial(seen.columns.__contains__, name))
                seconds.append(time.perf_counter() - begun)
                gaps.append(seen.longest_gap)
        finally:
            done.set()
            writing.join()
            producer.flush()
            running.stop()
    return Changes(seconds, gaps)


class _Reader:
    """Reads committed records of two topics: the columns that those of the first have, and when those of the second
    come."""

    def __init__(self, bootstrap: str, topics: Sequence[str]):
        self._topics = list(topics)
        self.columns: set[str] = set()
        self.longest_gap = 0.0
        self._last = time.perf_counter()
        #: The records of the second topic so far.
        self.count = 0
        settings = {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"}
        settings |= {"isolation.level": "read_committed", "topic.metadata.refresh.interval.ms": "500"}
        self._consumer = Consumer(settings)
        self._consumer.subscribe(self._topics)

    def forget_gaps(self) -> None:
        """Begin again with the longest gap."""
        self.longest_gap = 0.0

    def read_until(self, enough: Callable[[], bool]) -> None:
        """Read records until there is enough."""
        while not enough():
            for message in self._consumer.consume(500, 0.05):
                if message.error():
                    continue
                if message.topic() == self._topics[0]:
                    row = json.loads(message.value())["after"]
                    self.columns |= {key for key, each in row.items() if each is not None}
                    continue
                now = time.perf_counter()
                self.longest_gap, self._last = max(self.longest_gap, now - self._last), now
                self.count += 1


def describe_changes(found: Changes) -> str:
    """What was measured, in words."""
    seconds, gaps = sorted(found.seconds), sorted(found.gaps)
    return (
        f"{len(seconds)} new columns, visible after {statistics.median(seconds):.2f} s (at most {seconds[-1]:.2f} s); "
        f"the longest gap of another table meanwhile {statistics.median(gaps):.2f} s (at most {gaps[-1]:.2f} s)"
    )


# --- the database by itself ------------------------------------------------------------------------------------------


def copy_and_merge(server: PostgresServer, records: int) -> float:
    """Events per second that one connection copies into a temporary table and merges into one with a key, 100,000 at a
    time: rows of the events, and nothing else."""
    numbers = pa.array(np.arange(100_000))
    columns = {
        "id": numbers, "user_id": numbers, "item_id": numbers, "quantity": numbers, "price": numbers.cast(pa.float64()),
        "paid": pc.equal(pc.bit_wise_and(numbers, 1), 0), "status": pa.array(["packed"] * len(numbers)),
        "address": pa.array(["118 Long Street, Springfield"] * len(numbers)),
        "note": pa.array(["a note of customer 5635"] * len(numbers)), "updated_at": numbers,
    }  # fmt: skip
    rows = pa.RecordBatch.from_pydict(columns)
    types = ["bigint", "bigint", "bigint", "bigint", "double precision", "boolean", "text", "text", "text", "bigint"]
    declared = ", ".join(f"{name} {each}" for name, each in zip(columns, types, strict=True))
    names = ", ".join(columns)
    updates = ", ".join(f"{name} = s.{name}" for name in columns if name != "id")
    merge = f"MERGE INTO merged t USING staged s ON t.id = s.id WHEN MATCHED THEN UPDATE SET {updates} "
    merge += f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({', '.join(f's.{name}' for name in columns)})"
    address = parse_address(server.url, server.user, server.password)
    with closing(dbapi.connect(address.connection_string())) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE merged ({declared}, PRIMARY KEY (id))")
        cursor.execute(f"CREATE TEMPORARY TABLE staged ({declared})")
        connection.commit()
        begun = time.perf_counter()
        for number in range(-(-records // len(rows))):
            ids = pc.add(numbers, number * len(rows))
            cursor.adbc_ingest("staged", rows.set_column(0, "id", ids), mode="append", temporary=True)
            cursor.execute(merge)
            cursor.execute("TRUNCATE staged")
            connection.commit()
        return records / (time.perf_counter() - begun)


if __name__ == "__main__":
    sys.exit(main())
