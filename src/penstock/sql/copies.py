"""CREATE TABLE .. AS TABLE, whose table may follow the columns of the other while the job runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from penstock.errors import Problem, SchemaError
from penstock.plan.expressions import ColumnRef, Expression, substitute
from penstock.plan.nodes import Item, Sink
from penstock.spi import ColumnKind, TableDefinition
from penstock.sql.bind.expressions.scope import Scope
from penstock.sql.bind.expressions.visible_functions import NO_FUNCTIONS, UserFunctions
from penstock.sql.parse.source import SourceText
from penstock.sql.parse.syntax import Unbound
from penstock.types import Field, RowType


@dataclass(frozen=True)
class ComputedText:
    """A column and its expression, which is bound to the columns that its table has at the time."""

    name: str
    expression: Unbound


@dataclass(frozen=True)
class TableCopy:
    """A table that has the rows of another one, a ``source`` of a connector. ``target`` is the new table without its
    columns. ``computed`` are the computed columns of the source, ``added`` those of ADD COLUMN. ``zone`` is the time
    zone of the session."""

    source: TableDefinition
    target: TableDefinition
    text: SourceText
    computed: tuple[ComputedText, ...] = ()
    added: tuple[ComputedText, ...] = ()
    functions: UserFunctions = NO_FUNCTIONS
    zone: str = ""
    at: str = ""
    #: Whether each topic of the source is a table, whose name is that of the topic after this ``prefix``.
    all_topics: bool = False
    prefix: str = ""

    @property
    def connector(self) -> str:
        """The connector of the source."""
        return self.source.options["connector"].strip().lower()

    @property
    def target_connector(self) -> str:
        """The connector of the new table."""
        return self.target.options["connector"].strip().lower()

    def bind_columns(self, row: RowType) -> tuple[Item, ...]:
        """The columns of the copy over rows of the source, which may have further ones by now: the declared ones in
        their order, those that were found, and those that are added. Raises SchemaError or SqlError for an expression
        that does not fit the columns."""
        computed = dict(self._bind(self.computed, row))
        every = RowType((*row.fields, *(Field(name, each.type) for name, each in computed.items())), nullable=False)
        names = [each.name for each in self.source.columns]
        left = [each for each in row.names if each not in names]
        found = [Item(each, computed.get(each) or _refer(row, each)) for each in (*names, *left)]
        added = self._bind(self.added, every)
        return (*found, *(Item(name, substitute(each, computed)) for name, each in added))

    def find_declared_columns(self) -> tuple[Item, ...]:
        """The columns as far as they are known from declarations: without those that are added if one of these needs a
        column that messages have to show."""
        try:
            return self.bind_columns(self.declared)
        except SchemaError:
            return replace(self, added=()).bind_columns(self.declared)

    def _bind(self, columns: tuple[ComputedText, ...], row: RowType) -> Iterator[tuple[str, Expression]]:
        scope = Scope(row, self.text, self.source.name, user_functions=self.functions)
        for each in columns:
            try:
                value = scope.value(each.expression)
            except SchemaError as error:
                raise SchemaError(tuple(map(self._suggest_declaration, error.problems))) from None
            yield each.name, value

    def _suggest_declaration(self, problem: Problem) -> Problem:
        """The problem of an expression. A column that no message has shown yet may be declared."""
        if not problem.reason.startswith("there is no column"):
            return problem
        found = f", or {problem.hint}" if problem.hint else ""
        return replace(problem, hint=f"declare the column in '{self.source.name}'{found}")

    @property
    def declared(self) -> RowType:
        """The columns of the source's records that are declared."""
        return RowType(
            tuple(Field(each.name, each.type) for each in self.source.columns if each.kind is not ColumnKind.COMPUTED),
            nullable=False,
        )


def _refer(row: RowType, name: str) -> Expression:
    field = row.field(name)
    assert field is not None, "rows have the declared columns"  # noqa: S101
    return ColumnRef(name, type=field.type)


class CopiesTables(Protocol):
    """Makes the job of a copy."""

    def __call__(self, copy: TableCopy) -> Sink | None:
        """What writes the copy; None for a source whose columns cannot change. Raises DefinitionError with every
        problem of both tables."""
