"""The context that all parts of a query share while it is bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.plan.expressions import Expression
from penstock.sql.bind.correlation import offset_of_outer, reads_outer
from penstock.sql.bind.expressions.resolution import CORRELATED, NamedTable
from penstock.sql.bind.expressions.scope import Scope
from penstock.sql.bind.expressions.visible_functions import NO_FUNCTIONS, UserFunctions
from penstock.sql.parse.source import Errors, SourceText
from penstock.sql.parse.syntax import Name
from penstock.types import RowType


@dataclass(frozen=True)
class Context:
    """The text of a query, the errors that its problems are added to, the current ``database``, and the ``enclosing``
    tables, which its outer queries read."""

    source: SourceText
    errors: Errors
    database: str
    enclosing: tuple[NamedTable, ...] = ()
    user_functions: UserFunctions = NO_FUNCTIONS

    def scope(self, schema: RowType, tables: Sequence[NamedTable], clause: str) -> Scope:
        """Binds the expressions of a ``clause`` to the columns of ``schema``, by the names that the ``tables`` give;
        columns of outer queries cannot be used."""
        return Scope(
            schema,
            self.source,
            tables=tuple(tables),
            clause=clause,
            database=self.database,
            enclosing=self.enclosing,
            user_functions=self.user_functions,
        )

    def independent(self, *expressions: Expression | None) -> bool:
        """Whether no expression reads columns of an outer query; if one does, that is added to the errors."""
        found = next((each for each in expressions if each is not None and reads_outer(each)), None)
        if found is None:
            return True
        self.errors.append(self.source.unsupported_feature(offset_of_outer(found), *CORRELATED))
        return False

    def column_names(self, given: Sequence[Name], schema: RowType) -> tuple[str, ...] | None:
        """The names of columns: those ``given``, if there are any; None after a problem with them."""
        names = tuple(each.text for each in given)
        again = next((each for index, each in enumerate(given) if each.text in names[:index]), None)
        if again is not None:
            reason, hint, at = f"column '{again.text}' is named twice", "give each its own name", again.at
        elif given and len(given) != len(schema.fields):
            reason, at = (
                f"the number of names, {len(given)}, differs from the number of columns, {len(schema.fields)}",
                given[0].at,
            )
            hint = f"the columns are {', '.join(schema.names)}"
        else:
            return names or schema.names
        self.errors.append(self.source.schema_error(at, reason, hint))
        return None
