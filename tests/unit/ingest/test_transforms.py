"""The rules of transform, bound to one table, and computed on its rows."""

from __future__ import annotations

import pickle
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import DefinitionError, PipelineError, RecordError, UnsupportedError
from penstock.ingest.definition import TransformDef
from penstock.ingest.transforms import TransformBinder, choose_rule, split_table_options
from penstock.options import Origin
from penstock.schemas import TableSchema
from penstock.spi import HIDDEN, KIND
from penstock.sql import NamedFunctions, function_of_code
from penstock.types import Field, RowKind, RowType, arrow_schema, parse_columns

INSERT, BEFORE, AFTER, DELETE = RowKind
COLUMNS = parse_columns("id BIGINT NOT NULL, name STRING, price DECIMAL(10, 2)")
SCHEMA = TableSchema(COLUMNS, ("id",), comment="orders")
PARTITION, OFFSET = HIDDEN.names


def rule(**fields: Any) -> TransformDef:
    """A rule for all tables."""
    return TransformDef(r"\.*", **fields)


def rows(*given: tuple[Any, ...], columns: RowType = COLUMNS) -> pa.RecordBatch:
    """Changes of rows: kind and values, with the columns that are carried along."""
    kinds, *values = zip(*given, strict=True) if given else ([], *([] for _ in columns.fields))
    arrays = [pa.array(each, field.type) for each, field in zip(values, arrow_schema(columns), strict=True)]
    count = len(given)
    arrays += [pa.array([7] * count, pa.int32()), pa.array(range(count), pa.int64()), pa.array(kinds, pa.int8())]
    hidden = [*arrow_schema(HIDDEN), pa.field(KIND, pa.int8())]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*arrow_schema(columns), *hidden]))


def transformed(batch: pa.RecordBatch, *rules: TransformDef, **settings: Any) -> list[tuple[Any, ...]]:
    """The rows after the rules: kind and values."""
    transform = TransformBinder(rules, **settings).bind("shop.orders", SCHEMA)
    made = transform.apply(batch)
    names = transform.schema.row.names
    assert made.schema.names == [*names, *HIDDEN.names, KIND]
    assert made.schema.field(KIND).type == pa.int8()
    return [(RowKind(each[KIND] or 0), *(each[name] for name in names)) for each in made.to_pylist()]


def reasons(*rules: TransformDef, schema: TableSchema = SCHEMA, **settings: Any) -> str:
    """Why the rules cannot be bound."""
    with pytest.raises(DefinitionError) as caught:
        TransformBinder(rules, **settings).bind("shop.orders", schema)
    assert isinstance(caught.value, PipelineError | UnsupportedError)
    return str(caught.value)


# --- which rule ------------------------------------------------------------------------------------------------


def test_the_first_rule_that_matches_decides():
    rules = (
        TransformDef(r"shop.other", projection="id"),
        TransformDef(r"shop.\.*", projection="id, name"),
        rule(filter="false"),
    )

    assert transformed(rows((INSERT, 1, "a", None)), *rules) == [(INSERT, 1, "a")]
    assert choose_rule(rules, "shop.other") is rules[0]
    assert choose_rule(rules[:1], "shop.orders") is None


def test_without_a_rule_rows_stay_as_they_are():
    transform = TransformBinder(()).bind("shop.orders", SCHEMA)
    batch = rows((INSERT, 1, "a", None))

    assert transform.apply(batch) is batch
    assert transform.schema is SCHEMA


def test_a_pattern_that_is_none_is_named_with_its_place():
    broken = TransformDef("(", origin=Origin("p.yaml", {"source-table": "line 3, column 5"}))

    with pytest.raises(PipelineError, match=r"p\.yaml, line 3, column 5: 'source-table': '.' is not a valid pattern"):
        choose_rule([broken], "t")


# --- filters ---------------------------------------------------------------------------------------------------

BOTH = [(BEFORE, 1, "a", Decimal(5)), (AFTER, 1, "b", Decimal(7))]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("price > 1", BOTH),
        ("price < 6", [(DELETE, *BOTH[0][1:])]),
        ("price > 6", [(INSERT, *BOTH[1][1:])]),
        ("price > 9", []),
    ],
)
def test_an_update_of_which_one_row_passes_is_a_deletion_or_an_insertion(condition, expected):
    assert transformed(rows(*BOTH), rule(filter=condition)) == expected


def test_updates_that_follow_each_other_are_decided_one_by_one():
    changes = [
        (BEFORE, 1, "a", 1),
        (AFTER, 1, "a", 9),
        (BEFORE, 2, "a", 9),
        (AFTER, 2, "a", 1),
        (DELETE, 3, "a", 9),
        (INSERT, 4, "a", 1),
    ]
    changed = rows(*((kind, key, name, Decimal(price)) for kind, key, name, price in changes))

    found = transformed(changed, rule(projection="id", filter="price > 5"))

    assert found == [(INSERT, 1), (DELETE, 2), (DELETE, 3)]


def test_a_filter_reads_columns_of_the_source_and_computed_ones():
    changed = rows((INSERT, 1, "ab", Decimal(1)), (INSERT, 2, "abc", Decimal(1)), (INSERT, 3, "abcd", Decimal(2)))

    found = transformed(changed, rule(projection="id, CHAR_LENGTH(name) AS size", filter="size > 2 AND price < 2"))

    assert found == [(INSERT, 2, 3)]


def test_a_row_that_the_filter_leaves_out_may_not_be_computable():
    changed = rows((INSERT, 1, "x", None), (INSERT, 2, "2020-01-31", None))

    found = transformed(changed, rule(projection="id, DATE_ADD(name, 1) AS after", filter="name <> 'x'"))

    assert found == [(INSERT, 2, "2020-02-01")]


def test_a_row_that_cannot_be_computed_is_named_by_its_offset():
    with pytest.raises(RecordError) as caught:
        transformed(
            rows((INSERT, 1, "2020-01-31", None), (INSERT, 2, "x", None)), rule(projection="id, DATE_ADD(name, 1) AS y")
        )
    assert (caught.value.partition, caught.value.offset) == (7, 1)
    assert "'x' cannot be read as DATE" in str(caught.value)


def test_a_random_column_has_one_value_in_filter_and_projection():
    changed = rows(*((INSERT, key, "a", None) for key in range(200)))

    found = transformed(changed, rule(projection="id, RAND_INTEGER(2) AS coin", filter="coin = 1"))

    assert {coin for _, _, coin in found} == {1}


def test_an_empty_batch_stays_one():
    assert transformed(rows(), rule(projection="id, UPPER(name) AS name", filter="id > 0")) == []


def test_rows_without_kinds_are_insertions():
    transform = TransformBinder((rule(projection="id, __data_event_type__ AS kind"),)).bind("t", SCHEMA)

    made = transform.apply(rows((DELETE, 1, "a", None)).select(COLUMNS.names))

    assert made.to_pylist() == [{"id": 1, "kind": "+I"}]


# --- soft deletes ----------------------------------------------------------------------------------------------


def test_a_soft_delete_needs_neither_projection_nor_filter():
    changes = [(INSERT, 1, "a", None), (DELETE, 1, "a", None)]

    assert transformed(rows(*changes), rule(converter_after_transform="SOFT_DELETE")) == [
        (INSERT, 1, "a", None),
        (INSERT, 1, "a", None),
    ]


def test_a_soft_delete_keeps_the_kind_in_metadata():
    changes = [(BEFORE, 1, "a", None), (AFTER, 1, "b", None), (DELETE, 1, "b", None)]
    soft = rule(projection=r"\*, __data_event_type__ AS op", converter_after_transform="SOFT_DELETE")

    assert transformed(rows(*changes), soft) == [
        (BEFORE, 1, "a", None, "-U"),
        (AFTER, 1, "b", None, "+U"),
        (INSERT, 1, "b", None, "-D"),
    ]


# --- projections -----------------------------------------------------------------------------------------------


def test_a_computed_column_takes_the_place_of_a_source_column_that_it_reads():
    found = transformed(rows((INSERT, 1, "a", None)), rule(projection="*, UPPER(name) AS name, name || '!' AS loud"))

    assert found == [(INSERT, 1, "A", None, "a!")]


def test_a_filter_reads_the_computed_column_of_a_name():
    assert transformed(rows((INSERT, 1, "a", None)), rule(projection="*, UPPER(name) AS name", filter="name = 'A'"))


def test_a_star_may_have_a_backslash_but_not_in_text():
    found = transformed(rows((INSERT, 1, "a", None)), rule(projection=r"id, \*, '\*' AS star"))

    assert found == [(INSERT, 1, "a", None, r"\*")]


def test_precision_length_and_comment_of_a_column_are_kept():
    row = RowType(
        (
            *parse_columns("id BIGINT NOT NULL, a CHAR(3), b VARCHAR(7), c DECIMAL(20, 3), d TIMESTAMP(9)").fields,
            Field("e", parse_columns("e TIME(9)").fields[0].type, "the time"),
        )
    )
    bound = TransformBinder((rule(projection="e AS f, d, c, b, a, id", primary_keys=("id",)),)).bind(
        "t", TableSchema(row, ("id",))
    )

    assert str(bound.schema.row) == (
        "ROW<`f` TIME(9), `d` TIMESTAMP(9), `c` DECIMAL(20, 3), `b` VARCHAR(7), `a` CHAR(3), `id` BIGINT NOT NULL>"
    )
    assert bound.schema.row.fields[0].comment == "the time"


def test_a_comment_that_changes_is_not_forgotten():
    binder = TransformBinder((rule(projection="id"),))
    first = TableSchema(RowType((Field("id", COLUMNS.fields[0].type, "one"),)))
    second = replace(first, row=RowType((Field("id", COLUMNS.fields[0].type, "two"),)))
    kept = binder.bind("t", first)

    assert binder.bind("t", second).schema.row.fields[0].comment == "two"
    assert binder.bind("other", first).rule is kept.rule


@pytest.mark.parametrize(
    ("table", "expected"), [("a.b.c", ("a", "b", "c")), ("b.c", ("", "b", "c")), ("c", ("", "", "c"))]
)
def test_metadata_columns_name_the_table(table, expected):
    names = "__namespace_name__, __schema_name__, __table_name__"
    bound = TransformBinder((rule(projection=f"id, {names}"),)).bind(table, SCHEMA)

    assert tuple(bound.apply(rows((INSERT, 1, "a", None))).to_pylist()[0].values())[1:4] == expected
    assert [str(each.type) for each in bound.schema.row.fields[1:]] == ["STRING NOT NULL"] * 3


def test_tables_that_share_a_rule_keep_their_names_and_types():
    binder = TransformBinder((rule(projection="id, __table_name__ || '/' || price AS place"),))
    other = replace(SCHEMA, row=parse_columns("id BIGINT NOT NULL, name STRING, price DOUBLE"))
    bound = [binder.bind("a.one", SCHEMA), binder.bind("a.two", SCHEMA), binder.bind("a.three", other)]
    given = [rows((INSERT, 1, "a", Decimal(5)))] * 2 + [rows((INSERT, 1, "a", 5.5), columns=other.row)]

    places = [each.apply(batch).column(1)[0].as_py() for each, batch in zip(bound, given, strict=True)]

    assert places == ["one/5.00", "two/5.00", "three/5.5"]
    assert bound[0].rule is bound[1].rule is not bound[2].rule


def test_a_filter_reads_the_kind_of_a_change():
    changes = [(INSERT, 1, "a", None), (BEFORE, 1, "a", None), (AFTER, 1, "b", None), (DELETE, 1, "b", None)]

    found = transformed(rows(*changes), rule(projection="id", filter="__data_event_type__ IN ('+I', '+U')"))

    assert found == [(INSERT, 1), (INSERT, 1)]


# --- the schema ------------------------------------------------------------------------------------------------


def test_a_rule_sets_keys_and_options():
    given = rule(
        projection="*, price * 2 AS twice",
        primary_keys=("id", "twice"),
        partition_keys=("name",),
        table_options=split_table_options("b=2, a=x=y"),
    )
    found = TransformBinder((given,)).bind("t", replace(SCHEMA, options=(("c", "3"),))).schema

    assert found == TableSchema(
        replace(COLUMNS, fields=(*COLUMNS.fields, *parse_columns("twice DECIMAL(19, 2) NOT NULL").fields)),
        ("id", "twice"),
        ("name",),
        (("a", "x=y"), ("b", "2")),
        "orders",
    )


def test_table_options_have_a_delimiter():
    assert split_table_options("a=1,2;b=3", ";") == (("a", "1,2"), ("b", "3"))
    assert split_table_options("  ") == ()
    with pytest.raises(ValueError, match="expected 'key=value' pairs with ';' between them, not 'b'"):
        split_table_options("a=1; b", ";")


def test_columns_of_the_primary_key_may_not_be_left_out():
    assert "leaves out 'id', a column of the primary key (add it" in reasons(rule(projection="name"))
    found = TransformBinder((rule(projection="name"),), trim_keys=True).bind("t", SCHEMA).schema
    assert (found.primary_key, found.row.names) == ((), ("name",))
    assert "leaves out 'id'" in reasons(rule(projection="name", primary_keys=("name",)))
    renamed = TransformBinder((rule(projection="id AS key", primary_keys=("key",)),)).bind("t", SCHEMA).schema
    assert renamed.primary_key == ("key",)
    assert "leaves out 'id'" in reasons(rule(projection="id AS key"))


# --- mistakes --------------------------------------------------------------------------------------------------


def test_all_mistakes_of_a_rule_are_told_with_their_places():
    places = {key: f"line {at}, column 3" for at, key in enumerate(("projection", "filter", "primary-keys"), 1)}
    given = rule(
        projection="id, missing, nam AS b",
        filter="prise > 1",
        primary_keys=("key",),
        converter_after_transform="SOFT",
        origin=Origin("p.yaml", places),
    )

    assert reasons(given).splitlines() == [
        "p.yaml, line 1, column 3, projection, line 1, column 5: there is no column 'missing' "
        "(there are id, name, price)",
        "p.yaml, line 1, column 3, projection, line 1, column 14: there is no column 'nam' (did you mean 'name'?)",
        "p.yaml, line 2, column 3, filter, line 1, column 1: there is no column 'prise' (did you mean 'price'?)",
        "p.yaml: 'converter-after-transform': there is no converter 'SOFT' (write SOFT_DELETE)",
    ]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"projection": "id, price + 1"}, "a computed column has no name (write AS and a name behind it)"),
        ({"projection": "id, name AS __table_name__"}, "'__table_name__' is the name of a metadata column"),
        ({"projection": "*", "primary_keys": ("nam",)}, "'primary-keys': 'nam' is not a column (did you mean 'name'?)"),
        ({"projection": "*", "partition_keys": ("x",)}, "'partition-keys': 'x' is not a column"),
        (
            {"projection": "*, __data_event_type__ AS op", "primary_keys": ("id", "op")},
            "'primary-keys': 'op' cannot be in the primary key: the two rows of an update differ in it",
        ),
        ({"filter": "name"}, "a condition must be BOOLEAN, not STRING"),
        ({"filter": "name LIKE '['"}, "LIKE without ESCAPE takes a regular expression of Java, and '[' is not one"),
        ({"projection": "*, DATE_FORMAT_TZ(NOW(), 'X') AS t"}, "'X' is not a time zone that is known here"),
        ({"projection": "*, PARSE_JSON(name) AS v"}, "PARSE_JSON is not supported: no column is a VARIANT"),
        ({"projection": "*, CAST(name AS TIMESTAMP WITH TIME ZONE) AS t"}, "WITH TIME ZONE is not supported"),
        ({"projection": "*, DATE_AD(name, 1) AS t"}, "there is no function DATE_AD (did you mean 'DATE_ADD'?)"),
        ({"projection": "*, DATE_ADD(name) AS t"}, "DATE_ADD takes 2 arguments, not 1"),
    ],
)
def test_a_mistake_says_what_to_do(given, reason):
    assert reason in reasons(rule(**given))


# --- in tasks --------------------------------------------------------------------------------------------------


def test_functions_of_the_user_are_called():
    double = function_of_code("twice", "def eval(x: int) -> int:\n    return x * 2")
    mine = NamedFunctions({"TWICE": double})

    found = transformed(rows((INSERT, 4, "a", None)), rule(projection="id, twice(id) AS more"), functions=mine)

    assert found == [(INSERT, 4, 8)]
    binder = TransformBinder((rule(filter="twice(id) > 1"), rule()), functions=mine)
    assert binder.bind("shop.orders", SCHEMA).calls
    assert not TransformBinder(()).bind("shop.orders", SCHEMA).calls


def test_a_transform_can_be_pickled():
    given = rule(projection="id, UPPER(name) AS name, __table_name__ AS t", filter="price > 1 OR name = 'A'")
    bound = TransformBinder((given,)).bind("shop.orders", SCHEMA)
    batch = rows((INSERT, 1, "a", None), (INSERT, 2, "b", None))

    again = pickle.loads(pickle.dumps(bound))

    assert again.schema == bound.schema
    assert again.apply(batch) == bound.apply(batch)
    assert again.apply(batch).num_rows == 1


def test_a_binder_can_be_pickled():
    binder = TransformBinder((rule(projection="id"),), zone="Asia/Tokyo", trim_keys=True)
    binder.bind("t", SCHEMA)

    assert pickle.loads(pickle.dumps(binder)) == binder
