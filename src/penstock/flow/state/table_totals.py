"""How many rows a job has read of each table, and how many records it has left out, in all its batches.

A manifest has those of a few tables in it. Once they are many, they go to a file, and files of about one size become
one. So what a batch writes depends on the tables that it reads, and little on how many there are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from penstock.flow.state.storage import Storage

#: The most tables in a manifest.
_MOST_RECENT = 64


class Total(NamedTuple):
    """The rows that were read of a table, and the records that were left out."""

    rows: int = 0
    refused: int = 0


def count_totals(rows: Mapping[str, int], refused: Mapping[str, int]) -> dict[str, Total]:
    """The rows and the records left out of a batch, by table."""
    return {table: Total(rows.get(table, 0), refused.get(table, 0)) for table in {**rows, **refused}}


def add_totals(one: Mapping[str, Total], other: Mapping[str, Total]) -> dict[str, Total]:
    """The sums of both, by table."""
    found = dict(one)
    for table, (rows, refused) in other.items():
        had = found.get(table, Total())
        found[table] = Total(had.rows + rows, had.refused + refused)
    return found


@dataclass(frozen=True)
class TotalsFile:
    """A file with what some batches have read, and the number of tables in it."""

    name: str
    tables: int


@dataclass(frozen=True)
class TableTotals:
    """The totals after a batch: the sum of those in ``files`` of a storage and of the ``recent`` ones. Records whose
    table is not known are under an empty name."""

    files: tuple[TotalsFile, ...] = ()
    recent: Mapping[str, Total] = field(default_factory=dict)

    def add(self, storage: Storage, counts: Mapping[str, Total], name: str) -> TableTotals:
        """The totals after a batch with these ``counts``. Where they need a file, it has this ``name``. Raises
        CheckpointError."""
        recent = add_totals(self.recent, counts)
        if len(recent) <= _MOST_RECENT:
            return TableTotals(self.files, recent)
        files = list(self.files)
        while files and files[-1].tables < 2 * len(recent):
            recent = add_totals(_read_file(storage, files.pop().name), recent)
        _write_file(storage, name, recent)
        return TableTotals((*files, TotalsFile(name, len(recent))))

    def read(self, storage: Storage) -> dict[str, Total]:
        """The totals by table. Raises CheckpointError if a file is missing."""
        found: dict[str, Total] = {}
        for each in self.files:
            found = add_totals(found, _read_file(storage, each.name))
        return add_totals(found, self.recent)

    def to_json(self) -> dict[str, Any]:
        """The part of a manifest; empty where there are no totals."""
        files = [[each.name, each.tables] for each in self.files]
        parts = {"files": files, "recent": {table: list(each) for table, each in self.recent.items()}}
        return {name: each for name, each in parts.items() if each}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> TableTotals:
        """The totals of :meth:`to_json`."""
        files = tuple(TotalsFile(name, tables) for name, tables in found.get("files", ()))
        return cls(files, {table: Total(*each) for table, each in found.get("recent", {}).items()})


def _write_file(storage: Storage, name: str, totals: Mapping[str, Total]) -> None:
    columns: Iterable[Iterable[Any]] = zip(*totals.values(), strict=True)
    document = {"tables": list(totals), **dict(zip(Total._fields, map(list, columns), strict=True))}
    storage.write(name, [json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()])


@lru_cache(maxsize=4)
def _read_file(storage: Storage, name: str) -> Mapping[str, Total]:
    found = json.loads(storage.open(name).to_pybytes())
    return dict(zip(found["tables"], map(Total, found["rows"], found["refused"]), strict=True))
