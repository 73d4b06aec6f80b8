"""CAST and TRY_CAST, with the results of Spark in ANSI mode in the form that Flink prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.flow.kernels.decimals import fitted, from_integers, to_integers, to_reals, to_text
from penstock.flow.kernels.parsing import parse_integers
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import (
    Failure,
    Kernel,
    Strict,
    Vector,
    column,
    failed_rows,
    numbers,
    valid_rows,
)
from penstock.formats.columns.buffers import binary_parts
from penstock.plan.expressions import Cast
from penstock.types import (
    STRING,
    DataType,
    DecimalType,
    NullType,
    StringType,
    TimestampType,
    arrow_type,
)
from penstock.types.casts import alike, is_integer, widens
from penstock.types.logical import root

#: Makes a column of the target's type from one of the source's. Rows that cannot be cast are in ``failures``.
_Convert = Callable[[pa.Array], pa.Array | Vector]


def cast_kernel(cast: Cast, session: Session) -> Kernel | None:
    """The kernel of a cast, None if there is none for its types."""
    source, target = cast.operand.type, cast.type
    arrow = arrow_type(target)
    if isinstance(source, NullType):
        return lambda args, rows: Vector(pa.scalar(None, arrow), args[0].failures)
    convert = _conversion(source, target, session)
    if convert is None:
        return None
    kernel = Strict(arrow, convert)
    return partial(_tried, kernel) if cast.safe else kernel


def _tried(kernel: Kernel, args: Sequence[Vector], rows: int) -> Vector:
    """NULL in place of what cannot be cast."""
    found = kernel([Vector(each.values) for each in args], rows)
    if not found.failures:
        return Vector(found.values, args[0].failures)
    failed = pa.array(failed_rows(found.failures, rows))
    return Vector(pc.if_else(failed, pa.scalar(None, found.values.type), found.values), args[0].failures)


def _conversion(source: DataType, target: DataType, session: Session) -> _Convert | None:
    if isinstance(target, StringType):
        return _text(source, target)
    if isinstance(source, TimestampType) and isinstance(target, TimestampType):
        if source.local_zone != target.local_zone:
            return None
        return _cut(target.precision) if target.precision < min(source.precision, 6) else _same
    if widens(source, target) or (alike(source, target) and root(target) not in ("ROW", "ARRAY", "MAP", "BYTES")):
        return _same
    to = root(target)
    match root(source):
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            if is_integer(target):
                return partial(_integers, source, target)
            if to in ("FLOAT", "DOUBLE"):
                return _reals(target)
            if to == "BOOLEAN":
                return lambda values: pc.not_equal(values, pa.scalar(0, values.type))
            if isinstance(target, DecimalType):
                return lambda values: from_integers(values, target)
        case "FLOAT" | "DOUBLE":
            if is_integer(target):
                return partial(_truncated, source, target)
            if to in ("FLOAT", "DOUBLE"):
                return _reals(target)
        case "BOOLEAN" if is_integer(target) or to in ("FLOAT", "DOUBLE"):
            return lambda values: pc.cast(pc.cast(values, pa.int8()), arrow_type(target))
        case "BOOLEAN" if isinstance(target, DecimalType):
            return lambda values: from_integers(pc.cast(values, pa.int8()), target)
        case "DECIMAL":
            if is_integer(target):
                return lambda values: to_integers(values, arrow_type(target), beyond(source, target, values))
            if to in ("FLOAT", "DOUBLE"):
                return lambda values: to_reals(values, arrow_type(target))
            if isinstance(target, DecimalType):
                return lambda values: fitted(values, target)
        case "STRING":
            if is_integer(target):
                return partial(_parsed_integers, source, target)
            if to == "BOOLEAN":
                return partial(_parsed_booleans, source, target)
    return None


def _same(values: pa.Array) -> pa.Array:
    return values


def malformed(source: DataType, target: DataType, values: pa.Array) -> Callable[[int], str]:
    """The reason of rows whose text is not a value of ``target``."""
    return lambda row: (
        f"[CAST_INVALID_INPUT] '{values[row].as_py()}' of type {source.text()} is not a value of type {target.text()}"
    )


def beyond(source: DataType, target: DataType, values: pa.Array) -> Callable[[int], str]:
    """The reason of rows whose value ``target`` cannot hold."""
    return lambda row: (
        f"[CAST_OVERFLOW] {values[row].as_py()} of type {source.text()} is beyond the range of {target.text()}"
    )


# --- numbers -------------------------------------------------------------------------------------------------


def _integers(source: DataType, target: DataType, values: pa.Array) -> pa.Array | Vector:
    try:
        return pc.cast(values, arrow_type(target))
    except pa.ArrowInvalid:
        limits = np.iinfo(arrow_type(target).to_pandas_dtype())
        given = numbers(values)
        failed = (given < limits.min) | (given > limits.max)
        return Vector(
            pc.cast(values, arrow_type(target), safe=False), (Failure(failed, beyond(source, target, values)),)
        )


def _reals(target: DataType) -> _Convert:
    arrow = arrow_type(target)

    def convert(values: pa.Array) -> pa.Array:
        with np.errstate(over="ignore"):
            made = numbers(values).astype(arrow.to_pandas_dtype())
        return column(made, valid_rows(values) if values.null_count else None, arrow)

    return convert


def _truncated(source: DataType, target: DataType, values: pa.Array) -> pa.Array | Vector:
    """Towards zero. As in Spark, 2**63 is the largest BIGINT, which as a DOUBLE it equals."""
    arrow = arrow_type(target)
    limits = np.iinfo(arrow.to_pandas_dtype())
    given = numbers(values).astype(np.float64)
    inside = (np.floor(given) <= limits.max) & (np.ceil(given) >= limits.min)
    with np.errstate(invalid="ignore"):
        whole = np.where(inside, given, 0.0)
        made = np.where(whole >= limits.max, limits.max, np.trunc(whole).astype(np.int64, copy=False))
    valid = valid_rows(values)
    made_column = column(made.astype(arrow.to_pandas_dtype()), None if valid.all() else valid, arrow)
    if inside[valid].all():
        return made_column
    return Vector(made_column, (Failure(~inside, beyond(source, target, values)),))


# --- timestamps ----------------------------------------------------------------------------------------------


def _cut(precision: int) -> _Convert:
    """Fewer digits of a second: always the earlier moment."""
    unit = 10 ** (6 - precision)

    def convert(values: pa.Array) -> pa.Array:
        micros = numbers(values.view(pa.int64()))
        return column(micros - micros % unit, valid_rows(values) if values.null_count else None, values.type)

    return convert


# --- text ----------------------------------------------------------------------------------------------------


def _text(source: DataType, target: StringType) -> _Convert | None:
    written = _written(source)
    if written is None or target.length == STRING.length or (isinstance(source, StringType) and widens(source, target)):
        return written
    if target.fixed:
        return lambda values: pc.utf8_slice_codeunits(pc.utf8_rpad(written(values), target.length), 0, target.length)
    return lambda values: pc.utf8_slice_codeunits(written(values), 0, target.length)


def _written(source: DataType) -> Callable[[pa.Array], pa.Array] | None:
    match root(source):
        case "STRING":
            return _same
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            return lambda values: pc.cast(values, pa.string())
        case "BOOLEAN":
            return lambda values: pc.if_else(values, "TRUE", "FALSE")
        case "DECIMAL":
            return to_text
    return None


#: What Spark leaves out at both ends of a text before it reads a number: blanks and control characters.
BLANK = "".join(map(chr, (*range(33), 127)))


def _parsed_integers(source: DataType, target: DataType, values: pa.Array) -> pa.Array | Vector:
    text, starts = binary_parts(values)
    found, undecided = np.empty(len(values), np.int64), np.empty(len(values), np.uint8)
    parse_integers(text, starts, found, undecided)
    arrow = arrow_type(target)
    limits = np.iinfo(arrow.to_pandas_dtype())
    valid = valid_rows(values)
    failed = (found < limits.min) | (found > limits.max)
    for row in np.flatnonzero(undecided.view(np.bool_) & valid):
        value = _integer(values[int(row)].as_py())
        failed[row] = value is None or not limits.min <= value <= limits.max
        found[row] = 0 if failed[row] or value is None else value
    made = column(found.astype(arrow.to_pandas_dtype()), None if valid.all() else valid, arrow)
    if not (failed & valid).any():
        return made
    return Vector(made, (Failure(failed & valid, malformed(source, target, values)),))


def _integer(text: str) -> int | None:
    plain = text.strip(BLANK)
    digits = plain[1:] if plain[:1] in ("+", "-") else plain
    return int(plain) if digits.isascii() and digits.isdigit() else None


_TRUE = pa.array(["t", "true", "y", "yes", "1"])
_FALSE = pa.array(["f", "false", "n", "no", "0"])


def _parsed_booleans(source: DataType, target: DataType, values: pa.Array) -> pa.Array | Vector:
    plain = pc.ascii_lower(pc.utf8_trim(values, characters=BLANK))
    true, false = pc.is_in(plain, _TRUE), pc.is_in(plain, _FALSE)
    failed = pc.and_(pc.invert(pc.or_(true, false)), pc.is_valid(values)).to_numpy(zero_copy_only=False)
    made = pc.if_else(pc.is_valid(values), true, None)
    return Vector(made, (Failure(failed, malformed(source, target, values)),)) if failed.any() else made
