"""Tables with parts: one for each time, which comes with its first row and is dropped as a whole.

What windows keep is in parts, by the end of the window. To close one, its part is read whole and dropped: nothing else
is read, no row is deleted, and nothing is left to merge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.flow.state.ordered import OrderedState
from penstock.flow.state.segments import SegmentReader, SegmentRef, TableSpec
from penstock.flow.state.tables import KeyedState, MultisetState, Table

_MARK = "@"


class Tables(Protocol):
    """Tables by their names, each of which raises KeyError for one of another kind."""

    def keyed(self, name: str) -> KeyedState:
        """The table of that name with one row per key."""
        ...

    def multiset(self, name: str) -> MultisetState:
        """The table of that name with weights."""
        ...


def part_of(stored: str) -> tuple[str, int] | None:
    """The table and the time of a part, by its name in manifests; None for a table without parts."""
    name, mark, time = stored.rpartition(_MARK)
    return (name, int(time)) if mark and time.lstrip("-").isdecimal() else None


_KINDS: Mapping[str, type[Table]] = {"keyed": KeyedState, "ordered": OrderedState, "multiset": MultisetState}


def open_table(
    spec: TableSpec, refs: Sequence[SegmentRef], reader: SegmentReader, since: int = 0, *, last: bool = False
) -> Table:
    """The table of these segments."""
    return _KINDS[spec.kind](spec, refs, reader, since, last=last)


class Parts:
    """The parts of one operator's tables for one range of hashes."""

    def __init__(
        self,
        specs: Sequence[TableSpec],
        refs: Mapping[str, Sequence[SegmentRef]],
        low: int,
        high: int,
        reader: SegmentReader,
    ):
        self._specs = {spec.name: spec for spec in specs if spec.parted}
        self._reader = reader
        self._tables: dict[tuple[str, int], Table] = {}
        for stored, segments in refs.items():
            found = part_of(stored)
            own = [part for ref in segments if (part := ref.clip(low, high))]
            if found is not None and found[0] in self._specs and own:
                self._tables[found] = self._make_table(found[0], own)

    def _make_table(self, name: str, refs: Sequence[SegmentRef]) -> Table:
        return open_table(self._specs[name], refs, self._reader)

    def is_part(self, stored: str) -> bool:
        """Whether a name in manifests is the name of a part."""
        found = part_of(stored)
        return found is not None and found[0] in self._specs

    def table(self, name: str, time: int) -> Table:
        """A part, empty if there is none. Raises KeyError for a table without parts."""
        if (name, time) not in self._tables:
            self._tables[name, time] = self._make_table(name, ())
        return self._tables[name, time]

    def times(self, name: str) -> list[int]:
        """The times of the parts of a table, ascending."""
        return sorted(time for own, time in self._tables if own == name)

    def drop(self, time: int) -> None:
        """Drop the parts of all tables at a time."""
        for name in self._specs:
            self._tables.pop((name, time), None)

    def name_tables(self) -> dict[str, Table]:
        """The parts by their names in manifests."""
        return {f"{name}{_MARK}{time}": table for (name, time), table in self._tables.items()}


@dataclass(frozen=True, eq=False)
class PartStore:
    """The tables at one time."""

    parts: Parts
    time: int

    def keyed(self, name: str) -> KeyedState:
        table = self.parts.table(name, self.time)
        if not isinstance(table, KeyedState):
            raise KeyError(name)
        return table

    def multiset(self, name: str) -> MultisetState:
        table = self.parts.table(name, self.time)
        if not isinstance(table, MultisetState):
            raise KeyError(name)
        return table
