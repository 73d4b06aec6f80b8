"""What a query reads: tables, and queries in FROM. Joins are in ``joins``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from penstock.plan.expressions import Expression, conjunction
from penstock.plan.nodes import Filter, Node
from penstock.plan.traits import traits
from penstock.spi import Connector, Registry
from penstock.sql.bind.correlation import NOTHING, Domain
from penstock.sql.bind.expressions.resolution import NamedTable, make_named_table
from penstock.sql.bind.tables.definitions import DeclaredTable
from penstock.sql.parse.source import Errors
from penstock.types import RowType


class Source(Protocol):
    """What a query reads. Expressions are bound to its ``schema`` by the names that its ``tables`` give; its
    :meth:`plan_rows` are made after that, with the conditions of WHERE."""

    @property
    def schema(self) -> RowType:
        """The columns."""

    @property
    def tables(self) -> tuple[NamedTable, ...]:
        """The names of the columns."""

    @property
    def event_times(self) -> tuple[str, ...]:
        """The columns that CURRENT_WATERMARK takes: those whose event time watermarks follow."""

    @property
    def correlated_conditions(self) -> tuple[Expression, ...]:
        """Conditions on the rows that read columns of the outer query, which :meth:`plan_rows` does not check."""

    @property
    def domain(self) -> Domain:
        """The columns of the outer query that the rows compute with."""

    def plan_rows(self, conditions: Sequence[Expression], *, with_watermark: bool = False) -> Node | None:
        """The rows for which all ``conditions`` are true, with the present watermark as a last column if
        ``with_watermark``; None after a problem, which was added to the errors."""


def filter_rows(node: Node, conditions: Sequence[Expression]) -> Node:
    """The rows of ``node`` for which all ``conditions`` are true."""
    return Filter(node.schema, node, conjunction(conditions)) if conditions else node


@dataclass(frozen=True)
class TableSource:
    """A table of CREATE TABLE, called ``qualifier`` here, and its columns ``names``."""

    table: DeclaredTable
    qualifier: str
    names: tuple[str, ...]
    connectors: Registry[Connector]
    errors: Errors
    correlated_conditions: tuple[Expression, ...] = ()
    domain: Domain = NOTHING

    @property
    def schema(self) -> RowType:
        return self.table.schema

    @property
    def tables(self) -> tuple[NamedTable, ...]:
        return (make_named_table(self.qualifier, self.schema, self.names),)

    @property
    def event_times(self) -> tuple[str, ...]:
        return (self.table.event_time,) if self.table.event_time else ()

    def plan_rows(self, conditions: Sequence[Expression], *, with_watermark: bool = False) -> Node | None:
        node = self.errors.attempt(lambda: self.table.scan(self.connectors, with_watermark=with_watermark))
        return None if node is None else filter_rows(node, conditions)


class _NodeRows:
    """The part of a source that follows from the ``node`` with its rows."""

    node: Node

    @property
    def schema(self) -> RowType:
        return self.node.schema

    @property
    def event_times(self) -> tuple[str, ...]:
        return traits(self.node).rowtimes

    def plan_rows(self, conditions: Sequence[Expression], *, with_watermark: bool = False) -> Node | None:
        return filter_rows(self.node, conditions)


@dataclass(frozen=True)
class NodeSource(_NodeRows):
    """A query in FROM, of WITH or of a view, as the ``node`` with its rows, called ``qualifier`` here, and its columns
    ``names``, which others may follow."""

    node: Node
    qualifier: str
    names: tuple[str, ...]
    correlated_conditions: tuple[Expression, ...] = ()
    domain: Domain = NOTHING

    @cached_property
    def tables(self) -> tuple[NamedTable, ...]:
        visible = RowType(self.schema.fields[: len(self.names)], nullable=False)
        return (make_named_table(self.qualifier, visible, self.names),)


@dataclass(frozen=True)
class RowsSource(_NodeRows):
    """Rows that exist already, as a ``node``, with the ``tables`` of another source."""

    node: Node
    tables: tuple[NamedTable, ...]
    correlated_conditions: tuple[Expression, ...] = ()
    domain: Domain = NOTHING
