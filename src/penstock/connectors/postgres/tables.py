"""The tables of the database that a job writes: found in its catalogue, and compared with the job's declarations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.connectors.postgres.columns import Insertion, TableColumn, match_columns, quoted
from penstock.connectors.postgres.database import Transaction
from penstock.connectors.postgres.spec import PostgresSinkSpec
from penstock.errors import Problem, SchemaError
from penstock.spi import Output

_TABLE = """
SELECT c.oid::bigint, format('%I.%I', n.nspname, c.relname), c.relkind::text,
       has_table_privilege(c.oid, 'INSERT') OR has_any_column_privilege(c.oid, 'INSERT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass($1)
"""

#: The type of a domain is that below it.
_COLUMNS = """
SELECT a.attname::text,
       CASE t.typtype WHEN 'd' THEN format_type(t.typbasetype, t.typtypmod)
                      ELSE format_type(a.atttypid, a.atttypmod) END,
       a.attnotnull OR (t.typtype = 'd' AND t.typnotnull),
       a.attgenerated::text <> '' OR a.attidentity::text = 'a',
       a.atthasdef OR a.attidentity::text <> '' OR (t.typtype = 'd' AND t.typdefault IS NOT NULL),
       t.typtype = 'e'
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
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
        columns = ", ".join(map(quoted, self.insertion.names))
        values = ", ".join(
            f"c{number}::{cast}" if cast else f"c{number}" for number, cast in enumerate(self.insertion.casts)
        )
        return f"INSERT INTO {self.name} ({columns}) SELECT {values} FROM {staging}"  # noqa: S608 - quoted names


def find_tables(transaction: Transaction, outputs: Sequence[Output]) -> tuple[Table, ...]:
    """The table of each output. Raises SchemaError with every table and column that is missing or does not fit."""
    found: list[Table] = []
    problems: list[Problem] = []
    for output in outputs:
        try:
            found.append(_find_table(transaction, output))
        except SchemaError as error:
            problems += error.problems
    if problems:
        raise SchemaError(tuple(problems))
    return tuple(found)


def _find_table(transaction: Transaction, output: Output) -> Table:
    spec: PostgresSinkSpec = output.spec
    where = f"table '{output.table}', {spec.table_name} in {spec.address}"
    rows = transaction.rows(_TABLE, (spec.table_name,))
    if not rows:
        hint = "create it, or correct 'table-name'; a name without schema is looked up in the user's search path"
        raise SchemaError((Problem("the database has no table of this name", where=where, hint=hint),))
    ((oid, name, relkind, granted),) = rows
    if relkind not in _TAKES_ROWS:
        raise SchemaError((Problem("is not a table that rows can be inserted into", where=where),))
    if not granted:
        hint = f"GRANT INSERT ON {name} to the user who connects"
        raise SchemaError((Problem("the right to insert is missing", where=where, hint=hint),))
    columns = [TableColumn(*row) for row in transaction.rows(_COLUMNS, (oid,))]
    return Table(name, match_columns(where, output.schema, columns))
