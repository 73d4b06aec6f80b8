"""Rows in the columns of another schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RecordError
from penstock.flow.kernels.session import Session
from penstock.flow.rows.expressions import Evaluator, NoKernel, compile_expressions
from penstock.plan.expressions import ColumnRef, Expression, Literal, call, cast, is_not_null, is_null
from penstock.schemas import widen_type
from penstock.spi import locate_error
from penstock.types import (
    DOUBLE,
    STRING,
    BinaryType,
    DataType,
    DecimalType,
    PrimitiveType,
    RowType,
    StringType,
    TimestampType,
    TimeType,
    arrow_schema,
)
from penstock.types.casts import is_alike, is_castable, is_numeric


@dataclass(frozen=True, eq=False)
class RowFitter:
    """Casts rows to the columns of a schema, by their names. Columns that the rows lack are NULL, and others are left
    out. Hidden columns follow. A value that the cast would change is refused: 1.5 is not a BIGINT. So is one of a
    column that the sink should have, but could not be given."""

    names: tuple[str, ...]
    #: None where the columns are the same.
    casts: Evaluator | None
    schema: pa.Schema
    #: The columns that may not hold a value, and behind those of the schema whether they do; None for a missing one.
    checked: Mapping[str, DataType | None]

    @classmethod
    def from_rows(cls, given: RowType, wanted: RowType, session: Session, *, lacks: bool = False) -> Self:
        """From rows with the columns ``given`` to rows with the columns ``wanted``, which ``lacks`` some that it should
        have."""
        schema = arrow_schema(wanted)
        same = given.names == wanted.names and all(
            _is_same(one.type, other.type) for one, other in zip(given.fields, wanted.fields, strict=True)
        )
        if same:
            return cls(given.names, None, schema, {})
        expressions: list[Expression] = []
        checks: list[Expression] = []
        checked: dict[str, DataType | None] = {}
        for each in wanted.fields:
            source = given.field(each.name)
            if source is None:
                expressions.append(Literal(None, type=each.type.with_nullability(True)))
                continue
            ref = ColumnRef(each.name, type=source.type)
            if not _may_hold(source.type, each.type):
                expressions.append(Literal(None, type=each.type.with_nullability(True)))
                checks.append(is_null(ref))
                checked[each.name] = each.type
                continue
            expressions.append(_convert(ref, each.type))
            if _may_lose(source.type, each.type):
                checks.append(_compare(ref, expressions[-1]))
                checked[each.name] = each.type
        for each in given.fields if lacks else ():
            if wanted.field(each.name) is None:
                checks.append(is_null(ColumnRef(each.name, type=each.type)))
                checked[each.name] = None
        found = compile_expressions((*expressions, *checks), arrow_schema(given), session)
        if isinstance(found, NoKernel):
            raise TypeError(f"a cast has {found}")
        return cls(given.names, found, schema, checked)

    def fit(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows in these columns. Raises RecordError for a value that its column does not hold, with the number of
        the row's partition and its offset."""
        if self.casts is None:
            return rows
        try:
            made = self.casts.columns(rows)
        except RecordError as error:
            raise locate_error(error, rows, error.offset) from None
        for (name, wanted), held in zip(self.checked.items(), made[len(self.schema) :], strict=True):
            lost = pc.and_(rows.column(name).is_valid(), pc.invert(held.fill_null(False)))
            if pc.any(lost).as_py():
                row = int(np.flatnonzero(lost)[0])
                value = rows.column(name)[row]
                reason = f"the value {value} has no column in the sink, whose table could not be altered"
                if wanted is not None:
                    reason = f"the value {value} does not fit its column in the sink, which is {wanted}"
                raise locate_error(RecordError(reason, field=name), rows, row)
        hidden = [name for name in rows.schema.names if name not in self.names]
        fields = [*self.schema, *(rows.schema.field(name) for name in hidden)]
        columns = [*made[: len(self.schema)], *map(rows.column, hidden)]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _is_same(given: DataType, wanted: DataType) -> bool:
    return is_alike(given, wanted) and not _may_lose(given, wanted)


def _may_hold(given: DataType, wanted: DataType) -> bool:
    """Whether a column may hold values of another type as they are: TRUE is no number, and a date no time."""
    if isinstance(given, StringType) or is_alike(given, wanted):
        return True
    if not is_castable(given, wanted):
        return False
    return isinstance(wanted, StringType) or (
        is_numeric(given) == is_numeric(wanted) and isinstance(given, TimeType) == isinstance(wanted, TimeType)
    )


def _convert(ref: ColumnRef, wanted: DataType) -> Expression:
    """A column in another type, and as the text that JSON has for it."""
    if is_alike(ref.type, wanted):
        return ref
    if isinstance(wanted, StringType) and isinstance(ref.type, BinaryType):
        return call("TO_BASE64", ref, type=STRING)
    text = isinstance(wanted, StringType) and isinstance(ref.type, PrimitiveType) and ref.type.name == "BOOLEAN"
    return call("LOWER", cast(ref, STRING), type=STRING) if text else cast(ref, wanted, safe=True)


def _may_lose(given: DataType, wanted: DataType) -> bool:
    """Whether a column has values that another does not hold, and that a cast changes."""
    match given, wanted:
        case DecimalType(scale=scale), DecimalType(scale=other) if other < scale:
            return True
        case (TimestampType() | TimeType(), _) if type(given) is type(wanted):
            return given.precision > wanted.precision
        case TimestampType(), PrimitiveType(name="DATE"):
            return True
        case StringType(), _ if not isinstance(wanted, StringType | BinaryType):
            return True
    plain = given.with_nullability(True), wanted.with_nullability(True)
    return is_numeric(given) and is_numeric(wanted) and widen_type(plain[1], plain[0]) != plain[1]


def _compare(ref: ColumnRef, made: Expression) -> Expression:
    """Whether a value is the same after its cast. NULL if it cannot be cast."""
    if isinstance(ref.type, StringType) and is_numeric(made.type):
        return call("=", cast(ref, DOUBLE, safe=True), cast(made, DOUBLE))
    if isinstance(ref.type, StringType):
        return is_not_null(made)
    return call("=", cast(made, ref.type), ref)
