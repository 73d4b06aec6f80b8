"""The results of queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.plan.expressions import Expression, cast, coerce
from penstock.plan.nodes import Node, project, row_of
from penstock.sql.bind.context import Context
from penstock.sql.bind.correlation import NOTHING, Dependent, Domain, find_equal_pair, reads_outer
from penstock.sql.bind.expressions.row_numbers import RowNumber
from penstock.sql.bind.expressions.scope import UNTYPED_NULL
from penstock.sql.bind.expressions.selection import Selected, number_names
from penstock.sql.bind.ranking import Ranked
from penstock.sql.parse.source import SourceText
from penstock.sql.parse.syntax import Name
from penstock.types import DataType, NullType

#: The rows of a query that others read.
Relation = Node | Ranked | Dependent


@dataclass(frozen=True)
class Result:
    """The result of a query: ``columns`` of the rows of ``node`` for which the ``conditions`` are true, which read
    columns of the outer query. After a problem, which was added to the errors, ``node`` or a column is None; all
    ``columns`` are None if not even their number is known. ``empty`` has the values of the one row that an aggregate of
    all rows gives where there are none. ``domain`` has the outer columns that the query computes with, beside its rows;
    ``below`` those that queries in its FROM compute with."""

    node: Node | None
    columns: tuple[Selected | None, ...] | None
    conditions: tuple[Expression, ...] = ()
    empty: tuple[Expression, ...] | None = None
    domain: Domain = NOTHING
    below: Domain = NOTHING

    @property
    def complete(self) -> list[Selected] | None:
        """The columns, if all are known."""
        found = [each for each in self.columns or () if each is not None]
        return found if self.columns is not None and len(found) == len(self.columns) else None

    @property
    def outer(self) -> Expression | None:
        """The first expression that reads columns of the outer query; None if none does."""
        values = (each.value for each in self.columns or () if each is not None)
        return next((each for each in (*self.conditions, *values) if reads_outer(each)), None)

    @property
    def keeps_columns(self) -> bool:
        """Whether no column reads columns of the outer query."""
        return not any(reads_outer(each.value) for each in self.columns or () if each is not None)

    @property
    def compares(self) -> bool:
        """Whether the query only compares columns of the outer query, and with '=' alone."""
        return self.keeps_columns and None not in map(find_equal_pair, self.conditions)

    def check_column_types(self, context: Context) -> list[Selected] | None:
        """The columns, each of a known type; None after a problem."""
        columns = self.complete
        untyped = next((each for each in columns or () if isinstance(each.value.type, NullType)), None)
        if untyped is None:
            return columns
        context.errors.append(context.source.error(untyped.at, *UNTYPED_NULL))
        return None

    def plan_rows(self, context: Context) -> Node | None:
        """The rows with just the columns of the result; None after a problem."""
        columns = self.check_column_types(context)
        ranked = self.as_ranked(context.source)
        if ranked is not None:
            return context.errors.attempt(lambda: ranked.keep_rows(()))
        if self.node is None or columns is None or not context.independent(self.outer):
            return None
        return project(self.node, number_names(columns))

    def make_dependent(self, context: Context, columns: Sequence[Name] = ()) -> Dependent | None:
        """The rows of a result whose conditions read columns of the outer query, with columns called ``columns``, if
        these are given; None after a problem."""
        found = self.check_column_types(context)
        if self.node is None or found is None or not context.independent(*(each.value for each in found)):
            return None
        items = number_names(found)
        names = context.column_names(columns, row_of(items))
        if names is None:
            return None
        named = [replace(each, name=name) for each, name in zip(items, names, strict=True)]
        return Dependent.from_rows(self.node, named, self.conditions, self.domain.union(self.below))

    def as_ranked(self, source: SourceText) -> Ranked | None:
        """The result, if one of its columns is a row number and it has no problems."""
        columns = self.complete
        if self.node is None or columns is None or not any(isinstance(each.value, RowNumber) for each in columns):
            return None
        return Ranked(self.node, tuple(columns), source)


#: The result of a query with problems.
BROKEN = Result(None, None)


def cast_columns(columns: Sequence[Selected], types: Sequence[DataType]) -> list[Selected]:
    """Columns of these types."""

    def value(given: Expression, to: DataType) -> Expression:
        return cast(given, to) if isinstance(given.type, NullType) else coerce(given, to)

    return [replace(each, value=value(each.value, to)) for each, to in zip(columns, types, strict=True)]
