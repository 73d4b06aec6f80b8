"""CREATE, ALTER, DROP and USE: what they do to the catalogs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from penstock.errors import DefinitionError, OptionsError, Problem, SqlError
from penstock.spi import Column, Connector, Registry, TableDefinition
from penstock.sql.altering import Alteration
from penstock.sql.bind.expressions.selection import Selected
from penstock.sql.bind.queries.select import Queries
from penstock.sql.bind.results import Relation
from penstock.sql.bind.tables.definitions import Declaration, DeclaredTable
from penstock.sql.bind.tables.hints import with_options
from penstock.sql.catalogs import (
    Catalog,
    Catalogs,
    Entry,
    Path,
    Space,
    SystemCatalog,
    TableEntry,
    ViewEntry,
    Visible,
    display_path,
)
from penstock.sql.copies import ComputedText, TableCopy
from penstock.sql.function_catalog import FunctionCatalog
from penstock.sql.like import apply_like, with_key
from penstock.sql.parse.source import Errors, SourceText, suggest_name, suggest_similar
from penstock.sql.parse.statements import (
    AlterCatalog,
    AlterDatabase,
    AlterTable,
    AlterView,
    ColumnDeclaration,
    CreateCatalog,
    CreateDatabase,
    CreateDatabaseAs,
    CreateFunction,
    CreateTable,
    CreateTableAs,
    CreateView,
    DropCatalog,
    DropDatabase,
    DropFunction,
    DropTable,
    GivenOption,
    Insert,
    PrimaryKey,
    RenameTo,
    ResetOptions,
    SetOptions,
    Statement,
    Use,
)
from penstock.sql.parse.syntax import Name, TableName, UnboundSelect, UnboundTable
from penstock.sql.parse.tokens import Token
from penstock.sql.table_as import with_columns
from penstock.types import BIGINT, INT, RowType, TimestampType

#: The type of catalogs that are in memory, and its options.
_IN_MEMORY, _IN_MEMORY_OPTIONS = "generic_in_memory", ("type", "default-database", "property-version")
#: Types of catalogs whose tables are those of another system: their options, and those that are required.
_SYSTEMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "hologres": (("endpoint", "username", "password"), ("endpoint", "username", "password")),
    "postgres": (("url", "username", "password"), ("url",)),
    "kafka": (
        (
            *("properties.bootstrap.servers", "format", "max.fetch.records", "key.format"),
            *("key.fields-prefix", "value.fields-prefix", "timestamp-format.standard"),
            *("infer-schema.flatten-nested-columns.enable", "infer-schema.primitive-as-string"),
        ),
        ("properties.bootstrap.servers",),
    ),
}
#: The columns of every table of a catalog of Kafka, beside those of its messages, and its primary key.
_MESSAGE_COLUMNS = {
    "partition": INT.with_nullability(False),
    "offset": BIGINT.with_nullability(False),
    "timestamp": TimestampType(3, local_zone=True, nullable=False),
}
_MESSAGE_KEY = ("partition", "offset")
#: Stands for the name of any table.
_ALL = "*"
Definition = (
    CreateTable
    | CreateView
    | DropTable
    | AlterTable
    | AlterView
    | CreateCatalog
    | AlterCatalog
    | DropCatalog
    | CreateDatabase
    | AlterDatabase
    | DropDatabase
    | CreateFunction
    | DropFunction
    | Use
)


@dataclass
class Definitions:
    """The catalogs of a file, which its statements change. What has no effect is added to ``warnings``."""

    source: SourceText
    connectors: Registry[Connector]
    warnings: list[str]
    #: Whether the statement being run belongs to a batch job.
    batch: Callable[[], bool] = bool
    #: Where modules of functions are, beside the installed ones.
    python_files: Callable[[], tuple[str, ...]] = tuple
    catalogs: Catalogs = field(default_factory=Catalogs)
    functions: FunctionCatalog = field(init=False)
    #: Views that are being bound, to notice one that reads itself.
    _binding: list[int] = field(default_factory=list)
    #: Why a view can no longer be read, by its object's id.
    _broken: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.functions = FunctionCatalog(self.source, self.catalogs)

    def run(self, statement: Statement) -> bool:
        """Run a statement, if it is a definition. Raises DefinitionError with its problems."""
        if not isinstance(statement, Definition):
            return False
        match statement:
            case CreateTable():
                self._create_table(statement)
            case CreateView():
                self._create_view(statement)
            case DropTable():
                self._drop(statement)
            case AlterTable():
                self._alter_table(statement)
            case AlterView():
                self._alter_view(statement)
            case Use():
                self._use(statement)
            case CreateDatabase():
                self.create_database(statement)
            case AlterDatabase():
                self.space(statement.parts)
            case DropDatabase():
                self._drop_database(statement)
            case CreateCatalog():
                self._create_catalog(statement)
            case AlterCatalog():
                self._alter_catalog(statement)
            case DropCatalog():
                self._drop_catalog(statement)
            case CreateFunction():
                self.functions.create(statement, self.python_files())
            case DropFunction():
                self.functions.drop(statement)
        return True

    # --- names ------------------------------------------------------------------------------------------------

    def queries(self, errors: Errors, space: Space | None = None) -> Queries:
        """The queries of a statement, with the names of the database ``space``, the current one without it."""
        visible = Visible(self.catalogs, space or self.catalogs.current, self._resolve_view)
        given = self.unknown_error, self.warnings, visible.space[1], self.batch()
        functions = self.functions.restrict_to(visible.space)
        return Queries(self.source, self.connectors, errors, visible, *given, user_functions=functions)

    def path(self, table: TableName) -> Path:
        """The whole name of a table."""
        return self.catalogs.path(table.path)

    def entry(self, table: TableName) -> Entry:
        """The table or view of a name. Raises SqlError if there is none."""
        found = self.catalogs.entry(self.path(table))
        if found is None:
            raise self.unknown_error(table)
        return found

    def unknown_error(self, table: TableName) -> DefinitionError:
        """The error for an unknown table or view."""
        found = self.catalogs.entry(self.path(table))
        if found is None and table.path[:-1] and self.catalogs.has_found_tables(self.path(table)[0]):
            reason = f"the columns of '{table.text}' are found while a job runs, so that a query cannot name them"
            hint = "write CREATE TABLE .. AS TABLE, or declare the table with its columns"
            return self.source.unsupported_feature(table.at, reason, hint)
        if found is not None and id(found) in self._binding:
            return self.source.error(table.at, f"view '{table.text}' reads itself", "name a table")
        if found is not None and id(found) in self._broken:
            reason = f"view '{table.text}' cannot be read any more: {self._broken[id(found)]}"
            return self.source.error(table.at, reason, "create what it reads, or DROP VIEW it")
        known = self.catalogs.entries(self.path(table)[:2])
        hint = suggest_similar(table.name, known) or "declare it with CREATE TABLE"
        return self.source.error(table.at, f"there is no table '{table.text}'", hint)

    def view(self, table: TableName) -> RowType | None:
        """The columns of a view, None if it has problems. Raises SqlError if it reads a table or view that was
        dropped."""
        entry = self.entry(table)
        assert isinstance(entry, ViewEntry)  # noqa: S101 - asked for views alone
        try:
            found = self._resolve_view(entry)
        except KeyError:
            raise self.unknown_error(table) from None
        return None if found is None else found.schema

    def remember_failed(self, parts: tuple[str, ...]) -> None:
        """Remember a table whose statement has problems, so that its readers get no further ones."""
        path = self.catalogs.path(parts)
        if self.catalogs.entry(path) is None:
            nothing = CreateTable(0, TableName(path[2], 0), False, (), None, None, (), ())
            self.catalogs.put(path, TableEntry(nothing), temporary=False)

    def find_unusable(self) -> list[tuple[DeclaredTable, Problem]]:
        """The tables whose connector is not there, or that name none, and why: an error where such a table is used."""
        tables = [each.found for each in self.catalogs.all() if isinstance(each, TableEntry)]
        return [(each, each.problem) for each in tables if each is not None and each.problem is not None]

    def space(self, parts: Sequence[Name]) -> Space:
        """The catalog and the database of a name of a database. Raises SqlError if there is none."""
        *catalogs, database = parts
        if catalogs:
            resolved = self.catalogs.resolve((catalogs[0].text, database.text))
            if resolved != (catalogs[0].text, database.text):
                return resolved
        catalog = self.catalog(catalogs[0]) if catalogs else self.catalogs.current[0]
        if self.catalogs.catalogs[catalog].system is not None:  # which knows its databases
            return catalog, database.text
        known = self.catalogs.catalogs[catalog].databases
        if database.text not in known:
            hint = suggest_name(database.text, known)
            raise self.source.error(database.at, f"there is no database '{database.text}'", hint)
        return catalog, database.text

    def catalog(self, name: Name) -> str:
        """The name of a catalog. Raises SqlError if there is none."""
        known = self.catalogs.catalogs
        if name.text not in known:
            hint = suggest_name(name.text, known)
            raise self.source.error(name.at, f"there is no catalog '{name.text}'", hint)
        return name.text

    def _make_new_path(self, table: TableName) -> Path:
        """The whole name of a table that is to be created, whose database exists."""
        self.space([Name(each, table.at) for each in table.spaces]) if table.spaces else None
        return self.path(table)

    # --- tables -----------------------------------------------------------------------------------------------

    def _create_table(self, statement: CreateTable) -> None:
        path = self._make_new_path(statement.table)
        if not self._is_new(statement.table, path, statement.if_not_exists, statement.temporary, "TABLE"):
            return
        given = self._add_options(statement, path)
        entry = TableEntry(replace(given, table=TableName(display_path(path), statement.table.at)))
        self.catalogs.put(path, entry, temporary=statement.temporary)
        if statement.like is not None:
            base = self.entry(statement.like.table)
            if isinstance(base, ViewEntry):
                raise self.source.error(
                    statement.like.table.at, f"'{statement.like.table.text}' is a view", "name a table"
                )
            if base.found is None:
                return
            entry.statement = apply_like(entry.statement, base.statement, self.source)
        self._declare(entry)

    def create_as(
        self, statement: CreateTableAs, selected: Sequence[Selected], *, keep: bool = True
    ) -> tuple[DeclaredTable | None, Insert]:
        """Create a table whose query gives ``selected``; one that is not to ``keep`` is in no catalog. The table, None
        if it has problems, and how its rows are written. Raises DefinitionError with every problem found."""
        table, path = statement.created.table, self._make_new_path(statement.created.table)
        key = self._find_key(statement.copied) if statement.copied is not None else ()
        made, insert = with_columns(statement, selected, key, self.source)
        if not self._is_new(table, path, made.if_not_exists, temporary=False, kind="TABLE"):
            known = self.entry(table)
            if isinstance(known, ViewEntry):
                raise self.source.error(table.at, f"'{table.text}' is a view", "name a table")
            return known.found, insert if statement.names else replace(insert, columns=())
        made = self._add_options(made, path)
        entry = TableEntry(replace(made, table=TableName(display_path(path), table.at)))
        if keep:
            self.catalogs.put(path, entry, temporary=False)
        self._declare(entry)
        return entry.found, insert

    def describe_copy(self, statement: CreateTableAs, zone: str) -> TableCopy | None:
        """A table that has the rows and the columns of another one of a connector; None if that one has problems, or is
        a view, or if there is a table of the new name. Raises DefinitionError for problems of the new table."""
        created = statement.created
        assert statement.copied is not None, "it is AS TABLE"  # noqa: S101
        source = self._find_in_system(statement.copied) or self.entry(statement.copied)
        path = self._make_new_path(created.table)
        query = statement.query
        if not isinstance(source, TableEntry) or source.found is None or source.found.problem is not None:
            return None
        if self.catalogs.entry(path) is not None or not isinstance(query, UnboundSelect):
            return None
        hints = query.source.hints if isinstance(query.source, UnboundTable) else ()
        read = with_options(source.found, hints, self.source)
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
            self.source,
            computed,
            added,
            self.functions.restrict_to(self.catalogs.current),
            zone,
            str(self.source.at(statement.at)),
        )

    def describe_database_copy(self, statement: CreateDatabaseAs, zone: str) -> TableCopy:
        """The tables of a database that have the rows and the columns of topics. Raises SqlError and OptionsError."""
        created, at = statement.created, statement.at
        source = self._find_in_system(
            TableName(_ALL, at, tuple(each.text for each in statement.source)), _match_names(statement)
        )
        if source is None or source.found is None:
            name = ".".join(each.text for each in statement.source)
            reason = f"'{name}' is not a database of a catalog of type 'kafka'"
            hint = "other databases are copied by Flink CDC or Debezium to topics, and from there by a pipeline in YAML"
            raise self.source.unsupported_feature(statement.source[0].at, reason, hint)
        self.create_database(created)
        catalog, database = self.space(created.parts)
        system = self.catalogs.catalogs[catalog].system
        table = CreateTable(at, TableName(_ALL, at), False, (), None, None, (), statement.options)
        target = self._define_target(table, (catalog, database, _ALL))
        options = dict(target.options)
        if system is not None:
            del options[system.table_option]
        return TableCopy(
            source.found.definition,
            replace(target, name=f"{catalog}.{database}", options=options),
            self.source,
            zone=zone,
            at=str(self.source.at(at)),
            all_topics=True,
            prefix=f"{database}." if system is not None and system.has_schemas else "",
        )

    def _find_in_system(self, table: TableName, pattern: str = "") -> TableEntry | None:
        """The table of a catalog whose columns are found in messages: of one topic, or of those that match a
        pattern. None for another table."""
        path = self.path(table)
        catalog = self.catalogs.catalogs.get(path[0])
        if catalog is None or catalog.system is None or not catalog.system.found:
            return None
        columns = tuple(
            ColumnDeclaration(Name(name, table.at), each, name, virtual=True) for name, each in _MESSAGE_COLUMNS.items()
        )
        key = PrimaryKey(tuple(Name(each, table.at) for each in _MESSAGE_KEY), "", table.at)
        nothing = CreateTable(table.at, TableName(display_path(path), table.at), False, columns, key, None, (), ())
        made = catalog.system.add_options(nothing, path[1], path[2], reads=True)
        found, _ = self._make_declaration(made).table(self.connectors)
        given = dict(found.definition.options)
        if pattern:
            del given[catalog.system.table_option]
            given["topic-pattern"] = pattern
        options = {"scan.startup.mode": "earliest-offset", **given}
        return TableEntry(made, replace(found, definition=replace(found.definition, options=options)))

    def _define_target(self, created: CreateTable, path: Path) -> TableDefinition:
        """The new table of a copy without its columns, with the options of its catalog, if that has any. Raises
        OptionsError and SchemaError."""
        declaration = self._make_declaration(self._add_options(created, path))
        options, origin = declaration.read_options()
        if (problem := declaration.connector_problem(self.connectors)) is not None:
            declaration.errors.append(OptionsError((problem,)))
        declaration.errors.check()
        key = () if created.primary_key is None else tuple(each.text for each in created.primary_key.columns)
        return TableDefinition(display_path(path), (), options, origin, primary_key=key)

    def _add_options(self, statement: CreateTable, path: Path) -> CreateTable:
        """The statement with the options that its table has by its catalog."""
        system = self.catalogs.catalogs[path[0]].system
        return statement if system is None else system.add_options(statement, path[1], path[2])

    def create_copy(self, statement: CreateTableAs, copy: TableCopy) -> None:
        """Add the table of a copy, with the columns that are declared."""
        table = statement.created.table
        path = self.catalogs.path(table.path)
        made = replace(statement.created, table=TableName(display_path(path), table.at))
        columns = tuple(Column(each.name, each.expression.type) for each in copy.find_declared_columns())
        found = DeclaredTable(replace(copy.target, columns=columns), copy.target_connector, {})
        self.catalogs.put(path, TableEntry(made, found), temporary=False)
        lost = f"'{copy.source.name}' has metadata columns only"
        self.warnings[:] = [each for each in self.warnings if lost not in each]

    def connector_problem(self, statement: CreateTable) -> Problem | None:
        """What is wrong with the connector of a table."""
        try:
            path = self._make_new_path(statement.table)
        except SqlError:  # which is a problem of its own
            path = self.catalogs.path(statement.table.path[-1:])
        return self._make_declaration(self._add_options(statement, path)).connector_problem(self.connectors)

    def _make_declaration(self, statement: CreateTable) -> Declaration:
        functions = self.functions.restrict_to(self.catalogs.current)
        return Declaration(statement, self.source, Errors(), functions)

    def _find_key(self, table: TableName) -> tuple[str, ...]:
        """The primary key of a table, if it has one: a copy of the table has the same."""
        found = self.entry(table)
        return found.found.definition.primary_key if isinstance(found, TableEntry) and found.found is not None else ()

    def _declare(self, entry: TableEntry) -> None:
        entry.found = None
        entry.found, warnings = self._make_declaration(entry.statement).table(self.connectors)
        entry.statement = with_key(entry.statement)
        self.warnings += [each for each in warnings if each not in self.warnings]

    def _is_new(self, table: TableName, path: Path, if_not_exists: bool, temporary: bool, kind: str) -> bool:
        """Whether a table or view is to be created. Raises SqlError if there is one of its name, unless it is created
        only ``if_not_exists``. A temporary one may have the name of a permanent one."""
        if path not in (self.catalogs.temporary if temporary else self.catalogs.permanent):
            return True
        if if_not_exists:
            return False
        hint = f"write IF NOT EXISTS, or DROP {kind} first"
        raise self.source.error(table.at, f"table '{table.text}' already exists", hint)

    def _drop(self, statement: DropTable) -> None:
        table, path = statement.table, self.path(statement.table)
        kind = "VIEW" if statement.view else "TABLE"
        found = self.catalogs.entry(path)
        if found is None:
            if statement.if_exists:
                return
            raise self.unknown_error(table)
        if isinstance(found, ViewEntry) is not statement.view:
            is_a, drop = ("table", "DROP TABLE") if statement.view else ("view", "DROP VIEW")
            raise self.source.error(table.at, f"'{table.text}' is a {is_a}", f"write {drop}")
        holder = self.catalogs.holder(path)
        if statement.temporary and holder is self.catalogs.permanent:
            if statement.if_exists:
                return
            raise self.source.error(table.at, f"'{table.text}' is not temporary", f"write DROP {kind}")
        if not statement.temporary and holder is self.catalogs.temporary:
            reason = f"there is a temporary {kind.lower()} '{table.text}'"
            raise self.source.error(table.at, reason, f"write DROP TEMPORARY {kind}")
        del holder[path]
        self.catalogs.version += 1

    def _alter_table(self, statement: AlterTable) -> None:
        table, path = statement.table, self.path(statement.table)
        found = self.catalogs.entry(path)
        if found is None:
            if statement.if_exists:
                return
            raise self.unknown_error(table)
        if isinstance(found, ViewEntry):
            raise self.source.error(table.at, f"'{table.text}' is a view", "write ALTER VIEW")
        if found.found is None:
            return
        if isinstance(statement.change, RenameTo):
            self._rename(path, statement.change)
            return
        before = found.statement
        found.statement = Alteration(found.statement, found.found, self.source).apply(statement.change)
        self.catalogs.version += 1
        try:
            self._declare(found)
        except DefinitionError:
            found.statement = before
            raise

    def _rename(self, path: Path, change: RenameTo) -> None:
        to = self.catalogs.path(change.to.path, (path[0], path[1]))
        if to[:2] != path[:2]:
            reason = "a table cannot move to another database"
            raise self.source.error(change.to.at, reason, "CREATE TABLE .. LIKE makes a copy")
        if self.catalogs.entry(to) is not None:
            raise self.source.error(change.to.at, f"table '{change.to.text}' already exists", "use another name")
        holder = self.catalogs.holder(path)
        entry = holder.pop(path)
        self.catalogs.version += 1
        holder[to] = entry
        name = TableName(display_path(to), change.to.at)
        if isinstance(entry, TableEntry):
            entry.statement = replace(entry.statement, table=name)
            self._declare(entry)
        else:
            entry.statement = replace(entry.statement, view=name)

    # --- views ------------------------------------------------------------------------------------------------

    def _create_view(self, statement: CreateView) -> None:
        path = self._make_new_path(statement.view)
        if not self._is_new(statement.view, path, statement.if_not_exists, statement.temporary, "VIEW"):
            return
        entry = ViewEntry(statement, self.catalogs.current)
        self._bind(entry)
        self.catalogs.put(path, entry, temporary=statement.temporary)
        entry.version = self.catalogs.version

    def _bind(self, entry: ViewEntry) -> None:
        """Bind the query of a view. Raises DefinitionError with the problems of its query."""
        errors = Errors()
        self._binding.append(id(entry))
        try:
            found = self.queries(errors, entry.space).relation(entry.statement.query, entry.statement.columns)
        finally:
            self._binding.pop()
        entry.found, entry.version = (None if errors else found), self.catalogs.version
        errors.check()

    def _resolve_view(self, entry: ViewEntry) -> Relation | None:
        """The rows of a view now. Raises KeyError if it reads a table or view that was dropped."""
        if entry.version != self.catalogs.version:
            if id(entry) in self._binding:
                raise KeyError(entry.statement.view.name)
            self._broken.pop(id(entry), None)
            try:
                self._bind(entry)
            except DefinitionError as error:
                self._broken[id(entry)] = "; ".join(each.reason for each in error.problems)
        if id(entry) in self._broken:
            raise KeyError(entry.statement.view.name)
        return entry.found

    def _alter_view(self, statement: AlterView) -> None:
        table, path = statement.view, self.path(statement.view)
        found = self.entry(table)
        if isinstance(found, TableEntry):
            raise self.source.error(table.at, f"'{table.text}' is a table", "write ALTER TABLE")
        if isinstance(statement.change, RenameTo):
            self._rename(path, statement.change)
            return
        made = replace(found.statement, query=statement.change, columns=(), end=statement.end)
        holder = self.catalogs.holder(path)
        made_entry = ViewEntry(made, self.catalogs.current)
        holder[path] = made_entry
        self.catalogs.version += 1
        try:
            self._bind(made_entry)
        except DefinitionError:
            holder[path] = found
            raise

    # --- catalogs and databases -------------------------------------------------------------------------------

    def _use(self, statement: Use) -> None:
        if not statement.catalog:
            self.catalogs.current = self.space(statement.parts)
            return
        name = self.catalog(statement.parts[0])
        self.catalogs.current = (name, self.catalogs.catalogs[name].databases[0])

    def create_database(self, statement: CreateDatabase) -> None:
        """Add a database. Raises SqlError if there is one of its name already."""
        *catalogs, database = statement.parts
        catalog = self.catalog(catalogs[0]) if catalogs else self.catalogs.current[0]
        if self.catalogs.catalogs[catalog].system is not None:  # which knows its databases
            return
        known = self.catalogs.catalogs[catalog].databases
        if database.text not in known:
            known.append(database.text)
        elif not statement.if_not_exists:
            raise self._exists_error("database", database)

    def _drop_database(self, statement: DropDatabase) -> None:
        try:
            space = self.space(statement.parts)
        except SqlError:
            if statement.if_exists:
                return
            raise
        at, name = statement.parts[-1].at, space[1]
        if space == self.catalogs.current:
            raise self.source.error(at, f"database '{name}' is in use", "USE another one first")
        inside = self.catalogs.entries(space)
        if inside and not statement.cascade:
            raise self.source.error(at, f"database '{name}' is not empty: {', '.join(inside)}", "write CASCADE")
        for each in inside:
            self.catalogs.permanent.pop((*space, each), None)
            self.catalogs.temporary.pop((*space, each), None)
        self.catalogs.catalogs[space[0]].databases.remove(name)
        self.catalogs.version += 1

    def _create_catalog(self, statement: CreateCatalog) -> None:
        name = statement.name
        if name.text in self.catalogs.catalogs:
            if statement.if_not_exists:
                return
            raise self._exists_error("catalog", name)
        type_ = next((value for key, value in statement.options if key.text == "type"), None)
        if type_ is None:
            known = ", ".join(f"'{each}'" for each in (_IN_MEMORY, *_SYSTEMS))
            raise self.source.error(name.at, "the catalog has no 'type'", f"write WITH ('type' = ..): {known}")
        if type_.text != _IN_MEMORY:  # whatever its other options are
            self.catalogs.catalogs[name.text] = self._make_system_catalog(statement, type_)
            return
        given = self._read_options(statement.options)
        database = given["default-database"][1].text if "default-database" in given else "default"
        options = {key: value.shown for key, (_, value) in given.items()}
        self.catalogs.catalogs[name.text] = Catalog(options, statement.comment, [database])

    def _make_system_catalog(self, statement: CreateCatalog, type_: Token) -> Catalog:
        """A catalog whose tables are those of a database. Raises UnsupportedError for another type, and SqlError for
        options that are unknown or missing."""
        system = _SYSTEMS.get(type_.text)
        if system is None:
            known = ", ".join(f"'{each}'" for each in (_IN_MEMORY, *_SYSTEMS))
            reason = f"catalogs of type {type_.shown} are not supported"
            raise self.source.unsupported_feature(type_.at, reason, f"there are {known}")
        own, required = system
        given = {key.text: (key, value) for key, value in statement.options}
        for text, (key, _) in given.items():
            if text not in (*own, "type", "default-database") and not (
                type_.text == "kafka" and text.startswith("properties.")
            ):
                hint = f"there are {', '.join(own)}, default-database"
                raise self.source.error(key.at, f"a catalog of type {type_.shown} has no option '{text}'", hint)
        for text in required:
            if text not in given:
                raise self.source.error(statement.name.at, f"the catalog has no '{text}'", "add it to WITH")
        database = "kafka" if type_.text == "kafka" else "public"
        database = given["default-database"][1].text if "default-database" in given else database
        values = tuple(each for key, each in given.items() if key not in ("type", "default-database"))
        found = {
            "hologres": SystemCatalog("hologres", values, "tablename", "dbname"),
            "postgres": SystemCatalog("postgres", values, "table-name", has_schemas=True),
            "kafka": SystemCatalog(
                "kafka",
                tuple(each for each in values if each[0].text.startswith("properties.")),
                "topic",
                read_options=tuple(
                    (_name_for_table(key), value) for key, value in values if not key.text.startswith("properties.")
                ),
                implied=(("format", "json"), ("value.fields-prefix", "value_")),
                found=True,
            ),
        }[type_.text]
        secret = {"password", *(key for key, (_, value) in given.items() if "@" in value.text)}
        options = {key: "'****'" if key in secret else value.shown for key, (_, value) in given.items()}
        return Catalog(options, statement.comment, [database], found)

    def _read_options(self, given: tuple[GivenOption, ...]) -> dict[str, GivenOption]:
        for key, _ in given:
            if key.text not in _IN_MEMORY_OPTIONS:
                hint = f"there are {', '.join(_IN_MEMORY_OPTIONS)}"
                raise self.source.error(key.at, f"a catalog in memory has no option '{key.text}'", hint)
        return {key.text: (key, value) for key, value in given}

    def _alter_catalog(self, statement: AlterCatalog) -> None:
        catalog = self.catalogs.catalogs[self.catalog(statement.name)]
        match statement.change:
            case SetOptions(options=options):
                catalog.options.update({key: value.shown for key, (_, value) in self._read_options(options).items()})
            case ResetOptions(keys=keys):
                if any(key.text == "type" for key in keys):
                    raise self.source.error(keys[0].at, "the type of a catalog cannot be reset", "leave it out")
                for key in keys:
                    catalog.options.pop(key.text, None)
            case str() as comment:
                catalog.comment = comment

    def _drop_catalog(self, statement: DropCatalog) -> None:
        name = statement.name
        if name.text not in self.catalogs.catalogs and statement.if_exists:
            return
        catalog = self.catalog(name)
        if catalog == self.catalogs.current[0]:
            raise self.source.error(name.at, f"catalog '{catalog}' is in use", "USE CATALOG another one first")
        for held in (self.catalogs.permanent, self.catalogs.temporary):
            for path in [each for each in held if each[0] == catalog]:
                del held[path]
        del self.catalogs.catalogs[catalog]
        self.catalogs.version += 1

    def _exists_error(self, kind: str, name: Name) -> SqlError:
        return self.source.error(name.at, f"{kind} '{name.text}' already exists", "write IF NOT EXISTS")


def _name_for_table(key: Token) -> Token:
    """The option of a table that an option of a catalog of Kafka stands for."""
    of_format = key.text.startswith(("infer-schema.", "timestamp-format."))
    return replace(key, text=f"json.{key.text}") if of_format else key


def _match_names(statement: CreateDatabaseAs) -> str:
    """The regular expression of the names of the tables that are copied."""
    chosen = "|".join(f"(?:{each.text})" for each in statement.including) or ".*"
    left_out = "|".join(f"(?:{each.text})" for each in statement.excluding)
    return f"(?!(?:{left_out})$)(?:{chosen})" if left_out else chosen
