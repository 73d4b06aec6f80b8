"""Segments: immutable sorted tables of state, several of which share a file.

A segment is an Arrow IPC stream of one batch: ``__hash`` (uint64, ascending), for multisets ``__row`` (uint64, the hash
of the values, ascending within a hash), for ordered tables ``__row`` (uint64, the place of the row, likewise), the
columns of the key as ``key.<name>`` and of the value as ``value.<name>``, for tables with times ``__seen`` (int64, when
the row was last written, in milliseconds since the epoch), and ``__weight`` (int64, multiset) or ``__present`` (bool,
others). It is not compressed, so that it is read where it is mapped into memory. The index of its hashes follows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.equality import RowIndices
from penstock.columns.hashing import Hashes
from penstock.columns.index import HashIndex
from penstock.errors import CheckpointError
from penstock.flow.state.storage import Storage, Write
from penstock.spi import bare_name, is_own_name, own_name

#: The version of the layout above, the hashes and the references.
VERSION = 1

HASH, ROW, SEEN, PRESENT, WEIGHT = "__hash", "__row", "__seen", "__present", "__weight"
_KEY, _VALUE = "key.", "value."
_ALIGNMENT = 64
#: The bytes of a row that is not wide.
_WIDE = 256

#: One more than the greatest hash.
END = 1 << 64

Kind: TypeAlias = Literal["keyed", "ordered", "multiset"]


@dataclass(frozen=True)
class TableSpec:
    """A table of an operator's state: its name, its key and value columns, and whether a key has one row (``keyed``),
    rows at places in an order (``ordered``), or rows with weights (``multiset``). ``exact``: no value columns may be
    added to it; a keyed one may lose some. ``timed``: the time of its last writing is kept with each row. With
    ``ttl_ms`` rows that were not written for that long have expired; ``side`` is the number of the operator's input
    whose time to live they have, None if they stay until the operator deletes them. ``parted``: there is such a table
    for each of several times (:mod:`penstock.flow.state.parts`). ``names`` has, by a column's name, its name in the
    segments where that differs: it had another when the first segments were written."""

    name: str
    key: pa.Schema
    value: pa.Schema
    kind: Kind
    timed: bool = False
    exact: bool = False
    side: int | None = 0
    ttl_ms: int | None = None
    parted: bool = False
    names: tuple[tuple[str, str], ...] = ()

    @property
    def replaces(self) -> bool:
        """Whether the newest row is the valid one. Else weights add up."""
        return self.kind != "multiset" or self.timed

    @property
    def has_second(self) -> bool:
        """Whether a second number distinguishes the rows of a key."""
        return self.kind != "keyed"

    def with_time_to_live(self, ttl_ms: int | None) -> TableSpec:
        """The table with that time to live; None for one that keeps its rows."""
        return replace(self, timed=ttl_ms is not None, ttl_ms=ttl_ms)

    def name_in_segments(self, names: Sequence[str]) -> list[str]:
        """The names of columns in the segments. Penstock's own columns begin with two underscores there: a user's
        column with the name of one of them gets another name."""
        known = dict(self.names)
        own = {each: f"__{bare_name(each)}" for each in (*self.key.names, *self.value.names) if is_own_name(each)}
        taken = set(own.values())
        found = []
        for each in names:
            name = known.get(each, each)
            found.append(own.get(each) or (own_name(name) if name in taken else name))
        return found

    def schema(self) -> pa.Schema:
        """The columns of its segments."""
        keys, values = (self.name_in_segments(each.names) for each in (self.key, self.value))
        return pa.schema(
            [
                pa.field(HASH, pa.uint64()),
                *([pa.field(ROW, pa.uint64())] if self.has_second else []),
                *(pa.field(_KEY + name, field.type) for name, field in zip(keys, self.key, strict=True)),
                *(pa.field(_VALUE + name, field.type) for name, field in zip(values, self.value, strict=True)),
                *([pa.field(SEEN, pa.int64())] if self.timed else []),
                pa.field(WEIGHT, pa.int64()) if self.kind == "multiset" else pa.field(PRESENT, pa.bool_()),
            ]
        )


@dataclass(frozen=True)
class SegmentRef:
    """A segment, as manifests name it: the bytes ``offset`` to ``offset + bytes`` of a file.

    The hashes from ``low`` to ``high`` (exclusive) are valid in it. Of two segments with the same hash, the one with
    the greater ``newest`` is newer.
    """

    file: str
    offset: int
    bytes: int
    #: How many rows are valid: exactly for a whole segment, approximately for a part.
    rows: int
    low: int
    high: int
    newest: int
    kind: Kind
    #: About how many rows, here and in older segments, they supersede.
    stale: int = 0
    #: About how many bytes a row has.
    width: int = 0
    #: When the last of the rows was written, in milliseconds since the epoch; 0 without times. For rows without times
    #: in a table that got them later: when it did.
    seen: int = 0
    #: Where the index of the hashes begins, from ``offset`` on.
    index: int = 0
    version: int = VERSION

    @property
    def weight(self) -> float:
        """Its rows; one that is wide counts as several."""
        return self.rows * max(1.0, self.width / _WIDE)

    def to_json(self) -> dict[str, Any]:
        """Its fields as a JSON object; bounds of hashes as hexadecimal text, which JSON's numbers do not hold."""
        return {**asdict(self), "low": f"{self.low:x}", "high": f"{self.high:x}"}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SegmentRef:
        """The reference that :meth:`to_json` wrote. Raises CheckpointError for one that is damaged, or of a newer
        version."""
        version = document.get("version")
        if isinstance(version, int) and version > VERSION:
            raise CheckpointError(
                f"the job's state has format {version}, and this version of penstock reads up to {VERSION}; run the "
                "newer version that wrote it"
            )
        names = {field.name for field in fields(cls)}
        try:
            values = {**document, "low": int(document["low"], 16), "high": int(document["high"], 16)}
            return cls(**{name: values[name] for name in names})
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"a reference to a segment of the job's state cannot be read: {error!r} in {dict(document)!r}; restore "
                "the checkpoint from a backup, or start with another checkpoint directory"
            ) from error

    def clip(self, low: int, high: int) -> SegmentRef | None:
        """The part with hashes from ``low`` to ``high`` (exclusive); None if there is none."""
        low, high = max(low, self.low), min(high, self.high)
        if (low, high) == (self.low, self.high):
            return self
        if low >= high:
            return None
        share = (high - low) / (self.high - self.low)
        return replace(self, low=low, high=high, rows=round(self.rows * share), stale=round(self.stale * share))


@dataclass(frozen=True, eq=False)
class Segment:
    """The rows of a segment, or of a change that is not written yet, by hash."""

    hashes: Hashes
    rows: pa.RecordBatch
    spec: TableSpec

    def __len__(self) -> int:
        return len(self.hashes)

    @classmethod
    def from_rows(cls, rows: pa.RecordBatch, spec: TableSpec) -> Segment:
        return cls(rows.column(0).to_numpy(), rows, spec)

    @property
    def second(self) -> Hashes:
        """The hashes of the values of a multiset, or the places of the rows of an ordered table."""
        found: Hashes = self.rows.column(1).to_numpy()
        return found

    @property
    def width(self) -> int:
        """The bytes of a row, about."""
        return int(self.rows.nbytes // max(1, len(self)))

    @cached_property
    def keys(self) -> Sequence[pa.Array]:
        first = 2 if self.spec.has_second else 1
        return tuple(self.rows.columns[first : first + len(self.spec.key)])

    @cached_property
    def values(self) -> Sequence[pa.Array]:
        first = (2 if self.spec.has_second else 1) + len(self.spec.key)
        return tuple(self.rows.columns[first : first + len(self.spec.value)])

    @property
    def identity(self) -> Sequence[pa.Array]:
        """The columns that no two rows, or none of one place, have in common: the key, and the values of a multiset."""
        return (*self.keys, *self.values) if self.spec.kind == "multiset" else self.keys

    @property
    def seen(self) -> npt.NDArray[np.int64]:
        """When each row of a table with times was last written, in milliseconds since the epoch."""
        found: npt.NDArray[np.int64] = self.rows.column(self.rows.num_columns - 2).to_numpy()
        return found

    @property
    def marks(self) -> pa.Array:
        """Whether each row is present, or its weight."""
        return self.rows.column(self.rows.num_columns - 1)

    def with_marks(self, chosen: RowIndices, marks: npt.NDArray[np.int64]) -> Segment:
        """These rows with other marks."""
        last = self.rows.num_columns - 1
        taken = self.rows.take(pa.array(chosen))
        return Segment.from_rows(taken.set_column(last, taken.schema.field(last), pa.array(marks)), self.spec)

    def clip(self, low: int, high: int) -> Segment:
        """The rows with hashes from ``low`` to ``high`` (exclusive)."""
        first = 0 if low <= 0 else int(np.searchsorted(self.hashes, np.uint64(low)))
        last = len(self) if high >= END else int(np.searchsorted(self.hashes, np.uint64(high)))
        if (first, last) == (0, len(self)):
            return self
        return Segment(self.hashes[first:last], self.rows.slice(first, max(last - first, 0)), self.spec)


class SegmentWriter:
    """Writes the new segments of one flush, one after the other, to one file: memory holds one of them at a time. When
    the context ends, they are durable. Without segments there is no file."""

    def __init__(self, storage: Storage, name: str):
        self._storage, self._name = storage, name
        self._context = ExitStack()
        self._write: Write | None = None
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._context.__exit__(*error)

    def add(self, segment: Segment, low: int, high: int, newest: int, stale: int) -> SegmentRef:
        """Write a segment of at least one row, and return the reference to it."""
        self._append(bytes(-self._size % _ALIGNMENT))
        offset = self._size
        content = _write_stream(segment.rows)
        self._append(content)
        for part in HashIndex.from_hashes(segment.hashes).parts():
            self._append(part)
        return SegmentRef(
            file=self._name,
            offset=offset,
            bytes=self._size - offset,
            rows=len(segment),
            stale=stale,
            low=low,
            high=high,
            newest=newest,
            kind=segment.spec.kind,
            width=segment.width,
            seen=int(segment.seen.max()) if segment.spec.timed else 0,
            index=content.size,
        )

    def _append(self, part: Any) -> None:
        if self._write is None:
            self._write = self._context.enter_context(self._storage.create(self._name))
        self._write(part)
        self._size += memoryview(part).nbytes


def _write_stream(rows: pa.RecordBatch) -> pa.Buffer:
    """Rows as an IPC stream, in a buffer of exactly its size: a growing one would be copied."""
    count = pa.MockOutputStream()
    with pa.ipc.new_stream(count, rows.schema) as stream:
        stream.write_batch(rows)
    content = pa.allocate_buffer(count.size())
    with pa.ipc.new_stream(pa.FixedSizeBufferWriter(content), rows.schema) as stream:
        stream.write_batch(rows)
    return content


class SegmentReader:
    """Opens segments of an operator, each file once. Where a table has times, rows without a time have the time of the
    reference. ``now_ms`` is the time of the batch."""

    def __init__(self, storage: Storage, uid: str, now_ms: int = 0):
        self._storage = storage
        self.now_ms = now_ms
        self._uid = uid
        self._files: dict[str, pa.Buffer] = {}
        self._opened: dict[tuple[str, int, int], tuple[Segment, HashIndex]] = {}

    def read(self, ref: SegmentRef, spec: TableSpec) -> Segment:
        """The valid rows of a segment, with the columns of ``spec``. Nothing is copied.

        Value columns that the segment does not have are null. Raises CheckpointError if its columns differ in another
        way, or if the file is damaged.
        """
        return self.read_indexed(ref, spec)[0].clip(ref.low, ref.high)

    def read_indexed(self, ref: SegmentRef, spec: TableSpec) -> tuple[Segment, HashIndex]:
        """As :meth:`read`, but with the rows outside of the valid range too, and the index of all of them."""
        key = ref.file, ref.offset, ref.seen
        found = self._opened.get(key)
        if found is None:
            found = self._opened[key] = self._read(ref, spec)
        return found

    def spec(self, ref: SegmentRef, name: str) -> TableSpec:
        """The columns of a segment as a table of this ``name``. Raises CheckpointError if it is damaged."""
        found = self._read_rows(ref).schema
        key, value = (
            pa.schema([field.with_name(field.name[len(prefix) :]) for field in found if field.name.startswith(prefix)])
            for prefix in (_KEY, _VALUE)
        )
        return TableSpec(name, key, value, ref.kind, SEEN in found.names)

    def _read(self, ref: SegmentRef, spec: TableSpec) -> tuple[Segment, HashIndex]:
        rows = self._read_rows(ref)
        try:
            index = HashIndex.read(self._read_content(ref).slice(ref.index))
        except ValueError as error:
            raise self._damaged_error(ref, str(error)) from error
        return Segment.from_rows(self._adapt_rows(rows, ref, spec), spec), index

    def _read_rows(self, ref: SegmentRef) -> pa.RecordBatch:
        try:
            with pa.ipc.open_stream(self._read_content(ref).slice(0, ref.index)) as stream:
                return stream.read_next_batch()
        except (pa.ArrowInvalid, OSError, StopIteration) as error:
            raise self._damaged_error(ref, str(error) or "it has no rows") from error

    def _read_content(self, ref: SegmentRef) -> pa.Buffer:
        content = self._files.get(ref.file)
        if content is None:
            content = self._files[ref.file] = self._storage.open(ref.file)
        end = ref.offset + ref.bytes
        if content.size < end:
            raise self._damaged_error(ref, f"it has {content.size} bytes instead of {end} or more")
        return content.slice(ref.offset, ref.bytes)

    def _adapt_rows(self, rows: pa.RecordBatch, ref: SegmentRef, spec: TableSpec) -> pa.RecordBatch:
        expected = spec.schema()
        if rows.schema.equals(expected):
            return rows
        self._compare(rows.schema, ref, spec)
        columns = [_read_column(rows, field, ref) for field in expected]
        return pa.RecordBatch.from_arrays(columns, schema=expected)

    def find_misfits(self, ref: SegmentRef, spec: TableSpec) -> list[str]:
        """How the columns of a segment differ from those of a table, beside value columns that were added. Raises
        CheckpointError if it is damaged."""
        return _find_differences(self._read_rows(ref).schema, ref, spec)

    def _compare(self, found: pa.Schema, ref: SegmentRef, spec: TableSpec) -> None:
        """Raises CheckpointError for columns that a start should have refused."""
        differences = _find_differences(found, ref, spec)
        if differences:
            raise CheckpointError(
                f"the state '{spec.name}' of the operator '{self._uid}' in the checkpoint does not fit the job: "
                f"{'; '.join(differences)}. Undo the change, or start with --reset-state '{self._uid}', or with "
                "another checkpoint directory"
            )

    def _damaged_error(self, ref: SegmentRef, reason: str) -> CheckpointError:
        return CheckpointError(
            f"'{ref.file}', part of the state of the operator '{self._uid}', cannot be read: {reason}; restore the "
            "checkpoint from a backup, or start with another checkpoint directory"
        )


def _read_column(rows: pa.RecordBatch, field: pa.Field, ref: SegmentRef) -> pa.Array:
    """A column of a table from the rows of a segment, which may lack it."""
    at = rows.schema.get_field_index(field.name)
    if at >= 0:
        return rows.column(at)
    return pa.array(np.full(len(rows), ref.seen)) if field.name == SEEN else pa.nulls(len(rows), field.type)


def _find_differences(found: pa.Schema, ref: SegmentRef, spec: TableSpec) -> list[str]:
    """How columns that are stored differ from those of a table, beside value columns that were added. What a table of
    groups no longer needs does not matter."""
    if ref.kind != spec.kind:
        return [f"its kind was {ref.kind}, now it is {spec.kind}"]
    if spec.kind == "multiset" and (SEEN in found.names) != spec.timed:
        return ["it had no time to live" if spec.timed else "it had a time to live"]
    expected, differences = spec.schema(), []
    for field in expected:
        at = found.get_field_index(field.name)
        if at >= 0 and found.field(at).type != field.type:
            differences.append(f"{_describe_column(field.name)} had the type {found.field(at).type}, now {field.type}")
        elif at < 0 and field.name != SEEN and (spec.exact or field.name.startswith(_KEY)):
            differences.append(f"{_describe_column(field.name)} is new: {field.type}")
    gone = [name for name in found.names if expected.get_field_index(name) < 0 and name != SEEN]
    if spec.exact and spec.kind == "keyed":
        gone = [name for name in gone if not name.startswith(_VALUE)]
    return [*differences, *(f"{_describe_column(name)} is gone" for name in gone)]


def _describe_column(column: str) -> str:
    if column.startswith(_KEY):
        return f"the key column '{column.removeprefix(_KEY)}'"
    return f"the value column '{column.removeprefix(_VALUE)}'" if column.startswith(_VALUE) else f"'{column}'"
