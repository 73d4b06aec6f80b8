"""CAST and TRY_CAST, with Flink's results. A number that is too large for an integer keeps its lowest bits, one for a
DECIMAL becomes NULL; in a strict session both fail. Text that is not a value of the type fails in every session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.flow.kernels.casts.text_casts import (
    cast_text_to_booleans,
    cast_text_to_instants,
    cast_text_to_integers,
    cast_text_to_moments,
    cast_text_to_numbers,
    cast_text_to_times,
)
from penstock.flow.kernels.decimals import fit_decimals, from_integers, to_integers, to_reals, to_text
from penstock.flow.kernels.moments.calendar import DAY_MICROS, day_and_time
from penstock.flow.kernels.moments.datetimes import days_in, localize, micros_of, text_of, text_of_interval
from penstock.flow.kernels.moments.local import Convert, from_local, to_local
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
from penstock.plan.expressions import Cast
from penstock.types import (
    BYTES,
    STRING,
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    IntervalType,
    MapType,
    NullType,
    RowType,
    StringType,
    TimestampType,
    TimeType,
    arrow_type,
)
from penstock.types.casts import is_alike, is_integer, widens
from penstock.types.logical import root

#: Makes a column of the target's type from one of the source's. Rows that cannot be cast are in ``failures``.
_Convert = Callable[[pa.Array], pa.Array | Vector]


def cast_kernel(cast: Cast, session: Session) -> Kernel | None:
    """The kernel of a cast, None if there is none for its types."""
    source, target = cast.operand.type, cast.type
    arrow = arrow_type(target)
    if isinstance(source, NullType):
        return lambda args, rows: Vector(pa.scalar(None, arrow), args[0].failures)
    convert = _find_conversion(source, target, session)
    if convert is None:
        return None
    kernel = Strict(arrow, convert)
    return partial(_replace_failures, kernel) if cast.safe else kernel


def _replace_failures(kernel: Kernel, args: Sequence[Vector], rows: int) -> Vector:
    """The values of a cast, with NULL in place of values that cannot be cast."""
    found = kernel([Vector(each.values) for each in args], rows)
    if not found.failures:
        return Vector(found.values, args[0].failures)
    failed = pa.array(failed_rows(found.failures, rows))
    return Vector(pc.if_else(failed, pa.scalar(None, found.values.type), found.values), args[0].failures)


def _find_conversion(source: DataType, target: DataType, session: Session) -> _Convert | None:
    if isinstance(target, StringType):
        return _make_text_cast(source, target, session)
    if isinstance(source, TimestampType) and isinstance(target, TimestampType):
        cuts = target.precision < min(source.precision, 6)
        if source.local_zone != target.local_zone:
            return _make_zone_cast(target, cuts, session)
        return _make_cut(target.precision) if cuts else _keep_values
    if widens(source, target) or (is_alike(source, target) and root(target) not in ("ROW", "ARRAY", "MAP", "BYTES")):
        return _keep_values
    if isinstance(source, RowType) and isinstance(target, RowType):
        parts = [
            _find_conversion(one.type, other.type, session)
            for one, other in zip(source.fields, target.fields, strict=True)
        ]
        known = [each for each in parts if each is not None]
        return partial(_cast_rows, known, arrow_type(target)) if len(known) == len(parts) else None
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        element = _find_conversion(source.element, target.element, session)
        return None if element is None else partial(_cast_arrays, element, arrow_type(target))
    if isinstance(source, MapType) and isinstance(target, MapType):
        parts = [
            _find_conversion(source.key, target.key, session),
            _find_conversion(source.value, target.value, session),
        ]
        return partial(_cast_maps, parts[0], parts[1], arrow_type(target)) if parts[0] and parts[1] else None
    if isinstance(target, IntervalType):
        return partial(_cast_intervals, target)
    to = root(target)
    match root(source):
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            if is_integer(target):
                return partial(_cast_integers, source, target, session.strict)
            if to in ("FLOAT", "DOUBLE"):
                return _make_real_cast(target)
            if to == "BOOLEAN":
                return lambda values: pc.not_equal(values, pa.scalar(0, values.type))
            if isinstance(target, DecimalType):
                return lambda values: from_integers(values, target, session.strict)
        case "FLOAT" | "DOUBLE":
            if to == "BOOLEAN":
                return lambda values: pc.not_equal(values, pa.scalar(0, values.type))
            if is_integer(target):
                return partial(_truncate_reals, source, target, session.strict)
            if to in ("FLOAT", "DOUBLE"):
                return _make_real_cast(target)
            if isinstance(target, DecimalType):
                return partial(_cast_reals_to_decimals, source, target, session.strict)
        case "BOOLEAN" if is_integer(target) or to in ("FLOAT", "DOUBLE"):
            return lambda values: pc.cast(pc.cast(values, pa.int8()), arrow_type(target))
        case "BOOLEAN" if isinstance(target, DecimalType):
            return lambda values: from_integers(pc.cast(values, pa.int8()), target, session.strict)
        case "DECIMAL":
            if to == "BOOLEAN":
                return lambda values: pc.not_equal(values, pa.scalar(0, values.type))
            if is_integer(target):
                return lambda values: to_integers(
                    values, arrow_type(target), session.strict, beyond_reason(source, target, values)
                )
            if to in ("FLOAT", "DOUBLE"):
                return lambda values: to_reals(values, arrow_type(target))
            if isinstance(target, DecimalType):
                return lambda values: fit_decimals(values, target, session.strict)
        case "STRING":
            if is_integer(target):
                return partial(cast_text_to_integers, source, target)
            if to == "BOOLEAN":
                return partial(cast_text_to_booleans, source, target)
            if to in ("FLOAT", "DOUBLE", "DECIMAL"):
                return partial(cast_text_to_numbers, source, target)
            if to == "DATE" or (isinstance(target, TimestampType) and not target.local_zone):
                return partial(cast_text_to_moments, source, target)
            if isinstance(target, TimestampType):
                instant = from_local(session)
                return None if instant is None else partial(cast_text_to_instants, source, target, instant)
            if isinstance(target, TimeType):
                return partial(cast_text_to_times, source, target)
            if isinstance(target, BinaryType):
                return lambda values: _fit_bytes(target, pc.cast(values, pa.binary()))
        case "BYTES" if isinstance(target, BinaryType):
            return partial(_fit_bytes, target)
        case "TIME" if isinstance(target, TimeType):
            return partial(_cast_to_time_of_day, min(target.precision, 6))
        case "TIME" if isinstance(target, TimestampType):
            return _make_first_day_cast(target, session)
        case "DATE" if isinstance(target, TimestampType):
            instant = from_local(session) if target.local_zone else _keep_values
            return None if instant is None else partial(_cast_to_midnight, source, target, instant)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            local = localize(source, session)
            if to == "DATE" and local is not None:
                return lambda values: _make_column(days_in(local(values)).astype(np.int32), values, arrow_type(target))
            if isinstance(target, TimeType) and local is not None:
                precision = min(target.precision, 6)
                return lambda values: _cast_to_time_of_day(precision, local(values))
    return None


def _keep_values(values: pa.Array) -> pa.Array:
    return values


def beyond_reason(source: DataType, target: DataType, values: pa.Array) -> Callable[[int], str]:
    """The reason of rows whose value ``target`` cannot hold."""
    return lambda row: (
        f"[CAST_OVERFLOW] {values[row].as_py()} of type {source.text()} is beyond the range of {target.text()}"
    )


# --- numbers -------------------------------------------------------------------------------------------------


def _cast_integers(source: DataType, target: DataType, strict: bool, values: pa.Array) -> pa.Array | Vector:
    if not strict:
        return pc.cast(values, arrow_type(target), safe=False)
    try:
        return pc.cast(values, arrow_type(target))
    except pa.ArrowInvalid:
        limits = np.iinfo(arrow_type(target).to_pandas_dtype())
        given = numbers(values)
        failed = (given < limits.min) | (given > limits.max)
        return Vector(
            pc.cast(values, arrow_type(target), safe=False), (Failure(failed, beyond_reason(source, target, values)),)
        )


def _make_real_cast(target: DataType) -> _Convert:
    arrow = arrow_type(target)

    def convert(values: pa.Array) -> pa.Array:
        with np.errstate(over="ignore"):
            made = numbers(values).astype(arrow.to_pandas_dtype())
        return column(made, valid_rows(values) if values.null_count else None, arrow)

    return convert


def _truncate_reals(source: DataType, target: DataType, strict: bool, values: pa.Array) -> pa.Array | Vector:
    """Towards zero. As a DOUBLE, 2**63 equals the largest BIGINT."""
    arrow = arrow_type(target)
    limits = np.iinfo(arrow.to_pandas_dtype())
    given = numbers(values).astype(np.float64)
    if not strict:
        return column(_truncate_as_java(given, limits), valid_rows(values) if values.null_count else None, arrow)
    inside = (np.floor(given) <= limits.max) & (np.ceil(given) >= limits.min)
    with np.errstate(invalid="ignore"):
        whole = np.where(inside, given, 0.0)
        made = np.where(whole >= limits.max, limits.max, np.trunc(whole).astype(np.int64, copy=False))
    valid = valid_rows(values)
    made_column = column(made.astype(arrow.to_pandas_dtype()), None if valid.all() else valid, arrow)
    if inside[valid].all():
        return made_column
    return Vector(made_column, (Failure(~inside, beyond_reason(source, target, values)),))


def _truncate_as_java(given: NDArray[np.float64], limits: np.iinfo[Any]) -> NDArray[Any]:
    """Whole numbers towards zero: INT and BIGINT stop at their limits, smaller types take the lowest bits of an INT,
    and NaN is 0."""
    widest = limits if limits.bits == 64 else np.iinfo(np.int32)
    with np.errstate(invalid="ignore"):
        whole = np.trunc(np.where(np.isnan(given), 0, given))
        inside = (whole > widest.min) & (whole < widest.max)
        made = np.where(inside, whole, 0).astype(np.int64)
    made = np.where(inside, made, np.where(whole < 0, widest.min, widest.max))
    return made.astype(limits.dtype)


def _write_reals(values: pa.Array) -> pa.Array:
    from penstock.flow.kernels.numbers import reals

    return reals.to_text(values)


def _cast_reals_to_decimals(source: DataType, target: DecimalType, strict: bool, values: pa.Array) -> pa.Array | Vector:
    """By the digits of the text as a DOUBLE. Numbers that are not finite become null."""
    finite = pc.if_else(pc.is_finite(values), values, None)
    found = cast_text_to_numbers(source, target, _write_reals(pc.cast(finite, pa.float64())))
    return found if strict or not isinstance(found, Vector) else found.values


# --- timestamps ----------------------------------------------------------------------------------------------


def _make_first_day_cast(target: TimestampType, session: Session) -> _Convert | None:
    """Times as local times of 1970-01-01."""
    instant = from_local(session) if target.local_zone else _keep_values
    if instant is None:
        return None

    def convert(values: pa.Array) -> pa.Array:
        micros = micros_of(values)
        return instant(_make_column(micros - micros % 10 ** (6 - min(target.precision, 6)), values, pa.timestamp("us")))

    return convert


def _make_column(found: NDArray[Any], values: pa.Array, arrow: pa.DataType) -> pa.Array:
    return column(found, valid_rows(values) if values.null_count else None, arrow)


def _make_cut(precision: int) -> Callable[[pa.Array], pa.Array]:
    """Fewer digits of a second: always the earlier moment."""
    unit = 10 ** (6 - precision)

    def convert(values: pa.Array) -> pa.Array:
        micros = micros_of(values)
        return _make_column(micros - micros % unit, values, values.type)

    return convert


def _make_zone_cast(target: TimestampType, cuts: bool, session: Session) -> _Convert | None:
    """A point in time as local time, or the other way round."""
    cut = _make_cut(target.precision) if cuts else _keep_values
    convert = from_local(session) if target.local_zone else to_local(session)
    return None if convert is None else lambda values: convert(cut(values))


def _cast_to_midnight(source: DataType, target: DataType, instant: Convert, values: pa.Array) -> pa.Array | Vector:
    days = days_in(values)
    too_far = np.abs(days) > (2**63 - 1) // DAY_MICROS
    made = instant(_make_column(np.where(too_far, 0, days) * DAY_MICROS, values, pa.timestamp("us")))
    shown = values if not too_far.any() else text_of(values, 0)
    return Vector(made, (Failure(too_far, beyond_reason(source, target, shown)),)) if too_far.any() else made


def _cast_to_time_of_day(precision: int, values: pa.Array) -> pa.Array:
    _, time = day_and_time(micros_of(values))
    return _make_column((time - time % 10 ** (6 - precision)) * 1000, values, pa.time64("ns"))


# --- text ----------------------------------------------------------------------------------------------------


def _make_text_cast(source: DataType, target: StringType, session: Session) -> _Convert | None:
    written = _make_writer(source, session)
    if written is None or target.length == STRING.length or (isinstance(source, StringType) and widens(source, target)):
        return written
    if target.fixed:
        return lambda values: pc.utf8_slice_codeunits(pc.utf8_rpad(written(values), target.length), 0, target.length)
    return lambda values: pc.utf8_slice_codeunits(written(values), 0, target.length)


def _cast_intervals(target: IntervalType, values: pa.Array) -> pa.Array | Vector:
    """Intervals by numbers of months or milliseconds."""
    given = pc.cast(values, pa.int64())
    if target.months:
        return given
    try:
        return pc.multiply_checked(given, 1000)
    except pa.ArrowInvalid:
        failed = (np.abs(numbers(given)) > (2**63 - 1) // 1000) & valid_rows(given)
        reason = f"[CAST_OVERFLOW] a number is beyond the range of {target.text()}"
        return Vector(pc.multiply(given, 1000), (Failure(failed, lambda _: reason),))


def _fit_bytes(target: BinaryType, values: pa.Array) -> pa.Array:
    """Cut to the length of the type, and filled with zeros if it is fixed."""
    if target.length == BYTES.length:
        return values
    if target.fixed:
        values = pc.binary_join_element_wise(values, bytes(target.length), b"")
    return pc.binary_slice(values, 0, target.length)


def _decode_text(values: pa.Array) -> pa.Array:
    """UTF-8; invalid bytes become U+FFFD."""
    try:
        return pc.cast(values, pa.string())
    except pa.ArrowInvalid:
        texts = [None if each is None else each.decode(errors="replace") for each in values.to_pylist()]
        return pa.array(texts, pa.string())


def _make_writer(source: DataType, session: Session) -> Callable[[pa.Array], pa.Array] | None:
    if isinstance(source, ArrayType | MapType | RowType):
        return _make_nested_writer(source, session)
    if isinstance(source, IntervalType):
        return partial(text_of_interval, months=source.months)
    match root(source):
        case "STRING":
            return _keep_values
        case "BYTES":
            return _decode_text
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            return lambda values: pc.cast(values, pa.string())
        case "BOOLEAN":
            return lambda values: pc.if_else(values, "TRUE", "FALSE")
        case "DECIMAL":
            return to_text
        case "FLOAT" | "DOUBLE":
            return _write_reals
        case "DATE":
            return partial(text_of, digits=0)
        case "TIMESTAMP" | "TIMESTAMP_LTZ" | "TIME":
            assert isinstance(source, TimestampType | TimeType)  # noqa: S101
            digits, local = min(source.precision, 6), localize(source, session)
            return None if local is None else lambda values: text_of(local(values), digits)
    return None


def _make_nested_writer(
    source: ArrayType | MapType | RowType, session: Session
) -> Callable[[pa.Array], pa.Array] | None:
    """``[a, NULL]``, ``{key=a}`` and ``(a, b)``."""
    match source:
        case ArrayType(element=element):
            inner = _make_writer(element, session)
            return None if inner is None else lambda values: _join_parts("[{}]", [inner(values.values)], values)
        case MapType(key=key, value=value):
            keys, items = _make_writer(key, session), _make_writer(value, session)
            if keys is None or items is None:
                return None
            return lambda values: _join_parts("{{{}}}", [keys(values.keys), items(values.items)], values)
    fields = [_make_writer(field.type, session) for field in source.fields]
    if None in fields:
        return None

    def rows(values: pa.Array) -> pa.Array:
        columns = [write(each).to_pylist() for write, each in zip(fields, values.flatten(), strict=True) if write]
        texts = [f"({', '.join(map(_show_text, each))})" for each in zip(*columns, strict=True)]
        return pc.if_else(values.is_valid(), pa.array(texts, pa.string()), pa.scalar(None, pa.string()))

    return rows


def _join_parts(form: str, parts: Sequence[pa.Array], values: pa.Array) -> pa.Array:
    """The texts of arrays or maps, whose elements have the texts ``parts``."""
    texts = ["=".join(map(_show_text, each)) for each in zip(*(part.to_pylist() for part in parts), strict=True)]
    starts = values.offsets.to_pylist()
    made = [form.format(", ".join(texts[start:end])) for start, end in pairwise(starts)]
    return pc.if_else(values.is_valid(), pa.array(made, pa.string()), pa.scalar(None, pa.string()))


def _show_text(text: str | None) -> str:
    return "NULL" if text is None else text


# --- rows and arrays -----------------------------------------------------------------------------------------


def _cast_rows(parts: Sequence[_Convert], arrow: pa.DataType, values: pa.Array) -> pa.Array | Vector:
    """Field by field. A row fails with its first field that does."""
    made, failures = [], []
    for part, field in zip(parts, values.flatten(), strict=True):
        found = part(field)
        if isinstance(found, Vector):
            present = valid_rows(field)
            failures += [replace(each, rows=each.rows & present) for each in found.failures]
            found = found.spread(len(values))
        made.append(found)
    rows = pa.StructArray.from_arrays(made, fields=list(arrow), mask=pa.array(~valid_rows(values)))
    return Vector(rows, tuple(failures)) if failures else rows


def _cast_arrays(part: _Convert, arrow: pa.DataType, values: pa.Array) -> pa.Array | Vector:
    """Element by element. An array fails with its first element that does."""
    starts = values.offsets.to_numpy()
    elements = values.values.slice(int(starts[0]), int(starts[-1] - starts[0]))
    made = part(elements)
    failures: list[Failure] = []
    if isinstance(made, Vector):
        arrays = np.repeat(np.arange(len(values)), np.diff(starts))
        for each in made.failures:
            failed = np.flatnonzero(each.rows & valid_rows(elements))
            rows, first = np.unique(arrays[failed], return_index=True)
            reasons = dict(zip(rows.tolist(), failed[first].tolist(), strict=True))
            where = np.isin(np.arange(len(values)), rows)
            failures.append(replace(each, rows=where, reason=partial(_reason_of_first, each.reason, reasons)))
        made = made.spread(len(elements))
    mask = pa.array(~valid_rows(values)) if values.null_count else None
    offsets = pa.array(starts - starts[0], pa.int32())
    found = pa.ListArray.from_arrays(offsets, made, type=arrow, mask=mask)
    return Vector(found, tuple(failures)) if failures else found


def _cast_maps(keys: _Convert, items: _Convert, arrow: pa.DataType, values: pa.Array) -> pa.Array | Vector:
    """Entry by entry. A map fails with its first key or value that does."""
    starts = values.offsets
    lists = [pa.ListArray.from_arrays(starts, each, mask=values.is_null()) for each in (values.keys, values.items)]
    made = [
        _cast_arrays(part, pa.list_(kind), each)
        for part, kind, each in zip((keys, items), (arrow.key_type, arrow.item_type), lists, strict=True)
    ]
    failures = tuple(failure for each in made if isinstance(each, Vector) for failure in each.failures)
    columns = [each.spread(len(values)) if isinstance(each, Vector) else each for each in made]
    found = pa.MapArray.from_arrays(columns[0].offsets, columns[0].values, columns[1].values, mask=values.is_null())
    return Vector(found, failures) if failures else found


def _reason_of_first(reason: Callable[[int], str], first: Mapping[int, int], row: int) -> str:
    """Why an array failed: as its ``first`` element that did."""
    return reason(first[row])
