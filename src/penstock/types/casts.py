"""Flink's implicit and explicit casts, and common types.

The implicit casts are those of Flink's ``LogicalTypeCasts``, the decimal arithmetic that of ``LogicalTypeMerging``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.types.arrow import spark_type
from penstock.types.logical import (
    BIGINT,
    DOUBLE,
    FLOAT,
    INT,
    MAX_PRECISION,
    SMALLINT,
    STRING,
    TINYINT,
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    Field,
    IntervalType,
    MapType,
    NullType,
    RowType,
    StringType,
    TimestampType,
    TimeType,
    root,
)

_INTEGERS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_NUMBERS = {*_INTEGERS, "DECIMAL", "FLOAT", "DOUBLE"}
_WIDENING = (TINYINT, SMALLINT, INT, BIGINT)

#: By the root of a target: the roots that are cast to it implicitly.
_IMPLICIT = {
    **{each: {each} for each in ("STRING", "BYTES", "BOOLEAN", "TINYINT")},
    "SMALLINT": {"TINYINT", "SMALLINT"},
    "INT": {"TINYINT", "SMALLINT", "INT"},
    "BIGINT": set(_INTEGERS),
    "DECIMAL": _NUMBERS,
    "FLOAT": _NUMBERS - {"DOUBLE"},
    "DOUBLE": _NUMBERS,
    "DATE": {"DATE", "TIMESTAMP"},
    "TIME": {"TIME", "TIMESTAMP"},
    "TIMESTAMP": {"TIMESTAMP", "TIMESTAMP_LTZ"},
    "TIMESTAMP_LTZ": {"TIMESTAMP", "TIMESTAMP_LTZ"},
}
_POINTS = {"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"}
#: By the root of a target: the roots that CAST accepts.
_EXPLICIT = {
    "STRING": _NUMBERS | _POINTS | {"STRING", "BYTES", "BOOLEAN", "INTERVAL"},
    "BYTES": {"BYTES", "STRING"},
    "BOOLEAN": _NUMBERS | {"BOOLEAN", "STRING"},
    **{number: _NUMBERS | {"STRING", "BOOLEAN"} for number in _NUMBERS},
    "DATE": {"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "STRING"},
    "TIME": {"TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "STRING"},
    "TIMESTAMP": _POINTS | {"STRING"},
    "TIMESTAMP_LTZ": _POINTS | {"STRING"},
}


def is_integer(data_type: DataType) -> bool:
    """TINYINT to BIGINT."""
    return root(data_type) in _INTEGERS


def is_numeric(data_type: DataType) -> bool:
    """An integer, DECIMAL, FLOAT or DOUBLE."""
    return root(data_type) in _NUMBERS


def is_point(data_type: DataType) -> bool:
    """A date, time or timestamp."""
    return root(data_type) in _POINTS


def is_assignable(source: DataType, target: DataType) -> bool:
    """Whether values are cast to ``target`` implicitly. As in Flink's INSERT, nullability does not matter."""
    return _is_convertible(source, target, _IMPLICIT)


def is_castable(source: DataType, target: DataType) -> bool:
    """Whether CAST accepts the two types."""
    return _is_convertible(source, target, _EXPLICIT)


def _is_convertible(source: DataType, target: DataType, table: dict[str, set[str]]) -> bool:
    if isinstance(source, NullType):
        return True
    if isinstance(target, IntervalType):
        same = isinstance(source, IntervalType) and source.months == target.months
        return table is _EXPLICIT and (same or is_integer(source))
    if (parts := _pair_components(source, target)) is not None:
        return all(_is_convertible(inner, wanted, table) for inner, wanted in parts)
    if table is _EXPLICIT and isinstance(target, StringType) and isinstance(source, ArrayType | MapType | RowType):
        return all(_is_convertible(inner, target, table) for inner in _list_components(source))
    return root(source) in table.get(root(target), ())


def _pair_components(left: DataType, right: DataType) -> tuple[tuple[DataType, DataType], ...] | None:
    """The component types of two arrays, maps or rows, in pairs; None for other types and rows of different lengths."""
    match left, right:
        case ArrayType(), ArrayType():
            return ((left.element, right.element),)
        case MapType(), MapType():
            return (left.key, right.key), (left.value, right.value)
        case RowType(), RowType() if len(left.fields) == len(right.fields):
            return tuple((one.type, other.type) for one, other in zip(left.fields, right.fields, strict=True))
    return None


def _list_components(data_type: ArrayType | MapType | RowType) -> tuple[DataType, ...]:
    match data_type:
        case ArrayType(element=element):
            return (element,)
        case MapType(key=key, value=value):
            return key, value
    return tuple(field.type for field in data_type.fields)


def as_decimal(data_type: DataType) -> DecimalType:
    """The decimal that holds every value of an integer type; a decimal itself."""
    if isinstance(data_type, DecimalType):
        return data_type
    return DecimalType(_INTEGERS[root(data_type)], 0, nullable=data_type.nullable)


def digits(types: Iterable[DataType]) -> tuple[int, int]:
    """The most digits before and after the point of any of these types, which are decimals and integers."""
    decimals = [as_decimal(each) for each in types]
    return max(each.precision - each.scale for each in decimals), max(each.scale for each in decimals)


def is_beyond_decimal(types: Sequence[DataType]) -> bool:
    """Whether these are types of decimals and integers, and no DECIMAL has all their values. Untyped NULLs do not
    count."""
    known = [each for each in types if not isinstance(each, NullType)]
    exact = {root(each) for each in known} <= {*_INTEGERS, "DECIMAL"}
    return bool(known) and exact and sum(digits(known)) > MAX_PRECISION


def find_common_type(types: tuple[DataType, ...]) -> DataType | None:
    """The type to which CASE, COALESCE or an arithmetic operator casts its operands; None if there is none."""
    found = types[0]
    for each in types[1:]:
        wider = _find_common_pair(found, each)
        if wider is None:
            return None
        found = wider
    return found.with_nullability(any(each.nullable for each in types))


def merge_types(types: tuple[DataType, ...]) -> DataType | None:
    """The type to which COALESCE casts its arguments, by Flink's ``LogicalTypeMerging``; None if there is none. Unlike
    in :func:`find_common_type`, a TIMESTAMP becomes a DATE or a TIME beside one, and a DECIMAL before a FLOAT becomes
    one."""
    found = types[0]
    for each in types[1:]:
        pair = {root(found): found, root(each): each}
        point = pair.get("DATE") or pair.get("TIME")
        if point is not None and "TIMESTAMP" in pair:
            found = point
        elif (root(found), root(each)) == ("DECIMAL", "FLOAT"):
            found = each
        else:
            wider = _find_common_pair(found, each)
            if wider is None:
                return None
            found = wider
    return found.with_nullability(any(each.nullable for each in types))


def _find_common_pair(left: DataType, right: DataType) -> DataType | None:
    left, right = left.with_nullability(True), right.with_nullability(True)
    if left == right or isinstance(right, NullType):
        return left
    if isinstance(left, NullType):
        return right
    roots = {root(left), root(right)}
    if roots <= _NUMBERS:
        return _find_common_number(left, right)
    match left, right:
        case StringType(), StringType():
            return STRING
        case BinaryType(), BinaryType():
            return BinaryType()
        case TimeType(precision=a), TimeType(precision=b):
            return TimeType(max(a, b))
        case TimestampType(), TimestampType():
            return TimestampType(max(left.precision, right.precision), left.local_zone or right.local_zone)
        case RowType(), RowType() if left.names == right.names:
            types = [
                find_common_type((one.type, other.type)) for one, other in zip(left.fields, right.fields, strict=True)
            ]
            fields = [Field(name, each) for name, each in zip(left.names, types, strict=True) if each is not None]
            return RowType(tuple(fields)) if len(fields) == len(types) else None
        case ArrayType(element=a_element), ArrayType(element=b_element):
            element = find_common_type((a_element, b_element))
            return None if element is None else ArrayType(element)
        case MapType(), MapType():
            key, value = find_common_type((left.key, right.key)), find_common_type((left.value, right.value))
            return None if key is None or value is None else MapType(key, value)
    if "DATE" in roots and roots <= {"DATE", "TIMESTAMP", "TIMESTAMP_LTZ"}:
        return left if isinstance(left, TimestampType) else right
    return None


def _find_common_number(left: DataType, right: DataType) -> DataType:
    roots = {root(left), root(right)}
    if "DOUBLE" in roots or roots == {"FLOAT", "DECIMAL"}:
        return DOUBLE
    if "FLOAT" in roots:
        return FLOAT
    if "DECIMAL" not in roots:
        return max(left, right, key=_WIDENING.index)
    a, b = as_decimal(left), as_decimal(right)
    scale = max(a.scale, b.scale)
    return DecimalType(min(max(a.precision - a.scale, b.precision - b.scale) + scale, MAX_PRECISION), scale)


def find_comparable_type(left: DataType, right: DataType, ordered: bool) -> DataType | None:
    """The type that two values are compared in; None if they cannot be compared. As in Flink, strings are cast to dates
    and times, but not to numbers, and a date is not a timestamp."""
    roots = {root(left), root(right)}
    if "STRING" in roots and len(roots) == 2:
        other = left if root(right) == "STRING" else right
        if is_point(other):
            return other.with_nullability(True)
    if "DATE" in roots and roots & {"TIMESTAMP", "TIMESTAMP_LTZ"}:
        return None
    found = _find_common_pair(left, right)
    return None if ordered and isinstance(found, ArrayType | MapType | RowType) else found


def find_key_type(left: DataType, right: DataType) -> DataType | None:
    """The type that two values are compared in as keys of rows; None if they cannot be compared. Keys are equal if
    their bytes are, so keys cannot have maps: equal maps may have their entries in different orders."""
    found = find_comparable_type(left, right, ordered=False)
    return None if found is None or _has_map(found) else found


def _has_map(data_type: DataType) -> bool:
    match data_type:
        case ArrayType() | RowType():
            return any(map(_has_map, _list_components(data_type)))
    return isinstance(data_type, MapType)


def widens(source: DataType, target: DataType) -> bool:
    """Whether every value of ``source`` is also one of ``target``, so that a cast changes nothing."""
    if source.with_nullability(True) == target.with_nullability(True):
        return True
    match source, target:
        case StringType(), StringType():
            return source.length <= target.length and not target.fixed
        case BinaryType(), BinaryType():
            return source.length <= target.length and not target.fixed
        case TimestampType(), TimestampType():
            return source.precision <= target.precision and source.local_zone == target.local_zone
        case RowType(), RowType() if source.names != target.names:
            return False
    parts = _pair_components(source, target)
    return parts is not None and all(widens(one, other) for one, other in parts)


def has_interval(data_type: DataType) -> bool:
    """Whether it is an interval, or a collection with intervals, which no column of a table is."""
    match data_type:
        case ArrayType() | MapType() | RowType():
            return any(map(has_interval, _list_components(data_type)))
    return isinstance(data_type, IntervalType)


def is_alike(left: DataType, right: DataType) -> bool:
    """Whether two types differ at most in length, or in the digits of a second."""
    if isinstance(left, NullType | IntervalType) or isinstance(right, NullType | IntervalType):
        return type(left) is type(right)
    return spark_type(left) == spark_type(right)
