"""What the readers of tables see in messages: tables, columns, keys, and rows under these columns."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.spi import InferringFormat, SeenColumns, TableReader, formats
from penstock.types import RowType, parse_columns

NONE = RowType((), nullable=False)


def reader(identifier: str, inference: dict[str, str] | None = None, **options: str) -> TableReader[Any]:
    found = formats.get(identifier)
    assert isinstance(found, InferringFormat)
    given = found.options.from_text({key.replace("_", "-"): each for key, each in options.items()})
    made = found.table_reader(given, found.inference.from_text(inference or {}))
    return pickle.loads(pickle.dumps(made))


def column(*messages: Any) -> pa.BinaryArray:
    return pa.array(
        [each if isinstance(each, bytes | None) else json.dumps(each).encode() for each in messages], pa.binary()
    )


def shown(seen: SeenColumns) -> str:
    return ", ".join(map(str, seen.row.fields)).replace("`", "")


# --- json ----------------------------------------------------------------------------------------------------


def test_json_columns_come_in_the_order_in_which_they_are_seen():
    seen = reader("json").survey(column({"b": 1, "n": None}, [{"a": "x"}, {"a": 2.5}], b"{", None), NONE)
    assert shown(seen) == "b BIGINT, a STRING"
    assert seen.firsts == {"b": 0, "a": 1}


def test_json_known_columns_stay_as_long_as_values_fit():
    known = parse_columns("id INT NOT NULL, amount DECIMAL(5, 2), gone STRING")
    seen = reader("json").survey(column({"id": 7, "amount": 1.25}), known)
    assert (seen.row, seen.firsts) == (known, {})
    seen = reader("json").survey(column({"id": 7, "amount": 1.25}, {"id": 2**40, "amount": 1.125, "new": True}), known)
    assert shown(seen) == "id BIGINT NOT NULL, amount DECIMAL(6, 3), gone STRING, new BOOLEAN"
    assert seen.firsts == {"id": 1, "amount": 1, "new": 1}


def test_json_tables_are_named_by_fields():
    plain, named = reader("json"), reader("json", {"decode.parser-table-id.fields": "db,t"})
    assert (plain.names_tables, named.names_tables) == (False, True)
    found = named.find_tables(column({"db": "a", "t": "x"}, {"t": "y"}, {"db": "a"}, {"db": "a", "t": "x"}))
    assert found.names == ("a.x", "y")
    assert found.at.tolist() == [0, 1, -1, 0]
    assert [each.index for each in found.bad] == [2]


def test_json_types_can_be_fixed_or_be_strings():
    fixed = reader("json", {"infer-schema.fixed-types": "id INT, name VARCHAR(10)"})
    seen = fixed.survey(column({"id": 2**40, "name": "a long name, indeed", "n": 1}), NONE)
    assert shown(seen) == "id INT, name VARCHAR(10), n BIGINT"
    assert fixed.survey(column({"id": "x"}), seen.row).row == seen.row
    strings = reader("json", {"infer-schema.primitive-as-string": "true"})
    assert shown(strings.survey(column({"a": 1, "b": [1], "c": None}), NONE)) == "a STRING, b STRING"


def flat_rows(*messages: Any) -> tuple[str, list[dict[str, Any]]]:
    flat = reader("json", {"infer-schema.flatten-nested-columns.enable": "true"})
    row = NONE
    for each in messages:  # one after the other, and all together
        row = flat.survey(column(each), row).row
    seen = flat.survey(column(*messages), row)
    assert not seen.firsts
    decoded = flat.decoder(seen.row).decode(column(*messages))
    assert not decoded.bad
    return shown(seen), decoded.rows.to_pylist()


def test_json_nested_objects_become_columns():
    text, rows = flat_rows({"id": 1, "a": {"b": {"c": "x"}, "d": [1]}}, {"a": None, "id": 2}, {"a": {"b": None}})
    assert text == "id BIGINT, a.d STRING, a.b.c STRING"
    assert rows == [
        {"id": 1, "a.d": "[1]", "a.b.c": "x"},
        {"id": 2, "a.d": None, "a.b.c": None},
        {"id": None, "a.d": None, "a.b.c": None},
    ]


def test_json_field_with_objects_and_other_values_is_a_text():
    text, rows = flat_rows({"a": 7}, {"a": {"b": 1}})
    assert text == "a STRING"
    assert [each["a"] for each in rows] == ["7", '{"b":1}']
    text, rows = flat_rows({"a": {"b": 1}}, {"a": 7})
    assert text == "a.b BIGINT, a STRING"
    assert rows == [{"a.b": None, "a": '{"b":1}'}, {"a.b": None, "a": "7"}]


def test_json_field_with_a_dotted_name_is_the_column_of_that_name():
    text, rows = flat_rows({"a": {"b": 1}}, {"a.b": 2})
    assert (text, [each["a.b"] for each in rows]) == ("a.b BIGINT", [1, 2])


# --- debezium-json -------------------------------------------------------------------------------------------


def debezium(op: str, before: Any, after: Any, **source: str) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "source": {"db": "shop", "table": "orders", **source}}


def test_debezium_tables_have_the_schema_of_the_database_in_their_id():
    made = reader("debezium-json")
    messages = column(debezium("c", None, {}), debezium("c", None, {}, schema="public"), None, {"op": "c"})
    found = made.find_tables(made.open(messages))
    assert found.names == ("shop.orders", "shop.public.orders")
    assert found.at.tolist() == [0, 1, -1, -1]
    assert [(each.index, each.field) for each in found.bad] == [(3, "source.table")]


def test_debezium_columns_are_those_of_both_images():
    made = reader("debezium-json")
    messages = made.open(
        column(debezium("u", {"id": 1, "old": 1.5}, {"id": 1, "new": "2024-01-31"}), debezium("d", {"id": 2**70}, None))
    )
    seen = made.survey(messages, NONE)
    assert shown(seen) == "id DECIMAL(22, 0), old DOUBLE, new DATE"
    decoded = made.decoder(seen.row).decode(messages)
    assert not decoded.bad
    assert [each["old"] for each in decoded.rows.to_pylist()] == [1.5, None, None]


def test_debezium_messages_may_contain_their_schema():
    made = reader("debezium-json", schema_include="true")
    messages = made.open(column({"schema": {}, "payload": debezium("c", None, {"id": 1})}))
    assert made.find_tables(messages).names == ("shop.orders",)
    assert shown(made.survey(messages, NONE)) == "id BIGINT"


def test_debezium_messages_of_any_form_are_read_in_their_order():
    """Some have the usual form, and the others are read by the decoder of all messages."""
    made = reader("debezium-json")
    usual = [
        debezium("c", None, {"id": 1, "a": "x"}),
        {"source": {"table": "t"}, "op": "u", "after": {"id": 2}, "before": {"a": None, "id": 2}, "ts_ms": 1},
        debezium("d", {"id": 3}, None),
        debezium("r", None, {"id": 2**62, "a": 'with "quotes" and \\u00e9'}),
    ]
    unusual = [
        [debezium("c", None, {"id": 5})],
        debezium("c", {"id": 7}, {"id": 6}),
        json.dumps(debezium("c", None, {"id": 8})).replace("after", "\\u0061fter").encode(),
        b'{"op":"d","op":"c","after":{"id":9},"before":null,"source":{"db":"shop","table":"orders"}}',
        debezium("x", None, {"id": 10}),
        debezium("u", None, {"id": 11}),
        debezium("d", None, None),
        debezium("c", None, {"id": 12, "a": {"b": [1, {}]}}),
        b"{",
        None,
        {"op": "c", "after": {"id": 13}},
    ]
    known = parse_columns("id BIGINT, a STRING")
    given = [each for pair in zip(usual, unusual, strict=False) for each in pair] + unusual[len(usual) :]
    opened = made.open(column(*given))
    exact = formats.get("debezium-json").decoder(known, made.options).decode(column(*given))
    found = made.decoder(known).decode(opened)
    assert found.rows.to_pylist() == exact.rows.to_pylist()
    assert found.origin.tolist() == exact.origin.tolist()
    assert found.kinds.tolist() == exact.kinds.tolist()
    assert [(each.index, each.reason) for each in found.bad] == [(each.index, each.reason) for each in exact.bad]
    assert [each.index for each in found.bad] == [8, 9, 10, 12]
    assert made.find_tables(opened).at.tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1]
    chosen = opened.take(np.array([2, 7, 13]))
    assert made.decoder(known).decode(chosen).rows.column("id").to_pylist() == [2, 2, 9]


# --- canal-json ----------------------------------------------------------------------------------------------


def canal(data: Any, old: Any = None, **others: Any) -> dict[str, Any]:
    named = {"database": "shop", "table": "orders", "type": "INSERT" if old is None else "UPDATE"}
    return {"data": data, "old": old, **named, **others}


def test_canal_values_are_texts_unless_messages_have_types():
    given = {
        "sqlType": {"id": -5, "n": 4, "d": 3},
        "mysqlType": {"id": "bigint unsigned", "n": "tinyint(1)", "d": "decimal(10,2)"},
    }
    messages = column(
        canal([{"id": "1", "n": "7", "d": "1.50"}], pkNames=["id"], **given),
        canal([{"id": "1", "n": "8", "d": "1.50"}], [{"n": "7"}], pkNames=["id"], **given),
    )
    assert reader("canal-json").find_tables(messages).names == ("shop.orders",)
    wanted = {
        "AUTO": "id STRING, n STRING, d STRING",
        "SQL_TYPE": "id BIGINT, n INT, d DECIMAL(38, 18)",
        "MYSQL_TYPE": "id DECIMAL(20, 0), n BOOLEAN, d DECIMAL(10, 2)",
    }
    for strategy, text in wanted.items():
        made = reader("canal-json", {"infer-schema.strategy": strategy})
        seen = made.survey(messages, NONE)
        assert (shown(seen), seen.primary_key) == (text, ("id",)), strategy
        assert not made.survey(messages, seen.row).firsts


def test_canal_types_are_widened_from_message_to_message():
    made = reader("canal-json", {"infer-schema.strategy": "SQL_TYPE"})
    messages = column(canal([{"id": "1"}], sqlType={"id": 4}), canal([{"id": "1"}], sqlType={"id": -5, "x": 12}))
    seen = made.survey(messages, NONE)
    assert (shown(seen), seen.firsts) == ("id BIGINT, x STRING", {"id": 0, "x": 1})
    assert [row["id"] for row in made.decoder(seen.row).decode(messages).rows.to_pylist()] == [1, 1]
