"""Options of the JVMs of jobs that live for seconds, as those of tests do."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from penstock.errors import ServiceError
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import session_for
from penstock.kafka.topics import create_topic
from penstock.services import KafkaCluster, find_java
from penstock.services.classes import class_archive, sharing
from penstock.testing import NumberedRecords

__all__ = ["UNOPTIMISED", "short_lived"]

#: What takes longest otherwise is the optimising of what is soon over.
UNOPTIMISED = "-XX:TieredStopAtLevel=1"
_TRAINING_SECONDS = 300.0


@functools.cache
def short_lived() -> str:
    """SPARK_SUBMIT_OPTS of a job's driver, an archive of Spark's classes among them: it starts in two thirds of the
    time. The archive holds for one class path, so each virtual environment has its own, made once."""
    folder = Path(sys.prefix) / "spark-classes"
    folder.mkdir(exist_ok=True)
    archive = class_archive(folder, find_java(), "Spark", _train, lambda line: print(line, file=sys.stderr))
    return " ".join([UNOPTIMISED, *sharing(archive)])


def _train(scratch: Path, options: Sequence[str]) -> None:
    """Runs a job that copies a topic exactly once: it loads the classes that most jobs need."""
    with KafkaCluster() as kafka:
        session = session_for(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap}))
        for topic in ("read", "written"):
            create_topic(session, topic, partitions=2)
        numbered = NumberedRecords(kafka.bootstrap, "read")
        numbered.write(1000)
        numbered.stop()
        both = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{kafka.bootstrap}', 'format' = 'json'"
        file = scratch / "job.sql"
        file.write_text(
            f"CREATE TABLE s (n BIGINT) WITH ({both}, 'topic' = 'read', 'scan.startup.mode' = 'earliest-offset', "
            "'scan.bounded.mode' = 'latest-offset', 'scan.max-records-per-trigger' = '500');\n"
            f"CREATE TABLE t (n BIGINT) WITH ({both}, 'topic' = 'written', "
            "'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'train');\n"
            "INSERT INTO t SELECT n FROM s;\n"
        )
        command = [sys.executable, "-m", "penstock.cli.main", "run", str(file), "--checkpoint-dir", str(scratch)]
        done = subprocess.run(
            command,
            env={**os.environ, "SPARK_SUBMIT_OPTS": " ".join([UNOPTIMISED, *options])},
            check=False,
            timeout=_TRAINING_SECONDS,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    if done.returncode:
        raise ServiceError(f"the job failed: {done.stdout[-1000:]}")
