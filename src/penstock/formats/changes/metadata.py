"""Metadata columns of change data messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.buffers import fixed_values, from_buffers, validity
from penstock.errors import Problem, SchemaError, nearest
from penstock.exact import numbers
from penstock.formats.changes.envelopes import Mask, is_null
from penstock.types import STRING, DataType, Field, MapType, TimestampType, arrow_type

#: A column, and which of its values could not be read, or None if all could.
Values: TypeAlias = tuple[pa.Array, Mask | None]

TEXT_MAP = MapType(key=STRING, value=STRING)
MILLISECONDS = TimestampType(precision=3, local_zone=True)
_MICROS = arrow_type(MILLISECONDS)
_LARGEST = 2**63 - 1
_LONG = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True)
class Metadata:
    """A metadata column: its type, the field of the message that it comes from, and the function that reads it.

    ``entry`` is the entry of the field's map that it comes from, if it is not the whole field. ``beside``: the field is
    next to ``payload``, not inside it.
    """

    type: DataType
    field: Field
    read: Callable[[pa.Array], Values]
    entry: str = ""
    beside: bool = False

    @property
    def path(self) -> str:
        """The path of the value for error messages."""
        return f"{self.field.name}.{self.entry}" if self.entry else self.field.name

    def select_values(self, column: pa.Array) -> pa.Array:
        """The values of the field: an entry of a map, or a part of a row."""
        if not self.entry:
            return column
        if pa.types.is_struct(column.type):
            return column.flatten()[column.type.get_field_index(self.entry)]
        return pc.map_lookup(column, pa.scalar(self.entry, column.type.key_type), "last")


def check_keys(keys: Sequence[str], known: Mapping[str, Metadata], name: str) -> tuple[str, ...]:
    """``keys``, if the format ``name`` has all of them. Raises SchemaError with every unknown key."""
    problems = tuple(
        Problem(
            f"{name} has no metadata '{key}'; known: {', '.join(known)}",
            f"value.{key}",
            hint=nearest(key, tuple(known)),
        )
        for key in keys
        if key not in known
    )
    if problems:
        raise SchemaError(problems)
    return tuple(keys)


def read_unchanged(column: pa.Array) -> Values:
    """The values as they are in the message."""
    return column, None


def epoch_reader(unit: int) -> Callable[[pa.Array], Values]:
    """Integers in units of ``unit`` microseconds since the epoch to timestamps."""

    def read(column: pa.Array) -> Values:
        return _to_timestamps(fixed_values(column, np.int64), is_null(column), unit)

    return read


def read_epoch_text(texts: pa.Array) -> Values:
    """Texts of milliseconds since the epoch as timestamps."""
    values, refused = parse_texts(texts, "^-?[0-9]{1,18}$", pa.int64(), _parse_long)
    shown, outside = _to_timestamps(values, is_null(texts) | refused, 1000)
    return shown, refused if outside is None else refused | outside


def moment_reader(plain: str, one: Callable[[str], int | None]) -> Callable[[pa.Array], Values]:
    """A reader of texts as timestamps. Arrow reads those that match ``plain``. ``one`` reads any other to microseconds
    since the epoch, or None for null, or raises ValueError."""

    def read(column: pa.Array) -> Values:
        values, refused = parse_texts(column, plain, pa.timestamp("us"), one)
        missing = (values == _NULL) | is_null(column) | refused
        return _to_timestamps(np.where(missing, 0, values), missing, 1)[0], refused

    return read


#: Marks a value that :func:`parse_texts` found to be null.
_NULL = np.iinfo(np.int64).min


def parse_texts(
    texts: pa.Array, plain: str, data_type: pa.DataType, one: Callable[[str], int | None]
) -> tuple[npt.NDArray[np.int64], Mask]:
    """Texts as 64 bits each, and which could not be read: by a cast to ``data_type`` where they match ``plain``, else
    by ``one``."""
    quick = pc.match_substring_regex(texts, plain).fill_null(False)
    cast = pc.if_else(quick, texts, None).cast(data_type)
    values = np.where(is_null(cast), _NULL, fixed_values(cast, np.int64))
    refused = np.zeros(len(texts), bool)
    left = (validity(texts) != 0) & is_null(cast)
    for index in np.flatnonzero(left).tolist():
        try:
            value = one(texts[index].as_py())
            values[index] = _NULL if value is None else value
        except ValueError:
            refused[index] = True
    return values, refused


def _parse_long(text: str) -> int:
    """A whole number as ``Long.parseLong`` reads it: without spaces."""
    if _LONG.fullmatch(text) is None:
        raise ValueError(f"expected a whole number, not '{text}'")
    return numbers.parse_integer(text, "BIGINT")


def _to_timestamps(values: npt.NDArray[np.int64], missing: Mask, unit: int) -> Values:
    """Values beyond 64 bits of microseconds are refused."""
    outside = ~missing & ((values > _LARGEST // unit) | (values < -_LARGEST // unit))
    usable = ~(missing | outside)
    column = from_buffers(_MICROS, usable.astype(np.uint8), np.where(usable, values, 0) * unit)
    return column, outside if outside.any() else None
