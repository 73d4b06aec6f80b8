"""The rows that this process keeps, each list under an id: tables read them, and append to them.

The state belongs to the process: a table in SQL can name rows only by an id, and the caller finds the rows that a job
has written under the same id.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.common import Row

_NUMBERS = itertools.count(1)
_ROWS: dict[str, tuple[Row, ...]] = {}


def register(values: Iterable[Row | Sequence[Any]], data_id: str = "") -> str:
    """Keep these rows and return their id, which is the ``data-id`` of a table: a number unless ``data_id`` is given.

    A row is a sequence of values in the order of the table's columns, or a :class:`~penstock.common.Row`, which may
    have a row kind (``row.set_row_kind(RowKind.DELETE)``). Replaces rows that had the id before.
    """
    data_id = data_id or str(next(_NUMBERS))
    _ROWS[data_id] = tuple(each if isinstance(each, Row) else Row(*each) for each in values)
    return data_id


def rows(data_id: str) -> list[Row]:
    """The rows under an id, in the order of their arrival; none for an unknown id.

    Rows that a job has written have names. ROW values in them are dictionaries, MAP values are lists of pairs.
    """
    return list(_ROWS.get(data_id, ()))


def append(data_id: str, values: Iterable[Row]) -> None:
    """Add rows to those under an id."""
    _ROWS[data_id] = (*_ROWS.get(data_id, ()), *values)


def list_ids() -> tuple[str, ...]:
    """Every id that has been used."""
    return tuple(_ROWS)


def forget(data_id: str) -> None:
    """Forget the rows under an id."""
    _ROWS.pop(data_id, None)
