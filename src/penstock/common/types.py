"""Rows, as in PyFlink's functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.types import RowKind


class Row:
    """A row of values, by position (``row[0]``), by name (``row['id']``, ``row.id``), or both.

    ``Row(1, 'a')`` has positions only, ``Row(id=1, name='a')`` has names too, and ``Row('id', 'name')`` can be
    called with values to make named rows, as in PyFlink.
    """

    __slots__ = ("_fields", "_kind", "_values")

    _fields: tuple[str, ...]
    _kind: RowKind
    _values: list[Any]

    def __init__(self, *args: Any, **kwargs: Any):
        if args and kwargs:
            raise TypeError("give a Row positional or named values, not both")
        self._set(list(args or kwargs.values()), tuple(kwargs))

    def _set(self, values: list[Any], fields: tuple[str, ...], kind: RowKind = RowKind.INSERT) -> None:
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_fields", fields)
        object.__setattr__(self, "_kind", kind)

    @classmethod
    def named(cls, fields: tuple[str, ...], values: Any, kind: RowKind = RowKind.INSERT) -> Row:
        """A row of these values under these names."""
        row = cls.__new__(cls)
        row._set(list(values), fields, kind)
        return row

    def __call__(self, *values: Any) -> Row:
        if len(values) != len(self._values):
            raise TypeError(f"expected {len(self._values)} values, not {len(values)}")
        return Row.named(tuple(str(name) for name in self._values), values)

    def _position(self, name: str) -> int:
        try:
            return self._fields.index(name)
        except ValueError:
            raise AttributeError(f"no field '{name}'; fields are {', '.join(self._fields) or 'not named'}") from None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in Row.__slots__:
            raise AttributeError(name)
        return self._values[self._position(name)]

    def __setattr__(self, name: str, value: Any) -> None:
        self._values[self._position(name)] = value

    def __getitem__(self, item: int | slice | str) -> Any:
        if isinstance(item, str):
            if item not in self._fields:
                raise KeyError(item)
            return self._values[self._position(item)]
        return self._values[item]

    def __setitem__(self, item: int | str, value: Any) -> None:
        self._values[self._position(item) if isinstance(item, str) else item] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        same_names = not self._fields or not other._fields or self._fields == other._fields
        return same_names and self._values == other._values and self._kind == other._kind

    def __hash__(self) -> int:
        return hash((tuple(self._values), self._kind))

    def __reduce__(self) -> tuple[Any, ...]:
        return Row.named, (self._fields, tuple(self._values), self._kind)

    def __repr__(self) -> str:
        if self._fields:
            return f"Row({', '.join(f'{k}={v!r}' for k, v in zip(self._fields, self._values, strict=True))})"
        return f"Row({', '.join(map(repr, self._values))})"

    def set_field_names(self, field_names: list[str]) -> None:
        """Name the values, in order."""
        if len(field_names) != len(self._values):
            raise TypeError(f"expected {len(self._values)} names, not {len(field_names)}")
        object.__setattr__(self, "_fields", tuple(field_names))

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """The values by name, rows in them as dictionaries too if ``recursive``. Raises TypeError if they have no
        names."""
        if not self._fields:
            raise TypeError("the values of this Row have no names")
        values = map(_to_dictionaries, self._values) if recursive else self._values
        return dict(zip(self._fields, values, strict=True))

    def get_fields_by_names(self, names: list[str]) -> list[Any]:
        """The values under these names; all of them, in order, if the row has no names and there are as many. Raises
        AttributeError for an unknown name."""
        if not self._fields:
            if len(names) != len(self._values):
                raise AttributeError(f"the row has no names, and {len(self._values)} values, not {len(names)}")
            return list(self._values)
        return [self._values[self._position(name)] for name in names]

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """A row that makes this kind of change to its table."""
        row = Row(*args, **kwargs)
        row.set_row_kind(row_kind)
        return row

    def get_row_kind(self) -> RowKind:
        """The kind of change that the row makes to its table."""
        return self._kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set the kind of change that the row makes to its table."""
        object.__setattr__(self, "_kind", row_kind)


def _to_dictionaries(value: Any) -> Any:
    """A value with dictionaries for the rows in it."""
    match value:
        case Row():
            return value.as_dict(True)
        case list():
            return [_to_dictionaries(each) for each in value]
        case dict():
            return {key: _to_dictionaries(each) for key, each in value.items()}
    return value
