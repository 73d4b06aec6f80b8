"""What the programs read and write, and how their results are compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent
RECORDED = PROGRAMS.parent / "recorded" / "streams.json"
#: The timestamp of the first record of each topic; each has one a second later than the one before.
FIRST = 1_700_000_000_000
#: Timestamps from here on are those of the clock.
_CLOCK = 1_750_000_000_000


@dataclass(frozen=True)
class Given:
    """A record to be read. All of them have a header."""

    value: bytes
    key: bytes | None = None
    partition: int = 0


def texts(*values: str, partition: int = 0) -> list[Given]:
    """Records without keys."""
    return [Given(each.encode(), partition=partition) for each in values]


def documents(*values: Any) -> list[Given]:
    """Records of JSON."""
    return texts(*(json.dumps(each) for each in values))


@dataclass(frozen=True)
class Case:
    """A program: the records of the topics that it reads, and the partitions of those that it writes, where there are
    several. ``scattered``: values of different sources, or instances, may come in any order."""

    name: str
    given: Mapping[str, Sequence[Given]]
    made: Sequence[str]
    partitions: Mapping[str, int] = field(default_factory=dict)
    scattered: bool = False


LINES = texts("to be, or not to be", "that is the question", "", "The end.")
DEBEZIUM = [
    {"payload": {"before": None, "after": {"id": 1, "people": 90, "area": 9}, "op": "c"}},
    {"payload": {"before": None, "after": {"id": 2, "people": 1000, "area": 30}, "op": "c"}},
    {"payload": {"before": {"id": 1, "people": 90, "area": 9}, "after": None, "op": "d"}},
    {"payload": {"after": {"id": 1, "people": 90, "area": 12.5, "name": "Köln"}, "op": "u"}},
]
VALUES = {
    "b": True,
    "t": 7,
    "s": -300,
    "i": 70_000,
    "l": 5_000_000_000,
    "f": 1.5,
    "d": 0.1,
    "n": 12.5,
    "x": "é\U0001f600",
    "day": "2026-01-02",
    "time": "03:04:05Z",
    "at": "2026-01-02T03:04:05.678Z",
    "list": [1, 2],
    "map": {"a": 1.5},
    "row": {"p": 1, "q": "z"},
}

CASES = (
    Case("copied", {"in": [Given(b"a", b"k"), *texts("b", "", "ü\U0001f600")]}, ["out"]),
    Case("mapped", {"in": texts("to be", "or not")}, ["out"]),
    Case("words", {"in": LINES}, ["out"]),
    Case(
        "json_rows",
        {
            "in": documents(
                {"id": 1, "item": "pen", "price": 1.25, "paid": True},
                {"id": 2, "item": "ink", "price": 3, "paid": False, "extra": [1]},
                {"id": 3, "price": 1e10},
                {"item": None, "price": None, "paid": None},
            )
        },
        ["out"],
    ),
    Case("python_values", {"in": documents(VALUES, dict.fromkeys(VALUES))}, ["seen", "out"]),
    Case("csv_rows", {"in": texts("1;a;1.5", '2;"b;|c";2', "3;-;-", '4;say ""hi"";0.25')}, ["out"]),
    Case("avro_rows", {"in": texts("Ann 30 1.7", "- 4 0.99"), "people": []}, ["people", "out"]),
    Case("keyed_records", {"in": texts(*(f"u{n % 5} {n}" for n in range(20)))}, ["out"], {"out": 3}),
    Case("chosen_topics", {"in": texts("short", "longer", "", "longest of all")}, ["long", "short"]),
    Case("timestamps", {"in": texts("ab", "", "c")}, ["out"]),
    Case("assigned_timestamps", {"in": texts("5 a", "3 b", "90000 c")}, ["later"]),
    Case("side_outputs", {"in": texts("1", "x", "20000", "word", "-3")}, ["numbers", "wrong", "long"]),
    Case(
        "united", {"a": texts("a1", "ax"), "b": texts("b1", "b2"), "c": texts("c1", "c2", "x")}, ["out"], scattered=True
    ),
    Case(
        "connected",
        {"texts": texts("a", "b"), "numbers": texts("0", "2", "3")},
        ["map", "flat_map", "process"],
        scattered=True,
    ),
    Case("exactly_once", {"in": texts("a", "b", "c")}, ["out"]),
    Case("collections", {}, ["rows", "texts", "pairs"]),
    Case("untyped", {"in": documents({"id": 1, "b": [1, None]}, {"x": 1}, {"id": {"a": 1.5}, "z": True})}, ["out"]),
    Case(
        "patterns",
        {"in-1": texts("one"), "in-2": texts("two", "three"), "in-x": texts("x"), "not-in-1": texts("n")},
        ["out"],
        scattered=True,
    ),
    Case(
        "partitions",
        {"in": [*texts("a", "b", "c", "d"), *texts("p", "q", "r", "s", "t", partition=1)]},
        ["since", "between"],
        {"in": 2},
    ),
    Case(
        "distributed",
        {"in": texts("a", "bb", "c", "dd", "eee")},
        ["rebalance", "rescale", "shuffle", "broadcast", "custom"],
        scattered=True,
    ),
    Case("opened", {"in": texts("one", "three", "two")}, ["out"]),
    Case("explained", {"a": texts("a"), "b": texts("b")}, []),
    Case("collected", {"in": texts("1", "2", "3", "4")}, ["out"]),
    Case("charsets", {"in": [Given("größe".encode("latin-1")), Given(b"plain")]}, ["latin", "utf"]),
    Case(
        "like_validation",
        {
            "in": texts(
                '{"plant": "p", "metric": "m", "value": 1}',
                "{",
                "[1]",
                '{"plant": "p", "value": 1}',
                '{"plant": "q", "metric": "n", "value": "1"}',
                '{"plant": "q", "metric": "n", "value": -2.5}',
            )
        },
        ["valid", "invalid"],
    ),
    Case("like_change_data", {"in": documents(*DEBEZIUM)}, ["out"]),
    Case(
        "like_log_parsing",
        {
            "in": texts(
                '10.0.0.1 [02/Jan/2026:03:04:05] "GET /a?x=1" 200 512',
                '10.0.0.2 [02/Jan/2026:03:04:06] "POST /ü" 404 -',
                "nonsense",
            )
        },
        ["parsed", "errors"],
    ),
    Case(
        "like_messages",
        {
            "in": documents(
                {"id": 1, "latitude": 45.4, "longitude": 11.87, "tags": ["museum"]},
                {"id": 2, "latitude": 45.38, "longitude": 11.85, "tags": None},
            )
        },
        ["out"],
    ),
    Case(
        "like_flights",
        {
            "sky": documents({"email": "a@b", "departs": "09:00", "from": "MUC", "price": 99.5}),
            "sun": documents({"mail": None, "departure": "x"}, {"mail": "c@d", "departure": "10:00", "airport": "HAM"}),
        },
        ["all"],
        scattered=True,
    ),
    Case(
        "like_typed_topics",
        {
            "readings": [
                *documents({"sensor": "r1-2", "values": [1, 2.5]}, {"sensor": "r2-0", "values": []}),
                *texts("no JSON"),
                *documents({"sensor": "r3-1", "values": [4]}),
            ]
        },
        ["averages"],
    ),
)


def shown(content: bytes | None) -> Any:
    """Bytes as JSON holds them."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"hex": content.hex()}


def result(messages: Sequence[Any], prefix: str, *, placed: bool) -> list[dict[str, Any]]:
    """The records of a topic as they are recorded; without the partition where there is only one."""
    found = []
    for each in messages:
        stamp = each.timestamp if each.timestamp < _CLOCK else "the clock's"
        value = shown(each.value)
        record = {
            "key": shown(each.key),
            "value": value.replace(prefix, "") if isinstance(value, str) else value,
            "headers": [[name, shown(content)] for name, content in each.headers],
            "timestamp": stamp,
        }
        found.append({**record, "partition": each.partition} if placed else record)
    return found


def by_key(records: Sequence[dict[str, Any]], *, scattered: bool) -> dict[str, list[str]]:
    """The records of each key, in order, or sorted where no order is promised."""
    found: dict[str, list[str]] = {}
    for each in records:
        found.setdefault(json.dumps(each["key"]), []).append(json.dumps(each, sort_keys=True))
    return {key: sorted(lines) for key, lines in found.items()} if scattered else found
