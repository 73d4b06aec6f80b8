"""CREATE, ALTER, DROP and USE: what they do to the catalogs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from penstock.errors import DefinitionError, Problem, SqlError
from penstock.schemas import FoundColumns
from penstock.spi import Connector, Registry, TableDefinition
from penstock.sql.altering import Alteration
from penstock.sql.bind.expressions.selection import Selected
from penstock.sql.bind.queries.select import Queries
from penstock.sql.bind.results import Relation
from penstock.sql.bind.tables.definitions import Declaration, DeclaredTable
from penstock.sql.bind.tables.found_columns import with_found_columns
from penstock.sql.catalog_definitions import CatalogDefinitions
from penstock.sql.catalogs import (
    Catalogs,
    Entry,
    Path,
    Space,
    TableEntry,
    ViewEntry,
    Visible,
    display_path,
)
from penstock.sql.function_catalog import FunctionCatalog
from penstock.sql.like import apply_like, with_key
from penstock.sql.parse.definitions import NO_COLUMNS
from penstock.sql.parse.source import Errors, SourceText, suggest_similar
from penstock.sql.parse.statements import (
    AlterTable,
    AlterView,
    CreateFunction,
    CreateTable,
    CreateTableAs,
    CreateView,
    DropFunction,
    DropTable,
    Insert,
    RenameTo,
    Statement,
)
from penstock.sql.parse.syntax import Name, TableName
from penstock.sql.table_as import with_columns
from penstock.types import RowType

_Definition = CreateTable | CreateView | DropTable | AlterTable | AlterView | CreateFunction | DropFunction


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
    #: Finds the columns of a table that declares none; None where no query may read such tables.
    find_columns: Callable[[TableDefinition], FoundColumns | None] | None = None
    functions: FunctionCatalog = field(init=False)
    spaces: CatalogDefinitions = field(init=False)
    #: Views that are being bound, to notice one that reads itself.
    _binding: list[int] = field(default_factory=list)
    #: Why a view can no longer be read, by its object's id.
    _broken: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.functions = FunctionCatalog(self.source, self.catalogs)
        self.spaces = CatalogDefinitions(self.source, self.catalogs)

    def run(self, statement: Statement) -> bool:
        """Run a statement, if it is a definition. Raises DefinitionError with its problems."""
        if not isinstance(statement, _Definition):
            return self.spaces.run(statement)
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
        return Queries(self.source, self.connectors, errors, visible, *given, user_functions=functions, found=self)

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
        if found is None and table.path[:-1] and self.catalogs.find_system(self.path(table)[0]) is not None:
            reason = f"the columns of '{table.text}' are found in its records, which is not possible here"
            hint = "declare the table with its columns"
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

    def make_new_path(self, table: TableName) -> Path:
        """The whole name of a table that is to be created, whose database exists."""
        self.spaces.space([Name(each, table.at) for each in table.spaces]) if table.spaces else None
        return self.path(table)

    # --- tables whose columns are found -----------------------------------------------------------------------

    def find_table(self, table: TableName) -> TableEntry | None:
        """The table of a catalog whose columns are found in messages, without these columns; None for another one."""
        path = self.path(table)
        system = self.catalogs.find_system(path[0])
        if system is None:
            return None
        made = system.find_table(TableName(display_path(path), table.at), path[1], path[2])
        return TableEntry(made, self.make_declaration(made).table(self.connectors)[0])

    def of_catalog(self, table: TableName) -> DeclaredTable | None:
        """The table of a catalog whose columns a query may find; None for another one."""
        found = None if self.find_columns is None else self.find_table(table)
        return None if found is None else found.found

    def complete(self, table: DeclaredTable, name: TableName) -> DeclaredTable:
        """The table with the columns that its records have, if it declares none. Raises DefinitionError if they cannot
        be found."""
        if table.problem is not None or table.definition.physical.fields:
            return table
        if self.find_columns is None:
            return self.check_columns(table, name)
        try:
            found = self.find_columns(table.definition)
        except DefinitionError as error:
            place = str(self.source.at(name.at))
            raise type(error)(tuple(replace(each, where=each.where or place) for each in error.problems)) from None
        if found is None:
            return self.check_columns(table, name)
        self.forget_lost_contents(table.definition.name)
        return with_found_columns(table, found)

    def check_columns(self, table: DeclaredTable, name: TableName) -> DeclaredTable:
        """The table. Raises UnsupportedError if it has no columns."""
        if not table.definition.columns:
            reason, hint = NO_COLUMNS
            raise self.source.unsupported_feature(name.at, f"{reason} is not supported", hint)
        return table

    def forget_lost_contents(self, name: str) -> None:
        """Take back the warning about a table of metadata alone, whose contents are read after all."""
        lost = f"'{name}' has metadata columns only"
        self.warnings[:] = [each for each in self.warnings if lost not in each]

    # --- tables -----------------------------------------------------------------------------------------------

    def _create_table(self, statement: CreateTable) -> None:
        path = self.make_new_path(statement.table)
        if not self._is_new(statement.table, path, statement.if_not_exists, statement.temporary, "TABLE"):
            return
        given = self.add_options(statement, path)
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
        table, path = statement.created.table, self.make_new_path(statement.created.table)
        key = self._find_key(statement.copied) if statement.copied is not None else ()
        made, insert = with_columns(statement, selected, key, self.source)
        if not self._is_new(table, path, made.if_not_exists, temporary=False, kind="TABLE"):
            known = self.entry(table)
            if isinstance(known, ViewEntry):
                raise self.source.error(table.at, f"'{table.text}' is a view", "name a table")
            return known.found, insert if statement.names else replace(insert, columns=())
        made = self.add_options(made, path)
        entry = TableEntry(replace(made, table=TableName(display_path(path), table.at)))
        if keep:
            self.catalogs.put(path, entry, temporary=False)
        self._declare(entry)
        return entry.found, insert

    def add_options(self, statement: CreateTable, path: Path) -> CreateTable:
        """The statement with the options that its table has by its catalog."""
        system = self.catalogs.catalogs[path[0]].system
        return statement if system is None else system.define(statement, path[1], path[2])

    def connector_problem(self, statement: CreateTable) -> Problem | None:
        """What is wrong with the connector of a table."""
        try:
            path = self.make_new_path(statement.table)
        except SqlError:  # which is a problem of its own
            path = self.catalogs.path(statement.table.path[-1:])
        return self.make_declaration(self.add_options(statement, path)).connector_problem(self.connectors)

    def make_declaration(self, statement: CreateTable) -> Declaration:
        """The statement, whose table can be made."""
        functions = self.functions.restrict_to(self.catalogs.current)
        return Declaration(statement, self.source, Errors(), functions)

    def _find_key(self, table: TableName) -> tuple[str, ...]:
        """The primary key of a table, if it has one: a copy of the table has the same."""
        found = self.find_table(table) or self.entry(table)
        return found.found.definition.primary_key if isinstance(found, TableEntry) and found.found is not None else ()

    def _declare(self, entry: TableEntry) -> None:
        entry.found = None
        entry.found, warnings = self.make_declaration(entry.statement).table(self.connectors)
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
        path = self.make_new_path(statement.view)
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
