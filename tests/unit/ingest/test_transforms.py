"""The rules of transform, bound to one table, and computed on its rows."""

from __future__ import annotations

import pickle
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import DefinitionError, PipelineError, RecordError, UnsupportedError
from penstock.flow.functions import strings
from penstock.ingest.definition import TransformDef
from penstock.ingest.transforms import DecimalPrecisionMode, TransformBinder, choose_rule, split_table_options
from penstock.options import Origin
from penstock.plan.scalar_functions import functions, transform_functions
from penstock.schemas import TableSchema
from penstock.spi import HIDDEN, KIND
from penstock.sql import NamedFunctions, function_of_code, parse_expression
from penstock.sql.bind.expressions.scope import known_functions
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


def value_of(expression: str, value: Any = None, data_type: str = "STRING", **settings: Any) -> Any:
    """The value of an expression of the column ``x``, and its type."""
    row = parse_columns(f"x {data_type}")
    transform = TransformBinder((rule(projection=f"{expression} AS y"),), **settings).bind("t", TableSchema(row))
    made = transform.apply(pa.RecordBatch.from_arrays([pa.array([value], arrow_schema(row)[0].type)], names=["x"]))
    return made.column(0)[0].as_py(), str(transform.schema.row.fields[0].type)


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
    given = rows(*((kind, key, name, Decimal(price)) for kind, key, name, price in changes))

    found = transformed(given, rule(projection="id", filter="price > 5"))

    assert found == [(INSERT, 1), (DELETE, 2), (DELETE, 3)]


def test_a_filter_reads_columns_of_the_source_and_computed_ones():
    given = rows((INSERT, 1, "ab", Decimal(1)), (INSERT, 2, "abc", Decimal(1)), (INSERT, 3, "abcd", Decimal(2)))

    found = transformed(given, rule(projection="id, CHAR_LENGTH(name) AS size", filter="size > 2 AND price < 2"))

    assert found == [(INSERT, 2, 3)]


def test_a_row_that_the_filter_leaves_out_may_not_be_computable():
    given = rows((INSERT, 1, "x", None), (INSERT, 2, "2020-01-31", None))

    found = transformed(given, rule(projection="id, DATE_ADD(name, 1) AS after", filter="name <> 'x'"))

    assert found == [(INSERT, 2, "2020-02-01")]


def test_a_row_that_cannot_be_computed_is_named_by_its_offset():
    with pytest.raises(RecordError) as caught:
        transformed(
            rows((INSERT, 1, "2020-01-31", None), (INSERT, 2, "x", None)), rule(projection="id, DATE_ADD(name, 1) AS y")
        )
    assert (caught.value.partition, caught.value.offset) == (7, 1)
    assert "'x' cannot be read as DATE" in str(caught.value)


def test_a_random_column_has_one_value_in_filter_and_projection():
    given = rows(*((INSERT, key, "a", None) for key in range(200)))

    found = transformed(given, rule(projection="id, RAND_INTEGER(2) AS coin", filter="coin = 1"))

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


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("2 + 3 * 4", 14), ("(2 + 3) * 4", 20), ("20 - 4 - 3", 13), ("NOT 1 = 2 AND 2 = 2 OR 1 = 1", True)],
)
def test_operators_bind_as_they_are_written(expression, expected):
    assert value_of(expression)[0] == expected


def test_a_decimal_of_38_digits_is_kept():
    exact = Decimal("12345678901234567890123456789.012345678")
    more = Decimal("12345678901234567890123456790.012345678")

    assert value_of("x", exact, "DECIMAL(38, 9)") == (exact, "DECIMAL(38, 9)")
    wide = DecimalPrecisionMode.UP_TO_38
    assert value_of("x + 1", exact, "DECIMAL(38, 9)", decimals=wide) == (more, "DECIMAL(38, 9)")
    assert value_of("x + 1", exact, "DECIMAL(38, 9)") == (None, "DECIMAL(19, 9)")
    assert value_of("x + 1 > x", exact, "DECIMAL(38, 9)")[0] is True  # inside, all digits count


@pytest.mark.parametrize("text", ["ünïcödé", "天地玄黄", "🙂", "it''s"])
def test_literals_have_any_characters(text):
    assert value_of(f"'{text}'")[0] == text.replace("''", "'")
    assert value_of(f"x = '{text}'", text.replace("''", "'"))[0] is True


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
    renamed = TransformBinder((rule(projection="id AS key", primary_keys=("key",)),)).bind("t", SCHEMA).schema
    assert renamed.primary_key == ("key",)


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


# --- the dialect -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "value", "expected"),
    [
        ("x = 'a'", None, False),
        ("x <> 'a'", None, True),
        ("x > 'a'", None, False),
        ("NOT x > 'a'", None, True),
        ("x IN ('a', NULL)", "b", False),
        ("x NOT IN ('a')", None, True),
        ("x BETWEEN 'a' AND 'c'", None, False),
        ("x LIKE 'a.c'", "xabcx", True),
        ("x LIKE 'a%'", "abc", False),
        ("x LIKE 'a%' ESCAPE '!'", "abc", True),
        ("x || 1 || TRUE", None, "null1true"),
        ("CAST(x AS INT)", "-7.9", -7),
        ("CAST(x AS INT)", "99999999999", 2**31 - 1),
        ("CAST(x AS BIGINT)", "9223372036854775807", 2**63 - 1),
        ("CAST(x AS INT)", "seven", None),
        ("TRY_CAST(x AS INT)", "7.9", None),
        ("TRY_CAST(x AS INT)", " 7 ", 7),
        ("CAST(x AS BOOLEAN)", "yes", False),
        ("TRY_CAST(x AS BOOLEAN)", "yes", True),
        ("TRY_CAST(x AS TIMESTAMP)", "2020-01-01 00:00:00", None),
        ("CAST(CAST(x AS TIMESTAMP) AS STRING)", "2020-01-02T03:04", "2020-01-02T03:04"),
        ("CAST(CAST(x AS TIMESTAMP) AS STRING)", "2020-01-02T03:04:05.120", "2020-01-02T03:04:05.120"),
        ("TO_DATE(x)", "2020-01-01 00:00:00", None),
        ("TO_BASE64(FROM_BASE64_BINARY(x))", "AP8=", "AP8="),
        ("ARRAY[1, 2][0]", None, None),
        ("ROW('a', 2)[2]", None, 2),
    ],
)
def test_expressions_mean_what_they_mean_in_flink_cdc(expression, value, expected):
    assert value_of(expression, value)[0] == expected


def test_points_in_time_are_in_the_session_or_in_utc():
    moment = pa.scalar(1_600_000_000_000_000, pa.timestamp("us", "UTC")).as_py()
    tokyo = {"zone": "Asia/Tokyo"}

    assert value_of("DATE_FORMAT(x, 'HH')", moment, "TIMESTAMP_LTZ(3)", **tokyo)[0] == "21"
    assert value_of("EXTRACT(HOUR FROM x)", moment, "TIMESTAMP_LTZ(3)", **tokyo)[0] == 21
    assert value_of("CAST(x AS STRING)", moment, "TIMESTAMP_LTZ(3)", **tokyo)[0] == "2020-09-13T12:26:40"
    assert value_of("CAST(CAST(x AS TIMESTAMP) AS STRING)", "2020-01-01T00:00:00Z", **tokyo)[0] == "2020-01-01T09:00"


def test_functions_of_transforms_are_not_in_flink_sql():
    assert not transform_functions().keys() & functions().keys()
    assert not {"DATE_ADD", "DATE_FORMAT_TZ", "TIMESTAMP_DIFF", "FROM_BASE64_BINARY"} & set(known_functions())
    for text in ("DATE_ADD(a, 1)", "DATE_FORMAT_TZ(t, 'UTC')", "POSITION('a' IN a FROM 2)", "FROM_BASE64_BINARY(a)"):
        with pytest.raises(DefinitionError, match="there is no function"):
            parse_expression(text, parse_columns("a STRING, t TIMESTAMP(3)"))
    assert strings.FUNCTIONS  # which transforms have too


def test_functions_of_the_user_are_called():
    double = function_of_code("twice", "def eval(x: int) -> int:\n    return x * 2")
    mine = NamedFunctions({"TWICE": double})

    found = transformed(rows((INSERT, 4, "a", None)), rule(projection="id, twice(id) AS more"), functions=mine)

    assert found == [(INSERT, 4, 8)]


# --- in tasks --------------------------------------------------------------------------------------------------


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
