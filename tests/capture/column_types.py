"""The types of columns of a random workload: values, how SQL writes them, and how they are read from text."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any

__all__ = ["MOOD", "MOODS", "TYPES", "ColumnType", "literal", "make_text"]

_WORDS = (
    "",
    "null",
    "NULL",
    "\\N",
    "a 'quoted' one",
    'a "double" one',
    "línea\nnueva",
    "日本語 🎈",
    "back\\slash\ttab",
)
#: An enum of the database, and its values.
MOOD, MOODS = "shop.mood", ("sad", "ok", "happy")
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class ColumnType:
    """A type of PostgreSQL. ``make`` draws a value, ``read`` makes one of a text, of this type or of one that it was
    widened to. ``wider``: what ALTER COLUMN .. TYPE may make of it."""

    name: str
    make: Callable[[Random], Any]
    read: Callable[[str], Any]
    wider: tuple[str, ...] = ()


def make_text(random: Random, most: int = 4000) -> str:
    """A text, seldom so long that PostgreSQL keeps it apart from its row."""
    found = random.random()
    if found < 0.3:
        return random.choice(_WORDS)[:most]
    if found < 0.33:
        return random.randbytes(1500).hex()[:most]
    return f"word {random.randrange(10**6)}"[:most]


def _make_json(random: Random) -> Any:
    return random.choice([
        {"a": random.randrange(100), "b": [1, None, "x"]},
        [make_text(random, 20), random.random() < 0.5],
        {},
        {"nested": {"é": make_text(random, 20)}},
    ])  # fmt: skip


def _make_double(random: Random) -> float:
    if random.random() < 0.02:
        return random.choice([float("nan"), float("inf"), float("-inf")])
    return random.choice([random.uniform(-1, 1), random.uniform(-1, 1) * 10.0 ** random.randint(-30, 30), 0.0, 2.0])


def _make_moment(random: Random, digits: int) -> datetime:
    micros = random.randrange(-(2 * 10**15), 4 * 10**15)
    return _EPOCH + timedelta(microseconds=micros - micros % 10 ** (6 - digits))


def _make_uuid(random: Random) -> str:
    digits = random.randbytes(16).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _read_boolean(text: str) -> bool:
    return {"t": True, "true": True, "f": False, "false": False}[text]


def _read_date(text: str) -> date:
    found = _read_moment(text) if len(text) > 11 else datetime.fromisoformat(text.removesuffix("Z"))
    if found.time() != time():
        raise ValueError(f"{text} is not a date")
    return found.date()


def _read_moment(text: str) -> datetime:
    """A timestamp in UTC, with or without saying so."""
    found = datetime.fromisoformat(text.replace("Z", "+00:00") if text.endswith("Z") else text)
    return found if found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None)


def _read_bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:]) if text.startswith("\\x") else base64.b64decode(text, validate=True)


def _make_numbers(random: Random) -> list[int | None]:
    return [random.choice([None, random.randrange(-100, 100)]) for _ in range(random.randrange(4))]


def _read_numbers(text: str) -> Any:
    """An array of numbers, as PostgreSQL and as JSON write it."""
    return json.loads(text.replace("{", "[").replace("}", "]").replace("NULL", "null"))


def _read_bits(text: str) -> str:
    """Four bits, or the byte that has them; Debezium writes no byte for zero."""
    if len(text) == 4 and {*text} <= {"0", "1"}:
        return text
    return f"{int.from_bytes(_read_bytes(text), 'little'):04b}"


def _read_time(text: str) -> time:
    return time.fromisoformat(text.removesuffix("Z"))


#: The types by name. Floating-point numbers of 32 bits are those that decimal digits write exactly.
TYPES = {
    each.name: each
    for each in (
        ColumnType("smallint", lambda random: random.randrange(-(2**15), 2**15), int, ("integer", "bigint", "text")),
        ColumnType("integer", lambda random: random.randrange(-(2**31), 2**31), int, ("bigint", "numeric", "text")),
        ColumnType("bigint", lambda random: random.randrange(-(2**63), 2**63), int, ("numeric", "text")),
        ColumnType(
            "numeric(10,2)",
            lambda random: Decimal(random.randrange(-(10**10) + 1, 10**10)).scaleb(-2),
            Decimal,
            ("numeric(14,4)", "numeric"),
        ),
        ColumnType(
            "numeric(14,4)",
            lambda random: Decimal(random.randrange(-(10**14) + 1, 10**14)).scaleb(-4),
            Decimal,
            ("numeric", "text"),
        ),
        ColumnType(
            "numeric",
            lambda random: Decimal(random.randrange(-(10**25), 10**25)).scaleb(-random.randrange(20)),
            Decimal,
            ("text",),
        ),
        ColumnType("real", lambda random: random.randrange(-(10**5), 10**5) / 8, float, ("double precision",)),
        ColumnType("double precision", _make_double, float),
        ColumnType("text", make_text, str),
        ColumnType("varchar(20)", lambda random: make_text(random, 20), str, ("varchar(40)", "text")),
        ColumnType("varchar(40)", lambda random: make_text(random, 40), str, ("text",)),
        ColumnType("boolean", lambda random: random.random() < 0.5, _read_boolean),
        ColumnType("date", lambda random: _make_moment(random, 0).date(), _read_date, ("timestamp",)),
        ColumnType("timestamp", lambda random: _make_moment(random, random.choice([0, 3, 6])), _read_moment),
        ColumnType("timestamp(3)", lambda random: _make_moment(random, 3), _read_moment, ("timestamp",)),
        ColumnType("timestamptz", lambda random: _make_moment(random, random.choice([0, 6])), _read_moment),
        ColumnType("time", lambda random: _make_moment(random, random.choice([0, 6])).time(), _read_time),
        ColumnType("json", _make_json, json.loads, ()),
        ColumnType("jsonb", _make_json, json.loads, ()),
        ColumnType("uuid", _make_uuid, str),
        ColumnType(
            "numeric(40,10)",
            lambda random: Decimal(random.randrange(-(10**40) + 1, 10**40)).scaleb(-10),
            Decimal,
            ("numeric",),
        ),
        ColumnType(MOOD, lambda random: random.choice(MOODS), str, ("text",)),
        ColumnType("integer[]", _make_numbers, _read_numbers),
        ColumnType("bit(4)", lambda random: f"{random.randrange(16):04b}", _read_bits),
        ColumnType("bytea", lambda random: random.randbytes(random.randrange(20)), _read_bytes),
    )
}


def literal(value: Any, name: str) -> str:
    """A value in SQL."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case bytes():
            text = f"\\x{value.hex()}"
        case list() if name == "integer[]":
            text = "{" + ",".join("NULL" if each is None else str(each) for each in value) + "}"
        case dict() | list():
            text = json.dumps(value, ensure_ascii=False)
        case float():
            text = repr(value)
        case datetime():
            text = value.isoformat(sep=" ") + ("Z" if name == "timestamptz" else "")
        case _:
            text = str(value)
    return "'" + text.replace("'", "''") + f"'::{name}"
