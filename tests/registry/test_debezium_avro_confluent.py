"""debezium-avro-confluent against a real registry: messages of Debezium to changes, and changes to messages."""

from __future__ import annotations

import io
import json
import pickle
import urllib.request
import uuid
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from penstock.connectors.kafka.source.decoding import RowReader
from penstock.connectors.kafka.source.positions import Split
from penstock.errors import RecordError, SchemaError
from penstock.formats.debezium_avro_confluent.decode import DebeziumAvroConfluentDecoder
from penstock.formats.debezium_avro_confluent.encode import DebeziumAvroConfluentEncoder
from penstock.kafka.record_batches import encode, scan
from penstock.plan.nodes import scans
from penstock.spi import CHANGES, KIND, Decoded, RegistryFormat, formats
from penstock.sql import parse_script
from penstock.types import RowKind, arrow_schema, parse_columns
from penstock_testing.services import RegistryServer

FORMAT = formats.get("debezium-avro-confluent")
COLUMNS = "id BIGINT NOT NULL, name STRING, r ROW<x INT>"
VALUE = {"type": "record", "name": "Value", "namespace": "shop.public.orders", "fields": [
    {"name": "id", "type": "long"},
    {"name": "name", "type": ["null", "string"], "default": None},
    {"name": "more", "type": ["null", "int"], "default": None},
    {"name": "r", "type": ["null", {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}]},
]}  # fmt: skip
#: The schema that Debezium registers, shortened.
ENVELOPE = {"type": "record", "name": "Envelope", "namespace": "shop.public.orders", "fields": [
    {"name": "before", "type": ["null", VALUE], "default": None},
    {"name": "after", "type": ["null", "Value"], "default": None},
    {"name": "source", "type": {"type": "record", "name": "Source", "namespace": "io.debezium", "fields": [
        {"name": "db", "type": "string"}, {"name": "ts_ms", "type": "long"},
    ]}},
    {"name": "op", "type": "string"},
    {"name": "ts_ms", "type": ["null", "long"], "default": None},
]}  # fmt: skip
ONE = {"id": 1, "name": "x", "more": 7, "r": {"x": 3}}
TWO = {"id": 1, "name": None, "more": None, "r": None}


@pytest.fixture
def subject() -> str:
    """A subject that no other test has."""
    return f"{uuid.uuid4().hex}-value"


def ask(url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def decoder(registry: RegistryServer, columns: str = COLUMNS) -> DebeziumAvroConfluentDecoder:
    found = FORMAT.decoder(parse_columns(columns), FORMAT.options.from_text({"url": registry.url}))
    assert isinstance(found, DebeziumAvroConfluentDecoder)
    return found


def encoder(registry: RegistryServer, subject: str, **given: str) -> DebeziumAvroConfluentEncoder:
    options = FORMAT.options.from_text({"url": registry.url, "subject": subject, **given})
    found = FORMAT.encoder(parse_columns(COLUMNS), options)
    assert isinstance(found, DebeziumAvroConfluentEncoder)
    return found


def written(number: int, before: Any, after: Any, op: str) -> bytes:
    """A message as Debezium writes it."""
    out = io.BytesIO()
    source = {"db": "shop", "ts_ms": 1}
    value = {"before": before, "after": after, "source": source, "op": op, "ts_ms": 2}
    fastavro.schemaless_writer(out, fastavro.parse_schema(ENVELOPE), value)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def changes(decoded: Decoded) -> list[tuple[str, Any, Any, Any]]:
    """The kinds and the rows."""
    assert decoded.kinds is not None
    rows = zip(decoded.kinds.tolist(), decoded.rows.to_pylist(), strict=True)
    return [(RowKind(kind).short, *row.values()) for kind, row in rows]


def test_messages_of_debezium_are_changes(registry: RegistryServer, subject: str) -> None:
    number = ask(f"{registry.url}/subjects/{subject}/versions", {"schema": json.dumps(ENVELOPE)})["id"]
    given = [
        written(number, None, ONE, "c"),
        written(number, ONE, TWO, "u"),
        None,
        b"",
        written(number, TWO, None, "d"),
        written(number, None, ONE, "r"),
    ]
    decoded = decoder(registry).decode(pa.array(given, pa.binary()))

    one, two = (1, "x", {"x": 3}), (1, None, None)
    assert changes(decoded) == [("+I", *one), ("-U", *one), ("+U", *two), ("-D", *two), ("+I", *one)]
    assert decoded.origin is not None
    assert decoded.origin.tolist() == [0, 1, 1, 4, 5]
    assert decoded.bad == ()


def test_messages_that_are_no_changes_are_refused_with_their_reasons(registry: RegistryServer, subject: str) -> None:
    number = ask(f"{registry.url}/subjects/{subject}/versions", {"schema": json.dumps(ENVELOPE)})["id"]
    given = [
        written(number, None, TWO, "u"),
        written(number, None, ONE, "c"),
        written(number, None, None, "d"),
        written(number, ONE, None, "c"),
        written(number, ONE, ONE, "t"),
        b"{}",
        written(number, None, ONE, "c")[:8],
    ]
    decoded = decoder(registry).decode(pa.array(given, pa.binary()))

    assert changes(decoded) == [("+I", 1, "x", {"x": 3})]
    assert [each.index for each in decoded.bad] == [0, 2, 3, 4, 5, 6]
    reasons = [f"{each.field}: {each.reason}" for each in decoded.bad]
    assert reasons[0].startswith(
        "before: the field is missing or null in an update; a table of PostgreSQL needs REPLICA"
    )
    assert reasons[1].startswith("before: the field is missing or null in a delete")
    assert reasons[2].startswith("after: the field is missing or null")
    assert reasons[3] == "op: unknown operation 't'; expected c, r, u or d"
    assert "too few" in reasons[4]


def test_a_table_with_other_columns_is_refused(registry: RegistryServer, subject: str) -> None:
    number = ask(f"{registry.url}/subjects/{subject}/versions", {"schema": json.dumps(ENVELOPE)})["id"]
    decoded = decoder(registry, "id STRING").decode(pa.array([written(number, None, ONE, "c")]))
    (bad,) = decoded.bad
    assert "does not fit the table" in bad.reason
    assert decoded.rows.num_rows == 0
    assert decoded.kinds is not None


def test_changes_are_written_as_flink_writes_them(registry: RegistryServer, subject: str) -> None:
    rows = pa.RecordBatch.from_pylist(
        [{"id": index, "name": "x" if index else None, "r": {"x": index} if index else None} for index in range(4)],
        schema=arrow_schema(parse_columns(COLUMNS)),
    )
    kinds = np.array([RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE], np.int8)
    writer = encoder(registry, subject)
    messages = pickle.loads(pickle.dumps(writer)).encode(rows, kinds)

    found = ask(f"{registry.url}/subjects/{subject}/versions/latest")
    schema = json.loads(found["schema"])
    assert (schema["namespace"], schema["name"]) == ("org.apache.flink.avro.generated", "record")
    assert [each["name"] for each in schema["fields"]] == ["before", "after", "op"]
    assert [each["type"][1].get("name") for each in schema["fields"][:2]] == ["record_before", "record_after"]

    parsed = fastavro.parse_schema(schema)
    assert {each[:5] for each in messages.to_pylist()} == {b"\0" + found["id"].to_bytes(4, "big")}
    values = [fastavro.schemaless_reader(io.BytesIO(each[5:]), parsed, None) for each in messages.to_pylist()]
    images = rows.to_pylist()
    assert values == [
        {"before": None, "after": images[0], "op": "c"},
        {"before": images[1], "after": None, "op": "d"},
        {"before": None, "after": images[2], "op": "c"},
        {"before": images[3], "after": None, "op": "d"},
    ]
    read = decoder(registry).decode(messages)
    assert [change[0] for change in changes(read)] == ["+I", "-D", "+I", "-D"]
    assert read.rows.equals(rows)
    assert writer.encode(rows).to_pylist()[1] != messages.to_pylist()[1]  # without kinds all rows are insertions


def test_a_row_that_the_schema_cannot_hold_is_named(registry: RegistryServer, subject: str) -> None:
    schema = arrow_schema(parse_columns(COLUMNS))
    columns = [pa.array([1, None]), pa.array(["a", "b"]), pa.array([None, None], schema.field("r").type)]
    with pytest.raises(RecordError) as caught:
        encoder(registry, subject).encode(pa.RecordBatch.from_arrays(columns, names=schema.names))
    assert caught.value.offset == 1


def test_the_format_has_a_subject_and_no_metadata(registry: RegistryServer) -> None:
    assert isinstance(FORMAT, RegistryFormat)
    with pytest.raises(SchemaError, match="debezium-avro-confluent has no metadata"):
        FORMAT.decoder(parse_columns(COLUMNS), FORMAT.options.from_text({"url": registry.url}), ["source.table"])  # type: ignore[call-arg]


def test_a_kafka_table_writes_changes_under_the_subject_of_its_topic() -> None:
    table = """
    CREATE TABLE t (id INT, n BIGINT) WITH ('connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' =
      'b:9092', 'format' = 'debezium-avro-confluent', 'debezium-avro-confluent.url' = 'http://r:8081');
    INSERT INTO t SELECT id, COUNT(*) FROM t GROUP BY id
    """
    (job,) = parse_script(table).jobs
    spec: Any = job.sinks[0].spec
    assert spec.value.options.subject == "orders-value"
    assert spec.capabilities.kinds == CHANGES
    assert scans(*job.sinks)[0].spec.capabilities.kinds == CHANGES


def test_a_kafka_table_reads_the_kinds_of_rows(registry: RegistryServer, subject: str) -> None:
    number = ask(f"{registry.url}/subjects/{subject}/versions", {"schema": json.dumps(ENVELOPE)})["id"]
    (job,) = parse_script(
        f"""
        CREATE TABLE t (id BIGINT, name STRING, place BIGINT METADATA FROM 'offset') WITH ('connector' = 'kafka',
          'topic' = 'orders', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'debezium-avro-confluent',
          'debezium-avro-confluent.url' = '{registry.url}');
        CREATE TABLE s (id BIGINT, name STRING, place BIGINT) WITH ('connector' = 'print');
        INSERT INTO s SELECT * FROM t
        """
    ).jobs
    (found,) = scans(*job.sinks)
    values = pa.array([written(number, None, ONE, "c"), written(number, ONE, TWO, "u")], pa.binary())
    (batch,) = encode(
        keys=pa.nulls(2, pa.binary()), values=values, timestamps=np.full(2, 1000), partitions=np.zeros(2, np.int32)
    )
    records = scan(batch.data, start_offset=0, end_offset=2, headers=True)
    spec: Any = found.spec
    rows = RowReader(spec).rows(records, Split(0, "orders", "", 0, 0, 1 << 40)).to_pylist()
    assert [(each["id"], each["name"], each["place"], RowKind(each[KIND]).short) for each in rows] == [
        (1, "x", 0, "+I"),
        (1, "x", 1, "-U"),
        (1, None, 1, "+U"),
    ]
