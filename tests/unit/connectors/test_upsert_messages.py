"""Changes of a table that upserts as messages, and its messages as changes, with the real formats on record batches."""

from __future__ import annotations

import json
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.kafka.sink.encoding import RowEncoder
from penstock.connectors.kafka.source.decoding import RowReader
from penstock.connectors.kafka.source.positions import Split
from penstock.connectors.kafka.table.metadata import READABLE
from penstock.connectors.kafka.upsert.factory import UpsertKafkaConnector
from penstock.errors import RecordError
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import encode, scan
from penstock.spi import HIDDEN, KIND, Column, ColumnKind, TableDefinition, Task
from penstock.types import INT, STRING, RowKind, arrow_schema

BASE = {
    "connector": "upsert-kafka",
    "topic": "orders",
    "properties.bootstrap.servers": "localhost:9092",
    "key.format": "json",
    "value.format": "json",
}
ID = Column("id", INT.with_nullability(False))
NAME = Column("name", STRING)
INSERT, BEFORE, AFTER, DELETE = RowKind


def table(*columns: Column, **options: str) -> TableDefinition:
    """A table with the key ``id``; options are written with ``_`` for ``.`` and ``__`` for ``-``."""
    given_options = {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
    return TableDefinition("t", columns or (ID, NAME), BASE | given_options, primary_key=("id",))


class Encoding:
    """A sink's encoder, and its messages read back."""

    def __init__(self, *columns: Column, partitions: int = 1, **options: str):
        self.sink = UpsertKafkaConnector().sink(table(*columns, **options))
        client = ClientConfig.from_properties(dict(self.sink.client), "t")
        limits = {"orders": 1_048_588, "bills": 1_048_588}
        self.encoder = RowEncoder(self.sink, client, lambda _: partitions, limits, Task(0, 1))

    def encode(self, *changes, kinds=True):
        """The record batches of changes (kind, value of each column)."""
        rows = [dict(zip(self.sink.schema.names, each, strict=True)) for _, *each in changes]
        hidden = [pa.array([7] * len(rows), pa.int32()), pa.array(range(100, 100 + len(rows)), pa.int64())]
        names = list(HIDDEN.names)
        if kinds:
            # The engine leaves the kind of an insertion out.
            hidden.append(pa.array([int(kind) or None for kind, *_ in changes], pa.int8()))
            names.append(KIND)
        batch = pa.RecordBatch.from_pylist(rows, arrow_schema(self.sink.schema))
        return self.encoder.encode(batch, pa.RecordBatch.from_arrays(hidden, names=names))

    def messages(self, *batches):
        """(topic, key, value) of record batches, in the order of their partitions."""
        found = []
        for topic, batch in batches:
            read = scan(batch.data, start_offset=0, end_offset=batch.count)
            found += [
                (topic, json.loads(key), value and json.loads(value))
                for key, value in zip(read.keys.to_pylist(), read.values.to_pylist(), strict=True)
            ]
        return found

    def written(self, *changes, **more):
        """(id, name) of the messages that changes become at once, None for one without a value."""
        found = self.messages(*self.encode(*changes, **more))
        return [(key["id"], value and value["name"]) for _, key, value in found]

    def finished(self):
        """(id, name) of the messages that were held back."""
        return [(key["id"], value and value["name"]) for _, key, value in self.messages(*self.encoder.finish())]


# --- changes to messages -------------------------------------------------------------------------------------


def test_insertions_and_updates_have_a_value_and_deletions_have_none():
    found = Encoding().written(
        (INSERT, 1, "a"), (BEFORE, 1, "a"), (AFTER, 1, "b"), (DELETE, 2, "c"), (INSERT, 3, None), kinds=True
    )
    assert found == [(1, "a"), (1, "b"), (2, None), (3, None)]
    encoding = Encoding()
    assert [value for *_, value in encoding.messages(*encoding.encode((INSERT, 3, None)))] == [{"id": 3, "name": None}]


def test_rows_without_kinds_are_insertions():
    assert Encoding().written((INSERT, 1, "a"), (INSERT, 1, "b"), kinds=False) == [(1, "a"), (1, "b")]


def test_a_row_before_an_update_deletes_its_row_unless_a_later_change_has_its_key():
    encoding = Encoding()
    assert encoding.written((BEFORE, 1, "a"), (AFTER, 2, "a")) == [(1, None), (2, "a")]
    assert encoding.written((BEFORE, 1, "a"), (BEFORE, 2, "b"), (AFTER, 2, "c"), (AFTER, 1, "d")) == [
        (2, "c"),
        (1, "d"),
    ]
    assert encoding.written((BEFORE, 1, "a"), (DELETE, 1, "a")) == [(1, None)]
    assert encoding.written((AFTER, 1, "a"), (BEFORE, 1, "a")) == [(1, "a"), (1, None)]


def test_a_deletion_needs_nothing_but_its_key():
    """A deletion that was read from such a table has no other column, even where the table has it NOT NULL."""
    name = Column("name", STRING.with_nullability(False))
    for options in ({}, {"value_format": "avro"}):
        encoding = Encoding(ID, name, **options)
        read = [scan(batch.data, start_offset=0, end_offset=1) for _, batch in encoding.encode((DELETE, 1, None))]
        assert [(each.keys.to_pylist(), each.values.to_pylist()) for each in read] == [([b'{"id":1}'], [None])]


def test_the_value_has_the_key_s_columns_unless_they_are_left_out():
    encoding = Encoding(value_fields__include="EXCEPT_KEY")
    assert encoding.messages(*encoding.encode((INSERT, 1, "a"))) == [("orders", {"id": 1}, {"name": "a"})]


def test_a_row_whose_key_is_null_is_refused_at_its_place():
    with pytest.raises(RecordError, match="PRIMARY KEY") as raised:
        list(Encoding().encode((INSERT, 1, "a"), (DELETE, None, "b")))
    assert (raised.value.field, raised.value.partition, raised.value.offset) == ("id", 7, 101)
    assert "WHERE id IS NOT NULL" in raised.value.hint


def test_a_value_that_cannot_be_written_is_named_by_its_row():
    """Only the rows that have a value are encoded, so that their numbers are not those of the values."""
    encoding = Encoding(ID, Column("name", STRING.with_nullability(False)), value_format="avro")
    with pytest.raises(RecordError) as raised:
        list(encoding.encode((DELETE, 1, None), (INSERT, 2, "a"), (DELETE, 3, None), (INSERT, 4, None)))
    assert (raised.value.partition, raised.value.offset, raised.value.format) == (7, 103, "avro")


def test_each_topic_has_its_own_rows():
    named = Column("m", STRING, ColumnKind.METADATA, "topic")
    encoding = Encoding(ID, NAME, named, topic="orders;bills")
    found = encoding.messages(
        *encoding.encode((BEFORE, 1, "a", "orders"), (AFTER, 1, "b", "bills"), (AFTER, 2, "c", "orders"))
    )
    assert found == [
        ("orders", {"id": 1}, None),
        ("orders", {"id": 2}, {"id": 2, "name": "c"}),
        ("bills", {"id": 1}, {"id": 1, "name": "b"}),
    ]


# --- changes that are held back ------------------------------------------------------------------------------


def held(most: int) -> Encoding:
    """A sink that holds back the last change of so many keys."""
    return Encoding(sink_buffer__flush_max__rows=str(most), sink_buffer__flush_interval="1 s")


def test_the_last_change_of_each_key_is_written_when_there_are_enough_or_at_the_end():
    encoding = held(3)
    assert encoding.written((INSERT, 1, "a"), (INSERT, 1, "b"), (INSERT, 2, "c")) == []
    assert encoding.written((DELETE, 2, "c"), (INSERT, 1, "d")) == []
    assert encoding.written((INSERT, 3, "e"), (INSERT, 1, "f")) == [(2, None), (3, "e"), (1, "f")]
    assert encoding.written((INSERT, 3, "g"), (BEFORE, 4, "h")) == []
    assert encoding.finished() == [(3, "g"), (4, None)]
    assert encoding.finished() == []


_CHANGES = st.lists(
    st.tuples(st.sampled_from(list(RowKind)), st.integers(0, 5), st.sampled_from(["a", "b", "c"])), max_size=40
)


@settings(deadline=None)  # the first call compiles
@given(st.lists(_CHANGES, max_size=4), st.integers(0, 8), st.integers(1, 3))
def test_the_table_that_the_messages_leave_is_that_of_the_changes(batches, most, partitions):
    """However the changes are cut into batches and held back, and in order within each partition."""
    encoding = held(most) if most else Encoding()
    encoding.encoder._count = lambda _: partitions
    wanted: dict[int, str] = {}
    logs: dict[int, list[tuple[int, str | None]]] = defaultdict(list)
    placed: dict[int, set[int]] = defaultdict(set)
    for changes in [*batches, None]:
        for kind, number, name in changes or ():
            if kind in {INSERT, AFTER}:
                wanted[number] = name
            else:
                wanted.pop(number, None)
        for _, batch in encoding.encoder.finish() if changes is None else encoding.encode(*changes):
            for _, key, value in encoding.messages(("", batch)):
                logs[batch.partition].append((key["id"], value and value["name"]))
                placed[key["id"]].add(batch.partition)
    rows: dict[int, str] = {}
    for log in logs.values():
        for number, name in log:
            rows.pop(number, None)
            if name is not None:
                rows[number] = name
    assert rows == wanted
    assert all(len(each) == 1 for each in placed.values())
    assert sum(map(len, logs.values())) <= sum(map(len, batches))


# --- messages to changes -------------------------------------------------------------------------------------


def read(definition: TableDefinition, *messages: tuple[bytes | None, bytes | None]) -> pa.RecordBatch:
    """The rows of messages (key, value), from offset 100 on."""
    keys, values = (pa.array(each, pa.binary()) for each in zip(*messages, strict=True))
    count = len(messages)
    (batch,) = encode(
        keys=keys, values=values, timestamps=np.zeros(count, np.int64), partitions=np.zeros(count, np.int32)
    )
    batch.data[:8] = (100).to_bytes(8, "big")
    records = scan(batch.data, start_offset=100, end_offset=100 + count)
    return RowReader(UpsertKafkaConnector().scan(definition)).rows(records, Split(7, "orders", "", 3, 100, 1 << 40))


def rows(found: pa.RecordBatch, *names: str) -> list[tuple]:
    """The kinds and these columns."""
    kinds = [RowKind(each) for each in found.column(KIND).to_pylist()]
    return list(zip(kinds, *(found.column(name).to_pylist() for name in names), strict=True))


def test_a_value_replaces_the_row_of_its_key_and_null_deletes_it():
    at = Column("at", READABLE["offset"], ColumnKind.METADATA, "offset", virtual=True)
    found = read(
        table(ID, NAME, at),
        (b'{"id":1}', b'{"id":1,"name":"a"}'),
        (b'{"id":1}', None),
        (b'{"id":2}', b'{"id":2,"name":"b"}'),
        (b'{"id":3}', None),
    )
    assert rows(found, "id", "name", "at") == [
        (AFTER, 1, "a", 100),
        (DELETE, 1, None, 101),
        (AFTER, 2, "b", 102),
        (DELETE, 3, None, 103),
    ]


def test_where_key_and_value_have_a_column_the_value_s_counts_but_for_deletions():
    found = read(table(), (b'{"id":1}', b'{"id":9,"name":"a"}'), (b'{"id":2}', None))
    assert rows(found, "id", "name") == [(AFTER, 9, "a"), (DELETE, 2, None)]


def test_a_value_without_a_column_of_the_primary_key_is_refused():
    """In Flink the NULL of the value replaces the key's value, and all such rows are one."""
    with pytest.raises(RecordError, match="column 'id' is INT NOT NULL") as raised:
        read(table(), (b'{"id":3}', b'{"name":"b"}'))
    assert "'value.fields-include' = 'EXCEPT_KEY' takes 'id' from the key" in raised.value.hint


def test_a_message_without_a_key_gives_no_row():
    found = read(table(), (None, b'{"id":1,"name":"a"}'), (None, None), (b'{"id":2}', None))
    assert rows(found, "id", "name") == [(DELETE, 2, None)]


@pytest.mark.parametrize("name", ["csv", "raw", "avro"])
def test_null_deletes_whatever_the_format_makes_of_it(name):
    columns = (ID, NAME)
    definition = table(*columns, value_format=name, value_fields__include="EXCEPT_KEY")
    empty = {"csv": b"a", "raw": b"a", "avro": b"\x02\x02a"}[name]
    found = read(definition, (b'{"id":1}', None), (b'{"id":2}', empty), (b'{"id":3}', None))
    assert rows(found, "id", "name") == [(DELETE, 1, None), (AFTER, 2, "a"), (DELETE, 3, None)]


def test_a_message_of_several_values_keeps_its_place_among_deletions():
    found = read(
        table(value_fields__include="EXCEPT_KEY"),
        (b'{"id":1}', None),
        (b'{"id":2}', b'[{"name":"a"},{"name":"b"}]'),
        (b'{"id":3}', b"[]"),
        (b'{"id":4}', None),
    )
    assert rows(found, "id", "name") == [(DELETE, 1, None), (AFTER, 2, "a"), (AFTER, 2, "b"), (DELETE, 4, None)]


def test_a_bad_key_of_a_deletion_is_refused_by_its_offset():
    with pytest.raises(RecordError, match="offset 101") as raised:
        read(table(), (b'{"id":1}', None), (b'{"id":"x"}', None))
    assert raised.value.format == "json"
