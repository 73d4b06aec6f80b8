"""INSERT INTO: the values of a query in the columns of a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from penstock.plan.expressions import Literal, cast
from penstock.plan.nodes import Sink, project
from penstock.spi import Connector, Registry, SinkCapabilities, WithOverwrite
from penstock.sql.bind.expressions.selection import Selected, number_names
from penstock.sql.bind.results import Result
from penstock.sql.bind.tables.definitions import DeclaredTable
from penstock.sql.parse.source import Errors, SourceText, suggest_name
from penstock.sql.parse.statements import Insert
from penstock.types import NULL, Field, NullType, RowKind, RowType
from penstock.types.casts import is_assignable


@dataclass(frozen=True)
class Insertion:
    """An INSERT INTO statement, with the table that it writes, if that has no problems."""

    statement: Insert
    source: SourceText
    connectors: Registry[Connector]
    errors: Errors
    into: DeclaredTable | None

    @property
    def virtual(self) -> tuple[str, ...]:
        """The columns that are written only if the statement names them, sorted."""
        return tuple(sorted(each.name for each in self.into.definition.columns if each.virtual)) if self.into else ()

    def sink(self, result: Result) -> Sink | None:
        """The sink of the query's result, or None after a problem, which was added to the errors."""
        if self.into is None:
            return None
        named = tuple(name.text for name in self.statement.columns)
        self.errors.attempt(partial(self._check_overwrite, self.into))
        made = self.errors.attempt(partial(self.into.sink, self.connectors, named, overwrite=self.statement.overwrite))
        if made is None:
            return None
        definition, spec = made
        self.errors.attempt(partial(self._check_conflict, spec.capabilities))
        order = self._order_columns(self.into, definition.written)
        columns = [] if result.columns is None else self._fit_columns(list(result.columns), definition.written, order)
        if self.errors or result.node is None:
            return None
        input_ = project(result.node, number_names(columns))
        return Sink(
            definition.written,
            input_,
            definition.name,
            self.into.connector,
            spec,
            on_conflict_deduplicate=self.statement.conflict is not None,
            at=str(self.source.at(self.statement.at)),
        )

    def _check_overwrite(self, into: DeclaredTable) -> None:
        """Raises UnsupportedError for INSERT OVERWRITE into a table whose rows stay."""
        if self.statement.overwrite and not isinstance(self.connectors.get(into.connector), WithOverwrite):
            reason = f"INSERT OVERWRITE into a table of the connector '{into.connector}' is not supported"
            raise self.source.unsupported_feature(
                self.statement.at, reason, "write INSERT INTO: the existing rows stay"
            )

    def _check_conflict(self, table: SinkCapabilities) -> None:
        """Raises DefinitionError for ON CONFLICT where no two rows can conflict, or where it asks for more than the
        last row."""
        conflict, name = self.statement.conflict, self.statement.table.text
        if conflict is None:
            return
        if not table.upsert_keys:
            kinds = "rows before an update too" if RowKind.UPDATE_BEFORE in table.kinds else "insertions only"
            reason = f"ON CONFLICT is for tables of upserts, and '{name}' takes {kinds}"
            raise self.source.error(conflict.at, reason, "leave it out")
        if conflict.text != "DEDUPLICATE":
            reason = f"ON CONFLICT DO {conflict.text} is not supported"
            raise self.source.unsupported_feature(conflict.at, reason, "write DO DEDUPLICATE: the last row stays")

    def _order_columns(self, into: DeclaredTable, written: RowType) -> tuple[str, ...]:
        """The columns that the query's values go to, in the query's order."""
        names = self.statement.columns
        for index, name in enumerate(names):
            if into.schema.field(name.text) is None:
                hint = suggest_name(name.text, written.names)
                reason = f"table '{into.definition.name}' has no column '{name.text}'"
            elif written.field(name.text) is None:
                reason, hint = f"column '{name.text}' is computed and cannot be written", "leave it out"
            elif name.text in {each.text for each in names[:index]}:
                reason, hint = f"column '{name.text}' is named twice", "name it once"
            else:
                continue
            self._add_problem(name.at, reason, hint)
        return tuple(name.text for name in names) or written.names

    def _fit_columns(self, selected: list[Selected | None], written: RowType, order: tuple[str, ...]) -> list[Selected]:
        """The values in the order of the table's columns, NULL where the statement names no value."""
        if len(selected) != len(order):
            if None not in selected:  # else their number is not known
                takes = f"'{self.statement.table.text}' takes {len(order)}: {', '.join(order)}"
                reason = f"the number of columns in the query is {len(selected)}, but {takes}"
                at = selected[0].at if selected and selected[0] else self.statement.query.at
                self._add_problem(at, reason, self._hint_at_virtual(self.virtual))
            return []
        given = {name: item for name, item in zip(order, selected, strict=True) if item is not None}
        fitted = []
        for column in written.fields:
            if column.name in given:
                fitted.append(self._cast(given[column.name], column))
            elif column.name not in order:
                if not column.type.nullable:
                    reason = f"column '{column.name}' is NOT NULL and gets no value"
                    self._add_problem(self.statement.table.at, reason, "name it too")
                fitted.append(Selected(column.name, cast(_NULL, column.type), -1))
        return fitted

    def _cast(self, item: Selected, column: Field) -> Selected:
        if not is_assignable(item.value.type, column.type):
            reason = f"{item.value.type.text()} does not fit column '{column.name}', which is {column.type.text()}"
            virtual = self._hint_at_virtual((item.name,) if item.name in self.virtual else ())
            self._add_problem(item.at, reason, virtual or f"CAST it: CAST(.. AS {column.type.text()})")
        if isinstance(item.value.type, NullType):
            return replace(item, value=cast(item.value, column.type))
        return item

    def _hint_at_virtual(self, virtual: tuple[str, ...]) -> str:
        """A hint that these columns get a value only if the statement names them."""
        if not virtual or self.statement.columns:
            return ""
        names = ", ".join(f"'{name}'" for name in virtual)
        are = "is VIRTUAL: it is" if len(virtual) == 1 else "are VIRTUAL: they are"
        return f"{names} {are} written only if named, as in INSERT INTO {self.statement.table.text} ({virtual[0]}, ..)"

    def _add_problem(self, at: int, reason: str, hint: str) -> None:
        self.errors.append(self.source.schema_error(at, reason, hint))


_NULL = Literal(None, type=NULL)
