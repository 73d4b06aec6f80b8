"""The versions that the schemas of a job's tables have had, and the present ones.

A pipeline has tables on two sides. Those of its source have the columns that messages show. Those of its sink have what
transforms and routes make of these, as far as the sink has followed the changes.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.schemas.changes import TableSchema
from penstock.types import Field, RowType, parse_type


class Side(enum.Enum):
    """The side of a pipeline that a table is on."""

    SOURCE = "source"
    SINK = "sink"


@dataclass(frozen=True)
class SchemaVersion:
    """A version of the schema of a table, from 1 on. ``changes`` describe what is different from the version before,
    ``place`` is that of the first record that shows it, ``time_ms`` the time of the ``batch`` with that record, in
    milliseconds since the epoch. ``outcome`` says what became of changes that the sink did not carry out. ``output`` is
    the number of the version among all of the sink's side, from 0 on."""

    side: Side
    table: str
    number: int
    schema: TableSchema
    changes: tuple[str, ...] = ()
    place: str = ""
    batch: int = 0
    time_ms: int = 0
    outcome: str = ""
    output: int = -1

    def to_json(self) -> dict[str, Any]:
        """The version as a JSON document."""
        return {
            "side": self.side.value,
            "table": self.table,
            "number": self.number,
            "schema": _schema_to_json(self.schema),
            "changes": list(self.changes),
            "place": self.place,
            "batch": self.batch,
            "time_ms": self.time_ms,
            "outcome": self.outcome,
            "output": self.output,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> SchemaVersion:
        """The version in a document of :meth:`to_json`."""
        return cls(
            Side(found["side"]),
            found["table"],
            found["number"],
            _schema_from_json(found["schema"]),
            tuple(found["changes"]),
            found["place"],
            found["batch"],
            found["time_ms"],
            found["outcome"],
            found["output"],
        )


@dataclass(frozen=True)
class Schemas:
    """The present version of each table, by its id, in the order in which the tables were found. ``outputs`` is the
    number of versions that the tables of the sink have had in all."""

    sources: Mapping[str, SchemaVersion] = field(default_factory=dict)
    sinks: Mapping[str, SchemaVersion] = field(default_factory=dict)
    outputs: int = 0

    def find_version(self, side: Side, table: str) -> SchemaVersion | None:
        """The present version of a table, None if it is not known."""
        return (self.sources if side is Side.SOURCE else self.sinks).get(table)

    def add_versions(self, versions: Iterable[SchemaVersion]) -> Schemas:
        """The schemas with newer versions."""
        sources, sinks, outputs = dict(self.sources), dict(self.sinks), self.outputs
        for each in versions:
            if each.side is Side.SOURCE:
                sources[each.table] = each
            else:
                sinks[each.table] = each
                outputs = max(outputs, each.output + 1)
        return replace(self, sources=sources, sinks=sinks, outputs=outputs)


def _schema_to_json(schema: TableSchema) -> dict[str, Any]:
    comments = {each.name: each.comment for each in schema.row.fields if each.comment}
    optional = {
        "primary_key": list(schema.primary_key),
        "partition_keys": list(schema.partition_keys),
        "options": dict(schema.options),
        "comment": schema.comment,
        "comments": comments,
    }
    columns = [[each.name, str(each.type)] for each in schema.row.fields]
    return {"columns": columns} | {key: each for key, each in optional.items() if each}


def _schema_from_json(found: Mapping[str, Any]) -> TableSchema:
    comments = found.get("comments", {})
    fields = tuple(Field(name, parse_type(text), comments.get(name, "")) for name, text in found["columns"])
    return TableSchema(
        RowType(fields, nullable=False),
        tuple(found.get("primary_key", ())),
        tuple(found.get("partition_keys", ())),
        tuple(sorted(found.get("options", {}).items())),
        found.get("comment", ""),
    )
