"""What a query gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.plan.expressions import Expression, cast, coerce
from penstock.plan.nodes import Node
from penstock.sql.bind.correlation import NOTHING, Dependent, Domain, equal_pair, reads_outer
from penstock.sql.bind.ranking import Ranked
from penstock.sql.bind.row_numbers import RowNumber
from penstock.sql.bind.selection import Selected
from penstock.sql.parse.source import SourceText
from penstock.types import DataType, NullType

#: What a query gives to others.
Relation = Node | Ranked | Dependent


@dataclass(frozen=True)
class Result:
    """The result of a query: ``columns`` of the rows of ``node``. After a problem, which was added to the errors,
    ``node`` or a column is None; all ``columns`` are None if not even their number is known. The rows are those for
    which ``conditions`` are true, too, which read columns of the query around. ``empty`` has the values of the one row
    of a query that aggregates all of its rows, where it has none. ``domain`` has what it computes with of the query
    around."""

    node: Node | None
    columns: tuple[Selected | None, ...] | None
    conditions: tuple[Expression, ...] = ()
    empty: tuple[Expression, ...] | None = None
    domain: Domain = NOTHING

    @property
    def complete(self) -> list[Selected] | None:
        """The columns, if all are known."""
        found = [each for each in self.columns or () if each is not None]
        return found if self.columns is not None and len(found) == len(self.columns) else None

    @property
    def outer(self) -> Expression | None:
        """What reads columns of the query around, if something does."""
        values = (each.value for each in self.columns or () if each is not None)
        return next((each for each in (*self.conditions, *values) if reads_outer(each)), None)

    @property
    def compares(self) -> bool:
        """Whether all that it does with columns of the query around is to compare them with '='."""
        values = (each.value for each in self.columns or () if each is not None)
        return not any(map(reads_outer, values)) and None not in map(equal_pair, self.conditions)

    def ranked(self, source: SourceText) -> Ranked | None:
        """The result, if one of its columns is a row number and it has no problems."""
        columns = self.complete
        if self.node is None or columns is None or not any(isinstance(each.value, RowNumber) for each in columns):
            return None
        return Ranked(self.node, tuple(columns), source)


def fitted(columns: Sequence[Selected], types: Sequence[DataType]) -> list[Selected]:
    """Columns of these types."""

    def value(given: Expression, to: DataType) -> Expression:
        return cast(given, to) if isinstance(given.type, NullType) else coerce(given, to)

    return [replace(each, value=value(each.value, to)) for each, to in zip(columns, types, strict=True)]
