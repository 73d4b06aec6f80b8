"""Throughput of the whole path, beside the limit that one process without Spark reaches on the same broker.

Everything runs round after round in one go, so that each round's shares compare like with like on a machine whose
speed drifts; the medians are printed. Usage: ``python -m bench [--records N] [--rounds N] [--bootstrap HOST:PORT]``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from bench.records import SCHEMA, replay
from penstock import engine
from penstock.kafka.batches import scan
from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.offsets import LATEST, list_offsets
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import Session, session_for
from penstock.kafka.topics import create_topic
from penstock.services import KafkaCluster
from penstock.sql import parse_script

PARTITIONS = 4
SOURCE = "bench-in"


@dataclass(frozen=True)
class Case:
    """One thing that is measured: ``run`` handles all the records and returns the seconds it took."""

    name: str
    run: Callable[[], float]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bootstrap", help="a broker that runs already")
    parser.add_argument("--only", help="comma-separated cases; the raw loop always runs")
    arguments = parser.parse_args()
    running = nullcontext(None) if arguments.bootstrap else KafkaCluster(brokers=1)
    with running as cluster:
        bootstrap = arguments.bootstrap or cluster.bootstrap
        session = session_for(ClientConfig.from_properties({"bootstrap.servers": bootstrap}))
        source = f"{SOURCE}-{uuid.uuid4().hex[:6]}"
        create_topic(session, source, partitions=PARTITIONS)
        replay(session, source, arguments.records, PARTITIONS)
        cases = [case for case in _cases(session, source, bootstrap) if _wanted(case, arguments.only)]
        seconds = _measure(cases, arguments.rounds)
        _print(cases, seconds, arguments.records)
    return 0


def _wanted(case: Case, only: str | None) -> bool:
    return only is None or case.name == "raw loop" or case.name in only.split(",")


def _measure(cases: list[Case], rounds: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {case.name: [] for case in cases}
    for number in range(rounds + 1):
        for case in cases:
            taken = case.run()
            note = "warm-up" if number == 0 else f"round {number}"
            print(f"{note}: {case.name}: {taken:.2f} s", file=sys.stderr, flush=True)
            if number:
                seconds[case.name].append(taken)
    return seconds


def _print(cases: list[Case], seconds: dict[str, list[float]], records: int) -> None:
    limit = seconds["raw loop"]
    print(f"{records:,} records of about 130 bytes, {PARTITIONS} partitions, median of {len(limit)} rounds")
    print(f"{'':<24}{'records/s':>12}{'of the raw loop':>18}")
    for case in cases:
        shares = [raw / taken for raw, taken in zip(limit, seconds[case.name], strict=True)]
        rate = records / statistics.median(seconds[case.name])
        print(f"{case.name:<24}{rate:>12,.0f}{statistics.median(shares):>17.0%}")


def _cases(session: Session, source: str, bootstrap: str) -> list[Case]:
    return [
        Case("raw loop", lambda: _raw_loop(session, source)),
        Case("read", lambda: _job(_sql(bootstrap, source, "raw", None))),
        Case("read+json", lambda: _job(_sql(bootstrap, source, "json", None))),
        Case("at-least-once copy", lambda: _job(_sql(bootstrap, source, "raw", "at-least-once"))),
        Case("exactly-once copy", lambda: _job(_sql(bootstrap, source, "raw", "exactly-once"))),
    ]


def _raw_loop(session: Session, source: str) -> float:
    """The limit: fetch everything and scan it into Arrow, in this process."""
    begun = time.perf_counter()
    ends = list_offsets(session, [(source, partition) for partition in range(PARTITIONS)], LATEST)
    ranges = [Range(*place, 0, end.offset if end else 0) for place, end in ends.items()]
    for chunk in Fetcher(session, ranges):
        scan(chunk.records, start_offset=chunk.start, end_offset=chunk.end, aborted=chunk.aborted)
    return time.perf_counter() - begun


def _job(sql: str) -> float:
    """A bounded job, from start to end, in the Spark session that all cases share."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        text = f"SET 'execution.checkpointing.dir' = '{folder}';\n{sql}"
        (job,) = parse_script(text, default_name="bench").jobs
        begun = time.perf_counter()
        engine.run(job)
        return time.perf_counter() - begun


def _sql(bootstrap: str, source: str, form: str, guarantee: str | None) -> str:
    columns = SCHEMA if form == "json" else "v BYTES"
    sink = "'connector' = 'blackhole'"
    if guarantee is not None:
        name = f"bench-out-{uuid.uuid4().hex[:8]}"
        sink = (
            f"'connector' = 'kafka', 'topic' = '{name}', 'properties.bootstrap.servers' = '{bootstrap}', "
            f"'format' = '{form}', 'sink.delivery-guarantee' = '{guarantee}', "
            f"'sink.transactional-id-prefix' = '{name}'"
        )
    return f"""
    CREATE TABLE src ({columns}) WITH (
      'connector' = 'kafka', 'topic' = '{source}', 'properties.bootstrap.servers' = '{bootstrap}',
      'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = '{form}');
    CREATE TABLE snk ({columns}) WITH ({sink});
    INSERT INTO snk SELECT * FROM src;
    """


if __name__ == "__main__":
    sys.exit(main())
