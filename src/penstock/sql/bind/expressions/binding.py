"""What functions with their own typing rules need to bind their arguments."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.plan.expressions import Expression
from penstock.sql.bind.expressions.dialect import Dialect
from penstock.sql.parse.source import SourceText
from penstock.sql.parse.syntax import Unbound, UnboundCall
from penstock.types import DataType


@dataclass(frozen=True)
class Bound(Unbound):
    """A part of an expression that is bound already."""

    expression: Expression


class ExpressionBinder(Protocol):
    """Binds the parts of an expression. Each method raises SqlError, SchemaError or UnsupportedError with the place."""

    @property
    def source(self) -> SourceText:
        """The text that errors point into."""

    @property
    def database(self) -> str | None:
        """The current database of a query."""

    @property
    def dialect(self) -> Dialect:
        """What expressions mean."""

    def bind(self, given: Unbound) -> Expression:
        """The typed expression."""

    def bind_flink_call(self, call: UnboundCall) -> Expression:
        """A call by the rules of Flink SQL; without the NOT before its operator."""

    def value(self, given: Unbound) -> Expression:
        """An expression whose value a column of a table can hold."""

    def string(self, given: Unbound, function: str) -> Expression:
        """An argument of ``function`` that is a STRING."""

    def read_unit(self, given: Unbound, units: Collection[str]) -> str:
        """The unit that a literal names."""

    def bind_to_common_type(self, given: Sequence[Unbound]) -> tuple[DataType, list[Expression]]:
        """The common type of values, nullable if one of them is, and the values in that type."""

    def make_call(
        self, call: UnboundCall, function: str, args: Sequence[Expression], data_type: DataType
    ) -> Expression:
        """A call, or NULL if that is its type."""
