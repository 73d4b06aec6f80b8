"""The state of an operator: tables of rows by key, in segments, of which each batch adds one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import pyarrow as pa

from penstock.errors import CheckpointError
from penstock.flow.state.ordered import OrderedState
from penstock.flow.state.parts import Parts, PartStore, Tables, open_table
from penstock.flow.state.segments import END, SegmentReader, SegmentRef, SegmentWriter, TableSpec
from penstock.flow.state.storage import LocalStorage, Storage
from penstock.flow.state.tables import KeyedState, MultisetState, Table

__all__ = [
    "KeyedState",
    "MultisetState",
    "OrderedState",
    "PartStore",
    "SegmentRef",
    "StateStore",
    "TableSpec",
    "Tables",
]


class StateStore:
    """One task's access to the state of one operator in a batch: keys with hashes from ``low`` to ``high`` (exclusive).
    Each table sees what was written to it before, and writes the change of the batch once, when it is flushed.

    ``refs`` are the segments of each table, of this range and perhaps of others, which are ignored. Files that it
    writes are named ``prefix`` and something unique. ``uid`` is the operator's, for messages.

    Times to live are counted up to ``now_ms``, the time of the batch, which all of its owners and attempts share. What
    the ``last`` batch writes is not flushed.

    Raises CheckpointError for state in a table that the operator does not have.
    """

    def __init__(
        self,
        storage: Storage,
        specs: Sequence[TableSpec],
        refs: Mapping[str, Sequence[SegmentRef]],
        low: int,
        high: int,
        prefix: str,
        *,
        uid: str = "",
        now_ms: int = 0,
        last: bool = False,
    ):
        self._storage = storage
        self._low, self._high = low, high
        self._prefix = prefix
        reader = SegmentReader(storage, uid, now_ms)
        self._tables: dict[str, Table] = {}
        self._parts = Parts(specs, refs, low, high, reader)
        for spec in specs:
            if spec.parted:
                continue
            own = [part for ref in refs.get(spec.name, ()) if (part := ref.clip(low, high))]
            since = 0 if spec.ttl_ms is None else now_ms - spec.ttl_ms
            self._tables[spec.name] = open_table(spec, own, reader, since, last=last)
        unknown = [
            name
            for name, stored in refs.items()
            if stored and name not in self._tables and not self._parts.is_part(name)
        ]
        if unknown:
            raise CheckpointError(
                f"the operator '{uid}' has the state {', '.join(map(repr, unknown))} in the checkpoint, which the job "
                "does not keep any more. Undo the change, or start with --reset-state "
                f"'{uid}', or with another checkpoint directory"
            )
        new = [name for name in self._tables if refs and name not in refs]
        if new:
            raise CheckpointError(
                f"the operator '{uid}' has state in the checkpoint, but no {', '.join(map(repr, new))}, which would "
                "begin empty and make its results wrong. Undo the change, or start with --reset-state "
                f"'{uid}', or with another checkpoint directory"
            )

    @classmethod
    def empty(cls, specs: Sequence[TableSpec]) -> StateStore:
        """Empty tables that are not kept: the state of one batch alone."""
        return cls(LocalStorage(""), specs, {}, 0, END, "", last=True)

    def table(self, name: str) -> Table:
        """The table of that name. Raises KeyError."""
        return self._tables[name]

    def keyed(self, name: str) -> KeyedState:
        """The table of that name with one row per key. Raises KeyError."""
        table = self._tables[name]
        if not isinstance(table, KeyedState):
            raise KeyError(name)
        return table

    def ordered(self, name: str) -> OrderedState:
        """The table of that name with rows at places in an order. Raises KeyError."""
        table = self._tables[name]
        if not isinstance(table, OrderedState):
            raise KeyError(name)
        return table

    def multiset(self, name: str) -> MultisetState:
        """The table of that name with weights. Raises KeyError."""
        table = self._tables[name]
        if not isinstance(table, MultisetState):
            raise KeyError(name)
        return table

    def part(self, time: int) -> PartStore:
        """The parts of tables at ``time``."""
        return PartStore(self._parts, time)

    def times(self, name: str) -> list[int]:
        """The times at which the table of that name has a part, ascending."""
        return self._parts.times(name)

    def drop(self, time: int) -> None:
        """Drop the parts of all tables at ``time``, with everything in them."""
        self._parts.drop(time)

    def flush(self) -> Mapping[str, Sequence[SegmentRef]]:
        """Write the changes of all tables as one file, and return the segments that the state of this range consists of
        from now on. When the call returns, they are durable."""
        tables = self._tables | self._parts.name_tables()
        with SegmentWriter(self._storage, f"{self._prefix}{uuid.uuid4().hex}.arrow") as writer:
            result = {name: table.flush(writer, self._low, self._high) for name, table in tables.items()}
        pa.default_memory_pool().release_unused()  # merges have used much
        return result
