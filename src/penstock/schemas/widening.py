"""Types and schemas that hold the values of two: the rules by which an inferred schema grows.

A type is widened along a chain, to the first type that is also in the chain of the other one (seed 003, "Schema parsing
and schema evolution"; the chains are those of Flink CDC's ``SchemaMergingUtils``). Where the seed says more than that
class, the seed is followed: types that differ only in length or precision become the larger one, so VARCHAR(10) and
VARCHAR(17) are VARCHAR(17), not STRING. A DATE and a TIMESTAMP become that TIMESTAMP, not one of nanoseconds: every
date has a place in it. Two DECIMALs that need more than 38 digits keep their digits before the point, and lose scale; a
value that does not fit is dirty data then.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.schemas.changes import (
    AddColumns,
    AlterColumnTypes,
    CreateTable,
    DropColumns,
    NewColumn,
    SchemaChange,
    TableSchema,
    allow_null,
)
from penstock.types import (
    BIGINT,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    BinaryType,
    DataType,
    DecimalType,
    NullType,
    StringType,
    TimestampType,
    TimeType,
)
from penstock.types.casts import digits, is_integer
from penstock.types.logical import MAX_PRECISION, root

_TAIL = (BIGINT, DecimalType(MAX_PRECISION, 0), DOUBLE)
#: What each type is widened to, itself first. STRING ends every chain.
_CHAINS: dict[DataType, tuple[DataType, ...]] = {
    TINYINT: (TINYINT, SMALLINT, INT, BIGINT, DecimalType(MAX_PRECISION, 0), FLOAT, DOUBLE),
    SMALLINT: (SMALLINT, INT, BIGINT, DecimalType(MAX_PRECISION, 0), FLOAT, DOUBLE),
    INT: (INT, *_TAIL),
    BIGINT: _TAIL,
    FLOAT: (FLOAT, DOUBLE),
    DOUBLE: (DOUBLE,),
}


def widen_type(current: DataType, seen: DataType) -> DataType:
    """The narrowest type that holds the values of both; nullable if one of them is. The type of NULL alone says
    nothing."""
    nullable = current.nullable or seen.nullable
    return _widen(current.with_nullability(True), seen.with_nullability(True)).with_nullability(nullable)


def _widen(left: DataType, right: DataType) -> DataType:
    if left == right or isinstance(right, NullType):
        return left
    if isinstance(left, NullType):
        return right
    match left, right:
        case StringType(), StringType() if left.fixed == right.fixed:
            return max(left, right, key=lambda each: each.length)
        case BinaryType(), BinaryType() if left.fixed == right.fixed:
            return max(left, right, key=lambda each: each.length)
        case TimeType(precision=a), TimeType(precision=b):
            return TimeType(max(a, b))
        case TimestampType(), TimestampType():
            return TimestampType(max(left.precision, right.precision), left.local_zone or right.local_zone)
        case (TimestampType() as time, date) | (date, TimestampType() as time) if root(date) == "DATE":
            return time
        case (DecimalType(), _) | (_, DecimalType()):
            return _widen_decimal(left, right)
    others = _CHAINS.get(right, ())
    return next((each for each in _CHAINS.get(left, ()) if each in others), STRING)


def _widen_decimal(left: DataType, right: DataType) -> DataType:
    """The type of a DECIMAL and another type."""
    both = left, right
    if not all(isinstance(each, DecimalType) or is_integer(each) for each in both):
        return STRING
    whole, scale = digits(both)
    if whole + scale <= MAX_PRECISION:
        return DecimalType(whole + scale, scale)
    if all(isinstance(each, DecimalType) for each in both):
        return DecimalType(MAX_PRECISION, MAX_PRECISION - whole)
    return STRING


def widen_schema(current: TableSchema | None, seen: TableSchema) -> TableSchema:
    """The schema with the columns of both: those of ``current`` in their order, widened, and then new ones, which are
    nullable. Columns that ``seen`` lacks stay as they are. The table's keys and options do not change."""
    if current is None:
        return seen
    others = {each.name: each for each in seen.row.fields}
    kept = [
        replace(each, type=widen_type(each.type, others[each.name].type)) if each.name in others else each
        for each in current.row.fields
    ]
    new = [allow_null(each) for each in seen.row.fields if current.row.field(each.name) is None]
    return current.with_fields([*kept, *new])


def find_changes(table: str, before: TableSchema | None, after: TableSchema | None) -> tuple[SchemaChange, ...]:
    """The changes that turn one schema of ``table`` into another: first new columns, then types, then columns that are
    gone, as in Flink CDC."""
    if after is None:
        return ()
    if before is None:
        return (CreateTable(table, after),)
    new: list[NewColumn] = []
    types: list[tuple[str, DataType]] = []
    last = ""
    for each in after.row.fields:
        known = before.row.field(each.name)
        if known is None:
            new.append(NewColumn(each, last))
        elif known.type != each.type:
            types.append((each.name, each.type))
        last = each.name
    gone = tuple(name for name in before.row.names if after.row.field(name) is None)
    changes: list[SchemaChange] = []
    if new:
        changes.append(AddColumns(table, tuple(new)))
    if types:
        changes.append(AlterColumnTypes(table, tuple(types)))
    if gone:
        changes.append(DropColumns(table, gone))
    return tuple(changes)
