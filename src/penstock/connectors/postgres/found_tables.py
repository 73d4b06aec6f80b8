"""The tables of a database that a job finds while it runs, as its driver knows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.connectors.postgres.column_types import holds
from penstock.connectors.postgres.columns import TableColumn, find_column
from penstock.connectors.postgres.database import Transaction
from penstock.connectors.postgres.definitions import TableDefinitions, create_schema
from penstock.connectors.postgres.staging import Staged
from penstock.connectors.postgres.table_names import TableName
from penstock.connectors.postgres.tables import Table, find_current_schema, find_table, list_columns
from penstock.errors import Problem, SchemaError
from penstock.schemas import CreateTable, DropTable, SchemaChange, widen_type
from penstock.spi import FoundOutputs, JobContext, Output
from penstock.types import BIGINT, DOUBLE, FLOAT, INT, SMALLINT, STRING, DataType, DecimalType, Field, TimestampType

#: What a column may become when its values are of several types, the narrowest first.
_WIDER: tuple[DataType, ...] = (
    *(SMALLINT, INT, BIGINT, DecimalType(38, 0), FLOAT, DOUBLE),
    *(TimestampType(precision, local_zone=zone) for zone in (False, True) for precision in (6, 9)),
    STRING,
)


@dataclass(frozen=True)
class FoundTable:
    """A version of a table: how its rows are written, and the table of the database."""

    output: Output
    table: Table


@dataclass(eq=False)
class FoundTables:
    """Finds the tables of a job, and has them follow their schemas."""

    context: JobContext
    #: The present tables; None in a job that finds none.
    outputs: FoundOutputs | None = None
    #: The id of each table that this run has made or written, by its name.
    _ids: dict[TableName, str] = field(default_factory=dict)
    _known: dict[int, FoundTable] = field(default_factory=dict)

    def follow(self, transaction: Transaction, changes: Sequence[SchemaChange], output: Output) -> None:
        """Have the table of ``output`` follow its changes. Raises SchemaError where it cannot, and DatabaseError."""
        self._known = {number: each for number, each in self._known.items() if each.output.table != output.table}
        name = self._name(transaction, output)
        if TableName.from_id(output.table).schema:
            create_schema(transaction, name.schema)
        located = _locate(output, name)
        if zone := self.context.settings.session_time_zone:  # in which a TIMESTAMP becomes a TIMESTAMP_LTZ
            transaction.run("SELECT set_config('TimeZone', $1, true)", (zone,))
        for each in changes:
            if isinstance(each, CreateTable) and (each.schema.options or each.schema.partition_keys):
                self.context.warn(
                    f"table '{output.table}': 'table-options' and 'partition-keys' of its 'transform' have no effect: "
                    f"connector '{output.spec.connector}' makes a plain table"
                )
        TableDefinitions(transaction, located, name).follow(changes)
        if not changes or not isinstance(changes[-1], DropTable):
            if any(isinstance(each, CreateTable) for each in changes):
                located = _allow_wider(located, list_columns(transaction, str(name)) or {})
            find_table(transaction, located)

    def find(self, transaction: Transaction, staged: Staged, fixed: int) -> dict[int, FoundTable]:
        """The tables that rows were copied for, by their numbers, which come after those of ``fixed`` outputs. Raises
        SchemaError for a table that does not fit any more."""
        return {number: self._find(transaction, number) for number in staged.records if number >= fixed}

    def _find(self, transaction: Transaction, number: int) -> FoundTable:
        if number not in self._known:
            assert self.outputs is not None, "tasks write such tables in a job that finds them"  # noqa: S101
            output = self.outputs.find_output(number)
            table = find_table(transaction, _locate(output, self._name(transaction, output)))
            self._known = {at: each for at, each in self._known.items() if each.output.table != output.table}
            self._known[number] = FoundTable(output, table)
        return self._known[number]

    def _name(self, transaction: Transaction, output: Output) -> TableName:
        """The name of the table of an output, with its schema. Raises SchemaError if it cannot have it, and if another
        table of the job has it."""
        TableName.from_id(output.table).check(output.table, output.schema.names)
        present = find_current_schema(transaction)

        def qualify(table: str) -> TableName:
            name = TableName.from_id(table)
            return name if name.schema else replace(name, schema=present)

        wanted = qualify(output.table)
        known = {qualify(each): each for each in self.outputs.list_tables()} if self.outputs is not None else {}
        ids = {self._ids.setdefault(wanted, output.table), known.get(wanted, output.table)}
        if others := sorted(ids - {output.table}):
            reason = f"'{others[0]}' is written to {wanted} too: the first part of an id is left out"
            hint = "give one of them another name in a 'route', or send both to one table by 'route'"
            raise SchemaError((Problem(reason, where=f"table '{output.table}'", hint=hint),))
        return wanted


def _locate(output: Output, name: TableName) -> Output:
    return replace(output, spec=replace(output.spec, table_name=str(name)))


def _allow_wider(output: Output, found: Mapping[str, TableColumn]) -> Output:
    """The output with the types of columns that a later version of the schema has given to a table: a run that made the
    table may have ended before any version was committed. Whether rows fit is found out when they are written."""

    def widen(field: Field) -> Field:
        column = find_column(field.name, found)
        if column is None or holds(column, field.type):
            return field
        wider = (each for each in _WIDER if widen_type(field.type, each) == each and holds(column, each))
        return replace(field, type=next(wider, field.type).with_nullability(field.type.nullable))

    return replace(output, schema=replace(output.schema, fields=tuple(map(widen, output.schema.fields))))
