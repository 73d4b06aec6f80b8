"""Rows in the columns of another schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from penstock.errors import RecordError
from penstock.flow.kernels.session import Session
from penstock.flow.rows.expressions import Evaluator, NoKernel, compile_expressions
from penstock.plan.expressions import ColumnRef, Expression, Literal, cast
from penstock.spi import locate_error
from penstock.types import RowType, arrow_schema
from penstock.types.casts import is_alike


@dataclass(frozen=True, eq=False)
class RowFitter:
    """Casts rows to the columns of a schema, by their names. Columns that the rows lack are NULL, and others are left
    out. Hidden columns follow."""

    names: tuple[str, ...]
    #: None where the columns are the same.
    casts: Evaluator | None
    schema: pa.Schema

    @classmethod
    def from_rows(cls, given: RowType, wanted: RowType, session: Session) -> Self:
        """From rows with the columns ``given`` to rows with the columns ``wanted``."""
        schema = arrow_schema(wanted)
        same = given.names == wanted.names and all(
            is_alike(one.type, other.type) for one, other in zip(given.fields, wanted.fields, strict=True)
        )
        if same:
            return cls(given.names, None, schema)
        expressions: list[Expression] = []
        for each in wanted.fields:
            source = given.field(each.name)
            if source is None:
                expressions.append(Literal(None, type=each.type.with_nullability(True)))
            else:
                ref = ColumnRef(each.name, type=source.type)
                expressions.append(ref if is_alike(source.type, each.type) else cast(ref, each.type))
        found = compile_expressions(tuple(expressions), arrow_schema(given), session)
        if isinstance(found, NoKernel):
            raise TypeError(f"a cast has {found}")
        return cls(given.names, found, schema)

    def fit(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows in these columns. Raises RecordError for a value that cannot be cast, with the number of the row's
        partition and its offset."""
        if self.casts is None:
            return rows
        try:
            made = self.casts.columns(rows)
        except RecordError as error:
            raise locate_error(error, rows, error.offset) from None
        hidden = [name for name in rows.schema.names if name not in self.names]
        fields = [*self.schema, *(rows.schema.field(name) for name in hidden)]
        return pa.RecordBatch.from_arrays([*made, *map(rows.column, hidden)], schema=pa.schema(fields))
