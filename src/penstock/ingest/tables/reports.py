"""What tasks report of tables whose schemas are not enough."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.schemas import TableSchema, widen_schema
from penstock.types import Field, RowType, parse_type

#: The number of a partition, and an offset.
Position = tuple[int, int]


@dataclass(frozen=True)
class SeenTable:
    """What messages of a table have shown: its columns, without metadata, and where a column was first seen that is
    new, or has another type. ``keyed`` is the place of the messages that name the primary key, ``first`` the first
    message of a table that was not known."""

    table: str
    row: RowType
    places: Mapping[str, Position] = field(default_factory=dict)
    primary_key: tuple[str, ...] = ()
    keyed: Position | None = None
    first: Position | None = None

    @property
    def position(self) -> Position:
        """The first message that shows something new."""
        return min([*self.places.values(), *([self.first] if self.first else [])])

    def combine(self, other: SeenTable, static: bool = False) -> SeenTable:
        """What both have shown. With ``static`` the columns are those of the one that has seen any first."""
        one, two = sorted((self, other), key=lambda each: each.position)
        firsts = [each for each in (one.first, two.first) if each is not None]
        keyed = min((each for each in (one, two) if each.keyed), key=lambda each: each.keyed or (), default=one)
        chosen = one if one.row.fields or not two.row.fields else two
        row, places = chosen.row, dict(chosen.places)
        if not static:
            row = widen_schema(TableSchema(one.row), TableSchema(two.row)).row
            ranks = one.rank_columns()
            for name, rank in two.rank_columns().items():
                ranks[name] = min(rank, ranks.get(name, rank))
            row = replace(row, fields=tuple(sorted(row.fields, key=lambda each: ranks[each.name])))
            for name, at in (*one.places.items(), *two.places.items()):
                places[name] = min(at, places.get(name, at))
        return SeenTable(self.table, row, places, keyed.primary_key, keyed.keyed, min(firsts, default=None))

    def rank_columns(self) -> dict[str, tuple[Position, int]]:
        """Where each column was first seen, and its number: columns of one message keep their order, with whatever they
        are combined."""
        names = enumerate(each.name for each in self.row.fields)
        return {name: (self.places.get(name, (-1, -1)), number) for number, name in names}

    def sort_columns(self, known: RowType, row: RowType) -> RowType:
        """The columns of ``row`` that are ``known``, and then the others in the order of their places."""
        new = [each for each in row.fields if known.field(each.name) is None]
        new.sort(key=lambda each: self.places.get(each.name, self.position))
        return replace(row, fields=(*(each for each in row.fields if known.field(each.name) is not None), *new))


def encode_report(seen: Iterable[SeenTable]) -> bytes:
    """The report of a task; empty if it has seen nothing new."""
    found = [
        {
            "table": each.table,
            "columns": [(field.name, str(field.type)) for field in each.row.fields],
            "places": each.places,
            "primary_key": each.primary_key,
            "keyed": each.keyed,
            "first": each.first,
        }
        for each in seen
    ]
    return json.dumps(found).encode() if found else b""


def merge_reports(reports: Sequence[bytes], static: bool = False) -> list[SeenTable]:
    """What all tasks have seen, by table, whatever the order of their reports. ``static`` as in
    :meth:`SeenTable.combine`."""
    found: dict[str, list[SeenTable]] = {}
    for report in reports:
        for each in json.loads(report):
            columns = tuple(Field(name, parse_type(text)) for name, text in each["columns"])
            row = RowType(columns, nullable=False)
            places = {name: (number, offset) for name, (number, offset) in each["places"].items()}
            keyed, first = (None if each[key] is None else (each[key][0], each[key][1]) for key in ("keyed", "first"))
            seen = SeenTable(each["table"], row, places, tuple(each["primary_key"]), keyed, first)
            found.setdefault(seen.table, []).append(seen)
    merged = []
    for table in sorted(found):
        one, *others = sorted(found[table], key=lambda each: each.position)
        for other in others:
            one = one.combine(other, static)
        merged.append(one)
    return merged
