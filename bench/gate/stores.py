"""COUNT and SUM over a kept embedded store (RocksDB, through rocksdict) and over penstock's segments: the same operator
behind the same interface, in this process.

RocksDB has its best case: the keys of a batch are asked for in one call and in its order, a batch is one write, and
nothing is kept by which one could return to the batch before, which exactly-once needs.

``BENCH_ROCKSDICT`` is the folder (a site-packages) with rocksdict, where Python does not find it by itself.
"""

from __future__ import annotations

import importlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.equality import Flags
from penstock.columns.hashing import Groups, key_hashes
from penstock.flow.operators.aggregate import GroupAggregateOperator
from penstock.flow.operators.nested import run_nested
from penstock.flow.rows.envelope import HASH, WEIGHT
from penstock.flow.state.segments import END
from penstock.flow.state.storage import Storage
from penstock.flow.state.store import SegmentRef, StateStore, TableSpec
from penstock.plan.nodes import AggregateCall, GroupAggregate, Node
from penstock.types import BIGINT, DOUBLE, Field, RowType

#: What is measured.
PARTS = ("get", "put", "flush", "whole operator")
_MEMTABLE = 64 << 20
_T = TypeVar("_T")
_TOTALS = RowType((Field("user_id", BIGINT), Field("n", BIGINT), Field("s", DOUBLE)))


class Table(Protocol):
    """A table with one row per key, as :class:`penstock.flow.state.store.KeyedState`."""

    def get(self, groups: Groups) -> tuple[Flags, pa.RecordBatch]: ...

    def put(self, groups: Groups, values: pa.RecordBatch, present: Flags) -> None: ...


class State(Protocol):
    """The state of one batch, as :class:`penstock.flow.state.store.StateStore`."""

    def keyed(self, name: str) -> Table: ...

    def flush(self) -> object: ...


@dataclass(eq=False)
class Timed:
    """A state whose calls are timed, in seconds."""

    state: State
    seconds: dict[str, float]

    def keyed(self, name: str) -> Table:
        """The table of that name."""
        return _TimedTable(self.state.keyed(name), self.seconds)

    def flush(self) -> object:
        """Write the changes."""
        return _time_call(self.seconds, "flush", self.state.flush)


@dataclass(eq=False)
class _TimedTable:
    table: Table
    seconds: dict[str, float]

    def get(self, groups: Groups) -> tuple[Flags, pa.RecordBatch]:
        return _time_call(self.seconds, "get", lambda: self.table.get(groups))

    def put(self, groups: Groups, values: pa.RecordBatch, present: Flags) -> None:
        _time_call(self.seconds, "put", lambda: self.table.put(groups, values, present))


def _time_call(seconds: dict[str, float], part: str, run: Callable[[], _T]) -> _T:
    begun = time.perf_counter()
    result = run()
    seconds[part] = seconds.get(part, 0.0) + time.perf_counter() - begun
    return result


@dataclass(eq=False)
class Segments:
    """penstock's state over the batches of one owner of all keys."""

    folder: str
    specs: Sequence[TableSpec]
    _refs: dict[str, Sequence[SegmentRef]] = field(default_factory=dict)

    def begin(self) -> State:
        """The state of the next batch."""
        store = StateStore(Storage.from_uri(self.folder), self.specs, self._refs, 0, END, "gate-")
        return cast(State, _Kept(store, self))

    def collect(self) -> None:
        """Delete what the last batch made superfluous."""
        live = {ref.file for refs in self._refs.values() for ref in refs}
        storage = Storage.from_uri(self.folder)
        for each in list(storage.files()):
            if each.name not in live:
                storage.delete(each.name)


@dataclass(eq=False)
class _Kept:
    store: StateStore
    segments: Segments

    def keyed(self, name: str) -> Table:
        return self.store.keyed(name)

    def flush(self) -> None:
        self.segments._refs = dict(self.store.flush())


@dataclass(eq=False)
class Embedded:
    """RocksDB over the batches of one owner of all keys. Tables have one row per key, of numbers."""

    folder: str
    specs: Sequence[TableSpec]

    def __post_init__(self) -> None:
        self._library: Any = _rocksdict()
        library = self._library
        options = library.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(_MEMTABLE)
        options.set_compression_type(library.DBCompressionType.none())
        blocks = library.BlockBasedOptions()
        blocks.set_bloom_filter(10, False)
        blocks.set_block_cache(library.Cache(512 << 20))
        options.set_block_based_table_factory(blocks)
        self._base = library.Rdict(self.folder, options)
        self._synced = library.WriteOptions()
        self._synced.sync = True

    def begin(self) -> State:
        """The state of the next batch."""
        batch = self._library.WriteBatch(raw_mode=True)
        tables = {spec.name: _EmbeddedTable(self._base, batch, spec, at) for at, spec in enumerate(self.specs)}
        return _EmbeddedState(tables, lambda: self._base.write(batch, self._synced))

    def collect(self) -> None:
        """RocksDB deletes by itself what it does not need."""


@dataclass(frozen=True, eq=False)
class _EmbeddedState:
    tables: dict[str, _EmbeddedTable]
    write: Callable[[], object]

    def keyed(self, name: str) -> Table:
        return self.tables[name]

    def flush(self) -> None:
        self.write()


@dataclass(eq=False)
class _EmbeddedTable:
    """One table: its number, the hash and the columns of the key lead to the columns of the row."""

    base: Any
    batch: Any
    spec: TableSpec
    number: int

    def __post_init__(self) -> None:
        self._key = np.dtype([("table", "u1"), ("hash", ">u8"), *_cells(self.spec.key)])
        self._row = np.dtype(_cells(self.spec.value))

    def get(self, groups: Groups) -> tuple[Flags, pa.RecordBatch]:
        rows = self.base.get(self._keys(groups))
        found = np.fromiter((row is not None for row in rows), np.bool_, len(rows))
        nothing = bytes(self._row.itemsize)
        cells = np.frombuffer(b"".join(nothing if row is None else row for row in rows), self._row)
        columns = [
            pa.array(cells[f"v{at}"], each.type, mask=~(found & (cells[f"p{at}"] != 0)), from_pandas=False)
            for at, each in enumerate(self.spec.value)
        ]
        return found, pa.RecordBatch.from_arrays(columns, schema=self.spec.value)

    def put(self, groups: Groups, values: pa.RecordBatch, present: Flags) -> None:
        cells = np.zeros(len(groups), self._row)
        _fill(cells, values)
        put, delete = self.batch.put, self.batch.delete
        for key, row, stays in zip(self._keys(groups), _pieces(cells), present.tolist(), strict=True):
            if stays:
                put(key, row)
            else:
                delete(key)

    def _keys(self, groups: Groups) -> list[bytes]:
        cells = np.zeros(len(groups), self._key)
        cells["table"], cells["hash"] = self.number, groups.hashes
        _fill(cells, groups.keys)
        return _pieces(cells)


def _cells(schema: pa.Schema) -> list[tuple[str, Any]]:
    """Of each column whether it is present, and its value."""
    return [
        cell
        for at, each in enumerate(schema)
        for cell in ((f"p{at}", "u1"), (f"v{at}", np.dtype(each.type.to_pandas_dtype())))
    ]


def _fill(cells: npt.NDArray[Any], rows: pa.RecordBatch) -> None:
    for at, column in enumerate(rows.columns):
        cells[f"p{at}"] = column.is_valid().to_numpy(zero_copy_only=False)
        cells[f"v{at}"] = (column.fill_null(0) if column.null_count else column).to_numpy()


def _pieces(cells: npt.NDArray[Any]) -> list[bytes]:
    """The bytes of each cell, zeros at their end too."""
    data, size = cells.tobytes(), cells.dtype.itemsize
    return [data[at : at + size] for at in range(0, len(data), size)]


# --- measuring -----------------------------------------------------------------------------------------------------


def missing() -> str:
    """What is missing to measure, if anything is."""
    try:
        _rocksdict()
    except ImportError:
        return "set BENCH_ROCKSDICT (a site-packages with rocksdict)"
    return ""


def compare(keys: int, rows: int, rounds: int) -> dict[str, dict[str, float]]:
    """Median seconds of each part for a batch of ``rows`` over state with ``keys`` keys, by store. Raises
    AssertionError if the results of the stores differ."""
    calls = (AggregateCall("n", "COUNT", BIGINT), AggregateCall("s", "SUM", DOUBLE, "amount"))
    columns = RowType((Field("user_id", BIGINT), Field("amount", DOUBLE)))
    node = GroupAggregate(_TOTALS, Node(columns), ("user_id",), calls, uid="totals")
    operator = GroupAggregateOperator.from_node(node, retracts=False)
    random = np.random.default_rng(6)
    found: dict[str, list[dict[str, float]]] = {"penstock": [], "rocksdict": []}
    with tempfile.TemporaryDirectory(prefix="penstock-gate-") as folder:
        stores: dict[str, Segments | Embedded] = {
            "penstock": Segments(str(Path(folder, "segments")), operator.tables),
            "rocksdict": Embedded(str(Path(folder, "rocks")), operator.tables),
        }
        order = random.permutation(keys)
        batches = [_batch(order[at : at + rows], random) for at in range(0, keys, rows)]
        filling = len(batches)
        batches += [_batch(random.integers(0, keys, rows), random) for _ in range(rounds + 1)]
        for number, batch in enumerate(batches):
            results = []
            for name, store in stores.items():
                seconds = dict.fromkeys(PARTS, 0.0)
                state = Timed(store.begin(), seconds)
                begun = time.perf_counter()
                results.append(run_nested(operator, [batch], cast(StateStore, state)))
                state.flush()
                seconds["whole operator"] = time.perf_counter() - begun
                store.collect()
                if number > filling:
                    found[name].append(seconds)
            assert results[0].equals(results[1]), "the stores gave different results"
    return {
        name: {part: statistics.median(each[part] for each in taken) for part in PARTS} for name, taken in found.items()
    }


def _batch(users: npt.NDArray[np.int64], random: np.random.Generator) -> pa.RecordBatch:
    user = pa.array(users)
    columns = {
        "user_id": user,
        "amount": pa.array(random.integers(0, 1000, len(users)) / 4),
        WEIGHT: pa.array(np.ones(len(users), np.int64)),
        HASH: pa.array(key_hashes([user])),
    }
    return pa.RecordBatch.from_pydict(columns)


def _rocksdict() -> Any:
    """The library. Raises ImportError."""
    folder = os.environ.get("BENCH_ROCKSDICT")
    if folder and folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module("rocksdict")
