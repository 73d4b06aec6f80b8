"""Compares the tables of a database, row by row and column by column, with what a workload says of them.

All values are read as texts, and parsed by the type that their column had when they were written: that of a copy may be
wider, and 1.50 and 1.5 are the same number. A column that a copy lacks has to be NULL in every row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.capture.column_types import TYPES
from tests.capture.workload import Row, Table, Value

__all__ = ["Content", "compare_copy", "compare_origin", "is_equal"]


@dataclass(frozen=True)
class Content:
    """A table of a database: its columns and its rows, as texts."""

    names: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


def compare_origin(table: Table, found: Content) -> list[str]:
    """The differences between a table of the workload's database and the workload."""
    columns = {each.name: each for each in table.columns}
    expected = {
        key: {name: row.values.get(column.number, _NOTHING) for name, column in columns.items()}
        for key, row in table.rows.items()
    }
    return [*_compare(table, expected, found, {*columns})]


def compare_copy(table: Table, found: Content) -> list[str]:
    """The differences between a table of the copy and what rows had when they were written last."""
    ever = {*table.gone, *(each.name for each in table.columns)}
    return [*_compare(table, {key: _written(row) for key, row in table.rows.items()}, found, ever)]


_NOTHING = Value(None, "text")


def _written(row: Row) -> Mapping[str, Value]:
    return row.written


def _compare(
    table: Table, expected: Mapping[tuple[Any, ...], Mapping[str, Value]], found: Content, known: Iterable[str]
) -> Iterator[str]:
    missing = [each for each in table.key if each not in found.names]
    if missing:
        yield f"{table.name}: no columns {', '.join(missing)} of the key"
        return
    for name in found.names:
        if name not in table.key and name not in known:
            yield f"{table.name}: a column {name} that there never was"
    places = [found.names.index(each) for each in table.key]
    left = dict(expected)
    seen = set()
    for row in found.rows:
        key = tuple(_read(row[at], Value(None, kind)) for at, kind in zip(places, table.key.values(), strict=True))
        if key in seen:
            yield f"{table.name} {key}: there twice"
            continue
        seen.add(key)
        wanted = left.pop(key, None)
        if wanted is None:
            yield f"{table.name} {key}: a row that there should not be"
            continue
        given = dict(zip(found.names, row, strict=True))
        for name in {*wanted, *given} - {*table.key}:
            value = wanted.get(name, _NOTHING)
            text = given.get(name)
            if not _is_same(text, value):
                yield f"{table.name} {key}: {name} is {text!r}, not {value.content!r} ({value.type})"
    for key in left:
        yield f"{table.name} {key}: no such row"


def is_equal(one: Any, other: Any) -> bool:
    """Whether two values are equal, NaN among them."""
    both = (one, other)
    if all(isinstance(each, float) and math.isnan(each) for each in both):
        return True
    return bool(one == other)


def _is_same(text: str | None, value: Value) -> bool:
    if text is None or value.content is None:
        return text is None and value.content is None
    try:
        return is_equal(_read(text, value), value.content)
    except (ValueError, KeyError, ArithmeticError):
        return False


def _read(text: str | None, value: Value) -> Any:
    return None if text is None else TYPES[value.type].read(text)
