"""Flink SQL type text to logical types: ``DECIMAL(10, 2) NOT NULL``, ``ROW<a INT, b ARRAY<STRING>>``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.errors import Problem, SchemaError, nearest
from penstock.types.logical import (
    INT,
    MAX_LENGTH,
    MAX_PRECISION,
    PRIMITIVES,
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    Field,
    MapType,
    RowType,
    StringType,
    TimestampType,
    TimeType,
)

_TOKEN = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<word>[A-Za-z_][\w$]*)|(?P<number>\d+)|'(?P<text>(?:[^']|'')*)'"
    r"|(?P<mark><>|[<>(),]))"
)

_PRIMITIVES = PRIMITIVES | {"INTEGER": INT}
#: All names of types, the first words of those that have several.
_NAMES = (
    *_PRIMITIVES,
    *("STRING", "BYTES", "CHAR", "CHARACTER", "VARCHAR", "BINARY", "VARBINARY", "DECIMAL", "DEC", "NUMERIC"),
    *("TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "ARRAY", "MAP", "MULTISET", "ROW"),
)
#: Types of Flink that columns cannot have here, and what to declare instead.
_REFUSED = {
    "INTERVAL": "declare BIGINT for milliseconds or INT for months, and compute with INTERVAL '1' DAY in expressions",
    "RAW": "declare BYTES: classes of Java are not loaded",
    "STRUCTURED": "declare ROW<..>: classes of Java are not loaded",
    "TIMESTAMP WITH TIME ZONE": "declare TIMESTAMP_LTZ: a moment, shown in the job's time zone",
    "VARIANT": "declare STRING, and take its parts with JSON_VALUE and JSON_QUERY",
}


@dataclass(frozen=True)
class TypeToken:
    """A token of a type. ``kind`` is word, quoted, number, text or mark; ``text`` has no quotes; ``at`` is its
    offset."""

    kind: str
    text: str
    at: int


def parse_type(text: str) -> DataType:
    """The logical type that ``text`` names. Raises SchemaError with the position of the first problem."""
    reader = _make_reader(text)
    found = reader.type()
    reader.expect_end()
    return found


def parse_columns(text: str) -> RowType:
    """Columns as in ``id BIGINT, name STRING``, as a NOT NULL row. Raises SchemaError."""
    reader = _make_reader(text)
    fields = reader.fields()
    reader.expect_end()
    duplicates = sorted({field.name for field in fields if sum(other.name == field.name for other in fields) > 1})
    if duplicates:
        raise SchemaError((Problem(f"column declared twice: {', '.join(duplicates)}"),))
    return RowType(fields, nullable=False)


def _make_reader(text: str) -> TypeReader:
    def error(at: int, reason: str, hint: str = "") -> SchemaError:
        line = text.count("\n", 0, at) + 1
        where = f"line {line}, column {at - text.rfind(chr(10), 0, at)}"
        return SchemaError((Problem(f"{reason} in {text.strip()!r}", where=where, hint=hint),))

    tokens, position = [], 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise error(position, f"unexpected {text[position:].strip()[:1]!r} in a type")
        quote = {"quoted": "`", "text": "'"}.get(match.lastgroup, "")
        plain = match[match.lastgroup].replace(quote * 2, quote) if quote else match[match.lastgroup]
        tokens.append(TypeToken(match.lastgroup, plain, match.start(match.lastgroup) - len(quote)))
        position = match.end()
    return TypeReader(tokens, error, len(text))


class TypeReader:
    """Reads types from tokens, and leaves the tokens after a type.

    ``error`` makes the exception for an offset, a reason and a hint, which may be empty. ``position`` is the index of
    the next token.
    """

    def __init__(
        self, tokens: Sequence[TypeToken], error: Callable[[int, str, str], Exception], end: int, position: int = 0
    ):
        self.position = position
        self._tokens = tokens
        self._error = error
        self._end = end

    def type(self, *, nullability: bool = True) -> DataType:
        """One type. ``nullability``: whether NOT NULL and NULL belong to it."""
        found = self._read_bare_type()
        while True:
            if nullability and self._take("NOT", "NULL"):
                found = found.with_nullability(False)
            elif nullability and self._take("NULL"):
                found = found.with_nullability(True)
            elif self._take("ARRAY"):
                found = ArrayType(found)
            else:
                return found

    def fields(self) -> tuple[Field, ...]:
        """One or more columns with commas between them."""
        found = [self._read_field()]
        while self._take(","):
            found.append(self._read_field())
        return tuple(found)

    def expect_end(self) -> None:
        """Raises an error unless every token was read."""
        if self.position < len(self._tokens):
            raise self._make_error(f"unexpected {self._tokens[self.position].text!r}")

    # --- tokens ---------------------------------------------------------------------------------------------

    def _sees(self, *kinds: str) -> bool:
        return self.position < len(self._tokens) and self._tokens[self.position].kind in kinds

    def _take(self, *wanted: str) -> bool:
        """Read the next tokens if they are these words or marks, in upper or lower case."""
        ahead = self._tokens[self.position : self.position + len(wanted)]
        if [each.text.upper() for each in ahead if each.kind in ("word", "mark")] != list(wanted):
            return False
        self.position += len(wanted)
        return True

    def _read_next(self, *kinds: str, expected: str) -> str:
        if not self._sees(*kinds):
            raise self._make_error(f"expected {expected}")
        self.position += 1
        return self._tokens[self.position - 1].text

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise self._make_error(f"expected {mark!r}")

    def _read_number(self, expected: str) -> int:
        text = self._read_next("number", expected=expected)
        if not text.isdecimal():
            self.position -= 1
            raise self._make_error(f"expected {expected}")
        return int(text)

    def _make_error(self, reason: str, hint: str = "") -> Exception:
        at = self._tokens[self.position].at if self.position < len(self._tokens) else self._end
        return self._error(at, reason, hint)

    # --- types ----------------------------------------------------------------------------------------------

    def _read_bare_type(self) -> DataType:
        name = self._read_next("word", expected="a type").upper()
        if name in _PRIMITIVES:
            if name == "DOUBLE":
                self._take("PRECISION")
            return _PRIMITIVES[name]
        if name in _REFUSED:
            raise self._unsupported_error(name)
        match name:
            case "STRING":
                return StringType()
            case "BYTES":
                return BinaryType()
            case "CHAR" | "CHARACTER" | "BINARY":
                root = "BINARY" if name == "BINARY" else "CHAR"
                return self._read_sized(f"VAR{root}" if self._take("VARYING") else root)
            case "VARCHAR" | "VARBINARY":
                return self._read_sized(name)
            case "DECIMAL" | "DEC" | "NUMERIC":
                return self._read_decimal()
            case "TIME":
                precision = self._read_argument(0, 0, 9)
                self._take("WITHOUT", "TIME", "ZONE")
                return TimeType(precision)
            case "TIMESTAMP" | "TIMESTAMP_LTZ":
                at = self.position - 1
                precision = self._read_argument(6, 0, 9)
                if self._take("WITH", "TIME", "ZONE"):
                    self.position = at + 1
                    raise self._unsupported_error("TIMESTAMP WITH TIME ZONE")
                local = name == "TIMESTAMP_LTZ" or self._take("WITH", "LOCAL", "TIME", "ZONE")
                self._take("WITHOUT", "TIME", "ZONE")
                return TimestampType(precision, local)
            case "ARRAY":
                return ArrayType(self._read_elements(1)[0])
            case "MAP":
                key, value = self._read_elements(2)
                return MapType(key, value)
            case "MULTISET":
                return MapType(self._read_elements(1)[0], INT, multiset=True)
            case "ROW":
                return self._read_row()
        self.position -= 1
        raise self._make_error(f"unknown type {name}", nearest(name, _NAMES))

    def _unsupported_error(self, name: str) -> Exception:
        """The error for a type of Flink that was just read, and that columns cannot have."""
        self.position -= 1
        return self._make_error(f"type {name} is not supported", _REFUSED[name])

    def _read_elements(self, count: int) -> list[DataType]:
        """The types between angle brackets."""
        self._expect("<")
        found = [self.type()]
        while len(found) < count:
            self._expect(",")
            found.append(self.type())
        self._expect(">")
        return found

    def _read_row(self) -> RowType:
        if self._take("<>"):
            return RowType(())
        closing = ">" if self._take("<") else ")" if self._take("(") else ""
        if not closing:
            raise self._make_error("expected '<' after ROW")
        if self._take(closing):
            return RowType(())
        fields = self.fields()
        self._expect(closing)
        return RowType(fields)

    def _read_field(self) -> Field:
        name = self._read_next("word", "quoted", expected="a column name")
        data_type = self.type()
        comment = self._read_next("text", expected="a comment") if self._sees("text") else ""
        return Field(name, data_type, comment)

    def _read_sized(self, name: str) -> DataType:
        fixed = name in ("CHAR", "BINARY")
        length = self._read_argument(1 if fixed else MAX_LENGTH, 1, MAX_LENGTH)
        return BinaryType(length, fixed) if "BINARY" in name else StringType(length, fixed)

    def _read_decimal(self) -> DecimalType:
        precision, scale = 10, 0
        if self._take("("):
            precision = self._read_number("a precision")
            if self._take(","):
                scale = self._read_number("a scale")
            self._expect(")")
        if not (1 <= precision <= MAX_PRECISION and 0 <= scale <= precision):
            raise self._make_error(f"DECIMAL({precision}, {scale}): precision is 1 to 38, scale 0 to precision")
        return DecimalType(precision, scale)

    def _read_argument(self, default: int, least: int, most: int) -> int:
        if not self._take("("):
            return default
        given = self._read_number("a number")
        self._expect(")")
        if not least <= given <= most:
            raise self._make_error(f"{given} is not between {least} and {most}")
        return given
