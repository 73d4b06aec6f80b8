"""A random workload on a database, and what each row of a copy of it has to be.

A copy gets rows when they are written, and no others. So a column that is added, renamed, or has a default later does
not change rows that are there: the copy has NULL there until a row is written again. A column that is dropped or
renamed stays in the copy: a row keeps what it had when it was written last, and has NULL there when it is written
after.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.capture.column_types import TYPES, literal, make_text

__all__ = ["SCHEMA", "Column", "Row", "Table", "Transaction", "Value", "Workload"]

SCHEMA = "shop"
#: The columns of keys by the beginning of a table's name.
KEYS = {
    "one": {"id": "integer"},
    "two": {"region": "varchar(20)", "number": "bigint"},
    "named": {"name": "text"},
}
_NULLS = 0.15


@dataclass
class Column:
    """A column as it is now; it keeps its ``number`` when it is renamed, or gets another type."""

    number: int
    name: str
    type: str


@dataclass(frozen=True)
class Value:
    """A value, and the type of its column when it was written."""

    content: Any
    type: str


@dataclass
class Row:
    """A row: its values now by the numbers of columns, and those that it had by name when it was written last."""

    values: dict[int, Value]
    written: dict[str, Value]


@dataclass
class Table:
    """A table. ``gone`` are the names of columns that it had, with their types."""

    name: str
    key: dict[str, str]
    columns: list[Column]
    rows: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)
    #: Keys of rows that were deleted.
    free: list[tuple[Any, ...]] = field(default_factory=list)
    keys: list[tuple[Any, ...]] = field(default_factory=list)
    #: Whether a row was ever written.
    shown: bool = False


@dataclass(frozen=True)
class Transaction:
    """Statements of one transaction, and how many rows they change. Others are rolled back."""

    statements: tuple[str, ...]
    changes: int
    commits: bool = True


class Workload:
    """Draws transactions that change about so many rows. ``tables`` are what they make."""

    def __init__(self, seed: int, changes: int, *, dated_texts: bool = False):
        """``dated_texts``: texts may look like dates and times."""
        self._random = Random(seed)
        self._changes = changes
        self._dated = dated_texts
        self._number = 0
        self.tables: dict[str, Table] = {}
        self.done: dict[str, int] = {}
        self._size = max(3, min(40, changes // 60))

    def begin(self) -> Transaction:
        """The first tables, with some rows."""
        statements: list[str] = []
        for kind in KEYS:
            statements += self._create_table(kind)
        changes = 0
        for table in list(self.tables.values()):
            for _ in range(20):
                statements.append(self._insert(table))
                changes += 1
        return Transaction(tuple(statements), changes)

    def transactions(self) -> Iterator[Transaction]:
        """The transactions, of which each counts as done when it is drawn."""
        random, left = self._random, self._changes
        # So that there are about this many changes of tables, whatever the number of rows.
        wanted = 24 + self._changes // 500
        often = wanted * self._size / self._changes
        while left > 0:
            if random.random() < 0.03:
                yield Transaction((self._lose(),), 0, commits=False)
            size = min(left, random.randint(1, 2 * self._size))
            at = random.randrange(size + 1)
            statements = [self._change_row() for _ in range(at)]
            if random.random() < often:
                statements += self._change_table()
            statements += [self._change_row() for _ in range(size - at)]
            left -= size
            yield Transaction(tuple(statements), size)

    def draw_more(self) -> Transaction:
        """A small transaction more."""
        return Transaction(tuple(self._change_row() for _ in range(3)), 3)

    def _count(self, what: str) -> None:
        self.done[what] = self.done.get(what, 0) + 1

    # --- rows ------------------------------------------------------------------------------------------------

    def _change_row(self) -> str:
        random = self._random
        table = random.choice(list(self.tables.values()))
        found = random.random()
        if not table.keys or found < 0.45:
            return self._insert(table)
        if found < 0.8:
            return self._update(table)
        return self._move(table) if found < 0.85 else self._delete(table)

    def _draw(self, type_name: str) -> Any:
        if self._random.random() < _NULLS:
            return None
        if self._dated and type_name in ("text", "varchar(40)") and self._random.random() < 0.2:
            return self._random.choice(["2026-01-02", "2026-01-02 03:04:05.60", "03:04:05", "12", "true"])
        return TYPES[type_name].make(self._random)

    def _draw_key(self, table: Table) -> tuple[Any, ...]:
        """A key that no row has, at times one that a row had."""
        while True:
            if table.free and self._random.random() < 0.3:
                found = table.free.pop(self._random.randrange(len(table.free)))
            elif "name" in table.key:
                found = (f"{make_text(self._random, 20)} {self._random.randrange(10**9)}",)
            elif "region" in table.key:
                found = (self._random.choice(["north", "süd", ""]), self._random.randrange(2**40))
            else:
                most = 2**31 if table.key["id"] == "integer" else 2**60
                found = (self._random.randrange(-most, most),)
            if found not in table.rows:
                return found

    def _pick(self, table: Table) -> tuple[Any, ...]:
        """The key of a row, of which it is left out of the list of keys."""
        at = self._random.randrange(len(table.keys))
        table.keys[at], table.keys[-1] = table.keys[-1], table.keys[at]
        return table.keys.pop()

    def _insert(self, table: Table) -> str:
        key = self._draw_key(table)
        values = {each.number: Value(self._draw(each.type), each.type) for each in table.columns}
        self._write(table, key, values)
        self._count("inserted")
        names = [*table.key, *(each.name for each in table.columns)]
        contents = [
            *self._write_key(table, key),
            *(literal(values[each.number].content, each.type) for each in table.columns),
        ]
        return f"INSERT INTO {SCHEMA}.{table.name} ({', '.join(map(_quote, names))}) VALUES ({', '.join(contents)})"

    def _update(self, table: Table) -> str:
        key = self._pick(table)
        row = table.rows[key]
        chosen = self._random.sample(table.columns, self._random.randint(1, min(3, len(table.columns))))
        drawn = {each.number: Value(self._draw(each.type), each.type) for each in chosen}
        self._write(table, key, {**row.values, **drawn})
        self._count("updated")
        sets = ", ".join(f"{_quote(each.name)} = {literal(drawn[each.number].content, each.type)}" for each in chosen)
        return f"UPDATE {SCHEMA}.{table.name} SET {sets} WHERE {self._where(table, key)}"

    def _move(self, table: Table) -> str:
        """Another key for a row."""
        old = self._pick(table)
        new = self._draw_key(table)
        row = table.rows.pop(old)
        table.free.append(old)
        self._write(table, new, row.values)
        self._count("moved")
        sets = zip(map(_quote, table.key), self._write_key(table, new), strict=True)
        return (
            f"UPDATE {SCHEMA}.{table.name} SET {', '.join(f'{name} = {text}' for name, text in sets)} "
            f"WHERE {self._where(table, old)}"
        )

    def _delete(self, table: Table) -> str:
        key = self._pick(table)
        del table.rows[key]
        table.free.append(key)
        self._count("deleted")
        return f"DELETE FROM {SCHEMA}.{table.name} WHERE {self._where(table, key)}"

    def _lose(self) -> str:
        """A statement that is rolled back."""
        self._count("rolled back")
        return f"DELETE FROM {SCHEMA}.{self._random.choice(list(self.tables))}"

    def _write(self, table: Table, key: tuple[Any, ...], values: dict[int, Value]) -> None:
        nothing = Value(None, "text")
        now = {each.number: values.get(each.number, nothing) for each in table.columns}
        table.rows[key] = Row(now, {each.name: now[each.number] for each in table.columns})
        table.keys.append(key)
        table.shown = True

    @staticmethod
    def _write_key(table: Table, key: tuple[Any, ...]) -> list[str]:
        return [literal(each, name) for each, name in zip(key, table.key.values(), strict=True)]

    def _where(self, table: Table, key: tuple[Any, ...]) -> str:
        texts = zip(map(_quote, table.key), self._write_key(table, key), strict=True)
        return " AND ".join(f"{name} = {text}" for name, text in texts)

    # --- tables ----------------------------------------------------------------------------------------------

    def _change_table(self) -> list[str]:
        random = self._random
        table = random.choice(list(self.tables.values()))
        steps = [self._add_column, self._add_column, self._widen_column, self._widen_column]
        if table.key.get("id") == "integer":
            steps.append(self._widen_key)
        if len(table.columns) > 2:
            steps += [self._drop_column, self._rename_column]
        if len(self.tables) < 5 + self._changes // 10_000 and random.random() < 0.3:
            return self._create_table(random.choice(list(KEYS)))
        found = random.choice(steps)(table)
        return [found] if found else []

    def _create_table(self, kind: str) -> list[str]:
        name = f"{kind}_{len(self.tables)}"
        columns = [self._make_column(random_type) for random_type in self._random.sample(list(TYPES), 6)]
        table = Table(name, dict(KEYS[kind]), columns)
        self.tables[name] = table
        self._count("tables")
        parts = [f"{_quote(each)} {kind}" for each, kind in table.key.items()]
        parts += [f"{_quote(each.name)} {each.type}" for each in columns]
        return [
            f"CREATE TABLE {SCHEMA}.{name} ({', '.join(parts)}, PRIMARY KEY ({', '.join(map(_quote, table.key))}))",
            f"ALTER TABLE {SCHEMA}.{name} REPLICA IDENTITY FULL",
        ]

    def _make_column(self, type_name: str, name: str = "") -> Column:
        self._number += 1
        return Column(self._number, name or f"c{self._number}", type_name)

    def _add_column(self, table: Table) -> str:
        random = self._random
        type_name, name = random.choice(list(TYPES)), ""
        if table.gone and random.random() < 0.3:
            # A name that was there before, with a type that holds the values of the former one.
            name = random.choice(list(table.gone))
            type_name = random.choice([table.gone.pop(name), "text"])
        column = self._make_column(type_name, name)
        table.columns.append(column)
        self._count("added")
        default = ""
        if random.random() < 0.2:
            value = Value(TYPES[type_name].make(random), type_name)
            default = f" DEFAULT {literal(value.content, type_name)}"
            for row in table.rows.values():
                row.values[column.number] = value
        return f"ALTER TABLE {SCHEMA}.{table.name} ADD COLUMN {_quote(column.name)} {type_name}{default}"

    def _widen_column(self, table: Table) -> str:
        chosen = [each for each in table.columns if TYPES[each.type].wider]
        if not chosen:
            return ""
        column = self._random.choice(chosen)
        column.type = self._random.choice(TYPES[column.type].wider)
        self._count("widened")
        return (
            f"ALTER TABLE {SCHEMA}.{table.name} ALTER COLUMN {_quote(column.name)} DROP DEFAULT, "
            f"ALTER COLUMN {_quote(column.name)} TYPE {column.type}"
        )

    def _widen_key(self, table: Table) -> str:
        table.key["id"] = "bigint"
        self._count("widened keys")
        return f'ALTER TABLE {SCHEMA}.{table.name} ALTER COLUMN "id" TYPE bigint'

    def _drop_column(self, table: Table) -> str:
        column = table.columns.pop(self._random.randrange(len(table.columns)))
        table.gone[column.name] = column.type
        self._count("dropped")
        return f"ALTER TABLE {SCHEMA}.{table.name} DROP COLUMN {_quote(column.name)}"

    def _rename_column(self, table: Table) -> str:
        column = self._random.choice(table.columns)
        old = column.name
        table.gone[old] = column.type
        self._number += 1
        column.name = f"c{self._number}"
        self._count("renamed")
        return f"ALTER TABLE {SCHEMA}.{table.name} RENAME COLUMN {_quote(old)} TO {_quote(column.name)}"


def _quote(name: str) -> str:
    return f'"{name}"'
