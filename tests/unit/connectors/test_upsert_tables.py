"""From an upsert-kafka table as it was written to what is read and written."""

from __future__ import annotations

import pickle

import pytest

from penstock.connectors.kafka.source.spec import KafkaScanSpec
from penstock.connectors.kafka.table.options import BoundedMode, StartupMode
from penstock.connectors.kafka.upsert.factory import UpsertKafkaConnector
from penstock.connectors.kafka.upsert.options import UpsertKafkaSinkOptions, UpsertKafkaSourceOptions
from penstock.errors import OptionsError
from penstock.spi import CHANGES, Column, ColumnKind, Guarantee, TableDefinition
from penstock.types import BIGINT, BYTES, INT, STRING, RowKind

BASE = {
    "connector": "upsert-kafka",
    "topic": "orders",
    "properties.bootstrap.servers": "localhost:9092",
    "key.format": "json",
    "value.format": "json",
}
COLUMNS = (
    Column("user", BIGINT.with_nullability(False)),
    Column("id", INT.with_nullability(False)),
    Column("v", STRING),
)


def table(
    options: dict[str, str] | None = None, *others: Column, key: tuple[str, ...] = ("id", "user")
) -> TableDefinition:
    """A table with these options besides the required ones; an option that is empty is left out."""
    given = {name: text for name, text in {**BASE, **(options or {})}.items() if text}
    return TableDefinition("t", (*COLUMNS, *others), given, primary_key=key)


def scan(*args, **kwargs) -> KafkaScanSpec:
    return UpsertKafkaConnector().scan(table(*args, **kwargs))


def sink(*args, **kwargs):
    return UpsertKafkaConnector().sink(table(*args, **kwargs))


def problems(make, *args, **kwargs) -> dict[str, str]:
    """What is wrong with a table: an option to the reason and the hint."""
    with pytest.raises(OptionsError) as raised:
        make(*args, **kwargs)
    return {each.key: f"{each.reason} ({each.hint})" for each in raised.value.problems}


both = pytest.mark.parametrize("make", [scan, sink])


@both
def test_the_key_is_the_primary_key_in_its_own_order(make):
    found = make()
    assert found.key_columns == found.upsert_keys == found.capabilities.upsert_keys == ("id", "user")
    assert found.value_columns == ("user", "id", "v")
    assert make({"value.fields-include": "EXCEPT_KEY"}).value_columns == ("v",)
    assert pickle.loads(pickle.dumps(found)) == found


@both
def test_the_prefix_of_the_key_is_the_table_s_and_not_the_message_s(make):
    columns = (Column("k_id", BIGINT.with_nullability(False)), Column("id", STRING))
    options = {**BASE, "key.fields-prefix": "k_", "value.fields-include": "EXCEPT_KEY"}
    connector = UpsertKafkaConnector()
    found = (connector.scan if make is scan else connector.sink)(
        TableDefinition("t", columns, options, primary_key=("k_id",))
    )
    assert (found.key_schema.names, found.value_schema.names) == (("id",), ("id",))


def test_reading_starts_at_the_beginning_and_gives_upserts():
    found = scan({"scan.bounded.mode": "latest-offset", "scan.parallelism": "2"})
    assert found.options.startup_mode is StartupMode.EARLIEST
    assert found.options.bounded_mode is BoundedMode.LATEST
    assert found.capabilities.kinds == {RowKind.UPDATE_AFTER, RowKind.DELETE}
    assert found.capabilities.bounded


def test_a_sink_takes_every_change_and_has_the_guarantees_of_kafka():
    assert sink().capabilities.kinds == CHANGES
    assert sink().guarantee is Guarantee.AT_LEAST_ONCE
    exact = {"sink.delivery-guarantee": "exactly-once"}
    assert "is required" in problems(sink, exact)["sink.transactional-id-prefix"]
    found = sink({**exact, "sink.transactional-id-prefix": "tx"})
    assert (found.guarantee, found.capabilities.transactional_id_prefix) == (Guarantee.EXACTLY_ONCE, "tx")


def test_a_table_has_a_scan_s_and_a_sink_s_options_at_once():
    options = {
        "scan.bounded.mode": "latest-offset",
        "sink.buffer-flush.max-rows": "10",
        "sink.buffer-flush.interval": "1 s",
        "sink.parallelism": "2",
        "sink.transaction-naming-strategy": "pooling",
        "scan.topic-partition-discovery.interval": "1 min",
        "key.json.ignore-parse-errors": "true",
        "value.json.ignore-parse-errors": "true",
        "properties.group.id": "g",
    }
    assert scan(options).group_id == "g"
    assert sink(options).buffer_rows == 10
    assert "the last change of 10 keys" in sink(options).describe()


# --- refused -------------------------------------------------------------------------------------------------


@both
def test_a_table_without_a_primary_key_is_refused(make):
    assert problems(make, key=()).keys() == {"PRIMARY KEY"}
    assert "columns are a message's key" in problems(make, key=())["PRIMARY KEY"]


@both
def test_every_required_option_that_is_missing_is_named(make):
    required = ("properties.bootstrap.servers", "key.format", "value.format")
    assert problems(make, dict.fromkeys(required, "")).keys() == set(required)
    assert "one of 'topic' and 'topic-pattern'" in problems(make, {"topic": ""})["topic"]


@both
@pytest.mark.parametrize(
    ("key", "text", "hint"),
    [
        ("format", "json", "write 'value.format'"),
        ("key.fields", "id", "columns of PRIMARY KEY"),
        ("scan.startup.mode", "latest-offset", "read from the beginning"),
        ("scan.startup.timestamp-millis", "1", "read from the beginning"),
        ("scan.startup.specific-offsets", "partition:0,offset:1", "read from the beginning"),
        ("sink.partitioner", "fixed", "follows from its key"),
        ("sink.semantic", "none", "write 'sink.delivery-guarantee'"),
        ("scan.header-filter", "a:b", "would not replace or delete its row"),
        ("value.fields-prefix", "v_", "write 'key.fields-prefix'"),
    ],
)
def test_options_that_only_kafka_has_are_refused_with_what_to_do(make, key, text, hint):
    (found,) = problems(make, {key: text}).items()
    assert found[0] == key
    assert "'upsert-kafka' does not have this option" in found[1]
    assert hint in found[1]


@both
@pytest.mark.parametrize("option", ["key.format", "value.format"])
@pytest.mark.parametrize("name", ["debezium-json", "canal-json", "maxwell-json", "ogg-json"])
def test_formats_of_changes_are_refused(make, option, name):
    (found,) = problems(make, {option: name}).items()
    assert found[0] == option
    assert f"does not take '{name}'" in found[1]


@pytest.mark.parametrize(
    ("rows", "interval", "wrong"),
    [
        ("2", "0 s", "sink.buffer-flush.interval"),
        ("2", "", "sink.buffer-flush.interval"),
        ("0", "1 s", "sink.buffer-flush.max-rows"),
        ("", "1 s", "sink.buffer-flush.max-rows"),
        ("2", "1 s", None),
        ("-1", "0 s", None),
        ("", "", None),
    ],
)
def test_changes_are_held_back_with_both_options_or_none(rows, interval, wrong):
    options = {"sink.buffer-flush.max-rows": rows, "sink.buffer-flush.interval": interval}
    if wrong is None:
        assert sink(options).buffer_rows == (int(rows) if interval == "1 s" else 0)
    else:
        assert problems(sink, options).keys() == {wrong}


@both
def test_a_key_column_of_metadata_and_one_without_the_prefix_are_refused(make):
    at = Column("at", BIGINT.with_nullability(False), ColumnKind.METADATA, "offset", virtual=True)
    assert "not a physical column" in problems(make, {}, at, key=("at",))["PRIMARY KEY"]
    prefixed = {"key.fields-prefix": "i", "value.fields-include": "EXCEPT_KEY"}
    assert "'user' does not begin with 'i'" in problems(make, prefixed)["PRIMARY KEY"]
    assert "EXCEPT_KEY" in problems(make, {"key.fields-prefix": "i"})["key.fields-prefix"]


def test_the_bytes_of_a_message_are_read_and_not_written():
    column = Column("raw", BYTES, ColumnKind.METADATA, "__raw_value__")
    assert scan({}, column).metadata[0].key == "__raw_value__"
    with pytest.raises(OptionsError, match="column 'raw': metadata '__raw_value__' cannot be written"):
        sink({}, column)


def test_bounds_are_checked_as_those_of_kafka():
    assert problems(scan, {"scan.bounded.mode": "timestamp"}).keys() == {"scan.bounded.mode"}
    assert problems(scan, {"scan.bounded.mode": "specific-offsets"}).keys() == {"scan.bounded.mode"}


def test_the_shared_options_are_those_of_kafka():
    """Whatever kafka's table has and upsert-kafka's has not is refused above."""
    from penstock.connectors.kafka.table.options import KafkaSinkOptions, KafkaSourceOptions

    absent = {"key.fields", "value.fields-prefix"}
    started = {f"scan.startup.{each}" for each in ("mode", "specific-offsets", "timestamp-millis")}
    for ours, theirs, lacking in (
        (UpsertKafkaSourceOptions, KafkaSourceOptions, absent | started | {"scan.header-filter"}),
        (UpsertKafkaSinkOptions, KafkaSinkOptions, absent | {"sink.partitioner"}),
    ):
        own, known = ({each.key for each in options.declared_options().values()} for options in (ours, theirs))
        assert known - own == lacking
        assert {each for each in own - known if not each.startswith("sink.buffer-flush.")} == set()
