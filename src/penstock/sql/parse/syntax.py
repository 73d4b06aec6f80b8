"""Expressions and queries after parsing, before names are resolved.

Every node carries ``at``, the offset of its first character. Operators are calls under their own sign.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.types import DataType


@dataclass(frozen=True)
class Tree:
    """A piece of an expression."""

    at: int


@dataclass(frozen=True)
class Literal(Tree):
    """A constant. ``kind`` is NUMBER, STRING, BYTES, BOOLEAN, NULL, DATE, TIME or TIMESTAMP."""

    kind: str
    text: str


@dataclass(frozen=True)
class Interval(Tree):
    """``INTERVAL '1' DAY``: the text between quotes, its sign, and the unit such as ``DAY TO SECOND``."""

    text: str
    unit: str


@dataclass(frozen=True)
class Name:
    """One identifier."""

    text: str
    at: int


@dataclass(frozen=True)
class Reference(Tree):
    """``column``, ``alias.column`` or ``column.field``; only a schema tells them apart."""

    parts: tuple[Name, ...]


@dataclass(frozen=True)
class Member(Tree):
    """A field of a row that is itself computed: ``a[1].name``."""

    base: Tree
    name: Name


@dataclass(frozen=True)
class Element(Tree):
    """An element of an array, or a map's value: ``a[1]``, ``m['key']``."""

    base: Tree
    index: Tree


@dataclass(frozen=True)
class Call(Tree):
    """A function or operator, by its upper-case name or sign. Predicates may be ``negated``: NOT IN, IS NOT NULL."""

    name: str
    args: tuple[Tree, ...]
    negated: bool = False


@dataclass(frozen=True)
class Cast(Tree):
    """CAST, or with ``safe`` TRY_CAST."""

    operand: Tree
    target: DataType
    safe: bool


@dataclass(frozen=True)
class Extract(Tree):
    """``EXTRACT(unit FROM operand)``, also YEAR(operand) and similar calls."""

    unit: str
    operand: Tree


@dataclass(frozen=True)
class Case(Tree):
    """CASE. ``subject`` is None for CASE WHEN condition."""

    subject: Tree | None
    branches: tuple[tuple[Tree, Tree], ...]
    otherwise: Tree | None


@dataclass(frozen=True)
class Star(Tree):
    """``*`` or ``alias.*``."""

    qualifier: Name | None


@dataclass(frozen=True)
class SelectItem:
    """One entry of a select list."""

    tree: Tree
    alias: Name | None


@dataclass(frozen=True)
class TableName:
    """A table where it is named, catalog and database already checked and removed."""

    name: str
    at: int


@dataclass(frozen=True)
class Query:
    """``SELECT items FROM table [AS alias] [WHERE condition]``."""

    items: tuple[SelectItem, ...]
    table: TableName
    alias: Name | None
    condition: Tree | None
