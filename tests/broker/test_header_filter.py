"""The header filter's grammar, case by case, on headers as librdkafka writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from penstock.connectors.kafka.source.reader import RangeReader
from tests.scans import enumerator_of

if TYPE_CHECKING:
    from penstock_testing.services import KafkaCluster

HEADERS: list[list[tuple[str, bytes | None]]] = [
    [("depart", b"toy")],  # 0
    [("depart", b"book")],  # 1
    [("depart", b"book"), ("env", b"test")],  # 2
    [],  # 3
    [("depart", b"toy"), ("depart", b"book")],  # 4
    [("depart", None)],  # 5
    [("depart", b"")],  # 6
    [("depart", b"\xfftoy")],  # 7: no UTF-8
    [("Depart", b"Toy")],  # 8
    [("ключ", "значение".encode())],  # 9
    [("url", b"http://x?a=b")],  # 10
    [("depart", b"'toy'")],  # 11
    [("depart", b" toy")],  # 12
    [("depart", b"null"), ("env", b"test")],  # 13
]
EVERY = set(range(len(HEADERS)))


@pytest.fixture(scope="module")
def kept(kafka: KafkaCluster) -> Callable[[str], set[int]]:
    """Which of the records a filter keeps."""
    from confluent_kafka import Producer

    name = "header-filter"
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number, headers in enumerate(HEADERS):
        producer.produce(name, b'{"id": %d}' % number, headers=headers, partition=0)
    assert producer.flush(60) == 0

    def read(text: str) -> set[int]:
        enumerator = enumerator_of(kafka, name, scan_header__filter=text)
        start = enumerator.spec.start
        (ranges,) = enumerator.tasks(start, enumerator.latest(start))
        reader = RangeReader(enumerator.spec, ranges)
        found = [number for rows in reader.rows() for number in rows.column("id").to_pylist()]
        assert reader.report.filtered == len(HEADERS) - len(found)
        return set(found)

    return read


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("depart:toy", {0, 4}),
        ("depart:toy|depart:book", {0, 1, 2, 4}),
        ("depart:toy|depart:book&!env:test", {0, 1, 4}),  # the seed's example
        ("depart:book&env:test", {2}),
        ("!depart:toy", EVERY - {0, 4}),  # also where the header is missing
        ("!depart:toy&!depart:book", EVERY - {0, 1, 2, 4}),
        ("!nothing:x", EVERY),
        ("nothing:x", set()),
        # From left to right: neither operator binds tighter.
        ("env:test|depart:book&depart:toy", {4}),
        ("env:test&depart:book|depart:toy", {0, 2, 4}),
        ("!env:test|env:test&depart:book", {1, 2, 4}),
        # A key that is there twice has both values.
        ("depart:toy&depart:book", {4}),
        ("depart:toy&!depart:book", {0}),
        # No value and an empty one are two things, and neither is a word.
        ("depart:", {6}),
        ("depart:null", {13}),
        # Keys and values are compared as they are: there are no quotes, escapes or patterns.
        ("DEPART:toy", set()),
        ("Depart:Toy", {8}),
        ("depart:'toy'", {11}),
        ("depart:t.y", set()),
        ("depart: toy", {12}),
        ("url:http://x?a=b", {10}),  # the first colon ends the key
        ("ключ:значение", {9}),
        # Blanks around terms are for the eye.
        (" depart:toy | depart:book & !env:test ", {0, 1, 4}),
    ],
)
def test_what_a_filter_keeps(kept: Callable[[str], set[int]], text: str, expected: set[int]) -> None:
    assert kept(text) == expected
