"""The statements of a file, parsed, before names are resolved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from penstock.sql.parse.queries import QueryGrammar
from penstock.sql.parse.syntax import Hint, Name, TableName, Unbound, UnboundQuery
from penstock.sql.parse.tokens import Token, TokenType
from penstock.types import DataType


@dataclass(frozen=True)
class Statement:
    """One statement. ``at`` is the offset of its first character."""

    at: int


@dataclass(frozen=True)
class ColumnDeclaration:
    """A column in CREATE TABLE: a type for a physical or metadata column, an expression for a computed one."""

    name: Name
    type: DataType | None = None
    metadata_key: str | None = None
    virtual: bool = False
    expression: Unbound | None = None
    primary_key: bool = False


@dataclass(frozen=True)
class CreateTable(Statement):
    """CREATE TABLE. ``options`` are the tokens of key and value; ``watermark`` names the column and the expression."""

    table: TableName
    if_not_exists: bool
    columns: tuple[ColumnDeclaration, ...]
    primary_key: tuple[Name, ...]
    watermark: tuple[Name, Unbound] | None
    partitioned_by: tuple[Name, ...]
    options: tuple[tuple[Token, Token], ...]


@dataclass(frozen=True)
class CreateView(Statement):
    """CREATE VIEW view [(columns)] AS query."""

    view: TableName
    if_not_exists: bool
    columns: tuple[Name, ...]
    query: UnboundQuery


@dataclass(frozen=True)
class DropTable(Statement):
    """DROP TABLE, or DROP VIEW of a ``view``."""

    table: TableName
    if_exists: bool
    view: bool = False


@dataclass(frozen=True)
class Insert(Statement):
    """INSERT INTO table [/*+ hints */] [(columns)] query."""

    table: TableName
    columns: tuple[Name, ...]
    query: UnboundQuery
    hints: tuple[Hint, ...] = ()


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN of an INSERT INTO, or of a query."""

    explained: Insert | UnboundQuery


@dataclass(frozen=True)
class BeginSet(Statement):
    """The beginning of a statement set; ``first`` is the INSERT of ``EXECUTE STATEMENT SET BEGIN INSERT ..``."""

    first: Statement | None


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


#: What to do instead of Flink's other statements, and their first words, joined by commas.
_UNSUPPORTED = {
    "write DROP TABLE IF EXISTS before CREATE TABLE": "CREATE OR REPLACE TABLE",
    "write DROP VIEW IF EXISTS before CREATE VIEW": "CREATE OR REPLACE",
    "declare tables with CREATE TABLE": "CREATE CATALOG, CREATE DATABASE",
    "use the built-in functions": (
        "CREATE FUNCTION, CREATE TEMPORARY FUNCTION, CREATE TEMPORARY SYSTEM FUNCTION, CREATE MODEL"
    ),
    "write it as CREATE TABLE and INSERT INTO .. SELECT": "CREATE MATERIALIZED TABLE",
    "write INSERT INTO": "INSERT OVERWRITE",
    "run the SQL file": "EXECUTE PLAN, COMPILE",
    "write it as INSERT INTO .. SELECT": "SELECT, WITH, VALUES, TABLE, (",
    "use penstock check FILE": "DESCRIBE, DESC, SHOW",
    "change the CREATE TABLE statement": "ALTER",
    "leave it out": "UNLOAD, ANALYZE, CALL, QUIT, EXIT, CLEAR",
    "only tables and views can be dropped": "DROP",
    "use bare table names": "USE",
    "leave it out: there are no modules to load": "LOAD",
    "write changes with a sink that takes them": "DELETE, UPDATE",
    "delete the topic's records with Kafka's own tools": "TRUNCATE",
    "leave it out: penstock needs no jar": "ADD, REMOVE",
    "stop the process with a signal": "STOP",
    "use penstock --help": "HELP",
}
_HINTS = {words: hint for hint, statements in _UNSUPPORTED.items() for words in statements.split(", ")}


def parse_statement(cursor: QueryGrammar) -> Statement:
    """One statement, all of its tokens. Raises SqlError or UnsupportedError with the place."""
    at = cursor.at
    for words, parse in _STATEMENTS.items():
        if cursor.take(*words.split()):
            statement = parse(cursor, at)
            cursor.expect_end()
            return statement
    seen = max((words for words in _HINTS if cursor.sees(*words.split())), key=len, default="")
    if seen:
        raise cursor.unsupported("a query on its own" if seen == "(" else seen, _HINTS[seen])
    raise cursor.unexpected("a statement", "CREATE TABLE or VIEW, INSERT INTO, SET, DROP or a statement set")


def parse_schema(cursor: QueryGrammar) -> tuple[tuple[Name, ...], CreateTable]:
    """A CREATE TABLE statement whose table has any id, and the parts of the id. Raises SqlError or UnsupportedError."""
    at = cursor.at
    if not (cursor.take("CREATE", "TABLE") or cursor.take("CREATE", "TEMPORARY", "TABLE")):
        raise cursor.unexpected("CREATE TABLE", "for example CREATE TABLE orders (id BIGINT, amount DOUBLE)")
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    parts = cursor.table_id()
    name = TableName(".".join(part.text for part in parts), parts[0].at)
    return parts, _declaration(cursor, at, if_not_exists, name)


def statements_of(tokens: tuple[Token, ...]) -> list[tuple[Token, ...]]:
    """The tokens of each statement, with END in place of the semicolon."""
    statements, current = [], list[Token]()
    for token in tokens:
        if token.type is TokenType.END or (token.type is TokenType.MARK and token.text == ";"):
            if current:
                statements.append((*current, Token(TokenType.END, "", token.at, "the end of the statement")))
            current = []
        else:
            current.append(token)
    return statements


def created_name(cursor: QueryGrammar) -> str:
    """The table or view that a CREATE statement declares, even if the rest cannot be parsed; else an empty text."""
    cursor.take("CREATE")
    cursor.take("TEMPORARY")
    if not cursor.take_any("TABLE", "VIEW"):
        return ""
    cursor.take("IF", "NOT", "EXISTS")
    return cursor.token.text if cursor.token.type in (TokenType.WORD, TokenType.QUOTED) else ""


def _drop(cursor: QueryGrammar, at: int) -> Statement:
    if_exists = cursor.take("IF", "EXISTS")
    return DropTable(at, cursor.table_name(), if_exists)


def _drop_view(cursor: QueryGrammar, at: int) -> Statement:
    if_exists = cursor.take("IF", "EXISTS")
    return DropTable(at, cursor.table_name(), if_exists, view=True)


def _create_view(cursor: QueryGrammar, at: int) -> Statement:
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    view = cursor.table_name()
    columns = cursor.enclosed(partial(_view_column, cursor)) if cursor.sees("(") else ()
    _comment(cursor)
    cursor.expect("AS")
    return CreateView(at, view, if_not_exists, columns, cursor.query())


def _view_column(cursor: QueryGrammar) -> Name:
    name = cursor.name("a column")
    _comment(cursor)
    return name


def _insert(cursor: QueryGrammar, at: int) -> Insert:
    table = cursor.table_name()
    hints = cursor.hints()
    if cursor.sees("PARTITION"):
        raise cursor.unsupported("INSERT INTO .. PARTITION", "select the values as columns")
    named = cursor.sees("(") and cursor.ahead().keyword not in ("SELECT", "WITH", "(", "VALUES")
    columns = cursor.enclosed(partial(cursor.name, "a column")) if named else ()
    if cursor.sees("TABLE"):
        raise cursor.unsupported("INSERT INTO .. TABLE", "write INSERT INTO .. SELECT * FROM")
    return Insert(at, table, columns, cursor.query(), hints)


def _explain(cursor: QueryGrammar, at: int) -> Statement:
    if not cursor.take("PLAN", "FOR"):
        while cursor.take_any("ESTIMATED_COST", "CHANGELOG_MODE", "PLAN_ADVICE"):
            cursor.take(",")
    if cursor.sees("JSON_EXECUTION_PLAN"):
        raise cursor.unsupported("EXPLAIN JSON_EXECUTION_PLAN", "leave it out")
    if cursor.sees("STATEMENT", "SET"):
        raise cursor.unsupported("EXPLAIN STATEMENT SET", "use penstock check FILE")
    if cursor.take("INSERT", "INTO"):
        return Explain(at, _insert(cursor, at))
    return Explain(at, cursor.query())


def _execute(cursor: QueryGrammar, at: int) -> Statement:
    return BeginSet(at, None if cursor.token.type is TokenType.END else parse_statement(cursor))


def _set(cursor: QueryGrammar, at: int) -> Statement:
    if cursor.token.type is TokenType.END:
        raise cursor.unexpected("a key", "SET 'key' = 'value'")
    key_at, key = cursor.at, _bare(cursor, "a key", until="=")[0]
    cursor.expect("=")
    value_at = cursor.at
    value, shown = _bare(cursor, "a value")
    return SetOption(at, key, key_at, value, shown, value_at)


def _reset(cursor: QueryGrammar, at: int) -> Statement:
    key_at = cursor.at
    return Reset(at, "" if cursor.token.type is TokenType.END else _bare(cursor, "a key")[0], key_at)


def _bare(cursor: QueryGrammar, expected: str, until: str = ";") -> tuple[str, str]:
    """A string, or tokens joined as they were written; then the text with its variables not replaced."""
    if cursor.token.type is TokenType.STRING:
        token = cursor.advance()
        return token.text, token.shown
    text, shown = "", list[str]()
    while cursor.token.type is not TokenType.END and cursor.token.keyword != until:
        token = cursor.advance()
        text += token.text if token.joined or not text else f" {token.text}"
        shown.append(token.shown)
    if not text:
        raise cursor.unexpected(expected)
    return text, " ".join(shown)


@dataclass
class _Body:
    """The contents of the parentheses of CREATE TABLE."""

    columns: list[ColumnDeclaration] = field(default_factory=list)
    primary_key: tuple[Name, ...] = ()
    watermark: tuple[Name, Unbound] | None = None


def _create(cursor: QueryGrammar, at: int) -> Statement:
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    return _declaration(cursor, at, if_not_exists, cursor.table_name())


def _declaration(cursor: QueryGrammar, at: int, if_not_exists: bool, table: TableName) -> CreateTable:
    _refuse_copy(cursor)
    body = _Body()
    if cursor.sees("("):
        cursor.enclosed(partial(_element, cursor, body))
    _comment(cursor)
    if cursor.sees("DISTRIBUTED"):
        raise cursor.unsupported("DISTRIBUTED BY", "records are distributed by 'key.fields' and 'sink.partitioner'")
    partitioned = cursor.take("PARTITIONED", "BY")
    partitioned_by = cursor.enclosed(partial(cursor.name, "a column")) if partitioned else ()
    options = cursor.enclosed(partial(_option, cursor)) if cursor.take("WITH") else ()
    _refuse_copy(cursor)
    cursor.expect_end()
    if not body.columns:
        raise cursor.unsupported("a table without columns", "declare the columns: they are not inferred", table.at)
    return CreateTable(
        at, table, if_not_exists, tuple(body.columns), body.primary_key, body.watermark, partitioned_by, options
    )


def _refuse_copy(cursor: QueryGrammar) -> None:
    if cursor.sees("LIKE"):
        raise cursor.unsupported("CREATE TABLE .. LIKE", "repeat the columns and options of the other table")
    if cursor.sees("AS"):
        raise cursor.unsupported("CREATE TABLE .. AS", "declare the columns, then write INSERT INTO .. SELECT")


def _option(cursor: QueryGrammar) -> tuple[Token, Token]:
    key = cursor.string("an option in quotes, as in 'connector' = 'kafka'")
    cursor.expect("=")
    return key, cursor.string("a value in quotes")


def _element(cursor: QueryGrammar, body: _Body) -> None:
    if cursor.take("WATERMARK", "FOR"):
        if body.watermark is not None:
            raise cursor.source.error(cursor.at, "a table has one watermark", "leave the others out")
        name = cursor.name("a column")
        cursor.expect("AS")
        body.watermark = name, cursor.expression()
    elif cursor.sees("PRIMARY", "KEY") or cursor.sees("CONSTRAINT"):
        _constraint(cursor, body)
    elif cursor.sees("UNIQUE", "("):
        raise cursor.source.error(cursor.at, "UNIQUE is not a constraint of Flink SQL", "leave it out")
    else:
        body.columns.append(column_declaration(cursor))


def _constraint(cursor: QueryGrammar, body: _Body) -> None:
    at = cursor.at
    if cursor.take("CONSTRAINT"):
        cursor.name("a constraint's name")
    cursor.expect("PRIMARY", "KEY")
    if body.primary_key:
        raise cursor.source.error(at, "a table has one PRIMARY KEY", "leave the others out")
    body.primary_key = cursor.enclosed(partial(cursor.name, "a column"))
    _not_enforced(cursor)


def _not_enforced(cursor: QueryGrammar) -> None:
    if not cursor.take("NOT", "ENFORCED"):
        raise cursor.unexpected("NOT ENFORCED", "keys are never enforced: write PRIMARY KEY (..) NOT ENFORCED")


def column_declaration(cursor: QueryGrammar) -> ColumnDeclaration:
    """One column of CREATE TABLE. Raises SqlError."""
    name = cursor.name("a column")
    if cursor.take("AS"):
        expression = cursor.expression()
        _comment(cursor)
        return ColumnDeclaration(name, expression=expression)
    data_type = cursor.data_type()
    if cursor.take("METADATA"):
        key = cursor.string("a metadata key in quotes").text if cursor.take("FROM") else name.text
        virtual = cursor.take("VIRTUAL")
        _comment(cursor)
        return ColumnDeclaration(name, data_type, key, virtual)
    primary_key = cursor.take("PRIMARY", "KEY")
    if primary_key:
        _not_enforced(cursor)
    _comment(cursor)
    if cursor.token.type is not TokenType.END and cursor.token.keyword not in (",", ")"):
        raise cursor.unexpected("',' or ')'")
    return ColumnDeclaration(name, data_type, primary_key=primary_key)


def _comment(cursor: QueryGrammar) -> None:
    if cursor.take("COMMENT"):
        cursor.string("a comment in quotes")


_STATEMENTS: dict[str, Callable[[QueryGrammar, int], Statement]] = {
    **dict.fromkeys(("CREATE TABLE", "CREATE TEMPORARY TABLE"), _create),
    **dict.fromkeys(("CREATE VIEW", "CREATE TEMPORARY VIEW"), _create_view),
    **dict.fromkeys(("DROP TABLE", "DROP TEMPORARY TABLE"), _drop),
    **dict.fromkeys(("DROP VIEW", "DROP TEMPORARY VIEW"), _drop_view),
    **dict.fromkeys(("INSERT INTO", "EXECUTE INSERT INTO"), _insert),
    "EXPLAIN": _explain,
    "EXECUTE STATEMENT SET BEGIN": _execute,
    "BEGIN STATEMENT SET": lambda _, at: BeginSet(at, None),
    "END": lambda _, at: EndSet(at),
    "SET": _set,
    "RESET": _reset,
}
