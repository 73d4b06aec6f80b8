"""What tasks report of tables whose schemas are not enough."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.schemas import TableSchema, widen_schema
from penstock.types import RowType, parse_columns

#: The number of a partition, and an offset.
Position = tuple[int, int]


@dataclass(frozen=True)
class SeenTable:
    """What messages of a table have shown: its columns, without metadata, and where a column was first seen that is
    new, or has another type. ``first`` is the first message of a table that was not known."""

    table: str
    row: RowType
    places: Mapping[str, Position] = field(default_factory=dict)
    primary_key: tuple[str, ...] = ()
    first: Position | None = None

    @property
    def position(self) -> Position:
        """The first message that shows something new."""
        return min([*self.places.values(), *([self.first] if self.first else [])])

    def combine(self, other: SeenTable) -> SeenTable:
        """What both have shown. The columns of the one that has seen its first come first."""
        one, two = sorted((self, other), key=lambda each: each.position)
        row = widen_schema(TableSchema(one.row), TableSchema(two.row)).row
        places = dict(one.places)
        for name, at in two.places.items():
            places[name] = min(at, places.get(name, at))
        firsts = [each for each in (one.first, two.first) if each is not None]
        key = one.primary_key or two.primary_key
        return replace(one, row=row, places=places, primary_key=key, first=min(firsts, default=None))


def encode_report(seen: Iterable[SeenTable]) -> bytes:
    """The report of a task; empty if it has seen nothing new."""
    found = [
        {
            "table": each.table,
            "columns": ", ".join(map(str, each.row.fields)),
            "places": each.places,
            "primary_key": each.primary_key,
            "first": each.first,
        }
        for each in seen
    ]
    return json.dumps(found).encode() if found else b""


def merge_reports(reports: Sequence[bytes]) -> list[SeenTable]:
    """What all tasks have seen, by table, whatever the order of their reports."""
    found: dict[str, list[SeenTable]] = {}
    for report in reports:
        for each in json.loads(report):
            columns = each["columns"]
            row = parse_columns(columns) if columns else RowType((), nullable=False)
            places = {name: (number, offset) for name, (number, offset) in each["places"].items()}
            first = tuple(each["first"]) if each["first"] else None
            seen = SeenTable(each["table"], row, places, tuple(each["primary_key"]), first)
            found.setdefault(seen.table, []).append(seen)
    merged = []
    for table in sorted(found):
        one, *others = sorted(found[table], key=lambda each: each.position)
        for other in others:
            one = one.combine(other)
        merged.append(one)
    return merged
