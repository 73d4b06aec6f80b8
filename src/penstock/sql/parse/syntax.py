"""Expressions and queries after parsing, before their names are bound to columns and functions.

Every expression carries ``at``, the offset of its first character. Operators are calls under their own sign.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.types import DataType


@dataclass(frozen=True)
class Unbound:
    """An expression."""

    at: int


@dataclass(frozen=True)
class UnboundLiteral(Unbound):
    """A constant. ``form`` is NUMBER, STRING, BYTES, BOOLEAN, NULL, DATE, TIME, TIMESTAMP, or INTERVAL with its unit,
    as in ``INTERVAL DAY TO SECOND``. ``text`` has no quotes; that of a number or an interval has its sign."""

    form: str
    text: str


@dataclass(frozen=True)
class Name:
    """One identifier."""

    text: str
    at: int


@dataclass(frozen=True)
class UnboundName(Unbound):
    """``column``, ``alias.column`` or ``column.field``. Only a schema tells them apart."""

    parts: tuple[Name, ...]


@dataclass(frozen=True)
class UnboundField(Unbound):
    """A field of a computed row: ``a[1].name``."""

    base: Unbound
    name: Name


@dataclass(frozen=True)
class UnboundCall(Unbound):
    """A function or operator, by its upper-case name or sign; ``[]`` is an element of an array, or a value of a map.
    Predicates may be ``negated``: NOT IN, IS NOT NULL. The arguments of ``CASE`` are as in the plan."""

    name: str
    args: tuple[Unbound, ...]
    negated: bool = False


@dataclass(frozen=True)
class UnboundCast(Unbound):
    """CAST, or with ``safe`` TRY_CAST."""

    operand: Unbound
    target: DataType
    safe: bool


@dataclass(frozen=True)
class Star(Unbound):
    """``*`` or ``alias.*``."""

    qualifier: Name | None


@dataclass(frozen=True)
class SelectItem:
    """One entry of a select list."""

    expression: Unbound
    alias: Name | None


@dataclass(frozen=True)
class TableName:
    """The name of a table; catalog and database are already checked and removed."""

    name: str
    at: int


@dataclass(frozen=True)
class UnboundQuery:
    """``SELECT items FROM table [AS alias] [WHERE condition]``."""

    items: tuple[SelectItem, ...]
    table: TableName
    alias: Name | None
    condition: Unbound | None
