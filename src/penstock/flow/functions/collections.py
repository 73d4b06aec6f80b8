"""Functions of arrays and maps."""

from __future__ import annotations

from penstock.flow.kernels.collections import functions as collections
from penstock.flow.kernels.collections import parts
from penstock.plan.expressions import Expression
from penstock.plan.overloads import first_type, overloads
from penstock.plan.scalar_functions import Entry, Function
from penstock.types import INT, STRING, ArrayType, DataType, Field, MapType, NullType, RowType

GROUP = "Collections"


def _type_of_element(args: tuple[Expression, ...]) -> DataType:
    found = first_type(args)
    return found.element if isinstance(found, ArrayType) else NullType()


def _type_of_keys(args: tuple[Expression, ...]) -> DataType:
    found = first_type(args)
    return ArrayType(found.key) if isinstance(found, MapType) else NullType()


def _type_of_values(args: tuple[Expression, ...]) -> DataType:
    found = first_type(args)
    return ArrayType(found.value) if isinstance(found, MapType) else NullType()


def _type_of_entries(args: tuple[Expression, ...]) -> DataType:
    found = first_type(args)
    if not isinstance(found, MapType):
        return NullType()
    return ArrayType(RowType((Field("key", found.key), Field("value", found.value))))


def _type_of_map(args: tuple[Expression, ...]) -> DataType:
    keys, values = (arg.type for arg in args)
    if not isinstance(keys, ArrayType) or not isinstance(values, ArrayType):
        return NullType()
    return MapType(keys.element, values.element)


_SAME = overloads(first_type, "a")
_ONE = overloads(_type_of_element, "a", nullable=True)

FUNCTIONS = (
    Function(
        "CARDINALITY",
        "CARDINALITY(array), CARDINALITY(map)",
        kernel=parts.cardinality,
        overloads=overloads(INT, "c"),
    ),
    Entry("[]", "array[index], map[key]"),
    Function("ITEM", kernel=parts.item),
    Function("ELEMENT", "ELEMENT(array)", kernel=collections.ELEMENT, overloads=_ONE),
    Function("ARRAY_APPEND", "ARRAY_APPEND(array, a)", kernel=collections.ARRAY_APPEND),
    Function("ARRAY_CONCAT", "ARRAY_CONCAT(array, ..)", kernel=collections.ARRAY_CONCAT),
    Function("ARRAY_CONTAINS", "ARRAY_CONTAINS(array, a)", kernel=collections.ARRAY_CONTAINS),
    Function("ARRAY_DISTINCT", "ARRAY_DISTINCT(array)", kernel=collections.ARRAY_DISTINCT, overloads=_SAME),
    Function("ARRAY_EXCEPT", "ARRAY_EXCEPT(array, array)", kernel=collections.ARRAY_EXCEPT),
    Function("ARRAY_INTERSECT", "ARRAY_INTERSECT(array, array)", kernel=collections.ARRAY_INTERSECT),
    Function(
        "ARRAY_JOIN",
        "ARRAY_JOIN(array, separator [, null])",
        kernel=collections.ARRAY_JOIN,
        overloads=overloads(STRING, "ls", "lss"),
    ),
    Function("ARRAY_MAX", "ARRAY_MAX(array)", kernel=collections.ARRAY_MAX, overloads=_ONE),
    Function("ARRAY_MIN", "ARRAY_MIN(array)", kernel=collections.ARRAY_MIN, overloads=_ONE),
    Function("ARRAY_POSITION", "ARRAY_POSITION(array, a)", kernel=collections.ARRAY_POSITION),
    Function("ARRAY_PREPEND", "ARRAY_PREPEND(array, a)", kernel=collections.ARRAY_PREPEND),
    Function("ARRAY_REMOVE", "ARRAY_REMOVE(array, a)", kernel=collections.ARRAY_REMOVE),
    Function("ARRAY_REVERSE", "ARRAY_REVERSE(array)", kernel=collections.ARRAY_REVERSE, overloads=_SAME),
    Function(
        "ARRAY_SLICE",
        "ARRAY_SLICE(array, start [, end])",
        kernel=collections.ARRAY_SLICE,
        overloads=overloads(first_type, "ai", "aii"),
    ),
    Function(
        "ARRAY_SORT",
        "ARRAY_SORT(array [, ascending [, nulls first]])",
        kernel=collections.ARRAY_SORT,
        overloads=overloads(first_type, "a", "ab", "abb"),
    ),
    Function("ARRAY_UNION", "ARRAY_UNION(array, array)", kernel=collections.ARRAY_UNION),
    Function(
        "MAP_ENTRIES", "MAP_ENTRIES(map)", kernel=collections.MAP_ENTRIES, overloads=overloads(_type_of_entries, "m")
    ),
    Function(
        "MAP_FROM_ARRAYS",
        "MAP_FROM_ARRAYS(keys, values)",
        kernel=collections.MAP_FROM_ARRAYS,
        overloads=overloads(_type_of_map, "aa"),
    ),
    Function("MAP_KEYS", "MAP_KEYS(map)", kernel=collections.MAP_KEYS, overloads=overloads(_type_of_keys, "m")),
    Function("MAP_UNION", "MAP_UNION(map, ..)", kernel=collections.MAP_UNION),
    Function("MAP_VALUES", "MAP_VALUES(map)", kernel=collections.MAP_VALUES, overloads=overloads(_type_of_values, "m")),
)
