"""The types of the columns of tables that are made in the database, and whether a column has to change for another
type."""

from __future__ import annotations

from penstock.connectors.postgres.columns import TableColumn, choose_stage_type, find_misfits
from penstock.types import ArrayType, DataType, DecimalType, StringType, TimestampType, TimeType

#: Types that hold more values, for tables whose columns cannot get another type later.
_WIDE = {"smallint": "bigint", "integer": "bigint", "real": "double precision"}
#: The greatest length that a type of text may have in PostgreSQL.
_LONGEST = 10_485_760
#: PostgreSQL's times have microseconds.
_FINEST = 6


def choose_column_type(logical: DataType, *, wide: bool = False) -> str | None:
    """The type of a new column, or a ``wide`` one; None for maps, rows and arrays of arrays."""
    staged = choose_stage_type(logical)
    match logical:
        case ArrayType(element=element):
            return staged and f"{choose_column_type(element, wide=wide)}[]"
        case StringType(length=length, fixed=fixed) if length <= _LONGEST and not wide:
            return f"{'character' if fixed else 'character varying'}({length})"
        case DecimalType(precision=precision, scale=scale):
            return f"numeric({precision},{scale})"
        case TimeType(precision=precision):
            return f"time({min(precision, _FINEST)}) without time zone"
        case TimestampType(precision=precision, local_zone=local):
            return f"timestamp({min(precision, _FINEST)}) {'with' if local else 'without'} time zone"
    return _WIDE.get(staged, staged) if wide and staged else staged


def holds(column: TableColumn, logical: DataType) -> bool:
    """Whether a column holds all values of a type: also the longest text of it."""
    if any(True for _ in find_misfits(logical, column)):
        return False
    element = logical.element if isinstance(logical, ArrayType) else logical
    return not isinstance(element, StringType) or column.length is None or element.length <= column.length
