"""Every consumer property that acts, acts: each test fails where the property does nothing.

Tests of some are elsewhere: ``group.id`` and ``auto.offset.reset`` in test_bounds.py, ``isolation.level`` in
test_enumerator.py, those that all clients have in test_producer_properties.py, and ``enable.auto.commit`` with its
interval, which need a job, in tests/spark/test_jobs.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka.protocol.consumer import FetchRequest

from penstock.connectors.kafka.source.reader import RangeReader
from penstock.connectors.kafka.source.starts_and_stops import resolve_start
from penstock.errors import KafkaError
from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import Session, session_for
from tests.scans import enumerator_of, scan_of, write

if TYPE_CHECKING:
    from penstock_testing.services import KafkaCluster
    from tests.conftest import TopicFactory


def fetched(kafka: KafkaCluster, topic: str, records: int, **properties: str) -> tuple[list[int], list[Any]]:
    """The sizes of the answers' parts when ``topic`` is read, and the requests."""
    given = {name.replace("_", "."): value for name, value in properties.items()}
    session = Session(ClientConfig.from_properties({**kafka.client_settings(), **given}))
    asked, send = [], session.send

    def noted(request: Any, node: Any) -> Any:
        if isinstance(request, FetchRequest):
            asked.append(request)
        return send(request, node)

    session.send = noted  # type: ignore[method-assign]
    try:
        sizes = [chunk.records.nbytes for chunk in Fetcher(session, [Range(topic, 0, 0, records)])]
    finally:
        session.close()
    return sizes, asked


@pytest.mark.parametrize("name", ["fetch_max_bytes", "max_partition_fetch_bytes"])
def test_what_one_answer_may_hold(kafka: KafkaCluster, topic: TopicFactory, name: str) -> None:
    """A batch that is larger comes all the same, alone."""
    topic_name = topic()
    for _ in range(5):
        write(kafka, topic_name, 1)  # a batch of its own
    (all_together,), _ = fetched(kafka, topic_name, 5)
    one_by_one, _ = fetched(kafka, topic_name, 5, **{name: "1"})
    assert len(one_by_one) == 5
    assert sum(one_by_one) == all_together


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("fetch_min_bytes", "7", "min_bytes", 7),
        ("fetch_max_wait_ms", "123", "max_wait_ms", 123),
        ("client_rack", "r2", "rack_id", "r2"),
        ("isolation_level", "read_committed", "isolation_level", 1),
    ],
)
def test_what_the_broker_is_asked_for(
    kafka: KafkaCluster, topic: TopicFactory, name: str, value: str, field: str, expected: object
) -> None:
    topic_name = topic()
    write(kafka, topic_name, 1)
    _, plainly = fetched(kafka, topic_name, 1)
    _, asked = fetched(kafka, topic_name, 1, **{name: value})
    assert {getattr(request, field) for request in asked} == {expected}
    assert expected not in {getattr(request, field) for request in plainly}


@pytest.mark.slow
def test_a_byte_that_changed_on_the_brokers_disk_is_noticed_unless_nobody_looks(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic()
    write(kafka, name, 5)
    (log,) = (Path(kafka.data) / "node-1" / f"{name}-0").glob("*.log")
    with log.open("r+b") as file:
        file.seek(log.read_bytes().index(b'{"id": 3}') + len(b'{"id": '))
        file.write(b"8")

    def read(**options: str) -> list[int]:
        enumerator = enumerator_of(kafka, name, **options)
        (ranges,) = enumerator.tasks(enumerator.spec.start, enumerator.latest(enumerator.spec.start))
        return [
            number for rows in RangeReader(enumerator.spec, ranges).rows() for number in rows.column("id").to_pylist()
        ]

    with pytest.raises(KafkaError, match=f"topic '{name}', partition 0.*(checksum|CRC)"):
        read()
    assert read(properties_check_crcs="false") == [0, 1, 2, 8, 4]


@pytest.mark.parametrize("allowed", ["true", "false"])
def test_reading_a_topic_never_creates_it(kafka: KafkaCluster, topic: TopicFactory, allowed: str) -> None:
    """As in Flink, whose source asks for topics as an administrator would."""
    name = f"no-{topic()}"
    scan = scan_of(kafka, name, properties_allow_auto_create_topics=allowed, scan_startup_mode="earliest-offset")
    session = session_for(scan.client_config)
    with pytest.raises(KafkaError, match=f"topic '{name}' does not exist"):
        resolve_start(session, scan)
    assert name not in session.all_topics()


def test_the_prefix_of_flinks_client_ids_is_the_client_id(kafka: KafkaCluster) -> None:
    assert scan_of(kafka, "t", properties_client_id_prefix="accounts").client_config.client_id == "accounts"
    both = scan_of(kafka, "t", properties_client_id_prefix="accounts", properties_client_id="payroll")
    assert both.client_config.client_id == "payroll"
