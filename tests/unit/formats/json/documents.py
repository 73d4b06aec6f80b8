"""Schemas, documents for them and broken documents, made from a source of randomness: for tests that hold the compiled
loops against the exact paths."""

from __future__ import annotations

import base64
import string
from collections.abc import Callable
from random import Random

from penstock.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    ArrayType,
    DataType,
    DecimalType,
    Field,
    MapType,
    RowType,
    TimestampType,
    TimeType,
)

__all__ = ["broken", "document", "schema"]

_NAMES = [
    "a",
    "b",
    "id",
    "name",
    "größe",
    "before",
    "after",
    "a rather long name",
    "x1",
    "x2",
    "A",
    "longest name of all",
]
_WORDS = ["", "a", "é", "€uro", "😀", "plain text", "no escape in here", "\t", " ", "tab\\tand\\nline", "\\u00e9",
          '\\"quoted\\"', "\\\\", "\\/", "\\ud83d\\ude00", "\\ud800", "12", " 1.5 ", "true", "x" * 40]  # fmt: skip
_BLANKS = [" ", "\n", "\t", "\r\n", "  "]
_NUMBERS = ["0", "-0", "7", "-12", "127", "-129", "32768", "1.5", "-0.0", "1e3", "2.50", "1e400", "16777217",
            "9223372036854775807", "9223372036854775808", "123456789012345678901234567890.123", "0.1e-5"]  # fmt: skip


def schema(random: Random, depth: int = 4) -> RowType:
    """A row of up to five columns, nested to ``depth`` at most."""
    names = random.sample(_NAMES, random.randint(1, 5))
    return RowType(tuple(Field(name, _type(random, depth - 1)) for name in names))


def _type(random: Random, depth: int) -> DataType:
    nullable = random.random() < 0.8
    if depth > 0 and random.random() < 0.5:
        nested = random.choice([_array, _map, schema, schema])
        return nested(random, depth).with_nullability(nullable)
    simple = [BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, STRING, BYTES, DATE, _decimal(random),
              TimeType(random.randint(0, 3)), TimestampType(3), TimestampType(6, local_zone=True)]  # fmt: skip
    return random.choice(simple).with_nullability(nullable)


def _array(random: Random, depth: int) -> DataType:
    return ArrayType(_type(random, depth - 1))


def _map(random: Random, depth: int) -> DataType:
    return MapType(STRING.with_nullability(False), _type(random, depth - 1))


def _decimal(random: Random) -> DecimalType:
    precision = random.randint(1, 38)
    return DecimalType(precision, random.randint(0, precision))


def document(random: Random, row: RowType, wild: float = 0.0) -> str:
    """An object for ``row``; at each place, with the probability ``wild``, something that is not for that place."""
    return _Writer(random, wild).row(row)


class _Writer:
    def __init__(self, random: Random, wild: float):
        self.random, self.wild = random, wild
        self.blank = 0.1 if random.random() < 0.5 else 0.0

    def _sometimes(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    def _joined(self, opening: str, parts: list[str], closing: str) -> str:
        pieces = [opening]
        for index, part in enumerate(parts):
            pieces += [",", part] if index else [part]
        pieces.append(closing)
        return "".join(piece + self._gap() for piece in pieces[:-1]) + closing

    def _gap(self) -> str:
        return self.random.choice(_BLANKS) if self._sometimes(self.blank) else ""

    def row(self, row: RowType) -> str:
        fields = [each for each in row.fields if not self._sometimes(0.15)]
        if self._sometimes(0.2):
            self.random.shuffle(fields)
        pairs = [self._pair(each.name, self.value(each.type)) for each in fields]
        if self._sometimes(0.2):
            pairs.insert(self.random.randint(0, len(pairs)), self._pair(self._name(), self.anything()))
        if fields and self._sometimes(self.wild):
            again = self.random.choice(fields)
            pairs.insert(self.random.randint(0, len(pairs)), self._pair(again.name, self.value(again.type)))
        return self._joined("{", pairs, "}")

    def _pair(self, name: str, value: str) -> str:
        if self._sometimes(self.wild / 4):
            name = "".join(f"\\u{ord(each):04x}" if each < "\u8000" else each for each in name)
        return f'"{name}"{self._gap()}:{self._gap()}{value}'

    def _name(self) -> str:
        return self.random.choice([*_NAMES, "unknown", "", "source", "\\u0061", "x"])

    def value(self, kind: DataType) -> str:
        if self._sometimes(0.1):
            return "null"
        if self._sometimes(self.wild):
            return self.anything()
        match kind:
            case RowType():
                return self.row(kind)
            case ArrayType(element=element):
                return self._joined("[", [self.value(element) for _ in range(self._few())], "]")
            case MapType(value=value):
                keys = [self.random.choice([*_NAMES, *_WORDS]) for _ in range(self._few())]
                if not self._sometimes(self.wild):
                    keys = list(dict.fromkeys(keys))
                return self._joined("{", [self._pair(key, self.value(value)) for key in keys], "}")
        return self.scalar(kind)

    def _few(self) -> int:
        return self.random.choice([0, 1, 2, 3, 3, 12])

    def scalar(self, kind: DataType) -> str:
        random = self.random
        name = kind.with_nullability(True).text().partition("(")[0]
        makers: dict[str, Callable[[], str]] = {
            "BOOLEAN": lambda: random.choice(["true", "false"]),
            "TINYINT": lambda: str(random.randint(-128, 127)),
            "SMALLINT": lambda: str(random.randint(-32768, 32767)),
            "INT": lambda: str(random.randint(-(2**31), 2**31 - 1)),
            "BIGINT": lambda: str(random.randint(-(2**63), 2**63 - 1) >> random.randint(0, 60)),
            "FLOAT": lambda: str(random.randint(-(10**6), 10**6) / 64),
            "DOUBLE": lambda: repr(random.uniform(-1, 1) * 10.0 ** random.randint(-20, 20)),
            "STRING": lambda: f'"{random.choice(_WORDS)}"',
            "BYTES": lambda: f'"{base64.b64encode(random.randbytes(random.randint(0, 9))).decode()}"',
            "DATE": lambda: f'"{self._date()}"',
            "TIME": lambda: f'"{self._time()}"',
            "TIMESTAMP": lambda: f'"{self._date()} {self._time()}"',
            "TIMESTAMP_LTZ": lambda: f'"{self._date()} {self._time()}Z"',
        }
        if isinstance(kind, DecimalType):
            number = random.randint(-(10**kind.precision), 10**kind.precision) // 10 ** random.randint(
                0, kind.precision
            )
            return f"{number}e-{kind.scale}" if self._sometimes(0.2) else f"{number}"
        text = makers[name]()
        return f'"{text}"' if text[0] not in '"tf' and self._sometimes(0.1) else text

    def _date(self) -> str:
        return f"{self.random.randint(1, 9999):04d}-{self.random.randint(1, 12):02d}-{self.random.randint(1, 28):02d}"

    def _time(self) -> str:
        random = self.random
        fraction = random.choice(["", "", ".5", ".123", ".123456", ".987654321"])
        return f"{random.randint(0, 23):02d}:{random.randint(0, 59):02d}:{random.randint(0, 59):02d}{fraction}"

    def anything(self, depth: int = 3) -> str:
        """Any JSON value, and some that are none."""
        random = self.random
        match random.randint(0, 9 if depth else 5):
            case 0 | 1:
                return random.choice(_NUMBERS)
            case 2:
                return random.choice(["true", "false", "null", "null", "nul", "NaN", "01", "1.", "-"])
            case 3 | 4 | 5:
                return f'"{random.choice(_WORDS)}"'
            case 6 | 7:
                return self._joined("[", [self.anything(depth - 1) for _ in range(random.randint(0, 3))], "]")
        pairs = [self._pair(self._name(), self.anything(depth - 1)) for _ in range(random.randint(0, 3))]
        return self._joined("{", pairs, "}")


def broken(random: Random, text: bytes) -> bytes:
    """The same with one or two things done to its bytes."""
    for _ in range(random.choice([1, 1, 2])):
        at = random.randint(0, len(text))
        match random.randint(0, 6):
            case 0:
                text = text[:at]
            case 1:
                text = text[:at] + random.randbytes(1) + text[at + 1 :]
            case 2:
                text = text[:at] + random.choice(string.printable).encode() + text[at + 1 :]
            case 3:
                text = text[:at] + random.choice([b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\xc3"]) + text[at:]
            case 4:
                text = text[:at] + text[at + random.randint(1, 6) :]
            case 5:
                to = random.randint(0, len(text))
                text = text[: max(at, to)] + text[min(at, to) :]
            case _:
                text = text[:at] + random.choice([b"null", b"1", b'"a"', b"[]", b"{}", b"\0"]) + text[at:]
    return text
