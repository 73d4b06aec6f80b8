"""NULL in columns that do not allow it: sources check for it, since plans rely on the declared types."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.types import ArrayType, DataType, MapType, RowKind, RowType

_Mask = npt.NDArray[np.bool_]
#: The kinds of rows that retract a row. Some messages of that kind have no more than its key.
_TAKING_BACK = (int(RowKind.UPDATE_BEFORE), int(RowKind.DELETE))


class NotNull:
    """Finds the rows of a table in which a column of ``schema`` is NULL that must not be.

    Of a retraction only the columns ``keys`` are checked: its message may have no others.
    """

    def __init__(self, schema: RowType, keys: Collection[str] = ()):
        self._columns = [(each.name, each.type) for each in schema.fields if _demands_values(each.type)]
        self._keys = frozenset(keys)

    def missing(
        self, columns: Mapping[str, pa.Array], kinds: npt.NDArray[np.int8] | None = None
    ) -> Sequence[tuple[str, _Mask]]:
        """The columns in which something is missing, each with the rows where it is. ``kinds[i]`` is the RowKind of row
        ``i``; with None all are insertions. Cheap where nothing is missing."""
        found = []
        for name, type_ in self._columns:
            mask = _find_missing(columns[name], type_)
            if mask is not None and kinds is not None and name not in self._keys:
                mask = mask & ~np.isin(kinds, _TAKING_BACK)
            if mask is not None and mask.any():
                found.append((name, mask))
        return found


def missing_text(schema: RowType, column: str) -> str:
    """The reason why a record is bad whose value is missing in a ``column`` of ``schema``."""
    type_ = next(each.type for each in schema.fields if each.name == column)
    if type_.nullable:
        return f"a part of column '{column}' is NULL, and its type {type_} does not allow that"
    return f"column '{column}' is {type_}, and the record has no value for it"


def _demands_values(type_: DataType) -> bool:
    """Whether a value of the type, or a part of it, must not be NULL."""
    return not type_.nullable or any(map(_demands_values, _list_parts(type_)))


def _list_parts(type_: DataType) -> tuple[DataType, ...]:
    match type_:
        case RowType(fields=fields):
            return tuple(each.type for each in fields)
        case ArrayType(element=element):
            return (element,)
        case MapType(value=value):  # keys are never NULL
            return (value,)
    return ()


def _find_missing(array: pa.Array, type_: DataType) -> _Mask | None:
    """The rows in which a value, or a part of one, is NULL that must not be; None if there are none. Parts of a value
    that is NULL itself are not missing. Values that the engine casts to ``type_`` later may have other parts."""
    found: _Mask | None = None
    if not type_.nullable and array.null_count:
        found = np.asarray(array.is_null())
    for mask in _find_missing_parts(array, type_):
        present = mask & np.asarray(array.is_valid()) if array.null_count else mask
        found = present if found is None else found | present
    return found


def _find_missing_parts(array: pa.Array, type_: DataType) -> list[_Mask]:
    match type_:
        case RowType(fields=fields) if pa.types.is_struct(array.type) and array.type.num_fields == len(fields):
            parts = [
                _find_missing(array.field(at), each.type)
                for at, each in enumerate(fields)
                if _demands_values(each.type)
            ]
            return [each for each in parts if each is not None]
        case ArrayType(element=part) if pa.types.is_list(array.type) and _demands_values(part):
            values = array.values
        case MapType(value=part) if pa.types.is_map(array.type) and _demands_values(part):
            values = array.items
        case _:
            return []
    of_values = _find_missing(values, part)
    if of_values is None:
        return []
    offsets = np.asarray(array.offsets)
    before = np.concatenate(([0], np.cumsum(of_values)))
    return [before[offsets[1:]] > before[offsets[:-1]]]
