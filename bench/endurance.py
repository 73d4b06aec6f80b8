"""A job whose state grows beyond the memory of its workers, and that goes on for as long as asked:
``python -m bench.endurance --minutes 60 --state-gb 5 --limit-mb 512``.

Records come at a gentle rate: at first each has a new key, later one that the state has. The private memory of each
Python worker is limited by RLIMIT_DATA, to which the address space is added that their fork server has and does not
use. Files that are mapped into memory are cache, which the kernel takes back.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from confluent_kafka import Producer

from penstock.engine.checkpoint import read_location
from penstock.engine.checkpoint.committed import STATE, committed
from penstock.errors import CheckpointError
from penstock.flow.state.inspection import TableSize
from penstock.flow.state.manifest import Manifest
from penstock.flow.state.storage import Storage
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import session_for
from penstock.kafka.topics import create_topic
from penstock_testing.services import KafkaCluster

_PARTITIONS = 4
_SAMPLE_SECONDS = 20
_TICKS = os.sysconf("SC_CLK_TCK")
#: The producer waits for a job that is so many records behind: the topic keeps little more.
_MOST_BEHIND = 100_000
#: The characters of all payloads, which are slices of them.
_POOL = 1 << 24

_SQL = """
SET 'pipeline.name' = 'endurance';
SET 'execution.checkpointing.dir' = '{folder}/checkpoints';
SET 'execution.checkpointing.interval' = '{interval} s';
CREATE TABLE events (id BIGINT, payload STRING) WITH (
  'connector' = 'kafka', 'topic' = 'events', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'scan.max-records-per-trigger' = '{most}', 'format' = 'json'
);
CREATE TABLE counts (id BIGINT, n BIGINT, width INT, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'counts', 'properties.bootstrap.servers' = '{bootstrap}',
  'key.format' = 'json', 'value.format' = 'json', 'sink.delivery-guarantee' = 'exactly-once',
  'sink.transactional-id-prefix' = 'endurance'
);
INSERT INTO counts SELECT id, COUNT(*), CHAR_LENGTH(MAX(payload)) FROM events GROUP BY id;
"""


@dataclass(frozen=True)
class Sample:
    """What was seen at a moment: sizes in bytes, memory in MiB, CPU seconds of the job's processes so far."""

    seconds: float
    keys: int
    produced: int
    read: int
    batches: int
    state_rows: int
    state_bytes: int
    files: int
    file_bytes: int
    worker_private: float
    worker_mapped: float
    worker_data: float
    driver: float
    jvm: float
    cpu: float


@dataclass
class Events:
    """Writes records at a rate: new keys up to ``keys``, then any of these."""

    bootstrap: str
    rate: int
    keys: int
    width: int
    written: int = 0
    #: How many of them the job has read, of which it is told.
    read: int = 0
    _end: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Events:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end.set()
        self._thread.join()

    @property
    def known(self) -> int:
        """The keys so far."""
        return min(self.written, self.keys)

    def _run(self) -> None:
        rng = random.Random(1)
        pool = rng.randbytes(_POOL // 2).hex()
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 50, "compression.type": "lz4"})
        last = time.monotonic()
        while not self._end.wait(0.1):
            now = time.monotonic()
            due = int((now - last) * self.rate)
            last += due / self.rate
            if self.written - self.read > _MOST_BEHIND:
                continue
            for _ in range(due):
                key = self.written if self.written < self.keys else rng.randrange(self.keys)
                at = rng.randrange(_POOL - self.width)
                value = f'{{"id":{key},"payload":"{pool[at : at + self.width]}"}}'
                while True:
                    try:
                        producer.produce("events", value.encode(), partition=key % _PARTITIONS)
                        break
                    except BufferError:
                        producer.poll(0.1)
                self.written += 1
            producer.poll(0)
        producer.flush(30)


@dataclass
class Job:
    """The job as a process of its own, and its processes."""

    process: subprocess.Popen[bytes]
    limit_bytes: int
    #: The address space of the fork server that is not in memory, in bytes.
    unused: int = 0
    _limited: set[int] = field(default_factory=set)

    def processes(self) -> dict[int, list[str]]:
        """The command lines of the job's processes, by id."""
        parents, commands = {}, {}
        for each in Path("/proc").iterdir():
            if each.name.isdigit():
                try:
                    stat = (each / "stat").read_text()
                    commands[int(each.name)] = (each / "cmdline").read_bytes().decode(errors="replace").split("\0")
                except OSError:  # it has ended
                    continue
                parents[int(each.name)] = int(stat.rpartition(")")[2].split()[1])
        found = {self.process.pid}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return {pid: commands[pid] for pid in found if pid in commands}

    def limit(self) -> None:
        """Limit the private memory of workers: they are forked from a process that gets the limit first."""
        found = self.processes()
        workers = sorted(pid for pid, command in found.items() if any("forkserver" in each for each in command))
        if len(workers) < 2:  # it imports what workers need before the first of them
            return
        if not self.unused:
            sizes = _sizes(workers[0])
            self.unused = sizes.get("VmData", 0) - sizes.get("RssAnon", 0)
        for pid in workers:
            if pid not in self._limited:
                limit = self.limit_bytes + self.unused
                with suppress(ProcessLookupError):
                    resource.prlimit(pid, resource.RLIMIT_DATA, (limit, limit))
                    self._limited.add(pid)

    def memory(self) -> dict[str, float]:
        """The memory of workers (the largest of each figure), the driver and its JVM, in MiB."""
        found = dict.fromkeys(("worker_private", "worker_mapped", "worker_data", "driver", "jvm"), 0.0)
        for pid, command in self.processes().items():
            sizes = _sizes(pid)
            resident, private, mapped, data = (
                sizes.get(name, 0) / (1 << 20) for name in ("VmRSS", "RssAnon", "RssFile", "VmData")
            )
            if any("forkserver" in each for each in command):
                found["worker_private"] = max(found["worker_private"], private)
                found["worker_mapped"] = max(found["worker_mapped"], mapped)
                found["worker_data"] = max(found["worker_data"], data)
            elif pid == self.process.pid:
                found["driver"] = private
            elif command[0].endswith("java"):
                found["jvm"] = resident
        return found

    def cpu(self) -> float:
        """CPU seconds of all processes, those that have ended included."""
        total = 0
        for pid in self.processes():
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            total += sum(map(int, fields[11:15]))
        return total / _TICKS


def _sizes(pid: int) -> dict[str, int]:
    """The figures of /proc about the memory of a process, in bytes; none of one that has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return {}
    lines = (line.split() for line in text.splitlines() if line.endswith(" kB"))
    return {name.rstrip(":"): int(size) << 10 for name, size, _ in lines}


def samples(job: Job, events: Events, place: str, minutes: float) -> Iterator[Sample]:
    """What is seen while the job runs. Raises RuntimeError if it ends."""
    begun, next_at = time.monotonic(), 0.0
    while (elapsed := time.monotonic() - begun) < minutes * 60:
        if job.process.poll() is not None:
            raise RuntimeError(f"the job ended with status {job.process.returncode}")
        job.limit()
        if elapsed >= next_at and (found := sample(job, events, place, elapsed)):
            next_at = elapsed + _SAMPLE_SECONDS
            events.read = found.read
            yield found
        time.sleep(1)


def sample(job: Job, events: Events, place: str, elapsed: float) -> Sample | None:
    """What is seen now; None before the first batch, or where files were deleted while they were looked at."""
    try:
        known = committed(read_location(place))
        if known.batch < 0:
            return None
        storage = Storage.from_uri(f"{place}/{STATE}")
        manifest = Manifest.read(storage, known.state)
        stored = list(storage.files())
    except CheckpointError:
        return None
    refs = [ref for tables in manifest.operators.values() for each in tables.values() for ref in each]
    ends = (at["offset"] for each in known.positions.values() for at in each["events"]["partitions"].values())
    return Sample(
        seconds=round(elapsed, 1),
        keys=events.known,
        produced=events.written,
        read=sum(ends),
        batches=known.batch + 1,
        state_rows=TableSize.from_segments(refs).rows,
        state_bytes=manifest.bytes,
        files=len(stored),
        file_bytes=sum(each.bytes for each in stored),
        cpu=job.cpu(),
        **job.memory(),
    )


def report(found: Sequence[Sample], parts: int = 8) -> str:
    """A table of the run in ``parts``: what each was like."""
    lines = [
        "| minutes | keys | state, GB | files | GB on disk | worker: private, MB | mapped, MB | CPU, us/record | "
        "records behind |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    size = max(1, len(found) // parts)
    for at in range(0, len(found) - size + 1, size):
        part, last = found[at : at + size], found[at + size - 1]
        before = found[at - 1] if at else part[0]
        records = max(1, last.read - before.read)
        lines.append(
            f"| {last.seconds / 60:.0f} | {last.keys:,} | {last.state_bytes / 1e9:.2f} | "
            f"{max(each.files for each in part)} | {last.file_bytes / 1e9:.2f} | "
            f"{max(each.worker_private for each in part):.0f} | {max(each.worker_mapped for each in part):.0f} | "
            f"{(last.cpu - before.cpu) / records * 1e6:.0f} | "
            f"{statistics.median(each.produced - each.read for each in part):,.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run it, write the samples to a file, and print a table."""
    parser = argparse.ArgumentParser(description="A job with state larger than memory, for a long time.")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--state-gb", type=float, default=5, help="how far the state grows")
    parser.add_argument("--limit-mb", type=int, default=512, help="the most private memory of a worker")
    parser.add_argument("--rate", type=int, default=3000, help="records a second")
    parser.add_argument("--width", type=int, default=1600, help="characters of a payload")
    parser.add_argument("--interval", type=int, default=3, help="seconds between two batches")
    parser.add_argument("--most", type=int, default=5_000, help="records of a batch")
    parser.add_argument("--out", type=Path, default=Path("endurance.jsonl"), help="the samples, one a line")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-endurance-") as folder:
        run(given, folder)


def run(given: argparse.Namespace, folder: str) -> None:
    """The whole of it, with files in ``folder``."""
    keys = int(given.state_gb * 1e9 / (given.width + 60))
    with KafkaCluster(data=f"{folder}/kafka") as cluster:
        session = session_for(ClientConfig.from_properties({"bootstrap.servers": cluster.bootstrap}))
        small = {"retention.bytes": str(256 << 20), "segment.bytes": str(64 << 20)}
        for topic, configs in (("events", small), ("counts", small)):
            create_topic(session, topic, partitions=_PARTITIONS, replication=1, configs=configs)
        script = Path(folder, "job.sql")
        script.write_text(
            _SQL.format(folder=folder, bootstrap=cluster.bootstrap, interval=given.interval, most=given.most)
        )

        def prepare() -> None:
            os.nice(5)
            resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))

        command = [sys.executable, "-m", "penstock.cli.main", "run", str(script)]
        with Path(folder, "job.log").open("wb") as log:
            # Arrow's own allocators reserve address space far beyond what they use, which the limit would not see.
            environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, preexec_fn=prepare)  # noqa: PLW1509
        job = Job(process, given.limit_mb << 20)
        found: list[Sample] = []
        try:
            with (
                given.out.open("w") as out,
                Events(cluster.bootstrap, given.rate, keys, given.width) as events,
            ):
                for each in samples(job, events, f"{folder}/checkpoints/endurance", given.minutes):
                    found.append(each)
                    print(json.dumps(asdict(each)), file=out, flush=True)
        except RuntimeError:
            print(Path(folder, "job.log").read_text()[-4000:], file=sys.stderr)
            raise
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)
            print(report(found))


if __name__ == "__main__":
    main()
