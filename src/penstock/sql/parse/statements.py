"""The statements of a file, parsed, before names are resolved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.sql.parse.cursor import Cursor
from penstock.sql.parse.grammar import Grammar, table_id, table_name
from penstock.sql.parse.syntax import Name, Query, TableName, Tree
from penstock.sql.parse.tokens import Kind, Token
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
    expression: Tree | None = None
    primary_key: bool = False


@dataclass(frozen=True)
class CreateTable(Statement):
    """CREATE TABLE. ``options`` are the tokens of key and value; ``watermark`` names the column and the expression."""

    table: TableName
    if_not_exists: bool
    columns: tuple[ColumnDeclaration, ...]
    primary_key: tuple[Name, ...]
    watermark: tuple[Name, Tree] | None
    partitioned_by: tuple[Name, ...]
    options: tuple[tuple[Token, Token], ...]


@dataclass(frozen=True)
class DropTable(Statement):
    """DROP TABLE."""

    table: TableName
    if_exists: bool


@dataclass(frozen=True)
class Insert(Statement):
    """INSERT INTO table [(columns)] query."""

    table: TableName
    columns: tuple[Name, ...]
    query: Query


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


_QUERIES = "write it as INSERT INTO .. SELECT"
#: First words of Flink's other statements, the longest first, and what to do instead.
_UNSUPPORTED = {
    ("CREATE", "VIEW"): "put the query into INSERT INTO .. SELECT",
    ("CREATE", "TEMPORARY", "VIEW"): "put the query into INSERT INTO .. SELECT",
    ("CREATE", "OR", "REPLACE", "TABLE"): "write DROP TABLE IF EXISTS before CREATE TABLE",
    ("CREATE", "CATALOG"): "declare tables with CREATE TABLE",
    ("CREATE", "DATABASE"): "declare tables with CREATE TABLE",
    ("CREATE", "FUNCTION"): "use the built-in functions",
    ("CREATE", "TEMPORARY", "FUNCTION"): "use the built-in functions",
    ("CREATE", "TEMPORARY", "SYSTEM", "FUNCTION"): "use the built-in functions",
    ("CREATE", "MODEL"): "use the built-in functions",
    ("CREATE", "MATERIALIZED", "TABLE"): "write it as CREATE TABLE and INSERT INTO .. SELECT",
    ("INSERT", "OVERWRITE"): "write INSERT INTO",
    ("EXECUTE", "PLAN"): "run the SQL file",
    ("SELECT",): _QUERIES,
    ("WITH",): _QUERIES,
    ("VALUES",): _QUERIES,
    ("TABLE",): _QUERIES,
    ("(",): _QUERIES,
    ("EXPLAIN",): "use penstock check FILE",
    ("DESCRIBE",): "use penstock check FILE",
    ("DESC",): "use penstock check FILE",
    ("SHOW",): "use penstock check FILE",
    ("ALTER",): "change the CREATE TABLE statement",
    ("DROP", "VIEW"): "leave it out",
    ("DROP",): "only tables can be dropped",
    ("USE",): "use bare table names",
    ("LOAD",): "leave it out: there are no modules to load",
    ("UNLOAD",): "leave it out",
    ("ANALYZE",): "leave it out",
    ("DELETE",): "write changes with a sink that takes them",
    ("UPDATE",): "write changes with a sink that takes them",
    ("TRUNCATE",): "delete the topic's records with Kafka's own tools",
    ("CALL",): "leave it out",
    ("COMPILE",): "run the SQL file",
    ("ADD",): "leave it out: penstock needs no jar",
    ("REMOVE",): "leave it out: penstock needs no jar",
    ("STOP",): "stop the process with a signal",
    ("QUIT",): "leave it out",
    ("EXIT",): "leave it out",
    ("CLEAR",): "leave it out",
    ("HELP",): "use penstock --help",
}


def parse_statement(cursor: Cursor) -> Statement:
    """One statement, all of its tokens. Raises SqlError or UnsupportedError with the place."""
    at = cursor.at
    for words, parse in _STATEMENTS:
        if cursor.take(*words):
            return parse(cursor, at)
    for words, hint in _UNSUPPORTED.items():
        if cursor.sees(*words):
            name = "a query on its own" if words == ("(",) else " ".join(words)
            raise cursor.unsupported(name, hint)
    raise cursor.unexpected("a statement", "CREATE TABLE, INSERT INTO, SET, DROP TABLE or a statement set")


def parse_schema(cursor: Cursor) -> tuple[tuple[Name, ...], CreateTable]:
    """A CREATE TABLE statement whose table has any id, and the parts of the id. Raises SqlError or UnsupportedError."""
    at = cursor.at
    if not (cursor.take("CREATE", "TABLE") or cursor.take("CREATE", "TEMPORARY", "TABLE")):
        raise cursor.unexpected("CREATE TABLE", "for example CREATE TABLE orders (id BIGINT, amount DOUBLE)")
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    parts = table_id(cursor)
    name = TableName(".".join(part.text for part in parts), parts[0].at)
    return parts, _declaration(cursor, at, if_not_exists, name)


def statements_of(tokens: tuple[Token, ...]) -> list[tuple[Token, ...]]:
    """The tokens of each statement, with END in place of the semicolon."""
    statements, current = [], list[Token]()
    for token in tokens:
        if token.kind is Kind.END or (token.kind is Kind.MARK and token.text == ";"):
            if current:
                end = Token(Kind.END, "", token.at, token.end, "the end of the statement")
                statements.append((*current, end))
            current = []
        else:
            current.append(token)
    return statements


def created_name(cursor: Cursor) -> str:
    """The table that a CREATE TABLE statement declares, even if the rest cannot be parsed; else an empty text."""
    cursor.take("CREATE")
    cursor.take("TEMPORARY")
    if not cursor.take("TABLE"):
        return ""
    cursor.take("IF", "NOT", "EXISTS")
    return cursor.token.text if cursor.token.kind in (Kind.WORD, Kind.QUOTED) else ""


def _drop(cursor: Cursor, at: int) -> Statement:
    if_exists = cursor.take("IF", "EXISTS")
    table = table_name(cursor)
    cursor.expect_end()
    return DropTable(at, table, if_exists)


def _insert(cursor: Cursor, at: int) -> Insert:
    table = table_name(cursor)
    if cursor.sees("PARTITION"):
        raise cursor.unsupported("INSERT INTO .. PARTITION", "select the values as columns")
    columns = (
        () if not cursor.sees("(") or cursor.sees("(", "SELECT") else cursor.enclosed(lambda: cursor.name("a column"))
    )
    if cursor.sees("VALUES"):
        raise cursor.unsupported("INSERT INTO .. VALUES", "read the rows from a table")
    if cursor.sees("TABLE"):
        raise cursor.unsupported("INSERT INTO .. TABLE", "write INSERT INTO .. SELECT * FROM")
    if cursor.sees("WITH") or cursor.sees("("):
        raise cursor.unsupported("a query in parentheses or WITH", "write INSERT INTO .. SELECT .. FROM a table")
    return Insert(at, table, columns, Grammar(cursor).query())


def _begin_execute(cursor: Cursor, at: int) -> Statement:
    return BeginSet(at, None if cursor.token.kind is Kind.END else parse_statement(cursor))


def _begin(cursor: Cursor, at: int) -> Statement:
    cursor.expect_end()
    return BeginSet(at, None)


def _end(cursor: Cursor, at: int) -> Statement:
    cursor.expect_end()
    return EndSet(at)


def _set(cursor: Cursor, at: int) -> Statement:
    if cursor.token.kind is Kind.END:
        raise cursor.unexpected("a key", "SET 'key' = 'value'")
    key_at, key = cursor.at, _bare(cursor, "a key", until="=")[0]
    cursor.expect("=")
    value_at = cursor.at
    value, shown = _bare(cursor, "a value")
    cursor.expect_end()
    return SetOption(at, key, key_at, value, shown, value_at)


def _reset(cursor: Cursor, at: int) -> Statement:
    key_at = cursor.at
    key = "" if cursor.token.kind is Kind.END else _bare(cursor, "a key")[0]
    cursor.expect_end()
    return Reset(at, key, key_at)


def _bare(cursor: Cursor, what: str, until: str = ";") -> tuple[str, str]:
    """A string, or tokens joined as they were written; and the same without variables replaced."""
    if cursor.token.kind is Kind.STRING:
        token = cursor.advance()
        return token.text, token.shown
    text, shown = "", list[str]()
    while cursor.token.kind is not Kind.END and cursor.token.keyword != until:
        token = cursor.advance()
        text += token.text if token.joined or not text else f" {token.text}"
        shown.append(token.shown)
    if not text:
        raise cursor.unexpected(what)
    return text, " ".join(shown)


@dataclass
class _Body:
    """The contents of the parentheses of CREATE TABLE."""

    columns: list[ColumnDeclaration] = field(default_factory=list)
    primary_key: tuple[Name, ...] = ()
    watermark: tuple[Name, Tree] | None = None


def _create(cursor: Cursor, at: int) -> Statement:
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    return _declaration(cursor, at, if_not_exists, table_name(cursor))


def _declaration(cursor: Cursor, at: int, if_not_exists: bool, table: TableName) -> CreateTable:
    if cursor.sees("LIKE") or cursor.sees("AS"):
        _refuse_copy(cursor)
    body = _Body()
    if cursor.take("("):
        cursor.listed(lambda: _element(cursor, body))
        cursor.expect(")")
    if cursor.take("COMMENT"):
        cursor.string("a comment in quotes")
    if cursor.sees("DISTRIBUTED"):
        raise cursor.unsupported("DISTRIBUTED BY", "records are distributed by 'key.fields' and 'sink.partitioner'")
    partitioned_by: tuple[Name, ...] = ()
    if cursor.take("PARTITIONED", "BY"):
        partitioned_by = cursor.enclosed(lambda: cursor.name("a column"))
    options: tuple[tuple[Token, Token], ...] = ()
    if cursor.take("WITH"):
        options = cursor.enclosed(lambda: _option(cursor))
    _refuse_copy(cursor)
    cursor.expect_end()
    if not body.columns:
        raise cursor.unsupported("a table without columns", "declare the columns: they are not inferred", table.at)
    return CreateTable(
        at, table, if_not_exists, tuple(body.columns), body.primary_key, body.watermark, partitioned_by, options
    )


def _refuse_copy(cursor: Cursor) -> None:
    if cursor.sees("LIKE"):
        raise cursor.unsupported("CREATE TABLE .. LIKE", "repeat the columns and options of the other table")
    if cursor.sees("AS"):
        raise cursor.unsupported("CREATE TABLE .. AS", "declare the columns, then write INSERT INTO .. SELECT")


def _option(cursor: Cursor) -> tuple[Token, Token]:
    key = cursor.string("an option in quotes, as in 'connector' = 'kafka'")
    cursor.expect("=")
    return key, cursor.string("a value in quotes")


def _element(cursor: Cursor, body: _Body) -> None:
    if cursor.take("WATERMARK", "FOR"):
        if body.watermark is not None:
            raise cursor.source.error(cursor.at, "a table has one watermark")
        name = cursor.name("a column")
        cursor.expect("AS")
        body.watermark = name, Grammar(cursor).expression()
    elif cursor.sees("PRIMARY", "KEY") or cursor.sees("CONSTRAINT"):
        _constraint(cursor, body)
    elif cursor.sees("UNIQUE", "("):
        raise cursor.source.error(cursor.at, "UNIQUE is not a constraint of Flink SQL", "leave it out")
    else:
        body.columns.append(column_declaration(cursor))


def _constraint(cursor: Cursor, body: _Body) -> None:
    at = cursor.at
    if cursor.take("CONSTRAINT"):
        cursor.name("a constraint's name")
    cursor.expect("PRIMARY", "KEY")
    if body.primary_key:
        raise cursor.source.error(at, "a table has one PRIMARY KEY")
    body.primary_key = cursor.enclosed(lambda: cursor.name("a column"))
    _not_enforced(cursor)


def _not_enforced(cursor: Cursor) -> None:
    if not cursor.take("NOT", "ENFORCED"):
        raise cursor.unexpected("NOT ENFORCED", "keys are never enforced: write PRIMARY KEY (..) NOT ENFORCED")


def column_declaration(cursor: Cursor) -> ColumnDeclaration:
    """One column of CREATE TABLE. Raises SqlError."""
    name = cursor.name("a column")
    if cursor.take("AS"):
        expression = Grammar(cursor).expression()
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
    if cursor.token.kind is not Kind.END and cursor.token.keyword not in (",", ")"):
        raise cursor.unexpected("',' or ')'")
    return ColumnDeclaration(name, data_type, primary_key=primary_key)


def _comment(cursor: Cursor) -> None:
    if cursor.take("COMMENT"):
        cursor.string("a comment in quotes")


_Parse = Callable[[Cursor, int], Statement]
_STATEMENTS: tuple[tuple[tuple[str, ...], _Parse], ...] = (
    (("CREATE", "TABLE"), _create),
    (("CREATE", "TEMPORARY", "TABLE"), _create),
    (("DROP", "TABLE"), _drop),
    (("DROP", "TEMPORARY", "TABLE"), _drop),
    (("INSERT", "INTO"), _insert),
    (("EXECUTE", "INSERT", "INTO"), _insert),
    (("EXECUTE", "STATEMENT", "SET", "BEGIN"), _begin_execute),
    (("BEGIN", "STATEMENT", "SET"), _begin),
    (("END",), _end),
    (("SET",), _set),
    (("RESET",), _reset),
)
