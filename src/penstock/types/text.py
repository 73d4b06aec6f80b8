"""Flink SQL type text to logical types: ``DECIMAL(10, 2) NOT NULL``, ``ROW<a INT, b ARRAY<STRING>>``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.errors import Problem, SchemaError
from penstock.types.logical import (
    MAX_LENGTH,
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    Field,
    MapType,
    PrimitiveType,
    RowType,
    StringType,
    TimestampType,
    TimeType,
)

__all__ = ["parse_columns", "parse_type"]

_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<word>[A-Za-z_][\w$]*)|(?P<number>\d+)|(?P<text>'(?:[^']|'')*')|(?P<mark>[<>(),]))"
)

_PRIMITIVES = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INT": "INT",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "DATE": "DATE",
}


def parse_type(text: str) -> DataType:
    """The logical type that ``text`` names. Raises SchemaError naming the position of what is wrong."""
    cursor = _Cursor.over(text)
    found = _type(cursor)
    cursor.expect_end()
    return found


def parse_columns(text: str) -> RowType:
    """Columns as in ``id BIGINT, name STRING``, as a NOT NULL row. Raises SchemaError."""
    cursor = _Cursor.over(text)
    fields = _fields(cursor, closing=None)
    cursor.expect_end()
    duplicates = sorted({field.name for field in fields if sum(other.name == field.name for other in fields) > 1})
    if duplicates:
        raise SchemaError((Problem(f"column declared twice: {', '.join(duplicates)}"),))
    return RowType(fields, nullable=False)


@dataclass
class _Cursor:
    text: str
    tokens: list[tuple[str, str, int]]
    at: int = 0

    @classmethod
    def over(cls, text: str) -> _Cursor:
        tokens, position = [], 0
        while position < len(text.rstrip()):
            match = _TOKEN.match(text, position)
            if match is None or match.lastgroup is None:
                raise _error(text, position, f"unexpected {text[position:].strip()[:1]!r} in a type")
            tokens.append((match.lastgroup, match.group(match.lastgroup), match.start(match.lastgroup)))
            position = match.end()
        return cls(text, tokens)

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, *wanted: str) -> bool:
        """Consume the next tokens when they are these (in any case)."""
        found = [token[1].upper() for token in self.tokens[self.at : self.at + len(wanted)]]
        if found != [word.upper() for word in wanted]:
            return False
        self.at += len(wanted)
        return True

    def next(self, *kinds: str, what: str) -> str:
        if self.at >= len(self.tokens) or self.tokens[self.at][0] not in kinds:
            raise self.error(f"expected {what}")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def expect(self, mark: str) -> None:
        if not self.take(mark):
            raise self.error(f"expected {mark!r}")

    def expect_end(self) -> None:
        if self.at < len(self.tokens):
            raise self.error(f"unexpected {self.peek()!r}")

    def error(self, reason: str) -> SchemaError:
        position = self.tokens[self.at][2] if self.at < len(self.tokens) else len(self.text)
        return _error(self.text, position, reason)


def _error(text: str, position: int, reason: str) -> SchemaError:
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return SchemaError((Problem(f"{reason} in {text.strip()!r}", where=f"line {line}, column {column}"),))


def _type(cursor: _Cursor) -> DataType:
    found = _bare_type(cursor)
    while True:
        if cursor.take("NOT", "NULL"):
            found = found.with_nullability(False)
        elif cursor.take("NULL"):
            found = found.with_nullability(True)
        elif cursor.take("ARRAY"):
            found = ArrayType(found)
        else:
            return found


def _bare_type(cursor: _Cursor) -> DataType:
    name = cursor.next("word", what="a type").upper()
    if name in _PRIMITIVES:
        cursor.take("PRECISION")
        return PrimitiveType(_PRIMITIVES[name])
    if name == "STRING":
        return StringType()
    if name == "BYTES":
        return BinaryType()
    if name in ("CHAR", "VARCHAR", "BINARY", "VARBINARY"):
        return _sized(cursor, name)
    if name in ("DECIMAL", "DEC", "NUMERIC"):
        return _decimal(cursor)
    if name == "TIME":
        precision = _argument(cursor, 0, 0, 9)
        cursor.take("WITHOUT", "TIME", "ZONE")
        return TimeType(precision)
    if name in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        precision = _argument(cursor, 6, 0, 9)
        local = name == "TIMESTAMP_LTZ" or cursor.take("WITH", "LOCAL", "TIME", "ZONE")
        cursor.take("WITHOUT", "TIME", "ZONE")
        return TimestampType(precision, local)
    if name == "ARRAY":
        cursor.expect("<")
        element = _type(cursor)
        cursor.expect(">")
        return ArrayType(element)
    if name == "MAP":
        cursor.expect("<")
        key = _type(cursor)
        cursor.expect(",")
        value = _type(cursor)
        cursor.expect(">")
        return MapType(key, value)
    if name == "MULTISET":
        cursor.expect("<")
        element = _type(cursor)
        cursor.expect(">")
        return MapType(element, PrimitiveType("INT"))
    if name == "ROW":
        closing = "<" if cursor.take("<") else "(" if cursor.take("(") else ""
        if not closing:
            raise cursor.error("expected '<' after ROW")
        end = ">" if closing == "<" else ")"
        fields = _fields(cursor, end)
        cursor.expect(end)
        return RowType(fields)
    cursor.at -= 1
    raise cursor.error(f"unknown type {name}")


def _sized(cursor: _Cursor, name: str) -> DataType:
    fixed = name in ("CHAR", "BINARY")
    length = _argument(cursor, 1 if fixed else MAX_LENGTH, 1, MAX_LENGTH)
    return BinaryType(length, fixed) if "BINARY" in name else StringType(length, fixed)


def _decimal(cursor: _Cursor) -> DecimalType:
    precision, scale = 10, 0
    if cursor.take("("):
        precision = int(cursor.next("number", what="a precision"))
        if cursor.take(","):
            scale = int(cursor.next("number", what="a scale"))
        cursor.expect(")")
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise cursor.error(f"DECIMAL({precision}, {scale}): precision is 1 to 38, scale 0 to precision")
    return DecimalType(precision, scale)


def _argument(cursor: _Cursor, default: int, least: int, most: int) -> int:
    if not cursor.take("("):
        return default
    given = int(cursor.next("number", what="a number"))
    cursor.expect(")")
    if not least <= given <= most:
        raise cursor.error(f"{given} is not between {least} and {most}")
    return given


def _fields(cursor: _Cursor, closing: str | None) -> tuple[Field, ...]:
    fields: list[Field] = []
    if closing is not None and cursor.peek() == closing:
        return ()
    while True:
        name = cursor.next("word", "quoted", what="a column name")
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        data_type = _type(cursor)
        comment = ""
        if cursor.tokens[cursor.at : cursor.at + 1] and cursor.tokens[cursor.at][0] == "text":
            comment = cursor.next("text", what="a comment")[1:-1].replace("''", "'")
        fields.append(Field(name, data_type, comment))
        if not cursor.take(","):
            return tuple(fields)
