"""The columns of a table that declares none, as its records showed them when the job was planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.types import Field, RowType, parse_type


@dataclass(frozen=True)
class FoundColumns:
    """The columns of a table, of which ``keys`` come from the keys of messages. ``place`` is the table with its topics,
    by which a checkpoint knows the columns again."""

    place: str
    row: RowType
    keys: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The columns as a JSON object."""
        columns = [[each.name, str(each.type)] for each in self.row.fields]
        return {"place": self.place, "columns": columns, "keys": list(self.keys)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> FoundColumns:
        """The columns in an object of :meth:`to_json`."""
        fields = tuple(Field(name, parse_type(text)) for name, text in found["columns"])
        return cls(found["place"], RowType(fields, nullable=False), tuple(found["keys"]))
