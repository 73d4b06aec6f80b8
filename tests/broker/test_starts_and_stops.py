"""Where a scan starts and stops, on a real broker."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.common import SimpleStringSchema
from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.source.positions import Position, Positions
from penstock.connectors.kafka.source.spec import KafkaScanSpec
from penstock.connectors.kafka.source.starts_and_stops import (
    is_beyond_end,
    list_present_ends,
    resolve_start,
    resolve_stop,
)
from penstock.connectors.kafka.upsert.factory import UpsertKafkaConnector
from penstock.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaTopicPartition,
    OffsetAndTimestamp,
)
from penstock.errors import ExecutionError, KafkaError, PossibleDataLossError
from penstock.kafka.offsets import CommittedOffset, commit_offsets
from penstock.kafka.session import Session, session_for
from penstock.spi import Column, TableDefinition
from penstock.types import BIGINT
from tests.scans import delete_below, scan_of, write

#: The record at offset n of every partition was written at this time plus n seconds.
BEGAN = 1_600_000_000_000


def built(kafka: Any, name: str, *, start: Any = None, stop: Any = None, group: str = "") -> KafkaScanSpec:
    """The same from the Python builder."""
    builder = KafkaSource.builder().set_bootstrap_servers(kafka.bootstrap).set_topics(name)
    builder.set_value_only_deserializer(SimpleStringSchema())
    if group:
        builder.set_group_id(group)
    if start is not None:
        builder.set_starting_offsets(start)
    if stop is not None:
        builder.set_bounded(stop)
    return KafkaConnector().scan(builder.build().table("s"))


def session_of(scan: KafkaScanSpec) -> Session:
    return session_for(scan.client_config)


def starts(scan: KafkaScanSpec, start_time: int | None = None) -> list[int]:
    """Start offsets in the order of partitions."""
    found = resolve_start(session_of(scan), scan, start_time)
    return [found.at[place].offset for place in found.partitions()]


def stops(scan: KafkaScanSpec) -> list[int]:
    start = resolve_start(session_of(scan), scan)
    found = resolve_stop(session_of(scan), scan, start)
    assert found is not None
    return [found.at[place].offset for place in found.partitions()]


def commit(kafka: Any, name: str, group: str, *offsets: int) -> None:
    committed = {(name, partition): CommittedOffset(at) for partition, at in enumerate(offsets)}
    commit_offsets(session_of(scan_of(kafka, name)), group, committed)


@pytest.fixture
def filled(kafka, topic):
    """A topic of three partitions with 10, 4 and no records."""
    name = topic(3)
    write(kafka, name, 10, began=BEGAN)
    write(kafka, name, 4, 1, began=BEGAN)
    return name


# --- starts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"scan_startup_mode": "earliest-offset"}, [0, 0, 0]),
        ({"scan_startup_mode": "latest-offset"}, [10, 4, 0]),
        ({"scan_startup_mode": "timestamp", "scan_startup_timestamp__millis": str(BEGAN + 2001)}, [3, 3, 0]),
        ({"scan_startup_mode": "timestamp", "scan_startup_timestamp__millis": str(BEGAN + 9000)}, [9, 4, 0]),
        ({"scan_startup_mode": "timestamp", "scan_startup_timestamp__millis": "0"}, [0, 0, 0]),
        (
            {
                "scan_startup_mode": "specific-offsets",
                "scan_startup_specific__offsets": "partition:0,offset:7;partition:1,offset:4;partition:2,offset:0",
            },
            [7, 4, 0],
        ),
    ],
    ids=["earliest", "latest", "between two records", "the last record", "before all", "specific"],
)
def test_every_start_mode_places_every_partition(kafka, filled, options, expected):
    assert starts(scan_of(kafka, filled, **options)) == expected


def test_group_offsets_are_the_default_and_missing_ones_follow_the_reset_property(kafka, filled):
    group = f"group-{filled}"
    commit(kafka, filled, group, 6, 2)

    assert starts(scan_of(kafka, filled, properties_group_id=group, properties_auto_offset_reset="earliest")) == [
        6,
        2,
        0,
    ]
    write(kafka, filled, 3, 2, began=BEGAN)
    assert starts(scan_of(kafka, filled, properties_group_id=group, properties_auto_offset_reset="latest")) == [6, 2, 3]
    with pytest.raises(KafkaError, match=rf"group '{group}' has no committed offset for topic '{filled}', partition 2"):
        starts(scan_of(kafka, filled, properties_group_id=group))


def test_an_epoch_that_no_broker_knows_of_does_not_keep_a_group_from_reading(kafka, filled):
    """As when the topic was deleted and created again, and a consumer of the former one committed after that."""
    group, warned = f"group-{filled}", []
    scan = scan_of(kafka, filled, properties_group_id=group, properties_auto_offset_reset="earliest")
    foreign = {
        (filled, 0): CommittedOffset(6, 40),
        (filled, 1): CommittedOffset(2, 0),
        (filled, 2): CommittedOffset(9, 4),
    }
    commit_offsets(session_of(scan), group, foreign)
    found = resolve_start(session_of(scan), scan, warn=warned.append)
    assert [(at.offset, at.epoch) for at in found.at.values()] == [(6, -1), (2, 0), (0, 0)]
    assert [text.partition(":")[0] for text in warned] == [f"topic '{filled}', partition {each}" for each in (0, 2)]
    assert "was committed in leader epoch 40, which no broker knows" in warned[0]


def test_specific_offsets_leave_the_rest_to_the_group_and_then_to_the_reset_property(kafka, filled):
    group = f"group-{filled}"
    commit(kafka, filled, group, 1, 2)
    options = {
        "scan_startup_mode": "specific-offsets",
        "scan_startup_specific__offsets": "partition:0,offset:8",
        "properties_group_id": group,
        "properties_auto_offset_reset": "latest",
    }
    assert starts(scan_of(kafka, filled, **options)) == [8, 2, 0]


def test_specific_offsets_need_no_group(kafka, filled):
    offsets = {KafkaTopicPartition(filled, 0): 8}
    earliest = KafkaOffsetsInitializer.offsets(offsets)
    latest = KafkaOffsetsInitializer.offsets(offsets, KafkaOffsetResetStrategy.LATEST)
    strict = KafkaOffsetsInitializer.offsets(offsets, KafkaOffsetResetStrategy.NONE)

    assert starts(built(kafka, filled, start=earliest)) == [8, 0, 0]
    assert starts(built(kafka, filled, start=latest)) == [8, 4, 0]
    with pytest.raises(KafkaError, match=r"partition 1, and 'properties.auto.offset.reset' is not set"):
        starts(built(kafka, filled, start=strict))


def test_a_start_that_the_log_does_not_have_follows_the_reset_property_or_fails(kafka, kafka_admin, filled):
    delete_below(kafka_admin, filled, 5)
    options = {
        "scan_startup_mode": "specific-offsets",
        "scan_startup_specific__offsets": "partition:0,offset:2;partition:1,offset:99;partition:2,offset:0",
    }
    assert starts(scan_of(kafka, filled, **options, properties_auto_offset_reset="earliest")) == [5, 0, 0]
    assert starts(scan_of(kafka, filled, **options, properties_auto_offset_reset="latest")) == [10, 4, 0]
    with pytest.raises(PossibleDataLossError, match=r"partition 0 should be read from offset 2, but its log has 5 to"):
        starts(scan_of(kafka, filled, **options))


def test_a_partition_that_does_not_exist_is_named(kafka, filled):
    options = {"scan_startup_mode": "specific-offsets", "scan_startup_specific__offsets": "partition:7,offset:2"}
    with pytest.raises(KafkaError, match=f"names partition 7 of topic '{filled}', which does not exist"):
        starts(scan_of(kafka, filled, **options))


def test_the_start_time_wins_over_the_start_option_and_the_group(kafka, filled):
    group = f"group-{filled}"
    commit(kafka, filled, group, 1, 1, 0)
    for mode in ("group-offsets", "earliest-offset", "latest-offset"):
        scan = scan_of(kafka, filled, properties_group_id=group, scan_startup_mode=mode)
        assert starts(scan, BEGAN + 4000) == [4, 4, 0]


def test_a_table_that_upserts_is_read_from_its_beginning_whatever_the_start_time(kafka, filled):
    given = {"topic": filled, "properties.bootstrap.servers": kafka.bootstrap, "key.format": "json"}
    columns = (Column("id", BIGINT.with_nullability(False)),)
    definition = TableDefinition("t", columns, {**given, "value.format": "json"}, primary_key=("id",))
    scan, told = UpsertKafkaConnector().scan(definition), list[str]()
    for start_time, warnings in ((None, 0), (BEGAN + 4000, 1)):
        found = resolve_start(session_of(scan), scan, start_time, warn=told.append)
        assert [each.offset for each in found.at.values()] == [0, 0, 0]
        assert len(told) == warnings
    assert "--start-time has no effect" in told[0]


@pytest.mark.parametrize(
    ("initializer", "expected"),
    [
        (KafkaOffsetsInitializer.earliest(), [0, 0, 0]),
        (KafkaOffsetsInitializer.latest(), [10, 4, 0]),
        (KafkaOffsetsInitializer.timestamp(BEGAN + 2000), [2, 2, 0]),
        (KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST), [6, 0, 0]),
        (KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.LATEST), [6, 4, 0]),
        (None, [0, 0, 0]),
    ],
    ids=["earliest", "latest", "timestamp", "committed or earliest", "committed or latest", "none given"],
)
def test_every_initializer_of_the_builder_starts_where_it_says(kafka, filled, initializer, expected):
    group = f"group-{filled}"
    commit(kafka, filled, group, 6)
    assert starts(built(kafka, filled, start=initializer, group=group)) == expected


def former(kafka: Any, name: str, **properties: str) -> FlinkKafkaConsumer:
    """The consumer of the former API, of group g."""
    given = {"bootstrap.servers": kafka.bootstrap, "group.id": f"g-{name}"}
    given |= {key.replace("_", "."): value for key, value in properties.items()}
    return FlinkKafkaConsumer(name, SimpleStringSchema(), given)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (lambda consumer, name: consumer, [6, 4, 0]),
        (lambda consumer, name: consumer.set_start_from_earliest().set_start_from_group_offsets(), [6, 4, 0]),
        (lambda consumer, name: consumer.set_start_from_earliest(), [0, 0, 0]),
        (lambda consumer, name: consumer.set_start_from_latest(), [10, 4, 0]),
        (lambda consumer, name: consumer.set_start_from_timestamp(BEGAN + 2001), [3, 3, 0]),
        (
            lambda consumer, name: consumer.set_start_from_specific_offsets({KafkaTopicPartition(name, 1): 2}),
            [6, 2, 0],
        ),
    ],
    ids=["unsaid", "group offsets", "earliest", "latest", "timestamp", "specific offsets"],
)
def test_the_former_consumer_starts_where_it_says_and_else_at_the_groups_offsets(kafka, filled, start, expected):
    commit(kafka, filled, f"g-{filled}", 6)
    consumer = start(former(kafka, filled), filled)
    # Without a committed offset: where auto.offset.reset says, which is the latest unless it is set.
    assert starts(KafkaConnector().scan(consumer.table("s"))) == expected


def test_the_former_consumer_follows_the_reset_property_for_what_has_no_committed_offset(kafka, filled):
    commit(kafka, filled, f"g-{filled}", 6)
    for reset, expected in (("earliest", [6, 0, 0]), ("latest", [6, 4, 0])):
        consumer = former(kafka, filled, auto_offset_reset=reset)
        assert starts(KafkaConnector().scan(consumer.table("s"))) == expected
        consumer.set_start_from_specific_offsets({KafkaTopicPartition(filled, 2): 0})
        assert starts(KafkaConnector().scan(consumer.table("s"))) == expected
    with pytest.raises(KafkaError, match=r"auto\.offset\.reset"):
        starts(KafkaConnector().scan(former(kafka, filled, auto_offset_reset="none").table("s")))


def test_committed_offsets_without_a_strategy_fail_where_there_are_none(kafka, filled):
    scan = built(kafka, filled, start=KafkaOffsetsInitializer.committed_offsets(), group=f"group-{filled}")
    with pytest.raises(KafkaError, match="no committed offset"):
        starts(scan)


# --- an initializer of one's own ------------------------------------------------------------------------------


class Own:
    """Gives what its function gives, and keeps what it was asked."""

    def __init__(self, choose, strategy=KafkaOffsetResetStrategy.NONE):
        self.choose = choose
        self.strategy = strategy
        self.asked = []

    def get_partition_offsets(self, partitions, partition_offsets_retriever):
        self.asked.append(tuple(partitions))
        return self.choose(partitions, partition_offsets_retriever)

    def get_auto_offset_reset_strategy(self):
        return self.strategy


def test_an_initializer_of_ones_own_is_asked_once_for_all_partitions(kafka, filled):
    own = Own(
        lambda partitions, _: {each: 1 for each in partitions if each.partition < 2}, KafkaOffsetResetStrategy.LATEST
    )
    assert starts(built(kafka, filled, start=own)) == [1, 1, 0]
    assert own.asked == [tuple(KafkaTopicPartition(filled, partition) for partition in range(3))]


def test_an_initializer_of_ones_own_may_ask_the_cluster(kafka, filled):
    group, answers = f"group-{filled}", {}
    commit(kafka, filled, group, 6)

    def choose(partitions, retriever):
        answers["committed"] = retriever.committed_offsets(partitions)
        answers["begin"] = retriever.beginning_offsets(partitions)
        answers["end"] = retriever.end_offsets(partitions)
        times = {each: BEGAN + 1000 * (2 + each.partition) for each in partitions}
        answers["times"] = retriever.offsets_for_times(times)
        return answers["end"]

    assert starts(built(kafka, filled, start=Own(choose), group=group)) == [10, 4, 0]
    first, second, third = (KafkaTopicPartition(filled, partition) for partition in range(3))
    assert answers == {
        "committed": {first: 6},
        "begin": {first: 0, second: 0, third: 0},
        "end": {first: 10, second: 4, third: 0},
        "times": {
            first: OffsetAndTimestamp(2, BEGAN + 2000, 0),
            second: OffsetAndTimestamp(3, BEGAN + 3000, 0),
            third: None,
        },
    }


def test_an_initializer_of_ones_own_follows_its_strategy_where_it_gives_nothing_that_is_there(kafka, filled):
    def far(partitions, _):
        return {partitions[0]: 99}

    assert starts(built(kafka, filled, start=Own(far, KafkaOffsetResetStrategy.EARLIEST))) == [0, 0, 0]
    with pytest.raises(KafkaError, match=f"no offset was chosen for topic '{filled}', partition 1"):
        starts(built(kafka, filled, start=Own(far)))


@pytest.mark.parametrize("offset", [-2, "5", None])
def test_an_initializer_of_ones_own_that_chooses_no_offset_is_told_so(kafka, filled, offset):
    own = Own(lambda partitions, _: dict.fromkeys(partitions, offset))
    with pytest.raises(ExecutionError, match=rf"initializer Own chose {offset!r} for topic '{filled}', partition 0"):
        starts(built(kafka, filled, start=own))


def test_an_initializer_of_ones_own_that_fails_is_named(kafka, filled):
    with pytest.raises(ExecutionError, match=r"table 's': the offsets initializer Own failed: ZeroDivisionError"):
        starts(built(kafka, filled, start=Own(lambda *_: 1 / 0)))


def test_a_time_before_1970_is_no_question_for_the_end_of_the_log(kafka, filled):
    own = Own(lambda partitions, retriever: retriever.offsets_for_times(dict.fromkeys(partitions, -1)))
    with pytest.raises(ExecutionError, match="expected milliseconds since 1970, not -1"):
        starts(built(kafka, filled, start=own))


def test_an_initializer_of_ones_own_may_choose_the_stop(kafka, filled):
    def half(partitions, retriever):
        return {each: at // 2 for each, at in retriever.end_offsets(partitions).items()}

    assert stops(built(kafka, filled, stop=Own(half))) == [5, 2, 0]
    with pytest.raises(ExecutionError, match="returns no offset for topic"):
        stops(built(kafka, filled, stop=Own(lambda *_: {})))


# --- stops ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"scan_bounded_mode": "latest-offset"}, [10, 4, 0]),
        ({"scan_bounded_mode": "group-offsets"}, [6, 2, 0]),
        ({"scan_bounded_mode": "timestamp", "scan_bounded_timestamp__millis": str(BEGAN + 5000)}, [5, 4, 0]),
        ({"scan_bounded_mode": "timestamp", "scan_bounded_timestamp__millis": "0"}, [2, 2, 0]),
        (
            {
                "scan_bounded_mode": "specific-offsets",
                "scan_bounded_specific__offsets": "partition:0,offset:7;partition:1,offset:1",
            },
            [7, 2, 0],
        ),
    ],
    ids=["latest", "group", "timestamp", "before the start", "specific"],
)
def test_every_bounded_mode_stops_every_partition_and_never_before_its_start(kafka, filled, options, expected):
    group = f"group-{filled}"
    commit(kafka, filled, group, 6, 1, 0)
    options |= {
        "scan_startup_mode": "specific-offsets",
        "scan_startup_specific__offsets": "partition:0,offset:2;partition:1,offset:2;partition:2,offset:0",
        "properties_group_id": group,
    }
    assert stops(scan_of(kafka, filled, **options)) == expected


def test_partitions_without_a_specific_stop_have_the_group_s_and_are_not_read_without_one(kafka, filled):
    """As Flink's SpecifiedOffsetsInitializer has it, whose reset strategy is earliest there."""
    group = f"group-{filled}"
    options = {
        "scan_startup_mode": "earliest-offset",
        "scan_bounded_mode": "specific-offsets",
        "scan_bounded_specific__offsets": "partition:0,offset:7",
        "properties_group_id": group,
    }
    assert stops(scan_of(kafka, filled, **options)) == [7, 0, 0]
    commit(kafka, filled, group, 9, 3)
    assert stops(scan_of(kafka, filled, **options)) == [7, 3, 0]
    # A builder's source may have no group at all.
    specific = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(filled, 0): 7})
    assert stops(built(kafka, filled, stop=specific)) == [7, 0, 0]
    assert stops(built(kafka, filled, stop=specific, group=group)) == [7, 3, 0]


@pytest.mark.parametrize("strategy", KafkaOffsetResetStrategy)
def test_group_offsets_as_stops_need_one_for_every_partition(kafka, filled, strategy):
    """As in Flink, whatever the strategy of the initializer: a reader that does not know its stop would never end."""
    group = f"group-{filled}"
    commit(kafka, filled, group, 6, 1)
    expected = rf"group '{group}' has no committed offset for topic '{filled}', partition 2, to stop at"
    with pytest.raises(KafkaError, match=expected):
        stops(
            scan_of(
                kafka,
                filled,
                properties_group_id=group,
                properties_auto_offset_reset=strategy.name.lower(),
                scan_startup_mode="earliest-offset",
                scan_bounded_mode="group-offsets",
            )
        )
    committed = KafkaOffsetsInitializer.committed_offsets(strategy)
    with pytest.raises(KafkaError, match=expected):
        stops(built(kafka, filled, stop=committed, group=group))
    commit(kafka, filled, group, 6, 1, 0)
    assert stops(built(kafka, filled, stop=committed, group=group)) == [6, 1, 0]


def test_a_stop_behind_the_end_of_the_log_is_known_as_one_to_wait_for(kafka, filled):
    scan = scan_of(kafka, filled)
    session = session_of(scan)
    inside = Positions({(filled, 0): Position(10), (filled, 2): Position(0)})
    outside = Positions({(filled, 0): Position(10), (filled, 2): Position(1)})

    gone = Positions({(f"not-{filled}", 0): Position(10)})
    assert not is_beyond_end(inside, list_present_ends(session, inside))
    assert is_beyond_end(outside, list_present_ends(session, outside))
    assert not is_beyond_end(gone, list_present_ends(session, gone))


# --- partitions -----------------------------------------------------------------------------------------------


def test_only_the_partitions_that_were_named_are_read(kafka, filled):
    scan = scan_of(kafka, filled, scan_startup_mode="latest-offset", scan_partitions="partition:1;partition:2")
    assert resolve_start(session_of(scan), scan).partitions() == ((filled, 1), (filled, 2))


def test_a_partition_to_read_that_does_not_exist_is_named(kafka, filled):
    scan = scan_of(kafka, filled, scan_startup_mode="latest-offset", scan_partitions="partition:1;partition:3")
    with pytest.raises(KafkaError, match=f"'scan.partitions' names partition 3 of topic '{filled}', which does not"):
        starts(scan)
