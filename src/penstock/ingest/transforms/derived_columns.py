"""Columns of a table that are no fields of its messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.plan.expressions import Expression
from penstock.schemas import TableSchema
from penstock.types import Field, RowType

#: What precedes the key of metadata in the name of a column that only derived columns read.
METADATA = "metadata:"


@dataclass(frozen=True, eq=False)
class DerivedColumns:
    """The columns of a table that are no fields of its messages: their expressions over the others and over
    ``metadata``, whose names are the keys after :data:`METADATA`. ``declared`` are all columns that the table is
    declared with, and ``primary_key`` is its key."""

    expressions: Mapping[str, Expression]
    metadata: tuple[Field, ...]
    declared: tuple[Field, ...]
    primary_key: tuple[str, ...] = ()

    def show(self, schema: TableSchema) -> TableSchema:
        """A table with these columns too, where they are declared."""
        names = {each.name for each in self.declared}
        others = (each for each in schema.row.fields if each.name not in names)
        fields = (
            replace(each, type=each.type.with_nullability(False)) if each.name in self.primary_key else each
            for each in (*self.declared, *others)
        )
        return replace(schema.with_fields(fields), primary_key=self.primary_key)

    def add_metadata(self, row: RowType) -> RowType:
        """The columns of a table with the metadata that is read."""
        return RowType((*row.fields, *self.metadata), nullable=False)
