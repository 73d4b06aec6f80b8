"""From a Kafka table as it was written to what is read and written, with the real formats."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest

from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.sink.spec import KafkaSinkSpec
from penstock.connectors.kafka.source.spec import KafkaScanSpec
from penstock.connectors.kafka.table.metadata import READABLE, MetadataColumn
from penstock.connectors.kafka.table.options import ResetStrategy, StartupMode
from penstock.errors import OptionsError
from penstock.options import Origin
from penstock.spi import Column, ColumnKind, Guarantee, Surface, TableDefinition
from penstock.types import BIGINT, BYTES, INT, STRING, MapType, TimestampType, parse_type

BASE = {"connector": "kafka", "topic": "orders", "properties.bootstrap.servers": "localhost:9092", "format": "json"}
COLUMNS = (Column("user", BIGINT), Column("item", STRING))


def table(*columns: Column, surface: Surface = Surface.SQL, topic: str = "orders") -> TableDefinition:
    return with_options({"topic": topic}, *columns, surface=surface)


def with_options(options: dict[str, str], *columns: Column, surface: Surface = Surface.SQL) -> TableDefinition:
    return TableDefinition("orders", columns or COLUMNS, BASE | options, surface=surface)


def scan(definition: TableDefinition) -> KafkaScanSpec:
    return KafkaConnector().scan(definition)


def sink(definition: TableDefinition) -> KafkaSinkSpec:
    return KafkaConnector().sink(definition)


def metadata(name: str, type: str, key: str = "", virtual: bool = False) -> Column:
    return Column(name, parse_type(type), ColumnKind.METADATA, key, virtual=virtual)


def test_a_scan_says_everything_and_survives_a_task_boundary():
    found = scan(table())

    assert found.table == "orders"
    assert found.options.topic == ("orders",)
    assert (found.value.identifier, found.key) == ("json", None)
    assert found.value_columns == ("user", "item")
    assert found.group_id == "KafkaSource-orders"
    assert found.client == (("bootstrap.servers", "localhost:9092"), ("group.id", "KafkaSource-orders"))
    assert found.options.startup_mode is StartupMode.GROUP_OFFSETS
    assert found.reset is ResetStrategy.NONE
    assert found.discovery == timedelta(minutes=5)
    assert found.options.max_records_per_trigger == 1_000_000
    assert found.commits
    assert not found.bounded
    assert pickle.loads(pickle.dumps(found)) == found
    assert hash(found) == hash(scan(table()))


def test_a_sink_says_everything_and_survives_a_task_boundary():
    found = sink(table())

    assert found.guarantee is Guarantee.AT_LEAST_ONCE
    assert found.transactional_id_prefix == ""
    assert (found.topics, found.options.topic_pattern, found.partitioner) == (("orders",), None, "default")
    assert found.schema == table().written
    assert found.client == (("bootstrap.servers", "localhost:9092"),)
    assert pickle.loads(pickle.dumps(found)) == found


def test_surfaces_differ_where_flinks_do():
    built = table(surface=Surface.BUILDER)

    assert scan(built).options.startup_mode is StartupMode.EARLIEST
    assert scan(built).discovery is None
    assert scan(built).group_id == ""
    assert not scan(built).commits
    assert sink(built).guarantee is Guarantee.NONE


def test_what_a_builder_says_wins_over_its_defaults():
    said = {
        "scan.startup.mode": "latest-offset",
        "properties.partition.discovery.interval.ms": "10000",
        "sink.delivery-guarantee": "at-least-once",
    }
    built = with_options(said, surface=Surface.BUILDER)

    assert scan(built).options.startup_mode is StartupMode.LATEST
    assert scan(built).discovery == timedelta(seconds=10)
    assert [key for key, _ in scan(built).client] == ["bootstrap.servers"]
    assert sink(built).guarantee is Guarantee.AT_LEAST_ONCE


@pytest.mark.parametrize("interval", ["0", "-1", "-5 min"])
def test_a_discovery_interval_that_is_not_positive_switches_it_off(interval):
    assert scan(with_options({"scan.topic-partition-discovery.interval": interval})).discovery is None


def test_only_sql_gives_a_source_a_group():
    """As Flink's documentation has it for the options of tables and for those of pipelines."""
    options = {"scan.startup.mode": "earliest-offset"}
    groups = {surface: scan(with_options(options, surface=surface)).group_id for surface in Surface}

    assert groups == {Surface.SQL: "KafkaSource-orders", Surface.YAML: "", Surface.BUILDER: ""}


def test_a_bounded_scan_does_not_look_for_partitions():
    found = scan(with_options({"scan.bounded.mode": "latest-offset"}))

    assert found.bounded
    assert found.discovery is None


def test_value_format_wins_over_format_with_its_own_prefix():
    found = scan(with_options({"format": "raw", "value.format": "json", "value.json.ignore-parse-errors": "true"}))

    assert found.value.identifier == "json"
    assert found.value.options.to_text() == {"ignore-parse-errors": "true"}


@pytest.mark.parametrize("prefix", ["json.", "value.json."])
def test_yaml_may_leave_value_out_of_the_options_of_its_value_format(prefix):
    options = {"value.format": "json", f"{prefix}ignore-parse-errors": "true", "scan.startup.mode": "latest-offset"}
    given = {key: value for key, value in (BASE | options).items() if key != "format"}
    found = scan(TableDefinition("orders", COLUMNS, given, surface=Surface.YAML))

    assert found.value.options.to_text() == {"ignore-parse-errors": "true"}


def test_key_columns_keep_the_order_of_key_fields_and_lose_their_prefix():
    columns = (Column("k_a", INT), Column("v", STRING), Column("k_b", BIGINT))
    options = {
        "key.format": "json",
        "key.fields": "k_b;k_a",
        "key.fields-prefix": "k_",
        "value.fields-include": "except_key",
    }

    for found in (scan(with_options(options, *columns)), sink(with_options(options, *columns))):
        assert found.key_schema.names == ("b", "a")
        assert found.value_schema.names == ("v",)
        assert found.value_columns == ("v",)


def test_seed_example_with_prefixes_of_key_and_value():
    columns = (Column("key_id", INT.with_nullability(False)), Column("val_name", parse_type("VARCHAR(200)")))
    found = scan(
        with_options(
            {
                "key.format": "json",
                "key.fields": "key_id",
                "key.fields-prefix": "key_",
                "value.fields-prefix": "val_",
                "value.fields-include": "EXCEPT_KEY",
            },
            *columns,
        )
    )

    assert (found.key_schema.names, found.value_schema.names) == (("id",), ("name",))


def test_seed_example_with_a_primary_key_on_json():
    columns = (metadata("offset", "INT NOT NULL"), metadata("part", "BIGINT NOT NULL", "partition"))
    definition = TableDefinition("orders", columns, BASE, primary_key=("part", "offset"))
    found = scan(definition)

    assert found.metadata == (
        MetadataColumn("offset", "offset", INT.with_nullability(False), READABLE["offset"]),
        MetadataColumn("part", "partition", BIGINT.with_nullability(False), READABLE["partition"]),
    )
    assert found.value_columns == ()
    assert found.produced.names == ("offset", "part")
    assert found.notes == ("PRIMARY KEY has no effect: with 'json' each message is a new row and replaces none",)


@pytest.mark.parametrize("key", READABLE)
def test_every_metadata_can_be_read_as_its_own_type(key):
    column = Column("m", READABLE[key], ColumnKind.METADATA, key, virtual=True)

    assert scan(table(*COLUMNS, column)).metadata == (MetadataColumn("m", key, READABLE[key], READABLE[key]),)


@pytest.mark.parametrize(
    ("key", "type"),
    [
        ("partition", "STRING"),
        ("offset", "INT"),
        ("timestamp", "TIMESTAMP(3)"),
        ("headers", "MAP<STRING, STRING>"),
        ("__raw_key__", "STRING NOT NULL"),
    ],
)
def test_metadata_may_be_declared_as_any_type_it_can_be_cast_to(key, type):
    assert scan(table(*COLUMNS, metadata("m", type, key))).metadata[0].type == parse_type(type)


@pytest.mark.parametrize(("key", "type"), [("topic", "MAP<STRING, BYTES>"), ("headers", "INT"), ("offset", "DATE")])
def test_metadata_of_a_type_it_cannot_be_cast_to_is_refused(key, type):
    with pytest.raises(OptionsError, match=f"metadata '{key}' is .* cannot be cast to"):
        scan(table(*COLUMNS, metadata("m", type, key)))


def test_writable_metadata_is_written_and_virtual_columns_are_not():
    columns = (
        *COLUMNS,
        metadata("ts", "TIMESTAMP_LTZ(3)", "timestamp"),
        metadata("h", "MAP<STRING, BYTES>", "headers"),
        metadata("at", "BIGINT", "offset", virtual=True),
    )
    found = sink(table(*columns))

    assert [each.key for each in found.metadata] == ["timestamp", "headers"]
    assert found.schema.names == ("user", "item", "ts", "h")
    assert found.value_columns == ("user", "item")
    assert found.metadata[1].type == MapType(STRING, BYTES)
    assert found.metadata[0].type == TimestampType(3, True)


@pytest.mark.parametrize("key", ["partition", "offset", "leader-epoch", "timestamp-type"])
def test_metadata_that_cannot_be_written_has_to_be_virtual(key):
    column = Column("m", READABLE[key], ColumnKind.METADATA, key)

    with pytest.raises(OptionsError, match=f"metadata '{key}' cannot be written .declare the column VIRTUAL"):
        sink(table(*COLUMNS, column))


@pytest.mark.parametrize("type", ["STRING NOT NULL", "BYTES"])
def test_raw_keys_and_values_are_written_in_place_of_the_columns(type):
    raw = metadata("k", type, "__raw_key__"), metadata("v", type, "__raw_value__")
    found = sink(table(*COLUMNS, *raw))

    assert [(each.name, each.key) for each in found.metadata] == [("k", "__raw_key__"), ("v", "__raw_value__")]
    assert "the value of a message is '__raw_value__': it does not contain user, item" in found.notes
    assert not any("does not contain" in each for each in sink(table(*raw)).notes)
    # The format 'raw' takes one column, but here it has nothing to do.
    assert sink(with_options({"format": "raw"}, *raw)).value_columns == ()
    with pytest.raises(OptionsError, match="INT cannot be cast to metadata '__raw_value__', which is BYTES"):
        sink(table(metadata("v", "INT", "__raw_value__")))


def test_the_topic_of_a_row_is_written_with_several_topics_only():
    column = metadata("t", "STRING", "topic")

    assert sink(table(*COLUMNS, column, topic="a;b")).topics == ("a", "b")
    with pytest.raises(OptionsError, match="written only with several topics"):
        sink(table(*COLUMNS, column))
    with pytest.raises(OptionsError, match="names each row's topic"):
        sink(table(topic="a;b"))
    with pytest.raises(OptionsError, match="names each row's topic"):
        sink(with_options({"topic": "", "topic-pattern": "a.*"}))


def test_start_offsets_get_their_topic():
    options = {
        "scan.startup.mode": "specific-offsets",
        "scan.startup.specific-offsets": "partition:1,offset:300;partition:0,offset:42;partition:1,offset:7",
    }

    found = scan(with_options(options))
    assert [(found.with_topic(tp), offset) for tp, offset in found.options.startup_offsets] == [
        (("orders", 0), 42),
        (("orders", 1), 7),
    ]


def test_the_older_name_of_the_guarantee_wins_and_is_noted():
    options = {
        "sink.semantic": "exactly_once",
        "sink.delivery-guarantee": "none",
        "sink.transactional-id-prefix": "billing",
    }
    found = sink(with_options(options))

    assert (found.guarantee, found.transactional_id_prefix) == (Guarantee.EXACTLY_ONCE, "billing")
    assert "sink.delivery-guarantee" in found.notes[0]


SECRETS = {
    "properties.security.protocol": "SASL_SSL",
    "properties.sasl.mechanism": "PLAIN",
    "properties.sasl.jaas.config": 'x.PlainLoginModule required username="u" password="hunter2";',
    "properties.ssl.truststore.type": "PEM",
    "properties.ssl.truststore.location": "/ca.pem",
    "properties.ssl.truststore.password": "hunter2",
}


def test_secrets_are_shown_nowhere():
    definition = with_options(SECRETS)
    for spec in (scan(definition), sink(definition)):
        assert dict(spec.client)["ssl.truststore.password"] == "hunter2"
        assert "hunter2" not in repr(spec) + str(spec) + spec.describe()
        assert "sasl.jaas.config=******" in spec.describe()


def test_secrets_are_not_in_errors_either():
    broken = SECRETS | {"properties.sasl.jaas.config": 'x.PlainLoginModule requird password="hunter2"'}

    with pytest.raises(OptionsError) as error:
        scan(with_options(broken))
    assert "hunter2" not in str(error.value)
    assert "properties.sasl.jaas.config" in str(error.value)


@pytest.mark.parametrize(
    ("changes", "side", "expected"),
    [
        ({"properties.bootstrap.servers": None}, scan, "'properties.bootstrap.servers': is required"),
        ({"format": None}, scan, "'value.format': is required"),
        ({"topic": None}, scan, "'topic': one of 'topic' and 'topic-pattern' is required"),
        ({"topic": None}, sink, "'topic': one of 'topic' and 'topic-pattern' is required"),
        ({"topic-pattern": "o.*"}, scan, "'topic-pattern': cannot be combined with 'topic'"),
        ({"topic-pattern": "o.*"}, sink, "'topic-pattern': cannot be combined with 'topic'"),
        ({"value.fields-include": "SOME"}, scan, "'value.fields-include': expected one of ALL, EXCEPT_KEY"),
        ({"key.format": "jsno", "key.fields": "user"}, scan, "'key.format': there is no format 'jsno'"),
        ({"scan.bounded.mode": "sometime"}, scan, "expected one of unbounded, latest-offset"),
        ({"scan.header-filter": "(a:b)"}, scan, "'scan.header-filter': '(' cannot be used there"),
        ({"scan.topic-partition-discovery.interval": "soon"}, scan, "'scan.topic-partition-discovery.interval':"),
        ({"properties.auto.offset.reset.strategy": "x"}, scan, "Kafka's own name is auto.offset.reset"),
        ({"topic-pattern": "("}, scan, "expected a regular expression"),
        ({"scan.startup.mode": "timestamp"}, scan, "needs 'scan.startup.timestamp-millis'"),
        ({"scan.startup.timestamp-millis": "-1"}, scan, "millis': expected milliseconds since 1970, not '-1'"),
        ({"scan.bounded.timestamp-millis": "-2"}, scan, "millis': expected milliseconds since 1970, not '-2'"),
        ({"scan.dead-letter.topic": ""}, scan, "'scan.dead-letter.topic': expected the name of a topic, not ''"),
        ({"scan.dead-letter.topic": "a;b"}, scan, "dead-letter.topic': expected the name of a topic, not 'a;b'"),
        ({"scan.dead-letter.topic": ".."}, scan, "letters, digits, '.', '_' and '-', at most 249"),
        ({"scan.dead-letter.topic": "x" * 250}, scan, "'scan.dead-letter.topic': expected the name of a topic"),
        ({"scan.dead-letter.topic": "b", "topic": "a;b"}, scan, "dead-letter.topic': 'b' is read by this table"),
        (
            {"scan.dead-letter.topic": "ab", "topic": None, "topic-pattern": "a.*"},
            scan,
            "'ab' is read by this table: records that cannot be decoded would come back forever (name another topic)",
        ),
        ({"scan.partitions": "0"}, scan, "'scan.partitions': expected 'partition:<number>', joined by ';'"),
        ({"scan.partitions": "topic:x,partition:0"}, scan, "'scan.partitions': names topics that are not read: x"),
        ({"scan.partitions": "partition:0", "topic": "a;b"}, scan, "without a topic need exactly one 'topic'"),
        ({"scan.partitions": "topic:a,partition:0", "topic": "a;b"}, scan, "names no partition of the topics b"),
        (
            {"scan.partitions": "partition:0", "topic": None, "topic-pattern": "a.*"},
            scan,
            "'scan.partitions': cannot be combined with 'topic-pattern'",
        ),
        ({"scan.startup.mode": "specific-offsets"}, scan, "needs 'scan.startup.specific-offsets'"),
        ({"scan.bounded.mode": "timestamp"}, scan, "needs 'scan.bounded.timestamp-millis'"),
        ({"scan.bounded.mode": "specific-offsets"}, scan, "needs 'scan.bounded.specific-offsets'"),
        ({"scan.startup.mode": "sometime"}, scan, "expected one of earliest-offset, latest-offset"),
        ({"properties.auto.offset.reset": "newest"}, scan, "properties.auto.offset.reset"),
        ({"scan.parallelism": "0"}, scan, "'scan.parallelism': expected 1 or more"),
        ({"scan.max-records-per-trigger": "0"}, scan, "'scan.max-records-per-trigger': expected 1 or more"),
        ({"sink.parallelism": "0"}, sink, "'sink.parallelism': expected 1 or more"),
        ({"sink.partitioner": ""}, sink, "'sink.partitioner': must not be empty"),
        ({"sink.delivery-guarantee": "exactly-once"}, sink, "'sink.transactional-id-prefix': is required with"),
        ({"key.fields": "user"}, scan, "'key.fields': needs 'key.format'"),
        ({"key.format": "json"}, sink, "'key.format': needs 'key.fields'"),
        *(
            (
                {"key.format": f"{name}-json", "key.fields": "user"},
                side,
                f"'{name}-json' reads change messages, which keys",
            )
            for name in ("debezium", "canal", "maxwell", "ogg")
            for side in (scan, sink)
        ),
        ({"key.fields-prefix": "k_"}, scan, "needs 'value.fields-include' = 'EXCEPT_KEY'"),
        ({"format": "jsno"}, scan, "'format': there is no format 'jsno' (did you mean 'json'?)"),
        ({"topik": "x"}, scan, "'topik': unknown option (did you mean 'topic'?)"),
        ({"json.ignore-parse-error": "true"}, scan, "(did you mean 'json.ignore-parse-errors'?)"),
        ({"json.ignore-parse-errors": "yes"}, scan, "'json.ignore-parse-errors': expected true or false"),
        ({"properties.grup.id": "x"}, scan, "'properties.grup.id': is not a property of a Kafka client"),
    ],
)
def test_what_cannot_mean_anything_is_refused(changes, side, expected):
    given = {key: value for key, value in (BASE | changes).items() if value is not None}

    with pytest.raises(OptionsError) as error:
        side(TableDefinition("orders", COLUMNS, given))
    assert expected in str(error.value)
    assert str(error.value).startswith("table 'orders'")


def test_properties_without_effect_are_noted_and_their_values_shown_nowhere():
    given = {"schema.registry.basic.auth.user.info": "me:hunter2", "key.deserializer": "a.B", "zookeeper.connect": "z"}
    given = {f"properties.{name}": value for name, value in given.items()}

    for spec in (scan(with_options(given)), sink(with_options(given))):
        text = spec.describe()
        unknown = "has no effect: it is not a property of a Kafka client"
        assert f"note: 'properties.schema.registry.basic.auth.user.info' {unknown}" in text
        assert f"note: 'properties.zookeeper.connect' {unknown}" in text
        assert "note: 'properties.key.deserializer' has no effect: penstock reads and writes bytes" in text
        assert "hunter2" not in text
        assert "hunter2" not in repr(spec)
        assert {name for name, _ in spec.client}.isdisjoint(key.removeprefix("properties.") for key in given)


def test_properties_that_act_in_java_only_are_in_one_note_and_not_among_those_of_the_client():
    given = {"properties.linger.ms": "5", "properties.max.poll.records": "7", "properties.acks": "all"}
    for spec in (scan(with_options(given)), sink(with_options(given))):
        (note,) = spec.notes
        assert note.startswith("no effect here: 'properties.linger.ms' (all rows")
        assert "'properties.max.poll.records' (partitions are assigned by the engine" in note
        assert {name for name, _ in spec.client} & {"linger.ms", "max.poll.records", "acks"} == {"acks"}


def test_a_note_on_a_property_is_not_repeated_for_the_dead_letters():
    found = scan(with_options({"properties.linger.ms": "5", "scan.dead-letter.topic": "dead"}))
    assert (len(found.notes), found.dead_letters.notes) == (1, ())


def test_a_prefix_of_transactional_ids_is_bounded_as_in_flink():
    exact = {"sink.delivery-guarantee": "exactly-once"}
    with pytest.raises(OptionsError, match="expected at most 64000 bytes of UTF-8, not the 64002 of this text"):
        sink(with_options(exact | {"sink.transactional-id-prefix": "é" * 32_001}))
    assert sink(with_options(exact | {"sink.transactional-id-prefix": "é" * 32_000}))


def test_an_option_that_is_accepted_without_effect_is_noted():
    (note,) = sink(with_options({"sink.transaction-naming-strategy": "pooling"})).notes
    assert note.startswith("'sink.transaction-naming-strategy' has no effect: a query has one transactional id")
    assert sink(with_options({})).notes == ()


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "5"}, "start: timestamp 5"),
        (
            {"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:0,offset:4"},
            "start: specific-offsets partition:0,offset:4",
        ),
        ({"scan.startup.mode": "latest-offset"}, "start: latest-offset\n"),
        ({"scan.header-filter": "a:b&!c:d"}, "headers: a:b&!c:d"),
    ],
)
def test_a_scan_shows_where_it_starts_and_what_it_leaves_out(given, shown):
    assert shown in scan(with_options(given)).describe()


KEYED = {"key.format": "json", "key.fields": "user"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"key.fields": "usr"}, "'usr' is not a physical column of the table (did you mean 'user'?)"),
        ({"key.fields": "ts"}, "'ts' is not a physical column"),
        ({"key.fields": "user;item;user"}, "'key.fields': names 'user' more than once"),
        (
            {"key.fields-prefix": "k_", "value.fields-include": "EXCEPT_KEY"},
            "'key.fields': 'user' does not begin with 'k_'",
        ),
        ({"value.fields-prefix": "v_"}, "column 'user' of the value does not begin with 'v_'"),
        ({"sink.partitioner": "round-robin"}, "'round-robin' ignores keys"),
        (
            {"key.fields-prefix": "a", "value.fields-prefix": "ab", "value.fields-include": "EXCEPT_KEY"},
            "neither prefix may begin with the other",
        ),
    ],
)
def test_keys_that_do_not_fit_are_refused(changes, expected):
    columns = (*COLUMNS, metadata("ts", "TIMESTAMP_LTZ(3)", "timestamp"))

    with pytest.raises(OptionsError) as error:
        sink(with_options(KEYED | changes, *columns))
    assert expected in str(error.value)


@pytest.mark.parametrize(
    "text", ["partition:0, offset:1", "Partition:0,offset:1", "partition:0", "0:1", "partition:a,offset:1"]
)
@pytest.mark.parametrize("scope", ["startup", "bounded"])
def test_offsets_follow_the_grammar_to_the_letter(text, scope):
    options = {f"scan.{scope}.mode": "specific-offsets", f"scan.{scope}.specific-offsets": text}

    with pytest.raises(OptionsError, match="partition:<number>,offset:<number>"):
        scan(with_options(options))


@pytest.mark.parametrize("changes", [{"topic": "a;b"}, {"topic": None, "topic-pattern": "a.*"}])
@pytest.mark.parametrize("scope", ["startup", "bounded"])
def test_specific_offsets_need_one_topic(changes, scope):
    options = {
        f"scan.{scope}.mode": "specific-offsets",
        f"scan.{scope}.specific-offsets": "partition:0,offset:1",
    }
    given = {key: value for key, value in (BASE | options | changes).items() if value is not None}

    with pytest.raises(OptionsError, match="exactly one 'topic'"):
        scan(TableDefinition("orders", COLUMNS, given))


@pytest.mark.parametrize("mode", ["latest-offset", "LATEST-OFFSET", "latest_offset", "Latest_Offset"])
def test_values_of_enumerations_are_read_as_flink_reads_them(mode):
    assert scan(with_options({"scan.startup.mode": mode})).options.startup_mode is StartupMode.LATEST


def test_a_timestamp_without_its_mode_is_no_mistake():
    assert scan(with_options({"scan.startup.timestamp-millis": "1655395200000"})).options.startup_timestamp


def test_a_builders_source_without_a_group_cannot_use_its_offsets():
    with pytest.raises(OptionsError, match=r"'scan.startup.mode': needs a consumer group"):
        scan(with_options({"scan.startup.mode": "group-offsets"}, surface=Surface.BUILDER))
    with pytest.raises(OptionsError, match=r"'scan.bounded.mode': needs a consumer group"):
        scan(with_options({"scan.bounded.mode": "group-offsets"}, surface=Surface.BUILDER))
    with pytest.raises(OptionsError, match=r"commit.offsets.on.checkpoint': needs a consumer group"):
        scan(with_options({"properties.commit.offsets.on.checkpoint": "true"}, surface=Surface.BUILDER))


@pytest.mark.rule("producer ids are scarce")
def test_exactly_once_contradicts_a_producer_that_is_not_idempotent():
    options = {
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": "p",
        "properties.enable.idempotence": "false",
        "properties.acks": "1",
        "properties.retries": "0",
    }

    with pytest.raises(OptionsError) as error:
        sink(with_options(options))
    assert "properties.retries" in str(error.value)
    assert "properties.enable.idempotence" in str(error.value)
    assert "properties.acks" in str(error.value)


class ByUser:
    """A partitioner."""

    def partition(self, record, key, value, target_topic, partitions):
        """By the user's number."""
        return partitions[record.user % len(partitions)]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("org.mycompany.MyPartitioner", "cannot import 'org.mycompany': ModuleNotFoundError"),
        ("MyPartitioner", "'MyPartitioner' names no Python class"),
        (f"{__name__}.Missing", "there is no class 'Missing' in"),
        (f"{__name__}.table", "there is no class 'table' in"),
        ("decimal.Decimal", "'decimal.Decimal' is not a partitioner: it has no method 'partition'"),
    ],
)
def test_a_partitioner_is_a_python_class_that_can_be_imported(path, reason):
    with pytest.raises(OptionsError) as raised:
        sink(with_options({"sink.partitioner": path}))
    (problem,) = raised.value.problems
    assert problem.key == "sink.partitioner"
    assert reason in problem.reason
    assert "Java's are not loaded" in problem.hint


@pytest.mark.parametrize("mark", [".", ":"])
def test_the_path_of_a_partitioner_is_that_of_a_class(mark):
    found = sink(with_options({"sink.partitioner": f"{__name__}{mark}ByUser"}))
    assert found.partitioner.endswith("ByUser")
    assert found.keyed


def test_two_columns_cannot_write_the_same_metadata():
    columns = (*COLUMNS, metadata("a", "TIMESTAMP_LTZ(3)", "timestamp"), metadata("b", "TIMESTAMP(3)", "timestamp"))

    with pytest.raises(OptionsError, match="column 'b': metadata 'timestamp' is written by another column too"):
        sink(table(*columns))
    assert len(scan(table(*columns)).metadata) == 2


def test_headers_are_written_once():
    columns = (
        *COLUMNS,
        metadata("a", "MAP<STRING, BYTES>", "headers"),
        metadata("b", "ARRAY<ROW<key STRING, `value` BYTES>>", "header-list"),
    )

    with pytest.raises(OptionsError, match="cannot be written together with 'header-list'"):
        sink(table(*columns))


def test_a_format_that_cannot_carry_the_columns_is_refused_when_the_table_is_defined():
    with pytest.raises(OptionsError, match="table 'orders'"):
        scan(with_options({"format": "raw"}))


def test_every_problem_is_reported_with_its_place():
    given = {"connector": "kafka", "format": "jsno", "topik": "orders", "scan.startup.mode": "sometime"}
    places = {"format": "line 3, column 5", "topik": "line 4, column 5", "scan.startup.mode": "line 5, column 5"}
    definition = TableDefinition(
        "orders", (*COLUMNS, metadata("m", "INT", "offsett")), given, Origin("table 'orders'", places)
    )

    with pytest.raises(OptionsError) as error:
        scan(definition)
    lines = str(error.value).splitlines()
    assert len(lines) == 6
    assert (
        "table 'orders': 'topic': one of 'topic' and 'topic-pattern' is required (for example 'topic' = 'orders')"
        in lines
    )
    assert "table 'orders', line 4, column 5: 'topik': unknown option (did you mean 'topic'?)" in lines
    assert any(
        line.startswith("table 'orders', line 3, column 5: 'format': there is no format 'jsno'") for line in lines
    )
    assert any(
        line.startswith("table 'orders', line 5, column 5: 'scan.startup.mode': expected one of") for line in lines
    )
    assert any("'properties.bootstrap.servers': is required" in line for line in lines)
    assert any("column 'm': there is no metadata 'offsett' (did you mean 'offset'?)" in line for line in lines)


REGISTRY = {
    "value.format": "avro-confluent",
    "value.avro-confluent.url": "http://registry:8081",
    "value.avro-confluent.properties.retries.wait.ms": "5",
    "key.format": "avro-confluent",
    "key.avro-confluent.url": "http://registry:8081",
    "key.fields": "user",
}


def test_a_sink_with_one_topic_has_subjects_of_its_own():
    found = sink(with_options(REGISTRY))
    assert (found.value.options.subject, found.key.options.subject) == ("orders-value", "orders-key")
    assert found.value.options.properties == (("retries.wait.ms", "5"),)
    short = sink(with_options({"format": "avro-confluent", "avro-confluent.url": "http://registry:8081"}))
    assert short.value.options.subject == "orders-value"


def test_a_subject_that_is_given_stays():
    given = {"value.avro-confluent.subject": "mine", "key.avro-confluent.schema-registry.subject": "yours"}
    found = sink(with_options(REGISTRY | given))
    assert (found.value.options.subject, found.key.options.subject) == ("mine", "yours")


def test_a_scan_needs_no_subject():
    found = scan(with_options(REGISTRY))
    assert (found.value.options.subject, found.key.options.subject) == (None, None)


@pytest.mark.parametrize("topics", [{"topic": "a;b"}, {"topic": "", "topic-pattern": "a.*"}])
def test_a_sink_of_several_topics_is_told_its_subject(topics):
    columns = (*COLUMNS, metadata("topic", "STRING", "topic"))
    given = {key: each for key, each in (BASE | REGISTRY | topics).items() if each}
    table = TableDefinition("orders", columns, given)
    with pytest.raises(OptionsError) as raised:
        sink(table)
    assert [(each.key, each.reason) for each in raised.value.problems] == [
        ("value.avro-confluent.subject", "is required to write"),
        ("key.avro-confluent.subject", "is required to write"),
    ]
    named = {"value.avro-confluent.subject": "v", "key.avro-confluent.subject": "k"}
    assert sink(TableDefinition("orders", columns, given | named)).value.options.subject == "v"


def test_unknown_options_of_a_format_with_a_map_are_named():
    with pytest.raises(OptionsError, match=r"'value\.avro-confluent\.sujbect': unknown option"):
        sink(with_options(REGISTRY | {"value.avro-confluent.sujbect": "s"}))


@pytest.mark.parametrize(
    ("columns", "options", "keyed"),
    [
        ((), {}, False),
        ((), {"sink.partitioner": "fixed"}, False),
        ((), {"sink.partitioner": "round-robin"}, True),
        ((), {"sink.partitioner": "all-to-zero"}, True),
        ((), {"key.format": "json", "key.fields": "user"}, True),
        ((), {"key.format": "json", "key.fields": "user", "sink.partitioner": "fixed"}, False),
        ((metadata("k", "BYTES", "__raw_key__"),), {}, True),
        ((metadata("k", "BYTES", "__raw_key__"),), {"sink.partitioner": "fixed"}, False),
        ((metadata("v", "BYTES", "__raw_value__"),), {}, False),
    ],
)
@pytest.mark.rule("one writer per partition")
def test_a_sink_is_keyed_when_more_than_the_task_decides_a_row_s_partition(columns, options, keyed):
    assert sink(with_options(options, *COLUMNS, *columns)).keyed is keyed


@pytest.mark.rule("one writer per partition")
def test_dead_letters_are_keyed():
    assert scan(with_options({"scan.dead-letter.topic": "dead"})).dead_letters.keyed


OWN = ["__penstock_progress", "__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"]


@pytest.mark.parametrize("topic", OWN)
@pytest.mark.parametrize("surface", Surface)
def test_topics_of_kafka_s_and_penstock_s_own_are_written_by_no_table(topic, surface):
    options = {"topic": f"out;{topic}", "scan.startup.mode": "earliest-offset"}
    definition = with_options(options, *COLUMNS, metadata("t", "STRING", "topic"), surface=surface)
    with pytest.raises(OptionsError) as raised:
        sink(definition)
    (problem,) = raised.value.problems
    assert (problem.key, problem.where) == ("topic", "table 'orders'")
    assert problem.reason.startswith(f"'{topic}' is an internal topic of Kafka or penstock")
    assert scan(definition).options.topic == ("out", topic)  # reading them is no harm


@pytest.mark.parametrize("topic", OWN)
def test_topics_of_kafka_s_and_penstock_s_own_take_no_dead_letters(topic):
    with pytest.raises(OptionsError, match=rf"'scan\.dead-letter\.topic': '{topic}' is an internal topic of Kafka or"):
        scan(with_options({"scan.dead-letter.topic": topic}))


@pytest.mark.parametrize(
    ("acks", "guarantee", "lost"),
    [
        ("0", "at-least-once", "a record counts as written once it is sent"),
        (" 1 ", "at-least-once", "a record counts as written once its leader has it"),
        ("all", "at-least-once", ""),
        ("-1", "at-least-once", ""),
        ("1", "none", ""),
    ],
)
def test_acks_that_weaken_at_least_once_are_named(acks, guarantee, lost):
    found = sink(with_options({"properties.acks": acks, "sink.delivery-guarantee": guarantee}))
    assert (f"'properties.acks' = '{acks.strip()}' weakens 'at-least-once': {lost}" in found.weakness) is bool(lost)
    assert bool(found.weakness) is bool(lost)
    assert ("note: 'properties.acks'" in found.describe()) is bool(lost)
