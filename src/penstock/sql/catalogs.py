"""Catalogs, databases, and the tables and views in them: all are in memory, and of one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from penstock.sql.bind.results import Relation
from penstock.sql.bind.tables.definitions import DeclaredTable
from penstock.sql.parse.statements import CreateTable, CreateView
from penstock.sql.system_catalogs import SystemCatalog

DEFAULT_CATALOG = "default_catalog"
DEFAULT_DATABASE = "default_database"
#: What Realtime Compute calls the default catalog and its database.
_ALIAS = "vvp", "default"
#: The names of a catalog and of one of its databases.
Space = tuple[str, str]
#: The names of a catalog, a database, and a table or view.
Path = tuple[str, str, str]


@dataclass
class TableEntry:
    """A table. ``found`` is None if it has problems."""

    statement: CreateTable
    found: DeclaredTable | None = None


@dataclass
class ViewEntry:
    """A view, whose query is resolved in the database ``space``. ``found`` is its result at the ``version`` of the
    catalogs, None if it had problems."""

    statement: CreateView
    space: Space
    found: Relation | None = None
    version: int = -1


Entry = TableEntry | ViewEntry


@dataclass
class Catalog:
    """A catalog: its options as SHOW CREATE CATALOG prints them, and its databases."""

    options: dict[str, str]
    comment: str = ""
    databases: list[str] = field(default_factory=list)
    #: What a catalog of another system knows of its tables.
    system: SystemCatalog | None = None


@dataclass
class Catalogs:
    """All catalogs. A temporary table or view hides a permanent one of its name. ``version`` counts the changes after
    which a view may give other rows."""

    current: Space = (DEFAULT_CATALOG, DEFAULT_DATABASE)
    catalogs: dict[str, Catalog] = field(
        default_factory=lambda: {
            DEFAULT_CATALOG: Catalog({"type": "'generic_in_memory'"}, databases=[DEFAULT_DATABASE])
        }
    )
    permanent: dict[Path, Entry] = field(default_factory=dict)
    temporary: dict[Path, Entry] = field(default_factory=dict)
    version: int = 0

    def path(self, parts: tuple[str, ...], space: Space | None = None) -> Path:
        """The whole name of a table, of which ``parts`` are given in the database ``space``, the current one without
        it."""
        catalog, database = space or self.current
        *given, name = parts
        match given:
            case [other, own]:
                return *self.resolve((other, own)), name
            case [own]:
                return *self.resolve((catalog, own)), name
        return catalog, database, name

    def resolve(self, space: Space) -> Space:
        """The catalog and the database that are meant: ``vvp`` is the default catalog, and ``default`` its database,
        unless there are others of these names."""
        catalog, database = self.resolve_catalog(space[0]), space[1]
        found = self.catalogs.get(catalog)
        renamed = catalog == DEFAULT_CATALOG and database == _ALIAS[1] and found and database not in found.databases
        return catalog, DEFAULT_DATABASE if renamed else database

    def resolve_catalog(self, name: str) -> str:
        """The catalog that is meant: ``vvp`` is the default one, unless there is a catalog of this name."""
        return DEFAULT_CATALOG if name == _ALIAS[0] and name not in self.catalogs else name

    def find_system(self, catalog: str) -> SystemCatalog | None:
        """The catalog of a system whose tables have the columns that are found in messages; None for another one."""
        found = self.catalogs.get(catalog)
        system = None if found is None else found.system
        return system if system is not None and system.type.finds_columns else None

    def entry(self, path: Path) -> Entry | None:
        """The table or view of this name."""
        return self.temporary.get(path) or self.permanent.get(path)

    def entries(self, space: Space) -> dict[str, Entry]:
        """The tables and views of a database by name, sorted."""
        found = {path[2]: each for path, each in (self.permanent | self.temporary).items() if path[:2] == space}
        return dict(sorted(found.items()))

    def all(self) -> Iterator[Entry]:
        """Every table and view."""
        yield from self.permanent.values()
        yield from self.temporary.values()

    def put(self, path: Path, entry: Entry, *, temporary: bool) -> None:
        """Add a table or a view."""
        if self.version or path in self.permanent:
            self.version += 1  # a view may have read another table of this name
        (self.temporary if temporary else self.permanent)[path] = entry

    def holder(self, path: Path) -> dict[Path, Entry]:
        """Where the table or view of this name is."""
        return self.temporary if path in self.temporary else self.permanent


def display_path(path: Path) -> str:
    """The name of a table in plans and messages: without the default catalog and the default database."""
    catalog, database, name = path
    if catalog != DEFAULT_CATALOG:
        return ".".join(path)
    return name if database == DEFAULT_DATABASE else f"{database}.{name}"


@dataclass(frozen=True)
class Visible(Mapping[tuple[str, ...], DeclaredTable | Relation | None]):
    """The tables and views that a statement sees in the database ``space``, by the parts of their names. ``resolve``
    gives the rows of a view, and raises KeyError if it reads a table or view that was dropped."""

    catalogs: Catalogs
    space: Space
    resolve: Callable[[ViewEntry], Relation | None]

    def __getitem__(self, parts: tuple[str, ...]) -> DeclaredTable | Relation | None:
        found = self.catalogs.entry(self.catalogs.path(parts, self.space))
        if found is None:
            raise KeyError(parts)
        return self.resolve(found) if isinstance(found, ViewEntry) else found.found

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        for path in self.catalogs.permanent | self.catalogs.temporary:
            names = (
                path,
                *([path[1:]] if path[0] == self.space[0] else ()),
                *([path[2:]] if path[:2] == self.space else ()),
            )
            yield from (each for each in names if each in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
