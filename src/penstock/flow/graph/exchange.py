"""The exchange: Arrow batches on their way between the tasks of a micro-batch, in one fixed schema."""

from __future__ import annotations

import enum
import mmap
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.columns.streams import ipc_stream
from penstock.flow.rows.envelope import HASH
from penstock.flow.state.kept_output import KeptFile
from penstock.flow.state.storage import Storage
from penstock.spi import ScratchFile

#: The rows of the exchange: Arrow batches as IPC streams, in ``data``, or in the ``file`` at ``position``: by its path
#: where all tasks run on one machine, or by its name in the storage of the job's state. ``kind`` and ``target`` are the
#: :class:`EdgeId` of the edge that carries a batch, ``owner`` is the task that gets it. An owner reads in the order of
#: :data:`ORDER`, which keeps the order of the rows of each key.
EXCHANGE = pa.schema(
    {
        "kind": pa.int8(),
        "target": pa.int32(),
        "owner": pa.int32(),
        "scan": pa.int32(),
        "task": pa.int32(),
        "ordinal": pa.int32(),
        "count": pa.int64(),
        "file": pa.string(),
        "position": pa.int64(),
        "bytes": pa.int64(),
        "data": pa.binary(),
    }
)

ORDER = ("kind", "target", "scan", "task", "ordinal")

#: The most bytes of a task's output that are not worth a file which is kept: they go through the driver.
_UNKEPT_BYTES = 1 << 18


class EdgeKind(enum.IntEnum):
    """What an edge carries. The numbers are written with output that is kept, so they never change."""

    #: Rows for an input of an operator, which goes to the owners of their keys.
    ROWS = 0
    #: What the writers of a target pass on to the owners that publish it.
    ENCODED = 1
    #: Event times that reading tasks have measured: every owner gets all, in every stage, and the driver.
    TIMES = 2
    #: The state of an operator in a range of hashes, for the driver.
    STATE = 3
    #: What operators report to the driver.
    REPORTS = 4
    #: The results of the writers of a target, for the driver.
    RESULTS = 5
    #: The files in which a task's output is kept, for the driver.
    KEPT_FILES = 6
    #: Rows of the outputs of a target, which former versions have kept.
    FORMER_ROWS = 7
    #: What reading tasks have seen of tables whose schemas are not enough, for the driver.
    SCHEMAS = 8
    #: What reading tasks have read of each table, and refused, for the driver.
    TABLE_COUNTS = 9


class EdgeId(NamedTuple):
    """An edge: what it carries, and the number of the edge between operators, or of the sink's target."""

    kind: EdgeKind
    target: int = 0


def owner_of(hashes: NDArray[np.uint64], owners: int) -> NDArray[np.int64]:
    """The owner of each key: owners have contiguous ranges of hashes."""
    return ((hashes >> np.uint64(32)) * np.uint64(owners) >> np.uint64(32)).astype(np.int64)


def hash_range(owner: int, owners: int) -> tuple[int, int]:
    """The first hash of an owner, and the first hash after its range."""
    return tuple((-(-(each << 32) // owners)) << 32 for each in (owner, owner + 1))  # type: ignore[return-value]


@dataclass(frozen=True)
class Origin:
    """Where rows come from: the number of the scan, or of the stage after all scans, and that of the task."""

    scan: int
    task: int


class Sender:
    """Sends the batches of one task. With ``folder`` their bytes go to one file there, which is complete when the
    ``with`` block ends; without it they are in the rows. If there is a file ``kept``, output for the owners of a
    target's partitions is kept there instead, except for little of it, which is in the rows.

    Raises ExecutionError if the folder or the storage cannot be written.
    """

    def __init__(self, origin: Origin, folder: str = "", kept: KeptFile | None = None):
        self.origin = origin
        self._file = ScratchFile(folder, ".arrow") if folder else None
        self._kept = kept
        self._unkept = 0
        self._rows: list[dict[str, object]] = []
        self._sent = 0
        #: The bytes in the rows that wait to be taken.
        self.waiting_bytes = 0

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._kept is not None:
            self._kept.__exit__(*error)
        if self._file is not None:
            self._file.close()

    def send_by_key(self, edge: EdgeId, batch: pa.RecordBatch, owners: int) -> None:
        """Send the rows of a batch, which has the column :data:`HASH`, to the owners of their keys."""
        if owners == 1:
            self.send_batch(edge, 0, batch)
            return
        of = owner_of(batch.column(HASH).to_numpy(), owners)
        order = np.argsort(of, kind="stable")
        ends = np.searchsorted(of[order], np.arange(owners + 1))
        for owner in range(owners):
            chosen = order[ends[owner] : ends[owner + 1]]
            if chosen.size:
                self.send_batch(edge, owner, batch.take(pa.array(chosen)))

    def send_batch(self, edge: EdgeId, owner: int, batch: pa.RecordBatch, *, inline: bool = False) -> None:
        """Send all rows of a batch to one owner."""
        if batch.num_rows:
            self.send_bytes(edge, owner, ipc_stream(batch), batch.num_rows, inline=inline)

    def send_output(self, edge: EdgeId, owner: int, batch: pa.RecordBatch) -> None:
        """Send what a writer passes on to the owner that publishes it."""
        data = ipc_stream(batch)
        if self._kept is None:
            self.send_bytes(edge, owner, data, batch.num_rows)
        elif self._unkept + data.size <= _UNKEPT_BYTES:
            self._unkept += data.size
            self.send_bytes(edge, owner, data, batch.num_rows, inline=True)
        else:
            place = {"file": self._kept.name, "position": self._kept.append(data)}
            self._add(edge, owner, data.size, batch.num_rows, place)

    def send_bytes(self, edge: EdgeId, owner: int, data: pa.Buffer, count: int, *, inline: bool = False) -> None:
        """Send bytes to one owner; ``inline`` keeps them out of the file."""
        if self._file is None or inline:
            self._add(edge, owner, data.size, count, {"data": data.to_pybytes()})
            self.waiting_bytes += data.size
        else:
            place = {"file": str(self._file.path), "position": self._file.append(data)}
            self._add(edge, owner, data.size, count, place)

    def _add(self, edge: EdgeId, owner: int, size: int, count: int, place: Mapping[str, object]) -> None:
        row = {
            "kind": edge.kind,
            "target": edge.target,
            "owner": owner,
            "scan": self.origin.scan,
            "task": self.origin.task,
        }
        self._rows.append({**row, "ordinal": self._sent, "count": count, "bytes": size, **place})
        self._sent += 1

    def finish(self) -> None:
        """Make the kept output durable, and tell the driver of its file. Called before the last :meth:`take_rows`."""
        if self._kept is not None and self._kept.finish():
            self.send_bytes(EdgeId(EdgeKind.KEPT_FILES), 0, pa.py_buffer(self._kept.to_json()), 0, inline=True)

    def take_rows(self) -> pa.RecordBatch:
        """What was sent since the last call, as rows of :data:`EXCHANGE`."""
        rows, self._rows, self.waiting_bytes = self._rows, [], 0
        return pa.RecordBatch.from_pylist(rows, schema=EXCHANGE)


class Receiver:
    """Reads rows of :data:`EXCHANGE`. Files are mapped into memory once each; those without a path are in the
    ``storage``. With ``writable`` a file is mapped as a copy that :meth:`writable` gives pieces of."""

    def __init__(self, storage: Storage | None = None, *, writable: bool = False) -> None:
        self._storage = storage
        self._access = mmap.ACCESS_COPY if writable else mmap.ACCESS_READ
        self._files: dict[str, pa.Buffer] = {}
        #: The files that are mapped as copies, by the address at which each begins.
        self._mapped: dict[int, mmap.mmap] = {}

    def batches(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batches in these rows, in their order."""
        for data in self.data(rows):
            with pa.ipc.open_stream(data) as reader:
                yield from reader

    def data(self, rows: pa.RecordBatch) -> Iterator[pa.Buffer]:
        """The bytes in these rows, in their order."""
        places = zip(*(rows.column(name).to_pylist() for name in ("file", "position", "bytes")), strict=True)
        for number, (file, position, size) in enumerate(places):
            if not file:
                yield rows.column("data")[number].as_buffer()
                continue
            if file not in self._files:
                self._files[file] = self._open(file)
            yield self._files[file].slice(position, size)

    def writable(self, data: pa.Buffer) -> memoryview:
        """The bytes of a buffer of these batches, which the caller may change: where they are, if they are in a file
        that is mapped as a copy, else another copy."""
        for begin, mapped in self._mapped.items():
            if 0 <= data.address - begin < len(mapped):
                at = data.address - begin
                return memoryview(mapped)[at : at + data.size]
        return memoryview(bytearray(data))

    def _open(self, file: str) -> pa.Buffer:
        if self._storage is not None and not os.path.isabs(file):
            return self._storage.open(file)
        with open(file, "rb") as opened:
            mapped = mmap.mmap(opened.fileno(), 0, access=self._access)
        found = pa.py_buffer(mapped)
        if self._access == mmap.ACCESS_COPY:
            self._mapped[found.address] = mapped
        return found


class Spill:
    """Keeps rows of :data:`EXCHANGE` whose bytes are in them: the first ``most`` bytes in memory, the others in a file
    in ``folder``, which is deleted at the end of the ``with`` block. Raises ExecutionError if the folder cannot be
    written."""

    def __init__(self, folder: str, most: int):
        self._folder = folder
        self._left = most
        self._file: ScratchFile | None = None

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.delete()

    def keep(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows, to be read when all are kept."""
        self._left -= rows.column("data").nbytes
        if self._left >= 0 or rows.column("data").null_count:
            return rows
        if self._file is None:
            self._file = ScratchFile(self._folder, ".spill")
        positions = [self._file.append(data.as_buffer()) for data in rows.column("data")]
        self._file.flush()
        kept = {
            "file": pa.array([str(self._file.path)] * rows.num_rows, pa.string()),
            "position": pa.array(positions, pa.int64()),
            "data": pa.nulls(rows.num_rows, pa.binary()),
        }
        columns = [kept.get(name, rows.column(name)) for name in EXCHANGE.names]
        return pa.RecordBatch.from_arrays(columns, schema=EXCHANGE)


def split_by_edge(rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[EdgeId, pa.RecordBatch]]:
    """The rows of the exchange, which are sorted by :data:`ORDER`, each batch with the edge of all its rows."""
    for batch in rows:
        kinds, targets = (batch.column(name).to_numpy() for name in ("kind", "target"))
        changes = (np.diff(kinds, prepend=-1) != 0) | (np.diff(targets, prepend=-1) != 0)
        for start, end in pairwise([*np.flatnonzero(changes), kinds.size]):
            yield EdgeId(EdgeKind(kinds[start]), int(targets[start])), batch.slice(start, end - start)


def choose_edges(rows: pa.Table, kind: EdgeKind, *targets: int) -> pa.Table:
    """The rows that edges of a ``kind`` carry, of these ``targets``, or of all."""
    chosen = pc.equal(rows.column("kind"), pa.scalar(kind, pa.int8()))
    if targets:
        chosen = pc.and_(chosen, pc.is_in(rows.column("target"), pa.array(targets, pa.int32())))
    return rows.filter(chosen)


def concat_batches(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """One batch of all rows, in the order of the batches."""
    if len(batches) == 1:
        return batches[0]
    if batches:
        return pa.concat_batches(batches)
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
