"""Values as Flink's serializers write them: Flink's own bytes are recorded."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path

import pytest

from penstock.common import Row, RowKind, TypeInformationSerializationSchema, Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KafkaRecordDeserializationSchema,
    TypeInformationKeyValueSerializationSchema,
)
from penstock.errors import RecordError, UnsupportedError
from tests.unit.datastream.test_kafka_schemas import RECORDS, SERVERS, builder, plain, records, sink, source, values

TYPES = json.loads((Path(__file__).parents[2] / "recorded" / "types.json").read_text("utf-8"))["types"]


def info(kind):
    name, *parts = kind
    if name == "BYTES":
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    return Types.ROW([info(each) for each in parts]) if name == "ROW" else getattr(Types, name)(*map(info, parts))


def value_of(kind, value):
    """A recorded value as functions see it."""
    name, *parts = kind
    if value is None:
        return None
    if name == "BYTES":
        return bytes.fromhex(value)
    if name == "LIST":
        return [value_of(parts[0], each) for each in value]
    if name == "MAP":
        return {key: value_of(parts[1], each) for key, each in value.items()}
    if name == "ROW":
        return Row.of_kind(RowKind(value[0]), *map(value_of, parts, value[1:]))
    return value


@pytest.mark.parametrize("case", TYPES, ids=lambda case: json.dumps(case["type"]))
def test_the_bytes_are_those_of_flink(case):
    schema = pickle.loads(pickle.dumps(TypeInformationSerializationSchema(info(case["type"]))))
    assert schema.get_produced_type() == info(case["type"])
    for each in case["values"]:
        value, written = value_of(case["type"], each["value"]), bytes.fromhex(each["bytes"])
        assert schema.serialize(value) == written
        found = schema.deserialize(written + b"more")
        assert found == value
        assert type(found) is type(value)
        if isinstance(value, Row):
            assert found.get_row_kind() is value.get_row_kind()
        for size in range(len(written)):  # a part of a message is no value, and never another one
            with pytest.raises(RecordError, match="the message cannot be read as"):
                schema.deserialize(written[:size])


def test_rows_may_be_tuples_or_dictionaries():
    schema = TypeInformationSerializationSchema(Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()]))
    assert schema.serialize((1, "a")) == schema.serialize({"name": "a", "id": 1}) == schema.serialize(Row(1, "a"))
    assert schema.deserialize(schema.serialize((1, None))).as_dict() == {"id": 1, "name": None}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Types.INT(), "a"),
        (Types.INT(), 2**31),
        (Types.LONG(), None),
        (Types.STRING(), 5),
        (Types.LIST(Types.INT()), [1, None]),
        (Types.MAP(Types.STRING(), Types.INT()), [1]),
        (Types.ROW([Types.INT()]), (1, 2)),
        (Types.ROW_NAMED(["id"], [Types.INT()]), {"name": 1}),
    ],
)
def test_a_value_of_another_type_is_refused(kind, value):
    with pytest.raises(RecordError, match="is not a value of the type"):
        TypeInformationSerializationSchema(kind).serialize(value)


@pytest.mark.parametrize(
    "kind", [Types.PICKLED_BYTE_ARRAY(), Types.BIG_DEC(), Types.ROW([Types.LIST(Types.SQL_TIMESTAMP())])]
)
def test_a_type_whose_bytes_only_java_knows_is_refused(kind):
    with pytest.raises(UnsupportedError, match=r"SerializationSchema': the bytes of .* are known only to Java"):
        TypeInformationSerializationSchema(kind)


def test_a_stream_is_read_and_written():
    env = StreamExecutionEnvironment.get_execution_environment()
    schema = TypeInformationSerializationSchema(Types.DOUBLE(), env.get_config())
    given = [{**RECORDS[0], "value": schema.serialize(math.pi)}, RECORDS[2]]
    read = source(KafkaRecordDeserializationSchema.value_only(schema))
    assert values(env, read, given) == [math.pi]
    with pytest.raises(RecordError, match="the message cannot be read as DOUBLE") as error:
        values(env, read, RECORDS)
    assert (error.value.partition, error.value.offset) == (3, 7)
    stream = env.from_collection([0.5], Types.DOUBLE())
    built = sink(builder().set_topic("out").set_value_serialization_schema(schema).build())
    assert plain(records(env, stream, built, partitions=1)) == {("out", 0): [(None, schema.serialize(0.5), [])]}


def test_keys_and_values_are_pairs():
    env = StreamExecutionEnvironment.get_execution_environment()
    schema = TypeInformationKeyValueSerializationSchema(Types.INT(), Types.STRING(), env.get_config())
    pairs = [(1, "a"), (None, "b"), (2, None)]
    written = [(schema.serialize_key(each), schema.serialize_value(each)) for each in pairs]
    assert written == [(b"\0\0\0\1", b"\2a"), (None, b"\2b"), (b"\0\0\0\2", None)]
    given = [{**record, "key": key, "value": value} for record, (key, value) in zip(RECORDS, written, strict=True)]
    assert values(env, FlinkKafkaConsumer("in", schema, SERVERS), given) == pairs
    stream = env.from_collection(pairs, schema.get_produced_type())
    found = records(env, stream, FlinkKafkaProducer("out", schema, SERVERS), partitions=1)
    assert plain(found) == {("out", 0): [(key, value, []) for key, value in written]}
