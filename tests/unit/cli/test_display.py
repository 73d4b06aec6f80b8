"""Tables, durations and partitions as the command line writes them."""

from __future__ import annotations

import pytest

from penstock.cli.display import count, format_moment, format_span, format_table
from penstock.cli.txn import _format_partitions


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_999, "1 s"),
        (60_000, "1 min"),
        (123_456, "2 min 3 s"),
        (3_600_000, "1 h"),
        (3_605_000, "1 h"),
        (7_260_000, "2 h 1 min"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_durations(ms: int, text: str) -> None:
    assert format_span(ms) == text


def test_moments_and_numbers() -> None:
    assert format_moment(1_700_000_000_000) == "2023-11-14 22:13:20 UTC"
    assert format_moment(-1) == "an unknown time"
    assert [count(number, "record") for number in (0, 1, 2)] == ["0 records", "1 record", "2 records"]


def test_columns_are_as_wide_as_they_need_be() -> None:
    assert format_table(("A", "LONG"), [("wide cell", "x"), ("", "y")]) == "A          LONG\nwide cell  x\n           y"
    assert format_table(("A", "B"), []) == "A  B"


def test_partitions_are_ranges_per_topic() -> None:
    places = [("b", 0), ("a", 5), ("a", 0), ("a", 2), ("a", 1), ("a", 10)]
    assert _format_partitions(places) == "a 0-2, 5, 10; b 0"
    assert _format_partitions([]) == ""
