"""CREATE, ALTER, DROP and USE of catalogs and databases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import SqlError
from penstock.sql.catalogs import Catalog, Catalogs, Space
from penstock.sql.parse.source import SourceText, suggest_name
from penstock.sql.parse.statements import (
    AlterCatalog,
    AlterDatabase,
    CreateCatalog,
    CreateDatabase,
    DropCatalog,
    DropDatabase,
    GivenOption,
    ResetOptions,
    SetOptions,
    Statement,
    Use,
)
from penstock.sql.parse.syntax import Name
from penstock.sql.parse.tokens import Token
from penstock.sql.system_catalogs import SYSTEM_TYPES, SystemCatalog

#: The type of catalogs that are in memory, and its options.
_IN_MEMORY, _IN_MEMORY_OPTIONS = "generic_in_memory", ("type", "default-database", "property-version")
#: Options of every catalog of another system.
_OF_ALL = ("type", "default-database")
#: The types of catalogs, for messages.
_TYPES = ", ".join(f"'{each}'" for each in (_IN_MEMORY, *SYSTEM_TYPES))


@dataclass(frozen=True)
class CatalogDefinitions:
    """Changes ``catalogs`` and their databases by the statements of ``source``."""

    source: SourceText
    catalogs: Catalogs

    def run(self, statement: Statement) -> bool:
        """Run a statement, if it is about catalogs or databases. Raises SqlError and UnsupportedError."""
        match statement:
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
            case _:
                return False
        return True

    def space(self, parts: Sequence[Name]) -> Space:
        """The catalog and the database of a name of a database. Raises SqlError if there is none."""
        *catalogs, database = parts
        given = self.catalog(catalogs[0]) if catalogs else self.catalogs.current[0]
        catalog, name = self.catalogs.resolve((given, database.text))
        if self.catalogs.catalogs[catalog].system is not None:  # which knows its databases
            return catalog, name
        known = self.catalogs.catalogs[catalog].databases
        if name not in known:
            hint = suggest_name(name, known)
            raise self.source.error(database.at, f"there is no database '{name}'", hint)
        return catalog, name

    def catalog(self, name: Name) -> str:
        """The name of a catalog. Raises SqlError if there is none."""
        known, found = self.catalogs.catalogs, self.catalogs.resolve_catalog(name.text)
        if found not in known:
            hint = suggest_name(name.text, known)
            raise self.source.error(name.at, f"there is no catalog '{name.text}'", hint)
        return found

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
            raise self.source.error(name.at, "the catalog has no 'type'", f"write WITH ('type' = ..): {_TYPES}")
        if type_.text != _IN_MEMORY:  # whatever its other options are
            self.catalogs.catalogs[name.text] = self._make_system_catalog(statement, type_)
            return
        given = self._read_options(statement.options)
        database = given["default-database"][1].text if "default-database" in given else "default"
        options = {key: value.shown for key, (_, value) in given.items()}
        self.catalogs.catalogs[name.text] = Catalog(options, statement.comment, [database])

    def _make_system_catalog(self, statement: CreateCatalog, type_: Token) -> Catalog:
        """A catalog whose tables are those of another system. Raises UnsupportedError for another type, and SqlError
        for options that are unknown or missing."""
        system = SYSTEM_TYPES.get(type_.text)
        if system is None:
            reason = f"catalogs of type {type_.shown} are not supported"
            raise self.source.unsupported_feature(type_.at, reason, f"there are {_TYPES}")
        given = {key.text: (key, value) for key, value in statement.options}
        for text, (key, _) in given.items():
            if text not in _OF_ALL and not system.has_option(text):
                hint = f"there are {', '.join(system.options)}, default-database"
                raise self.source.error(key.at, f"a catalog of type {type_.shown} has no option '{text}'", hint)
        for text in system.required:
            if text not in given:
                raise self.source.error(statement.name.at, f"the catalog has no '{text}'", "add it to WITH")
        database = given["default-database"][1].text if "default-database" in given else system.default_database
        secret = {"password", *(key for key, (_, value) in given.items() if "@" in value.text)}
        options = {key: "'****'" if key in secret else value.shown for key, (_, value) in given.items()}
        values = tuple(each for key, each in given.items() if key not in _OF_ALL)
        return Catalog(options, statement.comment, [database], SystemCatalog(system, values))

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
