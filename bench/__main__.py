"""Throughput of the whole path, beside the limit that one process without Spark reaches on the same broker.

Everything runs round after round in one go, so that each round's shares compare like with like on a machine whose
speed drifts; the medians are printed.
"every 1 s" are unbounded jobs with a checkpoint interval of one second that find all records waiting; their batches are
large enough to take longer than that.

Usage: ``python -m bench [--records N] [--rounds N] [--bootstrap HOST:PORT]``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

from bench.records import SCHEMA, replay
from penstock import engine
from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.offsets import LATEST, list_offsets
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import scan
from penstock.kafka.session import Session, session_for
from penstock.kafka.topics import create_topic
from penstock.plan.nodes import Job
from penstock.sql import parse_script
from penstock_testing.services import KafkaCluster

PARTITIONS = 4
SOURCE = "bench-in"
#: So many records keep this machine busy for longer than the interval of the "every 1 s" cases.
PER_BATCH = 1_500_000
#: What is written is not read again: brokers may delete it while the next case runs.
_SHORT_LIVED = {"retention.bytes": "1", "segment.bytes": str(64 << 20), "file.delete.delay.ms": "1000"}


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
    running = (
        nullcontext(None)
        if arguments.bootstrap
        else KafkaCluster(brokers=1, properties={"log.retention.check.interval.ms": "5000"})
    )
    with running as cluster:
        bootstrap = arguments.bootstrap or cluster.bootstrap
        session = session_for(ClientConfig.from_properties({"bootstrap.servers": bootstrap}))
        source = f"{SOURCE}-{uuid.uuid4().hex[:6]}"
        create_topic(session, source, partitions=PARTITIONS)
        keyed = f"{source}-keyed"
        create_topic(session, keyed, partitions=PARTITIONS)
        replay(session, source, arguments.records, PARTITIONS)
        replay(session, keyed, arguments.records, PARTITIONS, keys=True)
        bench = Bench(session, bootstrap, source, keyed, arguments.records)
        cases = [case for case in bench.cases() if _is_chosen(case, arguments.only)]
        seconds = _measure(cases, arguments.rounds)
        _print(cases, seconds, arguments.records)
    return 0


def _is_chosen(case: Case, only: str | None) -> bool:
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
    print(f"{'':<36}{'records/s':>12}{'of the raw loop':>18}{'of at-least-once':>18}")
    for case in cases:
        rate = records / statistics.median(seconds[case.name])
        line = f"{case.name:<36}{rate:>12,.0f}{_share(limit, seconds[case.name]):>17.0%}"
        beside = seconds.get(case.name.replace("exactly-once", "at-least-once"))
        if "exactly-once" in case.name and beside:
            line += f"{_share(beside, seconds[case.name]):>18.0%}"
        print(line)


def _share(whole: list[float], part: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(whole, part, strict=True))


@dataclass(frozen=True)
class Bench:
    """What is measured: ``records`` in the topics ``source`` and, with keys, ``keyed``."""

    session: Session
    bootstrap: str
    source: str
    keyed: str
    records: int

    def cases(self) -> list[Case]:
        """All of them, the limit first."""
        half = "WHERE category_id % 2 = 0"
        cases = [
            Case("raw loop", self._raw_loop),
            Case("read", lambda: self._run_bounded("raw", None)),
            Case("read+json", lambda: self._run_bounded("json", None)),
            Case("read+json+filter", lambda: self._run_bounded("json", None, where=half)),
        ]
        for guarantee in ("at-least-once", "exactly-once"):
            name = f"{guarantee} json filter json"
            cases.append(Case(name, partial(self._run_bounded, "json", guarantee, where=half)))
        for what, run in (("copy", self._run_bounded), ("copy every 1 s", self._run_paced)):
            for keys in (False, True):
                for guarantee in ("at-least-once", "exactly-once"):
                    name = f"{guarantee} {'keyed ' if keys else ''}{what}"
                    cases.append(Case(name, partial(run, "raw", guarantee, keys)))
        return cases

    def _raw_loop(self) -> float:
        """The limit: fetch everything and scan it into Arrow, in this process."""
        begun = time.perf_counter()
        ends = list_offsets(self.session, [(self.source, partition) for partition in range(PARTITIONS)], LATEST)
        ranges = [Range(*place, 0, end.offset if end else 0) for place, end in ends.items()]
        for chunk in Fetcher(self.session, ranges):
            scan(chunk.records, start_offset=chunk.start, end_offset=chunk.end, aborted=chunk.aborted)
        return time.perf_counter() - begun

    def _run_bounded(self, form: str, guarantee: str | None, keys: bool = False, where: str = "") -> float:
        """A bounded job, from start to end, in the Spark session that all cases share."""
        with self._job(form, guarantee, keys, "'scan.bounded.mode' = 'latest-offset'", where=where) as job:
            begun = time.perf_counter()
            engine.run(job)
            return time.perf_counter() - begun

    def _run_paced(self, form: str, guarantee: str | None, keys: bool = False) -> float:
        """An unbounded job, from its start until everything is written."""
        limit = f"'scan.max-records-per-trigger' = '{PER_BATCH}'"
        with self._job(form, guarantee, keys, limit, "SET 'execution.checkpointing.interval' = '1 s';") as job:
            running = engine.start(job)
            begun = time.perf_counter()
            try:
                while running.progress.records_out < self.records:
                    time.sleep(0.002)
                return time.perf_counter() - begun
            finally:
                running.stop()

    @contextmanager
    def _job(
        self, form: str, guarantee: str | None, keys: bool, option: str, setting: str = "", where: str = ""
    ) -> Iterator[Job]:
        """The job that copies the records that are ``where`` to a new topic, or, without a guarantee, to nothing."""
        columns = SCHEMA if form == "json" else "v BYTES"
        formats = f"'format' = '{form}'"
        if keys:
            columns = f"k BYTES, {columns}"
            formats = (
                f"'key.format' = 'raw', 'key.fields' = 'k', 'value.format' = '{form}', "
                "'value.fields-include' = 'EXCEPT_KEY'"
            )
        kafka = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{self.bootstrap}', {formats}"
        sink = "'connector' = 'blackhole'"
        if guarantee is not None:
            name = f"bench-out-{uuid.uuid4().hex[:8]}"
            create_topic(self.session, name, partitions=PARTITIONS, configs=_SHORT_LIVED)
            sink = (
                f"{kafka}, 'topic' = '{name}', 'sink.delivery-guarantee' = '{guarantee}', "
                f"'sink.transactional-id-prefix' = '{name}'"
            )
        source = self.keyed if keys else self.source
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            sql = f"""
            SET 'execution.checkpointing.dir' = '{folder}';
            {setting}
            CREATE TABLE src ({columns}) WITH (
              {kafka}, 'topic' = '{source}', 'scan.startup.mode' = 'earliest-offset', {option});
            CREATE TABLE snk ({columns}) WITH ({sink});
            INSERT INTO snk SELECT * FROM src {where};
            """
            (job,) = parse_script(sql, default_name="bench").jobs
            yield job


if __name__ == "__main__":
    sys.exit(main())
