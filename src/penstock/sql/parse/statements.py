"""Statements after parsing, before their names are bound to tables and catalogs."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.sql.parse.syntax import Hint, Name, TableName, Unbound, UnboundQuery
from penstock.sql.parse.tokens import Token
from penstock.types import DataType

#: The tokens of an option's key and value.
GivenOption = tuple[Token, Token]


@dataclass(frozen=True)
class Statement:
    """One statement. ``at`` is the offset of its first character."""

    at: int


# --- tables and views ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnDeclaration:
    """A column in CREATE TABLE: a type for a physical or metadata column, an expression for a computed one."""

    name: Name
    type: DataType | None = None
    metadata_key: str | None = None
    virtual: bool = False
    expression: Unbound | None = None
    primary_key: bool = False
    comment: str = ""

    @property
    def physical(self) -> bool:
        """Whether it is a column of the table's records."""
        return self.expression is None and self.metadata_key is None


@dataclass(frozen=True)
class PrimaryKey:
    """``[CONSTRAINT name] PRIMARY KEY (columns) NOT ENFORCED``."""

    columns: tuple[Name, ...]
    name: str
    at: int


@dataclass(frozen=True)
class LikeRule:
    """``INCLUDING feature``, ``EXCLUDING feature`` or ``OVERWRITING feature``."""

    merging: str
    feature: str
    at: int


@dataclass(frozen=True)
class TableLike:
    """``LIKE table (rules)``."""

    table: TableName
    rules: tuple[LikeRule, ...]


@dataclass(frozen=True)
class CreateTable(Statement):
    """CREATE TABLE. ``watermark`` names the column and the expression. With ``like`` the parts of another table precede
    its own."""

    table: TableName
    if_not_exists: bool
    columns: tuple[ColumnDeclaration, ...]
    primary_key: PrimaryKey | None
    watermark: tuple[Name, Unbound] | None
    partitioned_by: tuple[Name, ...]
    options: tuple[GivenOption, ...]
    comment: str = ""
    temporary: bool = False
    like: TableLike | None = None


@dataclass(frozen=True)
class CreateTableAs(Statement):
    """CREATE TABLE .. AS: ``created`` without the columns of its ``query``, which are in the order of ``names`` if
    there are any. ``copied`` is the table of AS TABLE."""

    created: CreateTable
    query: UnboundQuery
    names: tuple[Name, ...] = ()
    copied: TableName | None = None


@dataclass(frozen=True)
class CreateView(Statement):
    """CREATE VIEW view [(columns)] AS query. ``end`` is the offset after the query."""

    view: TableName
    if_not_exists: bool
    columns: tuple[Name, ...]
    query: UnboundQuery
    comment: str = ""
    temporary: bool = False
    end: int = 0


@dataclass(frozen=True)
class DropTable(Statement):
    """DROP [TEMPORARY] TABLE, or DROP [TEMPORARY] VIEW of a ``view``."""

    table: TableName
    if_exists: bool
    view: bool = False
    temporary: bool = False


@dataclass(frozen=True)
class Change:
    """What ALTER TABLE changes. ``at`` is the offset of its first word."""

    at: int


@dataclass(frozen=True)
class RenameTo(Change):
    """RENAME TO table."""

    to: TableName


@dataclass(frozen=True)
class RenameColumn(Change):
    """RENAME column TO other."""

    column: Name
    to: Name


@dataclass(frozen=True)
class SetOptions(Change):
    """SET ('key' = 'value')."""

    options: tuple[GivenOption, ...]


@dataclass(frozen=True)
class ResetOptions(Change):
    """RESET ('key')."""

    keys: tuple[Token, ...]


@dataclass(frozen=True)
class PlacedColumn:
    """A column of ALTER TABLE ADD or MODIFY: ``first``, ``after`` another, or else at the end or where it is."""

    column: ColumnDeclaration
    first: bool = False
    after: Name | None = None


@dataclass(frozen=True)
class PutColumns(Change):
    """ADD, or with ``modify`` MODIFY: columns, a primary key and a watermark."""

    modify: bool
    columns: tuple[PlacedColumn, ...]
    primary_key: PrimaryKey | None
    watermark: tuple[Name, Unbound] | None


@dataclass(frozen=True)
class DropColumns(Change):
    """DROP column, or DROP (columns)."""

    columns: tuple[Name, ...]


@dataclass(frozen=True)
class DropKey(Change):
    """DROP PRIMARY KEY, or DROP CONSTRAINT name."""

    name: Name | None


@dataclass(frozen=True)
class DropWatermark(Change):
    """DROP WATERMARK."""


@dataclass(frozen=True)
class AlterTable(Statement):
    """ALTER TABLE [IF EXISTS] table change."""

    table: TableName
    if_exists: bool
    change: Change


@dataclass(frozen=True)
class AlterView(Statement):
    """ALTER VIEW view RENAME TO other, or AS query, which ends before the offset ``end``."""

    view: TableName
    change: RenameTo | UnboundQuery
    end: int


# --- catalogs and databases ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CreateCatalog(Statement):
    """CREATE CATALOG name [COMMENT 'text'] WITH (options)."""

    name: Name
    if_not_exists: bool
    comment: str
    options: tuple[GivenOption, ...]


@dataclass(frozen=True)
class AlterCatalog(Statement):
    """ALTER CATALOG name SET (options), RESET (keys) or COMMENT 'text'."""

    name: Name
    change: SetOptions | ResetOptions | str


@dataclass(frozen=True)
class DropCatalog(Statement):
    """DROP CATALOG name."""

    name: Name
    if_exists: bool


@dataclass(frozen=True)
class CreateDatabase(Statement):
    """CREATE DATABASE [catalog.]name [COMMENT 'text'] [WITH (options)]."""

    parts: tuple[Name, ...]
    if_not_exists: bool


@dataclass(frozen=True)
class CreateDatabaseAs(Statement):
    """CREATE DATABASE .. AS DATABASE source INCLUDING .. [EXCLUDING ..]: the tables of ``source`` whose names match one
    of the regular expressions ``including``, all without any, and none of ``excluding``."""

    created: CreateDatabase
    options: tuple[GivenOption, ...]
    source: tuple[Name, ...]
    including: tuple[Token, ...] = ()
    excluding: tuple[Token, ...] = ()


@dataclass(frozen=True)
class AlterDatabase(Statement):
    """ALTER DATABASE [catalog.]name SET (options)."""

    parts: tuple[Name, ...]


@dataclass(frozen=True)
class DropDatabase(Statement):
    """DROP DATABASE [catalog.]name [RESTRICT | CASCADE]."""

    parts: tuple[Name, ...]
    if_exists: bool
    cascade: bool


@dataclass(frozen=True)
class Use(Statement):
    """USE [catalog.]database, or USE CATALOG name of a ``catalog``."""

    parts: tuple[Name, ...]
    catalog: bool


# --- what prints --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pattern:
    """``[NOT] LIKE 'pattern'``, or with ``any_case`` ILIKE."""

    text: str
    negated: bool
    any_case: bool


@dataclass(frozen=True)
class CreateFunction(Statement):
    """CREATE [TEMPORARY [SYSTEM]] FUNCTION of the object ``target``, a module and a name in it."""

    function: TableName
    target: Name
    if_not_exists: bool
    temporary: bool = False
    system: bool = False


@dataclass(frozen=True)
class DropFunction(Statement):
    """DROP [TEMPORARY [SYSTEM]] FUNCTION."""

    function: TableName
    if_exists: bool
    temporary: bool = False
    system: bool = False


@dataclass(frozen=True)
class Show(Statement):
    """SHOW: ``what`` are its words, such as TABLES or CREATE VIEW. ``parts`` name the catalog, database or table, if
    there is one."""

    what: str
    parts: tuple[Name, ...] = ()
    pattern: Pattern | None = None


@dataclass(frozen=True)
class Describe(Statement):
    """DESCRIBE table."""

    table: TableName


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN of INSERT INTO statements, of CREATE TABLE .. AS or of a query, with the ``details`` that are asked
    for."""

    explained: tuple[Insert, ...] | CreateTableAs | UnboundQuery
    details: frozenset[str] = frozenset()


# --- jobs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Insert(Statement):
    """INSERT INTO table [hints] [(columns)] query [ON CONFLICT DO conflict]. ``conflict`` has the place of ON. With
    ``overwrite`` it is INSERT OVERWRITE."""

    table: TableName
    columns: tuple[Name, ...]
    query: UnboundQuery
    hints: tuple[Hint, ...] = ()
    conflict: Name | None = None
    overwrite: bool = False


@dataclass(frozen=True)
class BeginSet(Statement):
    """The beginning of a statement set; ``first`` is the INSERT of ``EXECUTE STATEMENT SET BEGIN INSERT ..``. With
    ``details`` it is not run, but explained."""

    first: Statement | None
    details: frozenset[str] | None = None


@dataclass(frozen=True)
class EndSet(Statement):
    """END of a statement set."""


@dataclass(frozen=True)
class SetOption(Statement):
    """SET key = value. ``shown`` is the value as it was written, variables not replaced."""

    key: str
    key_at: int
    value: str
    shown: str
    value_at: int


@dataclass(frozen=True)
class Reset(Statement):
    """RESET, or RESET key."""

    key: str
    key_at: int
