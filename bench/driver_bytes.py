"""What comes back to the driver: the bytes of the results of all tasks, by Spark's own count, by numbers of records.

Each run has a Spark of its own, whose event log has the size of each task's result. Usage: ``python -m
bench.driver_bytes [--records 250000,1000000,4000000]``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.gate.queries import BOUNDED, groups, script
from bench.gate.sides import penstock_side
from bench.gate.topics import Topics
from bench.peers.works import Work
from penstock_testing.services import KafkaCluster


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.driver_bytes", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", default="250000,1000000,4000000", help="numbers of records, multiples of 8")
    given = parser.parse_args()
    print("| job | records | Spark jobs | tasks | bytes of results | of each task |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    with KafkaCluster(brokers=1, properties={"file.delete.delay.ms": "1000"}) as cluster:
        topics = Topics.of(cluster.bootstrap)
        for size in map(int, given.records.split(",")):
            source = topics.make_plain(size)
            for name, make in _jobs(topics, source, size):
                jobs, tasks, size_of_results = _run(make, topics.create())
                print(
                    f"| {name} | {size:,} | {jobs} | {tasks} | {size_of_results:,} | {size_of_results // tasks:,} |",
                    flush=True,
                )
    return 0


def _jobs(topics: Topics, source: str, size: int) -> Iterator[tuple[str, Callable[[str, str], str]]]:
    """The text of each job, by a topic and a folder."""
    copy = Work("json_sql_json_eo", size, {"src": source})
    query = groups("groups", source, "user_id", size)
    for name, statements in (
        ("JSON through SQL to JSON", lambda target: copy.statements(topics.bootstrap, target, {})),
        ("GROUP BY, a million keys", lambda target: query.statements(topics.bootstrap, target, BOUNDED, {})),
    ):
        yield name, lambda target, folder, of=statements: script({"execution.checkpointing.dir": folder}, of(target))


def _run(make: Callable[[str, str], str], target: str) -> tuple[int, int, int]:
    """Spark's jobs, their tasks, and the bytes of the results of these."""
    with tempfile.TemporaryDirectory(prefix="penstock-driver-") as folder:
        conf, events = Path(folder, "conf"), Path(folder, "events")
        for each in (conf, events):
            each.mkdir()
        log = {"enabled": "true", "compress": "false", "dir": events.as_uri()}
        lines = [f"spark.eventLog.{key} {value}\n" for key, value in log.items()]
        (conf / "spark-defaults.conf").write_text("".join(lines))
        side = penstock_side()
        side.environment = {"SPARK_CONF_DIR": str(conf)}
        try:
            side.run({"sql": make(target, str(Path(folder, "checkpoint")))})
        finally:
            side.close()
        found = [json.loads(line) for each in events.rglob("events_*") for line in _complete_lines(each)]
    ended = [each["Task Metrics"] for each in found if each["Event"] == "SparkListenerTaskEnd"]
    jobs = sum(each["Event"] == "SparkListenerJobStart" for each in found)
    return jobs, len(ended), sum(each["Result Size"] for each in ended)


def _complete_lines(path: Path) -> list[str]:
    """The lines of a log that a process left behind when it was ended."""
    return [line for line in path.read_text("utf-8").split("\n")[:-1] if line.startswith("{")]


if __name__ == "__main__":
    sys.exit(main())
