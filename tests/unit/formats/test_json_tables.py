"""The tables of messages by their fields."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.formats.json.tables import MessageTables, TableFields

SOURCE = TableFields((("source", "db"), ("source", "schema"), ("source", "table")))


def find(fields: TableFields, *messages: Any) -> MessageTables:
    texts = [each if isinstance(each, bytes | None) else json.dumps(each).encode() for each in messages]
    return fields.find_tables(pa.array(texts, pa.binary()))


def listed(found: MessageTables) -> list[str | None]:
    return [None if at < 0 else found.names[at] for at in found.at.tolist()]


def test_the_id_of_a_table_has_the_parts_that_are_there():
    found = find(
        SOURCE,
        {"before": None, "source": {"version": 1, "db": "shop", "schema": "public", "table": "orders"}, "op": "c"},
        {"source": {"db": "shop", "table": "items"}},
        {"source": {"db": "shop", "schema": None, "table": "items"}},
        {"source": {"db": "", "schema": "public", "table": "orders"}},
        {"source": {"db": "shop", "schema": "public", "table": "orders"}},
        {"source": {"table": 'ü\n"q"'}},
    )
    assert listed(found) == [
        "shop.public.orders",
        "shop.items",
        "shop.items",
        "public.orders",
        "shop.public.orders",
        'ü\n"q"',
    ]
    assert found.bad == ()


def test_a_message_that_does_not_name_its_table_is_refused():
    found = find(
        SOURCE,
        {"source": {"db": "shop"}},
        None,
        {"source": None},
        b"nothing",
        {"source": {"db": "shop", "table": ""}},
        {},
        {"source": {"table": "t"}},
        b"",
    )
    assert listed(found) == [None] * 6 + ["t", None]
    assert [each.index for each in found.bad] == [0, 2, 3, 4, 5]
    assert {each.field for each in found.bad if each.index != 3} == {"source.table"}
    assert "expected the name of the message's table" in found.bad[0].reason


def test_fields_of_any_kind_may_name_a_table():
    found = find(TableFields((("a",), ("b",))), {"a": "x", "b": 7}, {"b": True, "a": "x"}, {"a": 1.5, "b": "t"})
    assert listed(found) == ["x.7", "x.true", "1.5.t"]


def test_no_messages_have_no_tables():
    found = find(SOURCE)
    assert (found.names, found.bad) == ((), ())
    assert np.array_equal(found.at, [])
