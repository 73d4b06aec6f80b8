"""The tables of the database that a job writes: found in its catalog, and compared with the job's declarations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.connectors.postgres.columns import Insertion, TableColumn, match_columns, quote_identifier
from penstock.connectors.postgres.database import Transaction
from penstock.connectors.postgres.spec import PostgresSinkSpec
from penstock.errors import DatabaseError, Problem, SchemaError
from penstock.spi import Output

_TABLE = """
SELECT c.oid::bigint, format('%I.%I', n.nspname, c.relname), c.relkind::text,
       has_table_privilege(c.oid, 'INSERT') OR has_any_column_privilege(c.oid, 'INSERT'),
       has_any_column_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'DELETE')
       AND (has_table_privilege(c.oid, 'UPDATE') OR has_any_column_privilege(c.oid, 'UPDATE'))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass($1)
"""

#: The type of a domain is its base type.
_COLUMNS = """
SELECT a.attname::text,
       CASE t.typtype WHEN 'd' THEN format_type(t.typbasetype, t.typtypmod)
                      ELSE format_type(a.atttypid, a.atttypmod) END,
       a.attnotnull OR (t.typtype = 'd' AND t.typnotnull),
       a.attgenerated::text <> '' OR a.attidentity::text = 'a',
       a.atthasdef OR a.attidentity::text <> '' OR (t.typtype = 'd' AND t.typdefault IS NOT NULL),
       t.typtype = 'e',
       coalesce((SELECT format('%I.%I', n.nspname, l.collname) FROM pg_namespace n WHERE n.oid = l.collnamespace), ''),
       coalesce(l.collisdeterministic, true)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_collation l ON l.oid = a.attcollation
WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""

#: The columns of each key that ON CONFLICT can name: unique over all rows, and checked immediately. As JSON.
_KEYS = """
SELECT array_to_json(ARRAY(
    SELECT a.attname::text FROM pg_attribute a
    WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])
    ORDER BY a.attnum))::text
FROM pg_index i
WHERE i.indrelid = $1::oid AND i.indisunique AND i.indimmediate AND i.indisvalid
  AND i.indpred IS NULL AND i.indexprs IS NULL
ORDER BY NOT i.indisprimary, i.indexrelid
"""

#: Ordinary tables, partitioned ones, foreign ones, and views, some of which accept rows.
_TAKES_ROWS = "rpfv"


@dataclass(frozen=True)
class Table:
    """A table for rows. ``name`` is quoted where necessary, and has its schema."""

    name: str
    insertion: Insertion

    def insert_from(self, staging: str) -> str:
        """The statement that inserts all rows of a staging table, without a WHERE clause; ``staging`` is quoted."""
        return f"{self._insertion} FROM {staging}"

    def merge_from(self, staging: str, which: str, *, deletes: bool) -> tuple[str, ...]:
        """The statements that bring the last change of each key from a staging table into the table, in their order.
        ``which`` chooses rows of the staging table; with ``deletes`` there are deletions among them.

        Deletions come first: a row that is inserted may have the value of another unique column.
        """
        keys = self.insertion.keys
        names = ", ".join(f"k{number}" for number in range(len(keys)))
        last = ", ".join(f"{key.staged} AS k{number}" for number, key in enumerate(keys))
        # In the order of the keys: so two jobs lock rows in one order, and the index is filled in its order.
        last = f"(SELECT DISTINCT ON ({names}) *, {last} FROM {staging} WHERE {which} "  # noqa: S608 - quoted names
        last += f"ORDER BY {names}, writer DESC, place DESC) AS staged"
        equal = " AND ".join(key.equals("kept", f"staged.k{number}") for number, key in enumerate(keys))
        gone = f"DELETE FROM {self.name} AS kept USING {last} WHERE staged.deleted AND {equal}"  # noqa: S608
        target = ", ".join(quote_identifier(key.column.name) for key in keys)
        others = [
            quote_identifier(name) for name in self.insertion.names if name not in {key.column.name for key in keys}
        ]
        changed = ", ".join(f"{name} = excluded.{name}" for name in others)
        action = f"DO UPDATE SET {changed}" if changed else "DO NOTHING"
        there = f"{self._insertion} FROM {last} WHERE NOT staged.deleted ON CONFLICT ({target}) {action}"
        return (gone, there) if deletes else (there,)

    @property
    def _insertion(self) -> str:
        columns = ", ".join(map(quote_identifier, self.insertion.names))
        values = ", ".join(
            f"c{number}::{cast}" if cast else f"c{number}" for number, cast in enumerate(self.insertion.casts)
        )
        return f"INSERT INTO {self.name} ({columns}) SELECT {values}"


def find_current_schema(transaction: Transaction) -> str:
    """The schema in which a table without one is made. Raises DatabaseError if there is none."""
    ((namespace,),) = transaction.rows("SELECT current_schema()::text")
    if not namespace:
        raise DatabaseError(
            f"database {transaction.address}: the user's search path names no schema that exists, so there is none for "
            "the tables that penstock makes; set it with ALTER ROLE ... SET search_path = ..."
        )
    return str(namespace)


def find_tables(transaction: Transaction, outputs: Sequence[Output]) -> dict[int, Table]:
    """The table of each output, by its number; none for the tables that the job finds while it runs. Raises SchemaError
    with every table and column that is missing or does not fit."""
    found: dict[int, Table] = {}
    problems: list[Problem] = []
    for number, output in enumerate(outputs):
        if output.spec.tables:
            continue
        try:
            found[number] = find_table(transaction, output)
        except SchemaError as error:
            problems += error.problems
    if problems:
        raise SchemaError(tuple(problems))
    return found


def list_columns(transaction: Transaction, name: str) -> dict[str, TableColumn] | None:
    """The columns of a table, by name; None if there is no such table. ``name`` is quoted where necessary."""
    rows = transaction.rows("SELECT to_regclass($1)::oid::bigint", (name,))
    if not rows or rows[0][0] is None:
        return None
    columns = (TableColumn(*row) for row in transaction.rows(_COLUMNS, rows[0]))
    return {each.name: each for each in columns}


def describe_place(output: Output) -> str:
    """The table of an output, for people."""
    return f"table '{output.table}', {output.spec.table_name} in {output.spec.address}"


def find_table(transaction: Transaction, output: Output) -> Table:
    """The table of an output. Raises SchemaError with everything that is missing or does not fit."""
    spec: PostgresSinkSpec = output.spec
    where = describe_place(output)
    rows = transaction.rows(_TABLE, (spec.table_name,))
    if not rows:
        hint = "create it, or correct 'table-name'; a name without schema is looked up in the user's search path"
        raise SchemaError((Problem("the database has no table of this name", where=where, hint=hint),))
    ((oid, name, relkind, may_insert, may_change),) = rows
    if relkind not in _TAKES_ROWS:
        raise SchemaError((Problem("is not a table that rows can be inserted into", where=where),))
    if not may_insert:
        hint = f"GRANT INSERT ON {name} to the user who connects"
        raise SchemaError((Problem("the right to insert is missing", where=where, hint=hint),))
    if spec.upsert_keys and not may_change:
        reason = "a right that writing by PRIMARY KEY needs is missing"
        hint = f"GRANT SELECT, INSERT, UPDATE, DELETE ON {name} to the user who connects"
        raise SchemaError((Problem(reason, where=where, hint=hint),))
    columns = [TableColumn(*row) for row in transaction.rows(_COLUMNS, (oid,))]
    matched = match_columns(where, output.schema, columns, spec.upsert_keys)
    if spec.upsert_keys:
        keys = [json.loads(text) for (text,) in transaction.rows(_KEYS, (oid,))]
        _check_key(where, name, [key.column.name for key in matched.keys], keys)
    return Table(name, matched)


def _check_key(where: str, table: str, declared: Sequence[str], found: Sequence[Sequence[str]]) -> None:
    """Raises SchemaError unless one of the ``found`` keys has the columns that are ``declared``."""
    if any(set(key) == set(declared) for key in found):
        return
    columns = ", ".join(map(quote_identifier, declared))
    reason = f"the table has no primary key and no unique index with exactly the columns of PRIMARY KEY ({columns})"
    hint = f"CREATE UNIQUE INDEX ON {table} ({columns}), without WHERE"
    if found:
        known = " or ".join(f"({', '.join(key)})" for key in found)
        hint += f"; or declare the key that the table has: {known}"
    raise SchemaError((Problem(reason, where=where, hint=hint),))
