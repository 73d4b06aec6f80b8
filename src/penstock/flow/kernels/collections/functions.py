"""Functions of arrays and maps that are computed row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cmp_to_key
from typing import Any

from penstock.flow.kernels.rowwise import ValueFailure, row_by_row

Array = list[Any]
Map = list[tuple[Any, Any]]


def _key(value: Any) -> Any:
    """A value's key for comparison. NaN differs even from itself."""
    if isinstance(value, list):
        return tuple(map(_key, value))
    if isinstance(value, dict):
        return tuple((name, _key(each)) for name, each in value.items())
    return value


def _drop_repeated(values: Iterable[Any]) -> Array:
    found: dict[Any, Any] = {}
    for each in values:
        found.setdefault(_key(each), each)
    return list(found.values())


def _compare(one: Any, other: Any) -> int:
    """Compares as Flink's sort does: a value that is not greater is less, so NaN's position depends on its input
    position."""
    return 1 if one > other else -1


def _append(array: Array | None, value: Any) -> Array | None:
    return None if array is None else [*array, value]


def _prepend(array: Array | None, value: Any) -> Array | None:
    return None if array is None else [value, *array]


def _remove(array: Array | None, value: Any) -> Array | None:
    return None if array is None else [each for each in array if _key(each) != _key(value)]


def _contains(array: Array | None, value: Any) -> bool | None:
    return None if array is None else _key(value) in map(_key, array)


def _position(array: Array | None, value: Any) -> int | None:
    if array is None or value is None:
        return None
    return next((place for place, each in enumerate(array, 1) if _key(each) == _key(value)), 0)


def _concat(*arrays: Array) -> Array:
    return [each for array in arrays for each in array]


def _union(one: Array, other: Array) -> Array:
    return _drop_repeated([*one, *other])


def _intersect(one: Array, other: Array) -> Array:
    there = set(map(_key, other))
    return _drop_repeated(each for each in one if _key(each) in there)


def _except(one: Array, other: Array) -> Array:
    """The different elements of the first array that are not in the second."""
    there = set(map(_key, other))
    return _drop_repeated(each for each in one if _key(each) not in there)


def _sort(array: Array, ascending: bool = True, nulls_first: bool | None = None) -> Array:
    nulls = [each for each in array if each is None]
    order = _compare if ascending else lambda one, other: -_compare(one, other)
    rest = sorted((each for each in array if each is not None), key=cmp_to_key(order))
    return [*nulls, *rest] if (ascending if nulls_first is None else nulls_first) else [*rest, *nulls]


def _slice(array: Array, start: int, end: int | None = None) -> Array:
    """The elements from one position to another, counted from 1, or from the end if negative."""
    size = len(array)
    if not size:
        return []
    first = start + size + 1 if start < 0 else max(start, 1)
    last = size if end is None else end + size + 1 if end < 0 else max(end, 1)
    first, last = max(first, 1), min(max(last, 1), size)
    return array[first - 1 : last] if first <= last else []


def _largest(array: Array) -> Any:
    return _find_best(array, lambda one, other: one > other)


def _least(array: Array) -> Any:
    return _find_best(array, lambda one, other: one < other)


def _find_best(array: Array, better: Callable[[Any, Any], bool]) -> Any:
    """The first element that no other one beats."""
    found = None
    for each in array:
        if each is not None and (found is None or better(each, found)):
            found = each
    return found


def _join(array: list[str | None], separator: str, instead: str | None = None) -> str:
    shown = [instead if each is None else each for each in array]
    return separator.join(each for each in shown if each is not None)


def _element(array: Array) -> Any:
    if len(array) > 1:
        raise ValueFailure(f"ELEMENT takes an array of one element, not of {len(array)}")
    return array[0] if array else None


def _map_union(*maps: Map) -> Map:
    found = {_key(key): (key, value) for each in maps for key, value in each}
    return list(found.values())


def _map_from(keys: Array, values: Array) -> Map:
    if len(keys) != len(values):
        raise ValueFailure(f"MAP_FROM_ARRAYS takes arrays of one length, not of {len(keys)} and {len(values)}")
    if None in keys:
        raise ValueFailure("MAP_FROM_ARRAYS got a key that is NULL")
    return list(zip(keys, values, strict=True))


ARRAY_APPEND, ARRAY_PREPEND = row_by_row(_append, strict=False), row_by_row(_prepend, strict=False)
ARRAY_REMOVE, ARRAY_CONTAINS = row_by_row(_remove, strict=False), row_by_row(_contains, strict=False)
ARRAY_POSITION = row_by_row(_position, strict=False)
ARRAY_CONCAT, ARRAY_UNION = row_by_row(_concat), row_by_row(_union)
ARRAY_INTERSECT, ARRAY_EXCEPT = row_by_row(_intersect), row_by_row(_except)
ARRAY_DISTINCT = row_by_row(_drop_repeated)
ARRAY_REVERSE = row_by_row(lambda array: array[::-1])
ARRAY_SORT, ARRAY_SLICE = row_by_row(_sort), row_by_row(_slice)
ARRAY_MAX, ARRAY_MIN = row_by_row(_largest), row_by_row(_least)
ARRAY_JOIN = row_by_row(_join)
ELEMENT = row_by_row(_element)
MAP_KEYS = row_by_row(lambda pairs: [key for key, _ in pairs])
MAP_VALUES = row_by_row(lambda pairs: [value for _, value in pairs])
MAP_ENTRIES = row_by_row(lambda pairs: [{"key": key, "value": value} for key, value in pairs])
MAP_UNION = row_by_row(_map_union)
MAP_FROM_ARRAYS = row_by_row(_map_from)
