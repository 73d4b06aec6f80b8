"""The grammar of tables and views: CREATE TABLE, CREATE VIEW, ALTER and DROP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from penstock.sql.parse.queries import QueryGrammar
from penstock.sql.parse.statements import (
    AlterTable,
    AlterView,
    Change,
    ColumnDeclaration,
    CreateTable,
    CreateTableAs,
    CreateView,
    DropColumns,
    DropKey,
    DropTable,
    DropWatermark,
    GivenOption,
    LikeRule,
    PlacedColumn,
    PrimaryKey,
    PutColumns,
    RenameColumn,
    RenameTo,
    ResetOptions,
    SetOptions,
    Statement,
    TableLike,
)
from penstock.sql.parse.syntax import (
    Name,
    SelectItem,
    TableName,
    Unbound,
    UnboundSelect,
    UnboundTable,
)
from penstock.sql.parse.tokens import Token, TokenType

#: The reason and the hint of an error.
NO_COLUMNS = "a table without columns", "declare the columns: only queries of 'kafka' in 'json' find them in records"
Parser = Callable[[QueryGrammar, int], Statement]

_MERGINGS = ("INCLUDING", "EXCLUDING", "OVERWRITING")
#: The features of LIKE, and whether they can be overwritten.
_FEATURES = {
    "ALL": False,
    "CONSTRAINTS": False,
    "DISTRIBUTION": False,
    "PARTITIONS": False,
    "GENERATED": True,
    "METADATA": True,
    "OPTIONS": True,
    "WATERMARKS": True,
}


def if_exists(cursor: QueryGrammar) -> bool:
    """IF EXISTS, if it comes next."""
    return cursor.take("IF", "EXISTS")


def if_not_exists(cursor: QueryGrammar) -> bool:
    """IF NOT EXISTS, if it comes next."""
    return cursor.take("IF", "NOT", "EXISTS")


def comment(cursor: QueryGrammar) -> str:
    """A comment, if it comes next."""
    return cursor.string("a comment in quotes").text if cursor.take("COMMENT") else ""


def options(cursor: QueryGrammar) -> tuple[GivenOption, ...]:
    """Options in parentheses."""
    cursor.expect("(")
    found = cursor.parse_list(partial(_option, cursor))
    if cursor.token.type is TokenType.STRING:
        raise cursor.unexpected_token("',' or ')'", "separate options with commas")
    cursor.expect(")")
    return found


def _option(cursor: QueryGrammar) -> GivenOption:
    key = cursor.string("an option in quotes, as in 'connector' = 'kafka'")
    cursor.expect("=")
    return key, cursor.string("a value in quotes")


# --- CREATE and DROP ----------------------------------------------------------------------------------------------


def parse_schema(cursor: QueryGrammar) -> tuple[tuple[Name, ...], CreateTable]:
    """A CREATE TABLE statement whose table has any id, and the parts of the id. Raises SqlError or UnsupportedError."""
    at = cursor.at
    if not (cursor.take("CREATE", "TABLE") or cursor.take("CREATE", "TEMPORARY", "TABLE")):
        raise cursor.unexpected_token("CREATE TABLE", "for example CREATE TABLE orders (id BIGINT, amount DOUBLE)")
    unless = if_not_exists(cursor)
    parts = cursor.table_id()
    name = TableName(".".join(part.text for part in parts), parts[0].at)
    if cursor.sees("LIKE"):
        raise cursor.unsupported_feature("CREATE TABLE .. LIKE", "repeat the columns of the other table")
    found = _declaration(cursor, at, unless, name, temporary=False)
    if isinstance(found, CreateTableAs):
        raise cursor.unsupported_feature("CREATE TABLE .. AS", "declare the columns", found.query.at)
    if found.like is not None:
        raise cursor.unsupported_feature(
            "CREATE TABLE .. LIKE", "repeat the columns of the other table", found.like.table.at
        )
    return parts, found


def create_table(cursor: QueryGrammar, at: int, *, temporary: bool = False) -> CreateTable | CreateTableAs:
    """CREATE TABLE, after these words."""
    unless = if_not_exists(cursor)
    return _declaration(cursor, at, unless, cursor.table_name(), temporary)


def create_view(cursor: QueryGrammar, at: int, *, temporary: bool = False) -> CreateView:
    """CREATE VIEW, after these words."""
    unless = if_not_exists(cursor)
    view = cursor.table_name()
    columns = cursor.parse_enclosed(partial(_view_column, cursor)) if cursor.sees("(") else ()
    said = comment(cursor)
    cursor.expect("AS")
    return CreateView(at, view, unless, columns, cursor.query(), said, temporary, cursor.at)


def drop(cursor: QueryGrammar, at: int, *, view: bool, temporary: bool = False) -> DropTable:
    """DROP TABLE or DROP VIEW, after these words."""
    only = if_exists(cursor)
    return DropTable(at, cursor.table_name(), only, view, temporary)


def _view_column(cursor: QueryGrammar) -> Name:
    name = cursor.name("a column")
    comment(cursor)
    return name


@dataclass
class _Body:
    """The contents of the parentheses of CREATE TABLE, or of ALTER TABLE ADD and MODIFY."""

    columns: list[PlacedColumn] = field(default_factory=list)
    primary_key: PrimaryKey | None = None
    watermark: tuple[Name, Unbound] | None = None
    #: Columns without a type, as CREATE TABLE .. AS may name them.
    names: list[Name] = field(default_factory=list)


def _declaration(
    cursor: QueryGrammar, at: int, if_not_exists: bool, table: TableName, temporary: bool
) -> CreateTable | CreateTableAs:
    body = _Body()
    if cursor.sees("("):
        cursor.parse_enclosed(partial(_element, cursor, body))
    said = comment(cursor)
    if cursor.sees("DISTRIBUTED"):
        raise cursor.unsupported_feature(
            "DISTRIBUTED BY", "records are distributed by 'key.fields' and 'sink.partitioner'"
        )
    partitioned = cursor.take("PARTITIONED", "BY")
    partitioned_by = cursor.parse_enclosed(partial(cursor.name, "a column")) if partitioned else ()
    given = options(cursor) if cursor.take("WITH") else ()
    like = _like(cursor) if cursor.take("LIKE") else None
    columns = tuple(each.column for each in body.columns)
    key, watermark = body.primary_key, body.watermark
    found = CreateTable(at, table, if_not_exists, columns, key, watermark, partitioned_by, given, said, temporary, like)
    if cursor.sees("AS"):
        return _parse_as(cursor, found, tuple(body.names))
    cursor.expect_end()
    if body.names:
        raise cursor.source.error(body.names[0].at, f"column '{body.names[0].text}' has no type", "write one after it")
    if not columns and like is None and not _reads_topics(given):
        raise cursor.unsupported_feature(*NO_COLUMNS, table.at)
    return found


def _reads_topics(options: tuple[GivenOption, ...]) -> bool:
    """Whether the columns of a table may be found in the records of topics."""
    return any(key.text == "connector" and value.text.strip().lower() == "kafka" for key, value in options)


def _parse_as(cursor: QueryGrammar, created: CreateTable, names: tuple[Name, ...]) -> CreateTableAs:
    """AS and a query, which ADD COLUMN may follow if it is TABLE and a name."""
    at = cursor.at
    cursor.expect("AS")
    if created.temporary:
        raise cursor.unsupported_feature("CREATE TEMPORARY TABLE .. AS", "leave TEMPORARY out", at)
    if created.like is not None:
        raise cursor.source.error(at, "a table is created by LIKE or by AS, not by both", "leave one of them out")
    if names and created.columns:
        reason = f"column '{names[0].text}' has no type, and others have one"
        raise cursor.source.error(names[0].at, reason, "name all columns of the query, or give each a type")
    copies, query, copied = cursor.sees("TABLE"), cursor.query(), None
    if copies and isinstance(query, UnboundSelect) and isinstance(query.source, UnboundTable):
        copied = query.source.table
        if cursor.take("ADD", "COLUMN"):
            one = partial(_parse_added_column, cursor)
            query = replace(
                query, items=(*query.items, *(cursor.parse_enclosed(one) if cursor.sees("(") else (one(),)))
            )
    cursor.expect_end()
    return CreateTableAs(created.at, created, query, names, copied)


def _parse_added_column(cursor: QueryGrammar) -> SelectItem:
    """A column of ADD COLUMN after AS TABLE."""
    name = cursor.name("a column")
    cursor.expect("AS")
    expression = cursor.expression()
    comment(cursor)
    if cursor.sees("FIRST") or cursor.sees("AFTER"):
        hint = "leave it out, or write AS SELECT with the columns in their order"
        raise cursor.unsupported_feature(f"ADD COLUMN .. {cursor.token.keyword}", hint)
    return SelectItem(expression, name)


def _like(cursor: QueryGrammar) -> TableLike:
    table = cursor.table_name()
    rules = []
    if cursor.take("("):
        while not cursor.take(")"):
            rules.append(_rule(cursor))
    return TableLike(table, tuple(rules))


def _rule(cursor: QueryGrammar) -> LikeRule:
    at, merging = cursor.at, cursor.take_any(*_MERGINGS)
    if not merging:
        raise cursor.unexpected_token("INCLUDING, EXCLUDING or OVERWRITING")
    known = [name for name, overwritten in _FEATURES.items() if overwritten or merging != "OVERWRITING"]
    feature = cursor.take_any(*known)
    if not feature:
        raise cursor.unexpected_token(", ".join(known[:-1]) + f" or {known[-1]}")
    return LikeRule(merging, feature, at)


def _element(cursor: QueryGrammar, body: _Body) -> None:
    if cursor.sees("WATERMARK", "FOR"):
        at = cursor.at
        cursor.expect("WATERMARK", "FOR")
        if body.watermark is not None:
            raise cursor.source.error(at, "a table can have only one watermark", "leave the others out")
        name = cursor.name("a column")
        cursor.expect("AS")
        body.watermark = name, cursor.expression()
    elif cursor.sees("PRIMARY", "KEY") or cursor.sees("CONSTRAINT"):
        _constraint(cursor, body)
    elif cursor.sees("UNIQUE", "("):
        raise cursor.source.error(cursor.at, "UNIQUE is not a constraint of Flink SQL", "leave it out")
    elif cursor.token.type in (TokenType.WORD, TokenType.QUOTED) and cursor.peek().keyword in (",", ")"):
        body.names.append(cursor.name("a column"))
    else:
        body.columns.append(PlacedColumn(column_declaration(cursor)))


def _constraint(cursor: QueryGrammar, body: _Body) -> None:
    at, name = cursor.at, ""
    if cursor.take("CONSTRAINT"):
        name = cursor.name("a constraint's name").text
    cursor.expect("PRIMARY", "KEY")
    if body.primary_key is not None:
        raise cursor.source.error(at, "a table can have only one PRIMARY KEY", "leave the others out")
    body.primary_key = PrimaryKey(cursor.parse_enclosed(partial(cursor.name, "a column")), name, at)
    _expect_not_enforced(cursor)


def _expect_not_enforced(cursor: QueryGrammar) -> None:
    if not cursor.take("NOT", "ENFORCED"):
        raise cursor.unexpected_token("NOT ENFORCED", "keys are never enforced: write PRIMARY KEY (..) NOT ENFORCED")


def column_declaration(cursor: QueryGrammar, *, placed: bool = False) -> ColumnDeclaration:
    """One column of CREATE TABLE, which FIRST or AFTER may follow if it is ``placed``. Raises SqlError."""
    name = cursor.name("a column")
    if cursor.take("AS"):
        expression = cursor.expression()
        return ColumnDeclaration(name, expression=expression, comment=comment(cursor))
    data_type = cursor.data_type()
    if cursor.take("METADATA"):
        key = cursor.string("a metadata key in quotes").text if cursor.take("FROM") else name.text
        virtual = cursor.take("VIRTUAL")
        return ColumnDeclaration(name, data_type, key, virtual, comment=comment(cursor))
    primary_key = cursor.take("PRIMARY", "KEY")
    if primary_key:
        _expect_not_enforced(cursor)
    said = comment(cursor)
    ends = (",", ")", "FIRST", "AFTER") if placed else (",", ")")
    if cursor.token.type is not TokenType.END and cursor.token.keyword not in ends:
        raise cursor.unexpected_token("',' or ')'")
    return ColumnDeclaration(name, data_type, primary_key=primary_key, comment=said)


# --- ALTER --------------------------------------------------------------------------------------------------------


def alter_table(cursor: QueryGrammar, at: int) -> AlterTable:
    """ALTER TABLE, after these words."""
    only = if_exists(cursor)
    return AlterTable(at, cursor.table_name(), only, _change(cursor))


def alter_view(cursor: QueryGrammar, at: int) -> AlterView:
    """ALTER VIEW, after these words."""
    view, change_at = cursor.table_name(), cursor.at
    if cursor.take("RENAME", "TO"):
        return AlterView(at, view, RenameTo(change_at, cursor.table_name()), cursor.at)
    cursor.expect("AS")
    return AlterView(at, view, cursor.query(), cursor.at)


def set_or_reset(cursor: QueryGrammar) -> SetOptions | ResetOptions | None:
    """SET or RESET of options, if it comes next."""
    at = cursor.at
    if cursor.take("SET"):
        return SetOptions(at, options(cursor))
    if cursor.take("RESET"):
        return ResetOptions(at, cursor.parse_enclosed(partial(_key, cursor)))
    return None


def _key(cursor: QueryGrammar) -> Token:
    return cursor.string("an option in quotes")


def _change(cursor: QueryGrammar) -> Change:
    at, found = cursor.at, set_or_reset(cursor)
    if found is not None:
        return found
    if cursor.take("RENAME", "TO"):
        return RenameTo(at, cursor.table_name())
    if cursor.take("RENAME"):
        column = cursor.name("a column")
        cursor.expect("TO")
        return RenameColumn(at, column, cursor.name("a column"))
    if cursor.sees("ADD", "PARTITION") or cursor.sees("DROP", "PARTITION"):
        raise cursor.unsupported_feature(f"ALTER TABLE .. {cursor.token.keyword} PARTITION", "leave it out")
    if word := cursor.take_any("ADD", "MODIFY"):
        return _parse_put_columns(cursor, at, modify=word == "MODIFY")
    if cursor.take("DROP"):
        return _drop_part(cursor, at)
    raise cursor.unexpected_token("RENAME, SET, RESET, ADD, MODIFY or DROP")


def _parse_put_columns(cursor: QueryGrammar, at: int, *, modify: bool) -> PutColumns:
    body = _Body()
    if cursor.sees("("):
        cursor.parse_enclosed(partial(_parse_placed_column, cursor, body))
    else:
        _parse_placed_column(cursor, body)
    return PutColumns(at, modify, tuple(body.columns), body.primary_key, body.watermark)


def _parse_placed_column(cursor: QueryGrammar, body: _Body) -> None:
    cursor.take("COLUMN")
    if cursor.token.keyword in ("WATERMARK", "PRIMARY", "CONSTRAINT", "UNIQUE") and cursor.peek().keyword != ",":
        _element(cursor, body)
        return
    column = column_declaration(cursor, placed=True)
    first = cursor.take("FIRST")
    after = cursor.name("a column") if not first and cursor.take("AFTER") else None
    body.columns.append(PlacedColumn(column, first, after))


def _drop_part(cursor: QueryGrammar, at: int) -> Change:
    if cursor.take("PRIMARY", "KEY"):
        return DropKey(at, None)
    if cursor.take("CONSTRAINT"):
        return DropKey(at, cursor.name("a constraint's name"))
    if cursor.take("WATERMARK"):
        return DropWatermark(at)
    cursor.take("COLUMN")
    column = partial(cursor.name, "a column")
    return DropColumns(at, cursor.parse_enclosed(column) if cursor.sees("(") else (column(),))
