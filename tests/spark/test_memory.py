"""The memory of a job: that of its driver does not depend on how much the job writes, nor on how long it runs."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from penstock_testing.services import SparkCluster
from tests.faults.processes import JobProcess
from tests.jvm import UNOPTIMISED

#: A cluster, a gigabyte of output, a thousand batches.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
PATIENCE = 900
MB = 1 << 20
#: The memory of the driver's JVM, and the most that its Python process may take.
DRIVER_MB = 512
ROWS, ROW_BYTES = 1_100_000, 1_000
#: Rows that are produced at a time.
PORTION = 50_000
BATCHES, RECORDS_PER_BATCH = 1_200, 100
#: Batches until Spark's and Python's caches are full, and how many are between two measurements.
WARM, STEP = 400, 100


def memory_mb(pid: int, name: str) -> float:
    """A figure of a process, in MB, as the kernel gives it; 0 for one that has ended."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


@pytest.mark.rule("state commits with the output")
def test_output_of_twice_the_drivers_memory_is_exact(jobs: Any, topics: Any, topic: Any, tmp_path: Path) -> None:
    """One batch of a job with state, on two workers."""
    source, sink = topic(partitions=2), topic(partitions=2)
    for start in range(0, ROWS, PORTION):
        topics.write_ids(source, PORTION, start, partition=start // PORTION % 2)
    sql = "SET 'parallelism.default' = '2';\n"
    sql += jobs.bounded("s", "id BIGINT", source, scan_max__records__per__trigger="100000000")
    sql += "CREATE TABLE t (id BIGINT, n BIGINT, text STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ("
    sql += f"'connector' = 'upsert-kafka', 'topic' = '{sink}', 'properties.bootstrap.servers' = '{jobs.bootstrap}', "
    sql += "'key.format' = 'json', 'value.format' = 'json', 'sink.delivery-guarantee' = 'exactly-once', "
    sql += "'sink.transactional-id-prefix' = 'memory');\n"
    sql += f"INSERT INTO t SELECT id, COUNT(*), REPEAT(LPAD(CAST(id AS STRING), 10, '0'), {ROW_BYTES // 10}) FROM s "
    sql += "GROUP BY id;\n"
    with SparkCluster(jvm_options=(UNOPTIMISED,)) as cluster:
        environment = {
            "SPARK_MASTER": cluster.url,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DRIVER_MEMORY": f"{DRIVER_MB}m",
        }
        job = JobProcess(tmp_path / "driver", sql, tmp_path / "shared", name="job", environment=environment)
        try:
            peak = 0.0

            def ended() -> bool:
                nonlocal peak
                if not job.running:
                    return True
                peak = max(peak, memory_mb(job.pid, "VmHWM"))
                return False

            job.start().until(ended, PATIENCE)
            job.finish(60)
        finally:
            job.kill()
    written = read_output(jobs.bootstrap, sink)
    assert written >= 2 * DRIVER_MB * MB
    assert peak <= DRIVER_MB, f"the Python process of the driver took {peak:.0f} MB"
    manifests = list((tmp_path / "shared" / "job" / "state").glob("000000000-*.manifest"))
    assert len(manifests) == 1, "all rows are of one batch"


def read_output(bootstrap: str, topic: str) -> int:
    """Check that each row is in the topic once, and return its bytes."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "memory", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in (0, 1)])
    seen, size = Counter[int](), 0
    row = re.compile(rb'\{"id":(\d+),"n":1,"text":"(\d+)"\}')
    while len(seen) < ROWS:
        messages = consumer.consume(10_000, 60)
        assert messages, f"{len(seen)} of {ROWS} rows are there"
        for message in messages:
            value = message.value()
            size += len(value)
            found = row.fullmatch(value)
            assert found is not None, value[:100]
            number = int(found[1])
            seen[number] += 1
            assert found[2] == b"%010d" % number * (ROW_BYTES // 10)
    assert not consumer.consume(1, 2)
    consumer.close()
    assert set(seen.values()) == {1}
    assert set(seen) == set(range(ROWS))
    return size


def test_memory_is_flat_over_a_thousand_batches(jobs: Any, topics: Any, topic: Any, tmp_path: Path) -> None:
    """That of the driver's JVM after a collection, of its Python process, and of the Python processes of tasks."""
    source, sink = topic(partitions=2), topic(partitions=2)
    rows = [{"id": number, "k": number % 1000} for number in range(BATCHES * RECORDS_PER_BATCH)]
    for partition in (0, 1):
        topics.write(source, rows[partition::2], partition=partition)
    sql = "SET 'penstock.driver.max-records' = '0';\n"  # every batch runs in tasks
    sql += jobs.bounded("s", "id BIGINT, k BIGINT", source, scan_max__records__per__trigger=str(RECORDS_PER_BATCH))
    sql += "CREATE TABLE t (k BIGINT, n BIGINT, text STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ("
    sql += f"'connector' = 'upsert-kafka', 'topic' = '{sink}', 'properties.bootstrap.servers' = '{jobs.bootstrap}', "
    sql += "'key.format' = 'json', 'value.format' = 'json', 'sink.delivery-guarantee' = 'exactly-once', "
    sql += "'sink.transactional-id-prefix' = 'flat');\n"
    sql += "INSERT INTO t SELECT k, COUNT(*), REPEAT('x', 10000) FROM s GROUP BY k;\n"
    job = JobProcess(tmp_path / "driver", sql, tmp_path / "checkpoints", name="job")
    figures: list[dict[str, float]] = []
    try:
        job.start()
        for batch in range(WARM, BATCHES - STEP + 1, STEP):
            job.until(lambda batch=batch: job.done() >= batch, PATIENCE)
            figures.append(measure(job))
        job.finish(PATIENCE)
    finally:
        job.kill()
    print(*figures, sep="\n")
    for name in figures[0]:
        first, last = (statistics.median(each[name] for each in part) for part in (figures[:3], figures[-3:]))
        assert last <= first * 1.1 + 5, f"{name}: {[round(each[name]) for each in figures]} MB"


def measure(job: JobProcess) -> dict[str, float]:
    """The memory of the processes of a job, in MB."""
    programs = job.programs_by_pid()
    (jvm,) = (pid for pid, program in programs if program == "java")
    for command in ("GC.run", "GC.heap_info"):
        said = subprocess.run(["jcmd", str(jvm), command], capture_output=True, text=True, check=True).stdout
    used = re.search(r"used (\d+)K", said)
    assert used is not None, said
    tasks = [memory_mb(pid, "RssAnon") for pid, program in programs if program.startswith("python") and pid != job.pid]
    return {
        "heap of the driver's JVM": int(used[1]) / 1024,
        "Python process of the driver": memory_mb(job.pid, "RssAnon"),
        "largest Python process of a task": max(tasks),
    }
