"""What many tables cost: a pipeline that finds its tables in a topic of debezium-json messages, and writes them to
topics of debezium-json.

Each number of tables runs with two numbers of events, in turn: the difference is the cost of events, and what is left
of the shorter run is the cost of starting and of making the tables. An event has ten columns and about 500 bytes.
Usage: ``python -m bench.tables [--counts 10,1000] [--per-batch 100000]``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bench.gate.sides import Run, penstock_side
from bench.gate.topics import Documents, Topics
from penstock_testing.services import KafkaCluster

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
            '"snapshot":"false","db":"db","sequence":null,"table":"t', _texts(numbers % self.tables),
            '","server_id":223344,"gtid":null,"file":"mysql-bin.000003","pos":', _texts(numbers * 500),
            ',"row":0,"thread":7,"query":null},"op":"', pc.take(pa.array(["c", "u", "d"]), pa.array(op)),
            '","ts_ms":1763640000123,"transaction":null}', "",
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


def make_pipeline(bootstrap: str, source: str, target: str, folder: str, per_batch: int) -> str:
    """A pipeline from the topic ``source`` to topics whose names begin with ``target``."""
    kafka = f"type: kafka\n  properties.bootstrap.servers: {bootstrap}"
    limit = f"\n  scan.max-records-per-trigger: {per_batch}" if per_batch else ""
    return (
        f"source:\n  {kafka}\n  topic: {source}\n  value.format: debezium-json\n"
        f"  scan.startup.mode: earliest-offset\n  scan.bounded.mode: latest-offset{limit}\n"
        f"sink:\n  {kafka}\n  value.format: debezium-json\n"
        f"  sink.delivery-guarantee: exactly-once\n  sink.transactional-id-prefix: {target}\n"
        f"route:\n  - source-table: db.t(\\.*)\n    sink-table: {target}-$1\n"
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
    given = parser.parse_args()
    counts = [int(each) for each in given.counts.split(",")]
    sizes = given.records, given.records * given.times
    found: dict[tuple[int, int], list[Run]] = {}
    side = penstock_side()
    with KafkaCluster(
        brokers=1, properties={"file.delete.delay.ms": "1000", "num.partitions": f"{_PARTITIONS}"}
    ) as cluster:
        topics = Topics.of(cluster.bootstrap)
        sources = {(count, size): _fill(topics, count, size) for count in counts for size in sizes}
        try:
            for number in range(given.rounds + 1):
                for place, source in sources.items():
                    target = f"bench-{uuid.uuid4().hex[:8]}"
                    with tempfile.TemporaryDirectory(prefix="penstock-tables-") as folder:
                        text = make_pipeline(cluster.bootstrap, source, target, folder, given.per_batch)
                        run = side.run({"yaml": text})
                    print(
                        place,
                        f"{run.seconds:.2f} s, {run.cpu:.2f} s of processors, {run.memory >> 20} MiB",
                        file=sys.stderr,
                    )
                    if number:  # the first round warms up
                        found.setdefault(place, []).append(run)
        finally:
            side.close()
    print("| tables | start | events/s | CPU µs per event | seconds per event, beside the first |")
    print("| --- | --- | --- | --- | --- |")
    for line in _lines(counts, sizes, found):
        print(line, flush=True)
    return 0


def _fill(topics: Topics, tables: int, records: int) -> str:
    name = topics.create()
    documents: Documents = Messages(tables)
    topics.fill(name, records, documents)
    return name


def _lines(counts: list[int], sizes: tuple[int, int], found: dict[tuple[int, int], list[Run]]) -> Iterator[str]:
    first = 0.0
    for count in counts:
        short, long = found[count, sizes[0]], found[count, sizes[1]]
        more = sizes[1] - sizes[0]
        seconds = (
            statistics.median(run.seconds for run in long) - statistics.median(run.seconds for run in short)
        ) / more
        cpu = (statistics.median(run.cpu for run in long) - statistics.median(run.cpu for run in short)) / more
        first = first or seconds
        start = statistics.median(run.seconds for run in short) - seconds * sizes[0]
        yield f"| {count:,} | {start:.2f} s | {1 / seconds:,.0f} | {cpu * 1e6:.1f} | {seconds / first:.2f} |"


if __name__ == "__main__":
    sys.exit(main())
