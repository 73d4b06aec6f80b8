"""Statements by their first words: catalogs, printing, jobs and settings; and those that only Flink has."""

from __future__ import annotations

from functools import partial

from penstock.sql.parse.definitions import (
    Parser,
    alter_table,
    alter_view,
    comment,
    create_table,
    create_view,
    drop,
    if_exists,
    if_not_exists,
    options,
    set_or_reset,
)
from penstock.sql.parse.queries import QueryGrammar
from penstock.sql.parse.statements import (
    AlterCatalog,
    AlterDatabase,
    BeginSet,
    CreateCatalog,
    CreateDatabase,
    CreateDatabaseAs,
    CreateFunction,
    CreateTableAs,
    Describe,
    DropCatalog,
    DropDatabase,
    DropFunction,
    EndSet,
    Explain,
    Insert,
    Pattern,
    Reset,
    SetOption,
    Show,
    Statement,
    Use,
)
from penstock.sql.parse.syntax import Name
from penstock.sql.parse.tokens import Token, TokenType

#: What to do instead of Flink's other statements, and their first words, joined by commas.
_UNSUPPORTED = {
    "write DROP TABLE IF EXISTS before CREATE TABLE": "CREATE OR REPLACE TABLE",
    "write DROP VIEW IF EXISTS before CREATE VIEW": "CREATE OR REPLACE",
    "write DROP FUNCTION and CREATE FUNCTION": (
        "ALTER FUNCTION, ALTER TEMPORARY FUNCTION, ALTER TEMPORARY SYSTEM FUNCTION"
    ),
    "docs/reference/functions.md has all functions": "DESCRIBE FUNCTION, DESC FUNCTION",
    "leave it out: there are no models": (
        "CREATE MODEL, CREATE TEMPORARY MODEL, ALTER MODEL, DROP MODEL, DROP TEMPORARY MODEL, SHOW MODELS, "
        "SHOW CREATE MODEL"
    ),
    "write it as CREATE TABLE and INSERT INTO .. SELECT": (
        "CREATE MATERIALIZED TABLE, CREATE OR ALTER MATERIALIZED TABLE, ALTER MATERIALIZED TABLE, "
        "DROP MATERIALIZED TABLE, SHOW MATERIALIZED TABLES, SHOW CREATE MATERIALIZED TABLE"
    ),
    "run the SQL file": "EXECUTE PLAN, COMPILE",
    "write it as INSERT INTO .. SELECT": "SELECT, WITH, VALUES, TABLE, (",
    "leave it out": "UNLOAD, ANALYZE, CALL, QUIT, EXIT, CLEAR, SHOW JOBS, SHOW PROCEDURES, SHOW PARTITIONS",
    "leave it out: there are no modules to load": "LOAD, USE MODULES",
    "stop the process with a signal": "STOP",
    "write changes with a sink that takes them": "DELETE, UPDATE",
    "delete the topic's records with Kafka's own tools": "TRUNCATE",
    "leave it out: penstock needs no jar": "ADD, REMOVE, SHOW JARS",
    "use penstock --help": "HELP",
    "alter a table, a view, a database or a catalog": "ALTER",
    "drop a table, a view, a database or a catalog": "DROP",
    "create a table, a view, a database or a catalog": "CREATE",
}
_HINTS = {words: hint for hint, statements in _UNSUPPORTED.items() for words in statements.split(", ")}
_DETAILS = ("ESTIMATED_COST", "CHANGELOG_MODE", "PLAN_ADVICE", "JSON_EXECUTION_PLAN")
#: What SHOW shows of a catalog or a database, and whether LIKE may choose some of it.
_LISTS = {
    "TABLES": True,
    "VIEWS": True,
    "DATABASES": True,
    "CATALOGS": True,
    "USER FUNCTIONS": True,
    "FUNCTIONS": True,
    "FULL MODULES": False,
    "MODULES": False,
    "CURRENT CATALOG": False,
    "CURRENT DATABASE": False,
}


def parse_statement(cursor: QueryGrammar) -> Statement:
    """One statement, all of its tokens. Raises SqlError or UnsupportedError with the place."""
    at = cursor.at
    seen = max((words for words in (*_STATEMENTS, *_HINTS) if cursor.sees(*words.split())), key=len, default="")
    if seen in _STATEMENTS:
        cursor.take(*seen.split())
        statement = _STATEMENTS[seen](cursor, at)
        cursor.expect_end()
        return statement
    if seen:
        raise cursor.unsupported_feature("a query on its own" if seen == "(" else seen, _HINTS[seen])
    raise cursor.unexpected_token(
        "a statement", "CREATE, ALTER, DROP, INSERT INTO, SET, SHOW, EXPLAIN or a statement set"
    )


def split_statements(tokens: tuple[Token, ...]) -> list[tuple[Token, ...]]:
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


def find_created_name(cursor: QueryGrammar) -> tuple[str, ...]:
    """The table or view that a CREATE statement declares, even if the rest cannot be parsed; else nothing."""
    cursor.take("CREATE")
    cursor.take("OR", "REPLACE")
    cursor.take("TEMPORARY")
    if not cursor.take_any("TABLE", "VIEW"):
        return ()
    if_not_exists(cursor)
    parts = []
    while cursor.token.type in (TokenType.WORD, TokenType.QUOTED):
        parts.append(cursor.advance().text)
        if not cursor.take("."):
            break
    return tuple(parts)


# --- functions ----------------------------------------------------------------------------------------------------


def _create_function(cursor: QueryGrammar, at: int, *, temporary: bool = False, system: bool = False) -> CreateFunction:
    unless, name = if_not_exists(cursor), cursor.table_name()
    cursor.expect("AS")
    target = cursor.string("a module and the name of a function in it, such as 'my_functions.length'")
    language_at = cursor.at
    language = cursor.name("PYTHON").text.upper() if cursor.take("LANGUAGE") else "JAVA"
    if language != "PYTHON":
        hint = "write the function in Python, and LANGUAGE PYTHON after its name"
        raise cursor.unsupported_feature(f"a function in {language.capitalize()}", hint, language_at)
    if cursor.sees("USING") or cursor.sees("WITH"):
        raise cursor.unsupported_feature(
            "USING and WITH of a function in Python", "set 'python.files' to where its module is"
        )
    return CreateFunction(at, name, Name(target.text, target.at), unless, temporary, system)


def _drop_function(cursor: QueryGrammar, at: int, *, temporary: bool = False, system: bool = False) -> DropFunction:
    only = if_exists(cursor)
    return DropFunction(at, cursor.table_name(), only, temporary, system)


# --- catalogs and databases ---------------------------------------------------------------------------------------


def _create_catalog(cursor: QueryGrammar, at: int) -> Statement:
    unless, name, said = if_not_exists(cursor), cursor.name("a catalog's name"), comment(cursor)
    return CreateCatalog(at, name, unless, said, options(cursor) if cursor.take("WITH") else ())


def _alter_catalog(cursor: QueryGrammar, at: int) -> Statement:
    name, found = cursor.name("a catalog's name"), set_or_reset(cursor)
    if found is None and not cursor.sees("COMMENT"):
        raise cursor.unexpected_token("SET, RESET or COMMENT")
    return AlterCatalog(at, name, comment(cursor) if found is None else found)


def _drop_catalog(cursor: QueryGrammar, at: int) -> Statement:
    only = if_exists(cursor)
    return DropCatalog(at, cursor.name("a catalog's name"), only)


def _parse_database(cursor: QueryGrammar) -> tuple[Name, ...]:
    """The name of a database, with or without its catalog."""
    first = cursor.name("a database's name")
    return (first, cursor.name("a database's name")) if cursor.take(".") else (first,)


def _create_database(cursor: QueryGrammar, at: int) -> Statement:
    unless, parts = if_not_exists(cursor), _parse_database(cursor)
    comment(cursor)
    given = options(cursor) if cursor.take("WITH") else ()
    created = CreateDatabase(at, parts, unless)
    if not cursor.take("AS", "DATABASE"):
        return created
    source = _parse_database(cursor)
    cursor.expect("INCLUDING")
    including = () if cursor.take("ALL", "TABLES") else _parse_tables(cursor, "INCLUDING")
    excluding = _parse_tables(cursor, "EXCLUDING") if cursor.take("EXCLUDING") else ()
    return CreateDatabaseAs(at, created, given, source, including, excluding)


def _parse_tables(cursor: QueryGrammar, after: str) -> tuple[Token, ...]:
    """TABLE or TABLES, and regular expressions in quotes."""
    if not cursor.take_any("TABLE", "TABLES"):
        wanted = "ALL TABLES or TABLE" if after == "INCLUDING" else "TABLE"
        raise cursor.unexpected_token(f"{wanted} after {after}", "for example INCLUDING TABLE 'orders_.*'")
    found = [cursor.string("a table's name in quotes")]
    while cursor.take(","):
        found.append(cursor.string("a table's name in quotes"))
    return tuple(found)


def _alter_database(cursor: QueryGrammar, at: int) -> Statement:
    parts = _parse_database(cursor)
    cursor.expect("SET")
    options(cursor)
    return AlterDatabase(at, parts)


def _drop_database(cursor: QueryGrammar, at: int) -> Statement:
    only, parts = if_exists(cursor), _parse_database(cursor)
    return DropDatabase(at, parts, only, cascade=cursor.take_any("RESTRICT", "CASCADE") == "CASCADE")


def _use(cursor: QueryGrammar, at: int) -> Statement:
    return Use(at, _parse_database(cursor), catalog=False)


def _use_catalog(cursor: QueryGrammar, at: int) -> Statement:
    return Use(at, (cursor.name("a catalog's name"),), catalog=True)


# --- what prints --------------------------------------------------------------------------------------------------


def _show(cursor: QueryGrammar, at: int) -> Statement:
    for words, chosen in _LISTS.items():
        if cursor.take(*words.split()):
            of = _parse_database(cursor) if chosen and cursor.take_any("FROM", "IN") else ()
            return Show(at, words, of, _parse_pattern(cursor) if chosen else None)
    if cursor.take("COLUMNS"):
        if not cursor.take_any("FROM", "IN"):
            raise cursor.unexpected_token("FROM")
        return Show(at, "COLUMNS", cursor.table_id(), _parse_pattern(cursor))
    for words in ("CREATE TABLE", "CREATE VIEW", "CREATE CATALOG"):
        if cursor.take(*words.split()):
            return Show(at, words, cursor.table_id())
    raise cursor.unexpected_token("TABLES, VIEWS, DATABASES, CATALOGS, FUNCTIONS, COLUMNS or CREATE TABLE")


def _parse_pattern(cursor: QueryGrammar) -> Pattern | None:
    negated = cursor.take("NOT")
    if not (word := cursor.take_any("LIKE", "ILIKE")):
        if negated:
            raise cursor.unexpected_token("LIKE")
        return None
    return Pattern(cursor.string("a pattern in quotes").text, negated, any_case=word == "ILIKE")


def _describe(cursor: QueryGrammar, at: int) -> Statement:
    cursor.take("EXTENDED")
    return Describe(at, cursor.table_name())


def _describe_catalog(cursor: QueryGrammar, at: int) -> Statement:
    cursor.take("EXTENDED")
    return Show(at, "CATALOG", (cursor.name("a catalog's name"),))


def _explain(cursor: QueryGrammar, at: int) -> Statement:
    details = set[str]()
    if not cursor.take("PLAN", "FOR"):
        while detail := cursor.take_any(*_DETAILS):
            details.add(detail)
            cursor.take(",")
    if cursor.take("STATEMENT", "SET"):
        cursor.expect("BEGIN")
        first = None if cursor.token.type is TokenType.END else parse_statement(cursor)
        return BeginSet(at, first, frozenset(details))
    insert_at = cursor.at
    for word in ("INTO", "OVERWRITE"):
        if cursor.take("INSERT", word):
            return Explain(at, (_insert(cursor, insert_at, overwrite=word == "OVERWRITE"),), frozenset(details))
    if cursor.take("CREATE", "TABLE"):
        created = create_table(cursor, insert_at)
        if not isinstance(created, CreateTableAs):
            raise cursor.unexpected_token(
                "AS", "EXPLAIN takes INSERT INTO, CREATE TABLE .. AS, a statement set or a query"
            )
        return Explain(at, created, frozenset(details))
    return Explain(at, cursor.query(), frozenset(details))


# --- jobs and settings --------------------------------------------------------------------------------------------


def _insert(cursor: QueryGrammar, at: int, *, overwrite: bool = False) -> Insert:
    table = cursor.table_name()
    hints = cursor.hints()
    if cursor.sees("PARTITION"):
        raise cursor.unsupported_feature("INSERT INTO .. PARTITION", "select the values as columns")
    named = cursor.sees("(") and cursor.peek().keyword not in ("SELECT", "WITH", "(", "VALUES")
    columns = cursor.parse_enclosed(partial(cursor.name, "a column")) if named else ()
    return Insert(at, table, columns, cursor.query(), hints, _parse_conflict(cursor), overwrite)


def _parse_conflict(cursor: QueryGrammar) -> Name | None:
    at = cursor.at
    if not cursor.take("ON", "CONFLICT"):
        return None
    cursor.expect("DO")
    if not (action := cursor.take_any("ERROR", "NOTHING", "DEDUPLICATE")):
        raise cursor.unexpected_token("ERROR, NOTHING or DEDUPLICATE")
    return Name(action, at)


def _execute(cursor: QueryGrammar, at: int) -> Statement:
    return BeginSet(at, None if cursor.token.type is TokenType.END else parse_statement(cursor))


def _parse_set(cursor: QueryGrammar, at: int) -> Statement:
    if cursor.token.type is TokenType.END:
        return Show(at, "SET")
    key_at, key = cursor.at, _parse_bare(cursor, "a key", until="=")[0]
    cursor.expect("=")
    value_at = cursor.at
    value, shown = _parse_bare(cursor, "a value")
    return SetOption(at, key, key_at, value, shown, value_at)


def _reset(cursor: QueryGrammar, at: int) -> Statement:
    key_at = cursor.at
    return Reset(at, "" if cursor.token.type is TokenType.END else _parse_bare(cursor, "a key")[0], key_at)


def _parse_bare(cursor: QueryGrammar, expected: str, until: str = ";") -> tuple[str, str]:
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
        raise cursor.unexpected_token(expected)
    return text, " ".join(shown)


_STATEMENTS: dict[str, Parser] = {
    "CREATE TABLE": create_table,
    "CREATE TEMPORARY TABLE": partial(create_table, temporary=True),
    "CREATE VIEW": create_view,
    "CREATE TEMPORARY VIEW": partial(create_view, temporary=True),
    "CREATE CATALOG": _create_catalog,
    "CREATE DATABASE": _create_database,
    "ALTER TABLE": alter_table,
    "ALTER VIEW": alter_view,
    "ALTER CATALOG": _alter_catalog,
    "ALTER DATABASE": _alter_database,
    "DROP TABLE": partial(drop, view=False),
    "DROP TEMPORARY TABLE": partial(drop, view=False, temporary=True),
    "DROP VIEW": partial(drop, view=True),
    "DROP TEMPORARY VIEW": partial(drop, view=True, temporary=True),
    "DROP CATALOG": _drop_catalog,
    "DROP DATABASE": _drop_database,
    "CREATE FUNCTION": _create_function,
    "CREATE TEMPORARY FUNCTION": partial(_create_function, temporary=True),
    "CREATE TEMPORARY SYSTEM FUNCTION": partial(_create_function, temporary=True, system=True),
    "DROP FUNCTION": _drop_function,
    "DROP TEMPORARY FUNCTION": partial(_drop_function, temporary=True),
    "DROP TEMPORARY SYSTEM FUNCTION": partial(_drop_function, temporary=True, system=True),
    "USE": _use,
    "USE CATALOG": _use_catalog,
    "SHOW": _show,
    **dict.fromkeys(("DESCRIBE", "DESC"), _describe),
    **dict.fromkeys(("DESCRIBE CATALOG", "DESC CATALOG"), _describe_catalog),
    "EXPLAIN": _explain,
    **dict.fromkeys(("INSERT INTO", "EXECUTE INSERT INTO"), _insert),
    **dict.fromkeys(("INSERT OVERWRITE", "EXECUTE INSERT OVERWRITE"), partial(_insert, overwrite=True)),
    "EXECUTE STATEMENT SET BEGIN": _execute,
    "BEGIN STATEMENT SET": lambda _, at: BeginSet(at, None),
    "END": lambda _, at: EndSet(at),
    "SET": _parse_set,
    "RESET": _reset,
}
