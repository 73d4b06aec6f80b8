"""A Python function on each record, Kafka to Kafka, at least once: penstock beside PyFlink, whose functions run in
processes of their own (``python.execution-mode`` = ``process``).

Records are the JSON documents of about 130 bytes of ``python -m bench``, as strings; the function returns them in
capital letters. All sides run in turn, round after round, on one broker. Each is a process that stays; a job's time is
that from its start to its end. The first round warms up, and every result is checked. PyFlink is found by the
environment, as for ``python -m bench.gate``.

Usage: ``python -m bench.functions [--records N] [--rounds N]``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.gate.sides import Run, Side, SideError, flink_side, penstock_side
from bench.gate.topics import Topics
from penstock_testing.services import KafkaCluster

_PRODUCER = {"linger.ms": "50", "batch.size": "1000000"}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="bench.functions", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    penstock, flink = (
        penstock_side("bench.functions.penstock_side"),
        flink_side(Path(__file__).parent / "flink_side.py"),
    )
    cases: dict[str, tuple[Side, str]] = {
        "penstock, map": (penstock, "function"),
        "penstock, map(call_arrow)": (penstock, "arrays"),
    }
    if isinstance(flink, Side):
        cases["PyFlink, map"] = (flink, "")
    else:
        print(f"without PyFlink: {flink}", file=sys.stderr)
    runs: dict[str, list[Run]] = {name: [] for name in cases}
    with KafkaCluster(brokers=1, properties={"file.delete.delay.ms": "1000"}) as cluster:
        topics = Topics.of(cluster.bootstrap)
        source = topics.make_plain(arguments.records)
        try:
            for number in range(arguments.rounds + 1):
                for name, (side, call) in cases.items():
                    run = _run(side, {"call": call, "bootstrap": cluster.bootstrap, "source": source}, topics)
                    print(f"{'round' if number else 'warm-up'} {number}: {name}: {run}", file=sys.stderr, flush=True)
                    if number:
                        runs[name].append(run)
        finally:
            for side, _ in cases.values():
                side.close()
    for name, taken in runs.items():
        rate = arguments.records / statistics.median(each.seconds for each in taken)
        cpu = statistics.median(each.cpu for each in taken) / arguments.records * 1e6
        print(f"| {name} | {rate:,.0f} | {cpu:.1f} |")
    return 0


def _run(side: Side, task: dict[str, Any], topics: Topics) -> Run:
    """One run, whose result has all records. Raises SideError."""
    target = topics.create()
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-functions-") as folder:
            settings = {"execution.checkpointing.dir": f"file://{folder}"}
            run = side.run({**task, "target": target, "settings": settings, "producer": _PRODUCER})
        written, wanted = topics.length(target), topics.length(task["source"])
        if written < wanted:
            raise SideError(f"{side.name}: {written:,} of {wanted:,} records were written")
        return run
    finally:
        topics.drop(target)


if __name__ == "__main__":
    sys.exit(main())
