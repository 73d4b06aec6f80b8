"""Whole jobs whose keys and values are Avro data with schemas in a registry."""

from __future__ import annotations

import json

import pytest

from penstock.errors import SchemaRegistryUnavailableError
from penstock_testing.services import RegistryServer
from tests.waiting import while_running

pytestmark = pytest.mark.registry

KEY = {"type": "record", "name": "key", "fields": [{"name": "id", "type": "long"}]}
FIRST = {"type": "record", "name": "order", "fields": [{"name": "amount", "type": "double"}]}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
COLUMNS = "k_id BIGINT, amount DOUBLE, note STRING"
PATIENCE = 120


class Client:
    """Confluent's client for Python."""

    def __init__(self, url):
        from confluent_kafka.schema_registry import SchemaRegistryClient

        self.client = SchemaRegistryClient({"url": url, "timeout": 60})

    def written(self, topic, part, schema, values):
        """Messages, their schema registered."""
        from confluent_kafka.schema_registry.avro import AvroSerializer
        from confluent_kafka.serialization import SerializationContext

        serializer = AvroSerializer(self.client, json.dumps(schema))
        return [serializer(value, SerializationContext(topic, part)) for value in values]

    def read(self, topic, part, messages):
        """What messages say."""
        from confluent_kafka.schema_registry.avro import AvroDeserializer
        from confluent_kafka.serialization import SerializationContext

        deserializer = AvroDeserializer(self.client)
        return [deserializer(message, SerializationContext(topic, part)) for message in messages]

    def write(self, topics, topic, schema, rows):
        """Produce rows, ``id`` in the key and the rest in the value."""
        keys = self.written(topic, "key", KEY, [{"id": row["id"]} for row in rows])
        values = [{name: each for name, each in row.items() if name != "id"} for row in rows]
        topics.write(topic, self.written(topic, "value", schema, values), keys=keys)

    def rows(self, topics, topic):
        """What is in a topic that the job wrote, by id."""
        found = topics.read(topic)
        keys = self.read(topic, "key", [each.key for each in found])
        values = self.read(topic, "value", [each.value for each in found])
        return sorted(({**key, **value} for key, value in zip(keys, values, strict=True)), key=lambda row: row["id"])


def registry_options(url):
    return {
        "format": "avro-confluent",
        "avro__confluent_url": url,
        "key_format": "avro-confluent",
        "key_avro__confluent_url": url,
        "key_fields": "k_id",
        "key_fields__prefix": "k_",
        "value_fields__include": "EXCEPT_KEY",
    }


def test_keys_and_values_go_through_by_the_schemas_of_a_registry(jobs, topics, topic, registry):
    source, sink, given = topic(3), topic(2), registry_options(registry.url)
    client = Client(registry.url)
    client.write(topics, source, FIRST, [{"id": i, "amount": i / 4} for i in range(300)])
    client.write(topics, source, SECOND, [{"id": i, "amount": i / 4, "note": f"n{i}"} for i in range(300, 600)])
    result = jobs.run(
        jobs.bounded("s", COLUMNS, source, **given)
        + jobs.exactly_once("t", COLUMNS, sink, **given)
        + "INSERT INTO t SELECT k_id, amount, UPPER(note) FROM s;"
    )
    assert result.progress.records_out == 600
    expected = [{"id": i, "amount": i / 4, "note": f"N{i}" if i >= 300 else None} for i in range(600)]
    assert client.rows(topics, sink) == expected
    subjects = set(client.client.get_subjects())
    assert {f"{sink}-key", f"{sink}-value"} <= subjects


def test_a_schema_evolves_while_a_job_runs(jobs, topics, topic, registry):
    source, sink, given = topic(1), topic(1), registry_options(registry.url)
    client = Client(registry.url)
    client.write(topics, source, FIRST, [{"id": 1, "amount": 0.5}])
    running = jobs.start(
        jobs.table("s", COLUMNS, source, scan_startup_mode="earliest-offset", **given)
        + jobs.exactly_once("t", COLUMNS, sink, **given)
        + "INSERT INTO t SELECT * FROM s;"
    )
    expected = [{"id": 1, "amount": 0.5, "note": None}]
    while_running(running, lambda: client.rows(topics, sink) == expected, PATIENCE)
    client.write(topics, source, SECOND, [{"id": 2, "amount": 1.5, "note": "new"}])
    expected.append({"id": 2, "amount": 1.5, "note": "new"})
    while_running(running, lambda: client.rows(topics, sink) == expected, PATIENCE)


@pytest.mark.usefixtures("registry_java")
def test_a_registry_that_is_down_fails_the_job_and_loses_nothing(jobs, topics, topic):
    source, sink = topic(1), topic(1)
    with RegistryServer() as server:
        given = registry_options(server.url)
        client = Client(server.url)
        rows = [{"id": i, "amount": i / 4, "note": None} for i in range(100)]
        client.write(topics, source, SECOND, rows)
        server.kill()

        def script(**options):
            return (
                jobs.bounded("s", COLUMNS, source, **given, **options)
                + jobs.exactly_once("t", COLUMNS, sink, **given, **options)
                + "INSERT INTO t SELECT * FROM s;"
            )

        quick = {f"{each}_request_timeout": "1 s" for each in ("avro__confluent", "key_avro__confluent")}
        with pytest.raises(SchemaRegistryUnavailableError, match="Connection refused"):
            jobs.run(script(**quick))
        assert topics.read(sink) == []
        server.start()
        jobs.run(script())
        assert client.rows(topics, sink) == rows
