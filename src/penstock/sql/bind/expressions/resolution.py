"""Resolution of the names in expressions: columns of one or several tables, and fields of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.errors import DefinitionError, SqlError
from penstock.plan.expressions import Expression, FieldAccess, fields_of
from penstock.sql.parse.source import SourceText
from penstock.sql.parse.syntax import Name, Unbound, UnboundName
from penstock.types import RowType, StringType

#: The reason and the hint where a column of an outer query cannot be used.
CORRELATED = (
    "columns of an outer query are supported in SELECT and WHERE, without LIMIT and UNION",
    "join with the query instead",
)


@dataclass(frozen=True)
class NamedTable:
    """A table that expressions may name: its ``qualifier``, and the expression of each of its columns, by name. Columns
    that JOIN .. USING has ``merged`` with columns of other tables need the qualifier."""

    qualifier: str
    columns: Mapping[str, Expression]
    merged: frozenset[str] = frozenset()

    @property
    def unqualified_columns(self) -> Mapping[str, Expression]:
        """The columns that need no qualifier."""
        return {name: value for name, value in self.columns.items() if name not in self.merged}


def make_named_table(qualifier: str, schema: RowType, names: Sequence[str] = ()) -> NamedTable:
    """A table whose columns are called ``names``, or as in ``schema``; of two with one name, the first counts."""
    columns: dict[str, Expression] = {}
    for name, each in zip(names or schema.names, fields_of(schema), strict=True):
        columns.setdefault(name, each)
    return NamedTable(qualifier, columns)


@dataclass(frozen=True)
class Names:
    """Finds the columns of ``schema``, which may be qualified by ``qualifier``, or, in a query of several tables, those
    of the ``tables``. Raises SchemaError for an unknown name, with its place."""

    schema: RowType
    source: SourceText
    qualifier: str = ""
    tables: tuple[NamedTable, ...] = ()
    #: The tables of the outer queries whose columns can be used, those of the nearest query first.
    outer: tuple[tuple[NamedTable, ...], ...] = ()
    #: The tables of the outer queries whose columns cannot be used.
    enclosing: tuple[NamedTable, ...] = ()

    @property
    def named_tables(self) -> tuple[NamedTable, ...]:
        """The tables, of which there is at least one."""
        return self.tables or (make_named_table(self.qualifier, self.schema),)

    def name(self, given: UnboundName) -> Expression:
        """The column, or the field of a column, that a name means."""
        first, *rest = given.parts
        tables = [each for level in (self.named_tables, *self.outer) for each in level]
        qualifiers = [each.qualifier for each in tables]
        if rest and first.text not in qualifiers and first.text in [each.qualifier for each in self.enclosing]:
            raise self._correlated_error(first)
        table = next((each for each in tables if rest and each.qualifier == first.text), None)
        if table is not None:
            if rest[0].text in table.columns:
                first, *rest = rest
                return self._access_fields(table.columns[first.text], first, rest)
            if not any(first.text in each.columns for each in self.named_tables):
                raise self.source.not_found_error(rest[0].at, "column", rest[0].text, table.columns)
        return self._access_fields(self.column(first), first, rest)

    def column(self, name: Name) -> Expression:
        """The column of a name without a qualifier. Raises SchemaError unless there is one."""
        for tables in (self.named_tables, *self.outer):
            found = [each.columns[name.text] for each in tables if name.text in each.unqualified_columns]
            if len(found) == 1:
                return found[0]
            if found:
                places = [each.qualifier for each in tables if name.text in each.columns]
                hint = f"write {places[0] or 'alias'}.{name.text}"
                shown = ", ".join(each or "(query)" for each in places)
                raise self.source.schema_error(
                    name.at, f"column '{name.text}' is in {len(places)} tables: {shown}", hint
                )
        if any(name.text in each.columns for each in self.enclosing):
            raise self._correlated_error(name)
        known = dict.fromkeys(each for table in self.named_tables for each in table.columns)
        raise self.source.not_found_error(name.at, "column", name.text, known)

    def _access_fields(self, column: Expression, name: Name, rest: Sequence[Name]) -> Expression:
        """A column at its place, or a field of it."""
        found = replace(column, place=self.source.at(name.at))
        for each in rest:
            found = self.field(found, each)
        return found

    def field(self, base: Expression, name: Name) -> Expression:
        """A field of a row."""
        if not isinstance(base.type, RowType):
            hint = "JSON_VALUE(column, '$.name') reads JSON text" if isinstance(base.type, StringType) else ""
            raise self.source.error(name.at, f"{base.type.text()} has no fields, and so no '{name.text}'", hint)
        found = base.type.field(name.text)
        if found is None:
            raise self.source.not_found_error(name.at, "field", name.text, base.type.names)
        nullable = found.type.nullable or base.type.nullable
        return FieldAccess(base, found.name, type=found.type.with_nullability(nullable), place=self.source.at(name.at))

    def _error(self, given: Unbound, reason: str, hint: str = "") -> SqlError:
        return self.source.error(given.at, reason, hint)

    def _correlated_error(self, name: Name) -> DefinitionError:
        return self.source.unsupported_feature(name.at, *CORRELATED)
