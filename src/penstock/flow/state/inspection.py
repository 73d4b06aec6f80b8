"""State as tables to read, and how large it is: what ``penstock state`` shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.flow.state.compaction import split_stacks
from penstock.flow.state.merging import merge_segments
from penstock.flow.state.segments import END, SEEN, WEIGHT, Segment, SegmentReader, SegmentRef, TableSpec
from penstock.flow.state.storage import Storage

#: About how many stored rows are read at once.
_ROWS = 1 << 18


@dataclass(frozen=True)
class TableSize:
    """How large a table is: its approximate number of rows, as superseded rows may not have been merged yet; the bytes
    of its segments, and their number."""

    rows: int
    bytes: int
    segments: int

    @classmethod
    def from_segments(cls, refs: Sequence[SegmentRef]) -> TableSize:
        segments = {(ref.file, ref.offset): ref.bytes for ref in refs}
        return cls(sum(max(0, ref.rows - ref.stale) for ref in refs), sum(segments.values()), len(segments))

    def __add__(self, other: TableSize) -> TableSize:
        return TableSize(self.rows + other.rows, self.bytes + other.bytes, self.segments + other.segments)


def size_of(tables: Mapping[str, Sequence[SegmentRef]]) -> TableSize:
    """How large all tables of an operator are."""
    return sum((TableSize.from_segments(refs) for refs in tables.values()), TableSize(0, 0, 0))


def read_spec(storage: Storage, refs: Sequence[SegmentRef], name: str, uid: str = "") -> TableSpec | None:
    """The columns of a table as its newest segment has them; None for a table without segments. Raises
    CheckpointError if the segment cannot be read."""
    if not refs:
        return None
    return SegmentReader(storage, uid).spec(max(refs, key=lambda ref: ref.newest), name)


def read_rows(
    storage: Storage, refs: Sequence[SegmentRef], spec: TableSpec, uid: str = "", since: int = 0
) -> Iterator[pa.RecordBatch]:
    """The rows of a table, by the hashes of their keys: its key columns, its value columns, and ``__weight`` for
    multisets and ``__seen`` for tables with times. Columns of the key and of the value may have the same name.

    Rows that were last written at ``since`` or before are left out. Memory is needed for a part of the table only.
    Raises CheckpointError if a segment does not fit ``spec`` or is damaged.
    """
    reader = SegmentReader(storage, uid)
    for low, high, stack in split_stacks(refs, _ROWS):
        parts = [reader.read(ref, spec).clip(low, high) for ref in stack]
        whole = merge_segments(parts, spec, oldest=True, since=since)
        if len(whole):
            yield _show_rows(whole)


def count_keys(storage: Storage, refs: Sequence[SegmentRef], spec: TableSpec, uid: str = "") -> int:
    """How many keys a table has. For a large table this is estimated from a part of it, since the hashes of keys are
    spread evenly. Raises CheckpointError as :func:`read_rows` does."""
    share = max(1, TableSize.from_segments(refs).rows // _ROWS)
    some = [part for ref in refs if (part := ref.clip(0, END // share))]
    reader, found = SegmentReader(storage, uid), 0
    for low, high, stack in split_stacks(some, _ROWS):
        parts = [reader.read(ref, spec).clip(low, high) for ref in stack]
        found += len(np.unique(merge_segments(parts, spec, oldest=True).hashes))
    return found * share


def _show_rows(segment: Segment) -> pa.RecordBatch:
    spec = segment.spec
    columns, fields = [*segment.keys, *segment.values], [*spec.key, *spec.value]
    if spec.kind == "multiset":
        columns.append(segment.marks)
        fields.append(pa.field(WEIGHT, pa.int64()))
    if spec.timed:
        columns.append(pa.array(segment.seen))
        fields.append(pa.field(SEEN, pa.int64()))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def find_oldest_seen(storage: Storage, refs: Sequence[SegmentRef], spec: TableSpec, uid: str = "") -> int | None:
    """When the oldest row was written, in milliseconds since the epoch; None without times or without rows."""
    if not spec.timed:
        return None
    times = (np.asarray(batch.column(SEEN)).min() for batch in read_rows(storage, refs, spec, uid))
    return min(map(int, times), default=None)
