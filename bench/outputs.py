"""What many outputs cost: INSERTs of one statement set that spread the records of a topic over so many tables.

Each number of outputs runs with two numbers of records, in turn: the difference is the cost of records, and what is
left of the shorter run is the cost of starting. Usage: ``python -m bench.outputs [--counts 1,10,100,1000]``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence

from bench.gate.queries import script
from bench.gate.sides import Run, penstock_side
from bench.gate.topics import Topics
from bench.records import SCHEMA
from penstock.sql import parse_script
from penstock_testing.services import KafkaCluster

__all__ = ["outputs_script"]

#: Of each topic that is written: a task has one of its own.
_PARTITIONS = 2


def outputs_script(bootstrap: str, source: str, targets: Sequence[str], folder: str) -> str:
    """A job from the topic ``source`` to a table in each of the topics ``targets``."""
    count = len(targets)
    kafka = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json'"
    bounded = "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'"
    sink = f"'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{targets[0]}'"
    tables = [f"CREATE TABLE src ({SCHEMA}) WITH ({kafka}, 'topic' = '{source}', {bounded})"]
    inserts = []
    for number, target in enumerate(targets):
        tables.append(f"CREATE TABLE o{number} ({SCHEMA}) WITH ({kafka}, 'topic' = '{target}', {sink})")
        inserts.append(f"INSERT INTO o{number} SELECT * FROM src WHERE category_id % {count} = {number};")
    text = "\n".join(inserts)
    return f"{script({'execution.checkpointing.dir': folder}, tables)}EXECUTE STATEMENT SET BEGIN\n{text}\nEND;\n"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.outputs", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--counts", default="1,10,100,1000", help="numbers of outputs")
    parser.add_argument("--records", type=int, default=500_000, help="of the shorter run, a multiple of 8")
    parser.add_argument("--times", type=int, default=5, help="records of the longer run by those of the shorter")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    counts = [int(each) for each in given.counts.split(",")]
    sizes = given.records, given.records * given.times
    found: dict[tuple[int, int], list[Run]] = {}
    side = penstock_side()
    with KafkaCluster(brokers=1, properties={"file.delete.delay.ms": "1000"}) as cluster:
        topics = Topics.of(cluster.bootstrap)
        sources = [topics.make_plain(size) for size in sizes]
        targets = topics.create_many(max(counts), _PARTITIONS)
        try:
            for number in range(given.rounds + 1):
                for count in counts:
                    for source, size in zip(sources, sizes, strict=True):
                        with tempfile.TemporaryDirectory(prefix="penstock-outputs-") as folder:
                            sql = outputs_script(cluster.bootstrap, source, targets[:count], folder)
                            run = side.run({"sql": sql})
                        if number:  # the first round warms up
                            found.setdefault((count, size), []).append(run)
        finally:
            side.close()
    print("| outputs | parse | start | records/s | seconds per record, beside one output | CPU seconds per record |")
    print("| --- | --- | --- | --- | --- | --- |")
    first: tuple[float, float] | None = None
    for count in counts:
        seconds, cpu = _slope(found[count, sizes[0]], found[count, sizes[1]], sizes)
        first = first or (seconds, cpu)
        start = statistics.median(run.seconds for run in found[count, sizes[0]]) - seconds * sizes[0]
        print(
            f"| {count:,} | {_parse_seconds(count):.2f} s | {start:.2f} s | {1 / seconds:,.0f} | "
            f"{seconds / first[0]:.2f} | {cpu / first[1]:.2f} |",
            flush=True,
        )
    return 0


def _slope(short: Sequence[Run], long: Sequence[Run], sizes: tuple[int, int]) -> tuple[float, float]:
    """Seconds and processor seconds per record."""
    more = sizes[1] - sizes[0]
    seconds = statistics.median(run.seconds for run in long) - statistics.median(run.seconds for run in short)
    cpu = statistics.median(run.cpu for run in long) - statistics.median(run.cpu for run in short)
    return seconds / more, cpu / more


def _parse_seconds(count: int) -> float:
    text = outputs_script("127.0.0.1:1", "source", ["target"] * count, tempfile.gettempdir())
    begun = time.perf_counter()
    parse_script(text, default_name="outputs")
    return time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main())
