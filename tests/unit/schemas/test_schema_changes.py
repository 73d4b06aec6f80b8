"""Changes of schemas: what they do, and what a pipeline does with them."""

from __future__ import annotations

import pytest

from penstock.errors import SchemaError
from penstock.schemas import (
    AddColumns,
    AlterColumnTypes,
    AlterTableComment,
    ChangeFilter,
    CreateTable,
    DropColumns,
    DropTable,
    NewColumn,
    RenameColumns,
    SchemaChange,
    SchemaChangeBehavior,
    TableSchema,
    TruncateTable,
    apply_change,
    derive_changes,
    describe_change,
)
from penstock.schemas.behavior import find_kinds
from penstock.types import Field, parse_columns, parse_type

TABLE = "db.orders"
SCHEMA = TableSchema(parse_columns("id BIGINT NOT NULL, name STRING NOT NULL, amount INT"), ("id",), ("name",))
PRICE = Field("price", parse_type("DOUBLE NOT NULL"))
CHANGES: tuple[SchemaChange, ...] = (
    AddColumns(TABLE, (NewColumn(PRICE, ""),)),
    AlterColumnTypes(TABLE, (("amount", parse_type("BIGINT")),)),
    RenameColumns(TABLE, (("name", "title"),)),
    DropColumns(TABLE, ("amount",)),
    DropTable(TABLE),
    TruncateTable(TABLE),
    AlterTableComment(TABLE, "what was ordered"),
)


def columns(schema: TableSchema | None) -> list[str]:
    assert schema is not None
    return [str(each).replace("`", "") for each in schema.row.fields]


def test_changes_apply_to_a_schema():
    price = [NewColumn(PRICE, after) for after in (None, "", "id")]
    found = [columns(apply_change(SCHEMA, AddColumns(TABLE, (each,))))[:] for each in price]
    assert [each.index("price DOUBLE NOT NULL") for each in found] == [3, 0, 1]
    assert columns(apply_change(SCHEMA, CHANGES[1]))[2] == "amount BIGINT"
    assert columns(apply_change(SCHEMA, CHANGES[3])) == ["id BIGINT NOT NULL", "name STRING NOT NULL"]
    renamed = apply_change(SCHEMA, RenameColumns(TABLE, (("id", "key"), ("name", "title"))))
    assert renamed is not None
    assert (renamed.row.names, renamed.primary_key, renamed.partition_keys) == (
        ("key", "title", "amount"),
        ("key",),
        ("title",),
    )
    assert apply_change(SCHEMA, CHANGES[4]) is None
    assert apply_change(SCHEMA, CHANGES[5]) == SCHEMA
    commented = apply_change(SCHEMA, CHANGES[6])
    assert commented is not None
    assert commented.comment == "what was ordered"


def test_two_columns_may_exchange_their_names():
    swapped = apply_change(SCHEMA, RenameColumns(TABLE, (("name", "amount"), ("amount", "name"))))
    assert columns(swapped) == ["id BIGINT NOT NULL", "amount STRING NOT NULL", "name INT"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (AddColumns(TABLE, (NewColumn(Field("name", parse_type("INT"))),)), "has a column 'name' already"),
        (AddColumns(TABLE, (NewColumn(PRICE, "none"),)), "no column 'none', behind which"),
        (AlterColumnTypes(TABLE, (("none", parse_type("INT")),)), "no column 'none'; it has id, name, amount"),
        (RenameColumns(TABLE, (("none", "other"),)), "no column 'none'"),
        (RenameColumns(TABLE, (("name", "amount"),)), "has a column 'amount' already"),
        (DropColumns(TABLE, ("none",)), "no column 'none'"),
        (DropColumns(TABLE, ("id",)), "column 'id' of 'db.orders' is in its primary key"),
        (CreateTable(TABLE, TableSchema(parse_columns("id INT"))), "exists already with other columns"),
    ],
)
def test_a_change_that_does_not_fit_is_refused(change: SchemaChange, text: str):
    with pytest.raises(SchemaError, match=text):
        apply_change(SCHEMA, change)


def test_a_table_that_does_not_exist_cannot_change():
    assert apply_change(None, CreateTable(TABLE, SCHEMA)) == SCHEMA
    assert apply_change(SCHEMA, CreateTable(TABLE, SCHEMA)) == SCHEMA
    for change in CHANGES:
        with pytest.raises(SchemaError, match=r"there is no table 'db\.orders'"):
            apply_change(None, change)


# --- what a pipeline does with them --------------------------------------------------------------------------


@pytest.mark.parametrize("behavior", [SchemaChangeBehavior.EVOLVE, SchemaChangeBehavior.TRY_EVOLVE])
def test_changes_pass_unchanged_where_schemas_evolve(behavior: SchemaChangeBehavior):
    for change in CHANGES:
        assert derive_changes([change], SCHEMA, behavior) == (change,)


def test_only_new_tables_pass_where_changes_are_ignored():
    for change in CHANGES:
        assert derive_changes([change], SCHEMA, SchemaChangeBehavior.IGNORE) == ()
    new = CreateTable(TABLE, SCHEMA)
    assert derive_changes([new], None, SchemaChangeBehavior.IGNORE) == (new,)


def test_each_change_but_a_new_table_is_an_error_where_none_is_allowed():
    new = CreateTable(TABLE, SCHEMA)
    assert derive_changes([new], None, SchemaChangeBehavior.EXCEPTION) == (new,)
    for change in CHANGES:
        with pytest.raises(SchemaError, match=r"the schema of 'db\.orders' changes") as raised:
            derive_changes([change], SCHEMA, SchemaChangeBehavior.EXCEPTION)
        assert describe_change(change) in str(raised.value)


def lenient(*changes: SchemaChange, schema: TableSchema | None = SCHEMA) -> tuple[SchemaChange, ...]:
    return derive_changes(changes, schema, SchemaChangeBehavior.LENIENT)


def test_lenient_pipelines_add_columns_at_the_end_and_nullable():
    price = Field("price", parse_type("DOUBLE"), "in EUR")
    assert lenient(AddColumns(TABLE, (NewColumn(Field("price", PRICE.type, "in EUR"), ""),))) == (
        AddColumns(TABLE, (NewColumn(price),)),
    )


def test_lenient_pipelines_keep_dropped_columns_and_let_them_be_null():
    assert lenient(DropColumns(TABLE, ("amount",))) == ()
    assert lenient(DropColumns(TABLE, ("amount", "name"))) == (
        AlterColumnTypes(TABLE, (("name", parse_type("STRING")),)),
    )


def test_lenient_pipelines_keep_a_renamed_column_beside_the_new_one():
    assert lenient(RenameColumns(TABLE, (("name", "title"), ("amount", "size")))) == (
        AddColumns(
            TABLE,
            (NewColumn(Field("title", parse_type("STRING"))), NewColumn(Field("size", parse_type("INT")))),
        ),
        AlterColumnTypes(TABLE, (("name", parse_type("STRING")),)),
    )


def test_lenient_pipelines_pass_types_and_new_tables_unchanged():
    assert lenient(CHANGES[1]) == (CHANGES[1],)
    assert lenient(CreateTable(TABLE, SCHEMA), CHANGES[1], schema=None) == (CreateTable(TABLE, SCHEMA), CHANGES[1])


def test_changes_follow_one_another():
    first = AddColumns(TABLE, (NewColumn(PRICE),))
    assert lenient(first, RenameColumns(TABLE, (("price", "cost"),)))[1:] == (
        AddColumns(TABLE, (NewColumn(Field("cost", parse_type("DOUBLE"))),)),
    )


ALL = {each.kind for each in CHANGES} | {CreateTable.kind}


@pytest.mark.parametrize(
    ("include", "exclude", "behavior", "missing"),
    [
        (None, None, "EVOLVE", set()),
        (None, None, "LENIENT", {"drop.table", "truncate.table"}),
        (None, [], "LENIENT", set()),
        ([], None, "LENIENT", {"drop.table", "truncate.table"}),
        (["all"], None, "EVOLVE", set()),
        (None, ["drop"], "EVOLVE", {"drop.table", "drop.column"}),
        (None, ["COLUMN"], "EVOLVE", {"add.column", "alter.column.type", "rename.column", "drop.column"}),
        (["column"], None, "EVOLVE", {"drop.table", "truncate.table", "alter.table.comment"}),
        (["column"], ["drop.column"], "EVOLVE", {"drop.table", "truncate.table", "alter.table.comment", "drop.column"}),
        (["add.column"], None, "EVOLVE", ALL - {"add.column", "create.table"}),
        (None, ["create"], "EVOLVE", {"create.table"}),
        (["add.column"], ["create.table"], "EVOLVE", ALL - {"add.column"}),
    ],
)
def test_the_lists_of_kinds_choose_what_reaches_the_sink(include, exclude, behavior, missing):
    found = ChangeFilter.from_options(include, exclude, SchemaChangeBehavior(behavior))
    assert found.kinds == ALL - missing
    assert {each.kind for each in found.select([*CHANGES, CreateTable(TABLE, SCHEMA)])} == ALL - missing


def test_a_kind_that_does_not_exist_is_named_with_the_nearest_one():
    with pytest.raises(SchemaError, match=r"no change of a schema 'add\.colum'.*did you mean 'add\.column'"):
        find_kinds("add.colum")
    with pytest.raises(SchemaError, match="write 'all', one of add, alter, column"):
        find_kinds("x")
