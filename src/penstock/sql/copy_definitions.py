"""CREATE TABLE .. AS TABLE and CREATE DATABASE .. AS DATABASE: which tables are copied, and to which."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.errors import OptionsError
from penstock.spi import Column, TableDefinition
from penstock.sql.bind.tables.definitions import DeclaredTable
from penstock.sql.bind.tables.hints import with_options
from penstock.sql.catalogs import Path, TableEntry, display_path
from penstock.sql.copies import ComputedText, TableCopy
from penstock.sql.ddl import Definitions
from penstock.sql.parse.statements import CreateDatabaseAs, CreateTable, CreateTableAs
from penstock.sql.parse.syntax import TableName, UnboundSelect, UnboundTable

#: Stands for the name of any table.
_ALL = "*"


@dataclass(frozen=True)
class CopyDefinitions:
    """Copies of the tables that are ``given``."""

    given: Definitions

    def describe(self, statement: CreateTableAs, zone: str) -> TableCopy | None:
        """A table that has the rows and the columns of another one of a connector; None if that one has problems, or is
        a view, or if there is a table of the new name. Raises DefinitionError for problems of the new table."""
        created = statement.created
        assert statement.copied is not None, "it is AS TABLE"  # noqa: S101
        source = self.given.find_table(statement.copied) or self.given.entry(statement.copied)
        path = self.given.make_new_path(created.table)
        query = statement.query
        if not isinstance(source, TableEntry) or source.found is None or source.found.problem is not None:
            return None
        if self.given.catalogs.entry(path) is not None or not isinstance(query, UnboundSelect):
            return None
        hints = query.source.hints if isinstance(query.source, UnboundTable) else ()
        read = with_options(source.found, hints, self.given.source)
        target = self._define_target(created, path)
        computed = tuple(
            ComputedText(each.name.text, each.expression)
            for each in source.statement.columns
            if each.expression is not None
        )
        added = tuple(ComputedText(each.alias.text, each.expression) for each in query.items if each.alias is not None)
        return TableCopy(
            read.definition,
            target,
            self.given.source,
            computed,
            added,
            self.given.functions.restrict_to(self.given.catalogs.current),
            zone,
            str(self.given.source.at(statement.at)),
        )

    def describe_database(self, statement: CreateDatabaseAs, zone: str) -> TableCopy:
        """The tables of a database that have the rows and the columns of topics. Raises SqlError and OptionsError."""
        created, at = statement.created, statement.at
        source = self._find_topics(statement)
        if source is None:
            name = ".".join(each.text for each in statement.source)
            reason = f"'{name}' is not a database of a catalog of type 'kafka'"
            hint = "other databases are copied by Flink CDC or Debezium to topics, and from there by a pipeline in YAML"
            raise self.given.source.unsupported_feature(statement.source[0].at, reason, hint)
        self.given.spaces.create_database(created)
        catalog, database = self.given.spaces.space(created.parts)
        system = self.given.catalogs.catalogs[catalog].system
        table = CreateTable(at, TableName(_ALL, at), False, (), None, None, (), statement.options)
        target = self._define_target(table, (catalog, database, _ALL))
        options = dict(target.options)
        if system is not None:
            del options[system.type.table_option]
        return TableCopy(
            source,
            replace(target, name=f"{catalog}.{database}", options=options),
            self.given.source,
            zone=zone,
            at=str(self.given.source.at(at)),
            all_topics=True,
            prefix=f"{database}." if system is not None and system.type.has_schemas else "",
        )

    def _find_topics(self, statement: CreateDatabaseAs) -> TableDefinition | None:
        """A table of all topics of a database that are copied; None for a database of another catalog."""
        names = tuple(each.text for each in statement.source)
        found = self.given.find_table(TableName(_ALL, statement.at, names))
        if found is None or found.found is None:
            return None
        definition = found.found.definition
        options = {**definition.options, "topic-pattern": _match_names(statement)}
        del options["topic"]
        return replace(definition, options=options)

    def _define_target(self, created: CreateTable, path: Path) -> TableDefinition:
        """The new table of a copy without its columns, with the options of its catalog, if that has any. Raises
        OptionsError and SchemaError."""
        declaration = self.given.make_declaration(self.given.add_options(created, path))
        options, origin = declaration.read_options()
        if (problem := declaration.connector_problem(self.given.connectors)) is not None:
            declaration.errors.append(OptionsError((problem,)))
        declaration.errors.check()
        key = () if created.primary_key is None else tuple(each.text for each in created.primary_key.columns)
        return TableDefinition(display_path(path), (), options, origin, primary_key=key)

    def create(self, statement: CreateTableAs, copy: TableCopy) -> None:
        """Add the table of a copy, with the columns that are declared."""
        table = statement.created.table
        path = self.given.catalogs.path(table.path)
        made = replace(statement.created, table=TableName(display_path(path), table.at))
        columns = tuple(Column(each.name, each.expression.type) for each in copy.find_declared_columns())
        found = DeclaredTable(replace(copy.target, columns=columns), copy.target_connector, {})
        self.given.catalogs.put(path, TableEntry(made, found), temporary=False)
        self.given.forget_lost_contents(copy.source.name)


def _match_names(statement: CreateDatabaseAs) -> str:
    """The regular expression of the names of the tables that are copied."""
    chosen = "|".join(f"(?:{each.text})" for each in statement.including) or ".*"
    left_out = "|".join(f"(?:{each.text})" for each in statement.excluding)
    return f"(?!(?:{left_out})$)(?:{chosen})" if left_out else chosen
