"""A human-readable description of the state in a checkpoint or a savepoint: how large it is, and its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.engine.checkpoint.committed import STATE, read_committed
from penstock.engine.checkpoint.documents import JobCheckpoint
from penstock.engine.checkpoint.savepoints import read_savepoint
from penstock.flow.state.inspection import TableSize, count_keys, find_oldest_seen, read_rows, read_spec
from penstock.flow.state.manifest import Manifest
from penstock.flow.state.segments import SEEN, WEIGHT, SegmentRef
from penstock.flow.state.storage import Storage
from penstock.flow.time.watermarks import OperatorTime

#: The names shown for the state's internal columns.
_OWN = {WEIGHT: "(times)", SEEN: "(last change)"}


@dataclass(frozen=True)
class TableState:
    """A table of a step: its key columns, about how many keys it has, how large it is, and when its oldest row was
    written, in milliseconds since the epoch (None without times to live)."""

    name: str
    key: tuple[str, ...]
    keys: int
    size: TableSize
    oldest_ms: int | None


@dataclass(frozen=True)
class StepState:
    """The state of a step, and what it has seen of event time."""

    uid: str
    tables: tuple[TableState, ...]
    time: OperatorTime


@dataclass(frozen=True)
class JobState:
    """The state of a job after a batch."""

    job: str
    batch: int
    storage: Storage
    operators: Mapping[str, Mapping[str, Sequence[SegmentRef]]]
    steps: tuple[StepState, ...]

    def rows(self, uid: str, table: str) -> tuple[tuple[str, ...], Iterator[tuple[Any, ...]]]:
        """The names of the columns of a table, and its rows in no order: the key's columns, the value's columns, then
        the count of rows that may repeat, and the time of the last change of rows with a time to live. Raises
        CheckpointError for files that are missing or damaged."""
        refs = self.operators[uid][table]
        spec = read_spec(self.storage, refs, table, uid)
        if spec is None:
            return (), iter(())
        own = [*([WEIGHT] if spec.kind == "multiset" else []), *([SEEN] if spec.timed else [])]
        names = (*spec.key.names, *spec.value.names, *(_OWN[each] for each in own))

        def rows() -> Iterator[tuple[Any, ...]]:
            for batch in read_rows(self.storage, refs, spec, uid):
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

        return names, rows()


def job_state(place: JobCheckpoint) -> JobState:
    """The state of the checkpoint or the savepoint at ``place``. Raises CheckpointError if there is neither."""
    found = read_committed(place) if place.read("job") is not None else read_savepoint(place).content
    storage = Storage.from_uri(place.folder(STATE))
    manifest = Manifest.read(storage, found.state)
    operators, times = manifest.operators, manifest.operator_times
    steps = (
        StepState(
            uid,
            tuple(_table(storage, uid, name, refs) for name, refs in tables.items()),
            times.get(uid, OperatorTime()),
        )
        for uid, tables in sorted(operators.items())
    )
    return JobState(found.job, found.batch, storage, operators, tuple(steps))


def _table(storage: Storage, uid: str, name: str, refs: Sequence[SegmentRef]) -> TableState:
    spec = read_spec(storage, refs, name, uid)
    size = TableSize.from_segments(refs)
    if spec is None:
        return TableState(name, (), 0, size, None)
    keys = count_keys(storage, refs, spec, uid)
    return TableState(name, tuple(spec.key.names), keys, size, find_oldest_seen(storage, refs, spec, uid))
