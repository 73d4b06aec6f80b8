"""Catalogs whose tables are those of another system: a database, or the topics of Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.sql.parse.statements import ColumnDeclaration, CreateTable, GivenOption, PrimaryKey
from penstock.sql.parse.syntax import Name, TableName
from penstock.sql.parse.tokens import Token, TokenType
from penstock.types import BIGINT, INT, DataType, TimestampType

_PROPERTIES = "properties."
#: Options of the format of a catalog of Kafka begin with these.
_OF_FORMAT = ("infer-schema.", "timestamp-format.")


@dataclass(frozen=True)
class SystemType:
    """A type of catalogs. ``connector`` reads and writes their tables. A catalog has ``options``, of which some are
    ``required``, and ``default_database`` unless it names one. ``table_option`` names the table, and
    ``database_option`` the database; with ``has_schemas`` the database is the schema of the table."""

    connector: str
    options: tuple[str, ...]
    required: tuple[str, ...]
    default_database: str
    table_option: str
    database_option: str = ""
    has_schemas: bool = False
    #: The metadata that is read of every table whose columns are found in messages; none for tables that are declared.
    metadata: tuple[tuple[str, DataType], ...] = ()
    #: The primary key of such tables.
    key: tuple[str, ...] = ()
    #: The options that such tables have unless the catalog has them.
    implied: tuple[tuple[str, str], ...] = ()

    @property
    def finds_columns(self) -> bool:
        """Whether the columns of tables are found in messages."""
        return bool(self.metadata)

    def has_option(self, key: str) -> bool:
        """Whether a catalog may have this option."""
        return key in self.options or (self.finds_columns and key.startswith(_PROPERTIES))


#: The types of catalogs, by what the option 'type' names.
SYSTEM_TYPES: Mapping[str, SystemType] = {
    "hologres": SystemType(
        "hologres",
        options=("endpoint", "username", "password"),
        required=("endpoint", "username", "password"),
        default_database="public",
        table_option="tablename",
        database_option="dbname",
    ),
    "postgres": SystemType(
        "postgres",
        options=("url", "username", "password"),
        required=("url",),
        default_database="public",
        table_option="table-name",
        has_schemas=True,
    ),
    "kafka": SystemType(
        "kafka",
        options=(
            *("properties.bootstrap.servers", "format", "max.fetch.records", "key.format"),
            *("key.fields-prefix", "value.fields-prefix", "timestamp-format.standard"),
            *("infer-schema.flatten-nested-columns.enable", "infer-schema.primitive-as-string"),
        ),
        required=("properties.bootstrap.servers",),
        default_database="kafka",
        table_option="topic",
        metadata=(
            ("partition", INT.with_nullability(False)),
            ("offset", BIGINT.with_nullability(False)),
            ("timestamp", TimestampType(3, local_zone=True, nullable=False)),
        ),
        key=("partition", "offset"),
        implied=(("format", "json"), ("value.fields-prefix", "value_"), ("scan.startup.mode", "earliest-offset")),
    ),
}


@dataclass(frozen=True)
class SystemCatalog:
    """A catalog of a ``type``, which knows its databases, with its ``options`` as they are given."""

    type: SystemType
    options: tuple[GivenOption, ...]

    def define(self, statement: CreateTable, database: str, table: str) -> CreateTable:
        """The statement of a table with the options that it has by the catalog, before its own."""
        given = self.options
        if self.type.finds_columns:  # the others are for tables whose columns are found
            given = tuple(each for each in given if each[0].text.startswith(_PROPERTIES))
        return self._add_options(statement, given, {}, database, table)

    def find_table(self, name: TableName, database: str, table: str) -> CreateTable:
        """The statement of a table whose columns are found in messages: with the metadata that it has at any rate."""
        at = name.at
        columns = tuple(ColumnDeclaration(Name(key, at), each, key, virtual=True) for key, each in self.type.metadata)
        key = PrimaryKey(tuple(Name(each, at) for each in self.type.key), "", at)
        made = CreateTable(at, name, False, columns, key, None, (), ())
        given = tuple((_name_for_table(key), value) for key, value in self.options)
        return self._add_options(made, given, dict(self.type.implied), database, table)

    def _add_options(
        self,
        statement: CreateTable,
        given: tuple[GivenOption, ...],
        implied: Mapping[str, str],
        database: str,
        table: str,
    ) -> CreateTable:
        type_, at = self.type, statement.table.at
        named = {"connector": type_.connector, **implied}
        named[type_.table_option] = f"{database}.{table}" if type_.has_schemas else table
        if type_.database_option:
            named[type_.database_option] = database
        present = {key.text for key, _ in given}
        made = ((_make_token(key, at), _make_token(value, at)) for key, value in named.items() if key not in present)
        own = {key.text for key, _ in statement.options}
        options = tuple(each for each in (*given, *made) if each[0].text not in own)
        return replace(statement, options=(*options, *statement.options))


def _make_token(text: str, at: int) -> Token:
    """A text in quotes that a statement implies at an offset."""
    return Token(TokenType.STRING, text, at, f"'{text}'")


def _name_for_table(key: Token) -> Token:
    """The option of a table that an option of a catalog of Kafka stands for."""
    return replace(key, text=f"json.{key.text}") if key.text.startswith(_OF_FORMAT) else key
