"""Random changelogs, and operators run over them in batches with a changing number of owners."""

from __future__ import annotations

import itertools
import math
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.columns.hashing import key_hashes
from penstock.flow.operators.contract import Input, Operator
from penstock.flow.operators.nested import run_nested
from penstock.flow.rows.envelope import HASH, WEIGHT
from penstock.flow.state.merging import merge_segments
from penstock.flow.state.segments import SegmentReader
from penstock.flow.state.storage import Storage, StoredFile, Write
from penstock.flow.state.store import SegmentRef, StateStore, TableSpec
from penstock.spi import KIND
from penstock.types import RowKind

_SEEDS = [int(each) for each in os.environ.get("SEEDS", "50").split(":")]

#: The random examples that each property is tried on: ``SEEDS=1000`` or ``SEEDS=200:400`` in the environment for
#: others, which are tried in more ways.
SEEDS = range(*_SEEDS)
#: Those of whole programs, each of which takes as long as several of an operator by itself.
PROGRAM_SEEDS = SEEDS if "SEEDS" in os.environ else SEEDS[:16]
#: In how many ways changelogs are cut into batches, and the first example for which three of them are enough.
_WAYS, _QUICK = 20, 50

Row = tuple[Any, ...]
#: A row with its weight, or with its RowKind.
Change = tuple[Row, int]


class Example(random.Random):
    """The random numbers of an example, and in how many ways its changelogs are cut."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.ways = 2 if "SEEDS" not in os.environ else _WAYS if seed < _QUICK else 3


def random_changes(
    rng: random.Random, row: Callable[[], Row], length: int, *, retracts: bool = True, drained: bool = False
) -> list[Change]:
    """Rows that are added, and with ``retracts`` retracted while they are live. ``drained``: in the end all are."""
    live: list[Row] = []
    changes = []
    deletions = rng.choice([0.2, 0.45, 0.6]) if retracts else 0.0
    for _ in range(length):
        if live and rng.random() < deletions:
            changes.append((live.pop(rng.randrange(len(live))), -1))
        else:
            live.append(row())
            changes.append((live[-1], 1))
    if drained:
        rng.shuffle(live)
        changes += [(each, -1) for each in live]
    return changes


def random_upserts(
    rng: random.Random, keys: int, row: Callable[[int], Row], length: int, *, full: bool, drained: bool = False
) -> list[Change]:
    """Changes of rows by key with their kinds, some of them repeated. ``row`` makes a row of a key. With ``full``
    updates have their former rows and deletions too, else rows that are null but for the key, which is first."""
    live: dict[int, Row] = {}
    changes: list[Change] = []
    order = [rng.randrange(keys) for _ in range(length)] + (list(range(keys)) if drained else [])
    for step, key in enumerate(order):
        before = len(changes)
        old = live.get(key)
        if step >= length or rng.random() < 0.3:
            if old is not None or not full:
                changes.append((live.pop(key) if full else _tombstone(row(key)), RowKind.DELETE))
                live.pop(key, None)
        else:
            new = row(key)
            if old is not None and full:
                changes.append((old, RowKind.UPDATE_BEFORE))
            changes.append((new, RowKind.INSERT if old is None and full else RowKind.UPDATE_AFTER))
            live[key] = new
        if rng.random() < 0.1:
            changes += changes[before:]
    return changes


def _tombstone(row: Row) -> Row:
    return (row[0], *(None for _ in row[1:]))


def cuts(rng: Example, length: int) -> list[list[int]]:
    """Positions at which a changelog is cut in some of the ways, which are: all rows in one batch, one row a batch, and
    others by chance. With three ways, there is one of each."""
    chance = _WAYS - 2 if rng.ways != 3 else 1
    by_chance = [sorted(rng.sample(range(length + 1), min(length, rng.randrange(1, 9)))) for _ in range(chance)]
    return rng.sample([[], *by_chance, list(range(1, length))], rng.ways)


def batches(changes: Sequence[Change], cut: Sequence[int]) -> list[list[Change]]:
    """The changes in batches."""
    ends = [0, *cut, len(changes)]
    return [list(changes[first:last]) for first, last in itertools.pairwise(ends)]


class MemoryStorage(Storage):
    """Files of state in this process."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}

    @property
    def place(self) -> str:
        return "memory"

    @contextmanager
    def create(self, name: str) -> Iterator[Write]:
        assert name not in self.content
        parts: list[bytes] = []
        yield lambda part: parts.append(bytes(part))
        self.content[name] = b"".join(parts)

    def open(self, name: str) -> pa.Buffer:
        return pa.py_buffer(self.content[name])

    def files(self) -> Iterable[StoredFile]:  # type: ignore[override]
        return (StoredFile(name, len(content), 0) for name, content in self.content.items())

    def delete(self, name: str) -> None:
        self.content.pop(name, None)


@dataclass
class Runner:
    """An operator with its state, between batches."""

    operator: Operator
    rng: random.Random
    #: The times to live of its inputs, in ms, and the time.
    ttls: tuple[int | None, ...] = ()
    now_ms: int = 0
    #: The rows that its result consists of.
    live: Counter[Row] = field(default_factory=Counter)
    _storage: MemoryStorage = field(default_factory=MemoryStorage)
    _refs: dict[str, list[SegmentRef]] = field(default_factory=dict)

    def run(self, *inputs: Sequence[Change]) -> list[Change]:
        """Process one batch per input, by a random number of owners, and return the change of the result.

        Raises AssertionError if the change is not a net change of the rows that are live.
        """
        plain = [each for each in self.operator.inputs if each.combiner is None]
        given = self._combined([record_batch(rows, each) for rows, each in zip(inputs, plain, strict=True)])
        alone = sum(map(len, inputs)) < 2
        owners = self.rng.choice([1, 1, 1, 1, 1, 1, 1, 2] if alone else [1, 1, 1, 2, 3, 5])
        refs: dict[str, list[SegmentRef]] = {}
        changes: list[Change] = []
        for owner in range(owners):
            low, high = (-(-each * (1 << 32) // owners) << 32 for each in (owner, owner + 1))
            state = StateStore(
                self._storage, self._tables, self._refs, low, high, "test-", uid="test", now_ms=self.now_ms
            )
            out = run_nested(self.operator, [_owned(each, owner, owners) for each in given], state)
            assert out.schema.names == [*self.operator.schema.names, WEIGHT]
            assert out.select(self.operator.schema.names).schema.types == self.operator.schema.types
            for name, new in state.flush().items():
                refs.setdefault(name, []).extend(new)
            changes += self._applied(out)
        self._refs = refs
        return changes

    def _combined(self, given: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """All inputs: where the operator takes rows that were combined, random parts of the rows are."""
        inputs, left = [], iter(given)
        for each in self.operator.inputs:
            if each.combiner is None:
                inputs.append(next(left))
                continue
            rows = inputs[-1]
            first, second = sorted(self.rng.randrange(len(rows) + 1) for _ in range(2))
            parts = [rows.slice(0, first), rows.slice(first, second - first)]
            groups = [each.combiner.combine(part) for part in parts]
            inputs[-1] = pa.concat_batches(
                [*(part for part, made in zip(parts, groups, strict=True) if made is None), rows.slice(second)]
            )
            made = [group for group in groups if group is not None]
            inputs.append(pa.concat_batches(made) if made else record_batch([], each))
        return inputs

    @property
    def _tables(self) -> list[TableSpec]:
        tables = self.operator.tables
        return [each.with_time_to_live(self.ttls[each.side]) if self.ttls else each for each in tables]

    def segment_rows(self) -> int:
        """How many rows the segments of the state have, those among them that were superseded or forgotten."""
        return sum(ref.rows for refs in self._refs.values() for ref in refs)

    def stored(self) -> dict[str, int]:
        """How many rows each table of the state has."""
        reader, sizes = SegmentReader(self._storage, "test"), {}
        for spec in self._tables:
            refs = sorted(self._refs.get(spec.name, []), key=lambda ref: -ref.newest)
            segments = [reader.read(ref, spec) for ref in refs]
            sizes[spec.name] = len(merge_segments(segments, spec, oldest=True)) if segments else 0
        return sizes

    def _applied(self, out: pa.RecordBatch) -> list[Change]:
        changes = changes_of(out)
        signs: dict[Row, int] = {}
        for at, (row, weight) in enumerate(changes):
            assert weight
            assert weight > 0 or at == 0 or changes[at - 1][1] < 0, "retractions come before additions"
            assert signs.setdefault(row, weight) * weight > 0, f"{row} is retracted and added"
            self.live[row] += weight
            assert self.live[row] >= 0 or self.ttls, f"{row} is retracted, and is not live"
            if not self.live[row]:
                del self.live[row]
        return changes


def record_batch(changes: Sequence[Change], given: Input) -> pa.RecordBatch:
    """The batch of an input."""
    columns = [pa.array([row[at] for row, _ in changes], kind.type) for at, kind in enumerate(given.schema)]
    by_name = dict(zip(given.schema.names, columns, strict=True))
    marks = [mark for _, mark in changes]
    mark = pa.array(marks, pa.int8()) if given.kinds else pa.array(marks, pa.int64())
    hashes = pa.array(key_hashes([by_name[key] for key in given.keys], len(changes)), pa.uint64())
    return pa.RecordBatch.from_arrays(
        [*columns, mark, hashes], names=[*given.schema.names, KIND if given.kinds else WEIGHT, HASH]
    )


def _owned(batch: pa.RecordBatch, owner: int, owners: int) -> pa.RecordBatch:
    hashes = batch.column(HASH).to_numpy()
    return batch.filter(pa.array((hashes >> np.uint64(32)) * np.uint64(owners) >> np.uint64(32) == owner))


def changes_of(out: pa.RecordBatch) -> list[Change]:
    """The rows of an operator with their weights."""
    columns = [column.to_pylist() for column in out.columns[:-1]]
    rows = zip(*columns, strict=True) if columns else [()] * len(out)
    return [(comparable(row), weight) for row, weight in zip(rows, out.column(WEIGHT).to_pylist(), strict=True)]


def comparable(row: Iterable[Any]) -> Row:
    """A row that can be in a set, and equals another if the values are the same, NaN among them."""
    return tuple(_hashable(value) for value in row)


def _hashable(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, dict):
        return tuple((key, _hashable(each)) for key, each in value.items())
    return comparable(value) if isinstance(value, list | tuple) else value


def multiset(changes: Iterable[Change]) -> Counter[Row]:
    """The rows that are left."""
    live: Counter[Row] = Counter()
    for row, weight in changes:
        live[comparable(row)] += weight
    assert all(weight >= 0 for weight in live.values())
    return +live


def check(
    operator: Operator,
    rng: Example,
    changelogs: Sequence[Sequence[Change]],
    expected: Mapping[Row, int],
    *,
    empty: bool = False,
) -> None:
    """Run an operator over changelogs, one per input, cut in each of the ways. Raises AssertionError if the result is
    not ``expected`` in one of them, or if with ``empty`` there are rows in its state."""
    ways = [cuts(rng, len(changes)) for changes in changelogs]
    for way in range(rng.ways):
        runner = Runner(operator, rng)
        parts = [batches(changes, ways[at][way]) for at, changes in enumerate(changelogs)]
        for step in range(max(len(each) for each in parts)):
            runner.run(*(each[step] if step < len(each) else [] for each in parts))
        assert runner.live == expected, f"cut at {[each[way] for each in ways]}"
        assert not empty or not any(runner.stored().values()), f"left in the state: {runner.stored()}"
