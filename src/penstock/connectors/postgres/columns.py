"""Matches a sink's columns with columns of a PostgreSQL table that hold all their values.

A task copies rows into a staging table, whose columns have the types of Arrow's columns (:func:`choose_stage_type`).
From there they are inserted into the table, whose columns may be wider.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.errors import Problem, SchemaError
from penstock.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    PrimitiveType,
    RowType,
    StringType,
    TimestampType,
    TimeType,
)

_PRIMITIVES = {
    "BOOLEAN": "boolean",
    "TINYINT": "smallint",
    "SMALLINT": "smallint",
    "INT": "integer",
    "BIGINT": "bigint",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "DATE": "date",
}
#: The types that hold every value of a staged type. A ``numeric`` must also have enough digits.
_HOLDS = {
    "smallint": ("smallint", "integer", "bigint", "numeric"),
    "integer": ("integer", "bigint", "numeric"),
    "bigint": ("bigint", "numeric"),
    "real": ("real", "double precision"),
    "text": ("text", "character varying", "character"),
}
_DIGITS = {"smallint": 5, "integer": 10, "bigint": 19}
#: Types of text with a length, and what they are without it.
_TEXTS = {"character varying": "character varying", "character": "bpchar"}
#: More types for text, which is cast; a text that is not a value of the type is an error.
_FROM_TEXT = ("json", "jsonb", "uuid")
#: PostgreSQL's times have microseconds.
_FINEST = 6

_TYPE = re.compile(
    r"(?P<name>.+?)(?:\((?P<first>\d+)(?:,(?P<second>-?\d+))?\))?(?P<zone> with(?:out)? time zone)?(?P<array>\[\])?"
)


def choose_stage_type(logical: DataType) -> str | None:
    """The type of a column in the staging table; None for maps, rows and arrays of arrays."""
    match logical:
        case PrimitiveType(name=name):
            return _PRIMITIVES[name]
        case StringType():
            return "text"
        case BinaryType():
            return "bytea"
        case DecimalType():
            return "numeric"
        case TimeType():
            return "time without time zone"
        case TimestampType(local_zone=local):
            return f"timestamp {'with' if local else 'without'} time zone"
        case ArrayType(element=element):
            inner = None if isinstance(element, ArrayType) else choose_stage_type(element)
            return inner and f"{inner}[]"
    return None


@dataclass(frozen=True)
class TableColumn:
    """A column of the table in the database. ``type`` is the text of ``format_type``, for a domain its base type's.

    ``generated``: the database makes its values and accepts none. ``defaulted``: it may be left out. ``enum``: its type
    is an enumeration. ``collation`` is the collation of its texts, quoted; ``exact``: only equal texts are equal by it.
    """

    name: str
    type: str
    required: bool = False
    generated: bool = False
    defaulted: bool = False
    enum: bool = False
    collation: str = ""
    exact: bool = True

    @property
    def compared(self) -> str:
        """The type as which its values are compared: a text without a length, to which a cast would cut it."""
        found = None if self.enum else _TYPE.fullmatch(self.type)
        if found is None or found["name"] not in _TEXTS:
            return self.type
        return f"{_TEXTS[found['name']]}{found['array'] or ''}"

    @property
    def length(self) -> int | None:
        """The length of its longest text, in characters; None if there is no limit."""
        found = _TYPE.fullmatch(self.type)
        if found is None or found["name"] not in _TEXTS or found["first"] is None:
            return None
        return int(found["first"])


@dataclass(frozen=True)
class KeyColumn:
    """A column of a sink's key: the number of the sink's column, and the table's column."""

    number: int
    column: TableColumn

    @property
    def staged(self) -> str:
        """The value in the staging table, as the table compares it."""
        collation = '"C"' if self.column.exact else self.column.collation  # of equal texts, and quicker
        return f"c{self.number}::{self.column.compared}{self.column.collation and f' COLLATE {collation}'}"

    def equals(self, table: str, staged: str) -> str:
        """Whether the column in ``table`` equals a value that :attr:`staged` gives. An index serves it."""
        collation = self.column.collation and f" COLLATE {self.column.collation}"
        return f"{table}.{quote_identifier(self.column.name)} = {staged}{collation}"


@dataclass(frozen=True)
class Insertion:
    """How a sink's columns go from the staging table into the table: the names of the table's columns, in the order of
    the sink's, and the type that each is cast to, or an empty text. ``keys`` are the columns of the sink's key."""

    names: tuple[str, ...]
    casts: tuple[str, ...]
    keys: tuple[KeyColumn, ...] = ()


def find_column(name: str, found: Mapping[str, TableColumn]) -> TableColumn | None:
    """The column with a name, or else with this name in lower case, as for names without quotes in SQL."""
    return found.get(name) or found.get(name.lower())


def match_columns(table: str, schema: RowType, found: Sequence[TableColumn], keys: Sequence[str] = ()) -> Insertion:
    """How rows of ``schema`` are inserted into a table with the columns ``found``; ``keys`` are the columns of the
    sink's key.

    A name without an exact match is looked up in lower case, as for names without quotes in SQL. Raises SchemaError
    with every problem; ``table`` names the table in them.
    """
    by_name = {column.name: column for column in found}
    problems: list[Problem] = []
    matched: list[TableColumn] = []
    casts: list[str] = []
    for field in schema.fields:
        column = find_column(field.name, by_name)
        if column is None:
            hint = f"its columns are {', '.join(by_name)}"
            problems.append(Problem("the table has no column of this name", field.name, table, hint))
            continue
        if column in matched:
            problems.append(Problem(f"is written to '{column.name}', and so is another column", field.name, table))
        matched.append(column)
        casts.append(column.type if _is_cast(field.type, column) else "")
        problems += (Problem(reason, field.name, table, hint) for reason, hint in find_misfits(field.type, column))
    for column in found:
        if column.required and not column.defaulted and column not in matched:
            hint = "add it to the table's declaration, or give it a default in the database"
            problems.append(Problem("is NOT NULL without a default, and is not written", column.name, table, hint))
    if problems:
        raise SchemaError(tuple(problems))
    numbers = [schema.names.index(name) for name in keys]
    key_columns = tuple(KeyColumn(number, matched[number]) for number in numbers)
    return Insertion(tuple(column.name for column in matched), tuple(casts), key_columns)


def quote_identifier(name: str) -> str:
    """An identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _is_cast(logical: DataType, column: TableColumn) -> bool:
    return isinstance(logical, StringType) and (column.enum or column.type in _FROM_TEXT)


def find_misfits(logical: DataType, column: TableColumn) -> Iterator[tuple[str, str]]:
    """Why a type cannot be written to a column, with a hint."""
    if column.generated:
        yield "is generated by the database and cannot be written", "leave it out"
        return
    if _is_cast(logical, column):
        return
    staged, found = choose_stage_type(logical), _TYPE.fullmatch(column.type)
    if staged is None or found is None:
        yield f"{logical} cannot be written to {column.type}", ""
        return
    name = f"{found['name']}{found['zone'] or ''}"
    wanted = _HOLDS.get(staged.removesuffix("[]"), (staged.removesuffix("[]"),))
    if name not in wanted or staged.endswith("[]") != bool(found["array"]):
        suffix = "[]" if staged.endswith("[]") else ""
        hint = f"it can be written to {', '.join(each + suffix for each in wanted)}; or CAST it in the query"
        yield f"{logical} is declared, but the table's column is {column.type}, which may not hold it", hint
        return
    element = logical.element if isinstance(logical, ArrayType) else logical
    first = None if found["first"] is None else int(found["first"])
    if first is not None and _may_lose(element, staged.removesuffix("[]"), first, int(found["second"] or 0)):
        hint = "declare the precision of the table's column, and CAST in the query"
        yield f"{logical} is declared, but the table's column is {column.type}, which would round or refuse it", hint


def _may_lose(logical: DataType, staged: str, first: int, second: int) -> bool:
    """Whether a column with these parameters, such as ``numeric(first, second)``, cannot hold a type's values."""
    match logical:
        case DecimalType(precision=precision, scale=scale):
            return second < scale or first - second < precision - scale
        case TimeType(precision=precision) | TimestampType(precision=precision):
            return first < min(precision, _FINEST)
    return first - second < _DIGITS.get(staged, 0)  # PostgreSQL refuses a text that is too long
