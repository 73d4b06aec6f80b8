"""PyFlink's rows and types."""

from __future__ import annotations

import pickle

import pytest

from penstock.common import Duration, Row, RowKind, SimpleStringSchema, Types, WatermarkStrategy
from penstock.errors import OptionsError


def test_a_row_is_read_and_changed_by_position_and_name():
    row = Row(id=1, name="a")
    row.name, row["id"], row[1] = "b", 2, "c"

    assert (row.id, row["name"], row[0], len(row), list(row)) == (2, "c", 2, 2, [2, "c"])
    assert row.as_dict() == {"id": 2, "name": "c"}
    assert repr(row) == "Row(id=2, name='c')"


def test_a_row_of_names_makes_named_rows():
    assert Row("id", "name")(1, "a") == Row(id=1, name="a")
    with pytest.raises(TypeError, match="expected 2 values"):
        Row("id", "name")(1)


def test_rows_compare_and_survive_pickling():
    row = Row(id=1, name=Row(2))
    row.set_row_kind(RowKind.DELETE)
    copy = pickle.loads(pickle.dumps(row))

    assert copy == row
    assert (copy.get_row_kind(), copy.id) == (RowKind.DELETE, 1)
    assert Row(1, 2) == Row(a=1, b=2)
    assert Row(a=1, b=2) != Row(b=1, a=2)
    assert hash(Row(1, 2)) == hash(Row(a=1, b=2))


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="fields are id"):
        _ = Row(id=1).nmae
    with pytest.raises(KeyError):
        _ = Row(id=1)["nmae"]
    with pytest.raises(TypeError):
        Row(1).as_dict()
    with pytest.raises(TypeError):
        Row(1, id=2)


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (Types.STRING(), "STRING"),
        (Types.LONG(), "BIGINT"),
        (Types.BIG_DEC(), "DECIMAL(38, 18)"),
        (Types.ROW([Types.INT(), Types.BOOLEAN()]), "ROW<`f0` INT, `f1` BOOLEAN>"),
        (Types.ROW_NAMED(["a"], [Types.SQL_TIMESTAMP()]), "ROW<`a` TIMESTAMP(6)>"),
        (Types.MAP(Types.STRING(), Types.LIST(Types.DOUBLE())), "MAP<STRING, ARRAY<DOUBLE>>"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), "BYTES"),
        (Types.INSTANT(), "TIMESTAMP_LTZ(6)"),
    ],
)
def test_type_information_is_a_logical_type(info, text):
    assert str(info) == text


def test_a_single_value_has_the_column_f0():
    assert Types.STRING().row.names == ("f0",)
    assert Types.ROW_NAMED(["a"], [Types.INT()]).get_field_names() == ["a"]
    with pytest.raises(TypeError, match="2 names for 1 types"):
        Types.ROW_NAMED(["a", "b"], [Types.INT()])


def test_watermark_strategies_are_values():
    given = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20)).with_idleness(
        Duration.of_minutes(1)
    )

    assert (given.lateness, given.idleness) == (Duration.of_millis(20_000).value, Duration.of_hours(1).value / 60)
    assert WatermarkStrategy.no_watermarks().lateness is None


def test_strings_have_a_charset():
    assert SimpleStringSchema("utf-8") == SimpleStringSchema()
    assert SimpleStringSchema("ISO-8859-1").options == (("charset", "ISO-8859-1"),)
    with pytest.raises(OptionsError, match="unknown charset 'klingon'"):
        SimpleStringSchema("klingon")
