"""Each format with its second decoder."""

from __future__ import annotations

import csv
import io
import random
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from fastavro.validation import validate

from penstock.errors import RecordError
from penstock.formats.csv.exact import ExactReader as CsvReader
from penstock.formats.csv.options import CsvOptions
from penstock.formats.json.exact import ExactReader as JsonReader
from penstock.formats.json.options import JsonOptions, TimestampStandard
from penstock.formats.raw.options import Endianness, RawOptions
from penstock.formats.refusals import FieldError, Malformed
from penstock.options import OptionSet
from penstock.spi import Decoded, formats
from penstock.types import ArrayType, DataType, MapType, RowType, arrow_schema, parse_columns
from tests.fuzz.values import plain, rows_of

__all__ = ["SUBJECTS", "Answer", "Subject"]

#: What a decoder makes of one message: its rows, or None when it refuses it.
Answer = list[tuple[Any, ...]] | None

_SCALARS = (
    "b BOOLEAN, t TINYINT, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(10, 2), s STRING, y BYTES, da DATE, "
    "ti TIME(3), ts TIMESTAMP(3), tz TIMESTAMP_LTZ(3)"
)
_NESTED = (
    "id BIGINT, r ROW<a INT, s STRING, q ROW<d DOUBLE, a ARRAY<STRING>>>, a ARRAY<INT>, m MAP<STRING, BIGINT>, "
    "ar ARRAY<ROW<x INT, y STRING>>, w DECIMAL(30, 4)"
)


@dataclass(frozen=True)
class Subject:
    """One format with one schema and options. ``second`` answers for one message; ``same`` tells whether the format's
    answer is the right one where the second decoder gives another."""

    format: str
    schema: RowType
    options: OptionSet
    tokens: tuple[bytes, ...]
    second: Callable[[bytes], Answer]
    same: Callable[[bytes, Answer, Answer], bool] = lambda message, ours, theirs: ours == theirs

    def good(self, rng: random.Random) -> list[bytes]:
        """Messages as the format writes them."""
        found: list[bytes] = []
        encoder = formats.get(self.format).encoder(self.schema, self.options)
        while len(found) < 50:
            rows = rows_of(rng, self.schema, 10)
            try:
                found += [message for message in encoder.encode(rows).to_pylist() if message]
            except RecordError:  # a row that this format cannot hold
                continue
        return found

    def answers(self, messages: Sequence[bytes]) -> list[Answer]:
        """The format's own answer to each of the messages."""
        decoder = formats.get(self.format).decoder(self.schema, self.options)
        return _answers(decoder.decode(pa.array(messages, pa.binary())), len(messages))


def _answers(decoded: Decoded, count: int) -> list[Answer]:
    decoded.rows.validate(full=True)
    found: list[Answer] = [[] for _ in range(count)]
    for bad in decoded.bad:
        found[bad.index] = None
    origin = range(decoded.rows.num_rows) if decoded.origin is None else decoded.origin.tolist()
    for index, row in zip(origin, _tuples(decoded.rows), strict=True):
        answer = found[index]
        assert answer is not None, "a message was refused and gave a row"
        answer.append(row)
    return found


def _tuples(rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return list(zip(*(plain(column) for column in rows.columns), strict=True))


def _as_columns(schema: RowType, rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows of Python values as the columns have them."""
    arrow = arrow_schema(schema)
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in arrow]
    return _tuples(pa.RecordBatch.from_arrays(columns, schema=arrow))


# --- json ----------------------------------------------------------------------------------------------------


def _json(rng: random.Random) -> Subject:
    schema = parse_columns(rng.choice((_SCALARS, _NESTED)))
    options = JsonOptions(
        ignore_parse_errors=rng.random() < 0.3,
        timestamp_standard=rng.choice(list(TimestampStandard)),
        json_parser=rng.random() < 0.7,
    )
    if not options.ignore_parse_errors and rng.random() < 0.2:
        options = JsonOptions(fail_on_missing_field=True, json_parser=options.json_parser)
    reader = JsonReader(schema, options)

    def second(message: bytes) -> Answer:
        if not message:
            return []
        try:
            return _as_columns(schema, reader.rows(message))
        except (Malformed, FieldError):
            return None

    names = tuple(f'"{name}":'.encode() for name in schema.names)
    return Subject("json", schema, options, (*_JSON, *names), second)


_JSON = tuple(
    b'{ } [ ] , : "" " \\ \\u0041 \\ud83d\\ude00 \\ud800 null true false 0 -1 1e5 1.50 1e400 9223372036854775808 [] {} '
    b'"2024-02-30" "12:00:00" "2024-01-01 00:00:00.5" "2024-01-01T00:00:00Z" NaN \t \xef\xbb\xbf'.split(b" ")
)


# --- csv -----------------------------------------------------------------------------------------------------


def _csv(rng: random.Random) -> Subject:
    schema = parse_columns(rng.choice((_SCALARS, "i INT, s STRING, a ARRAY<INT>, r ROW<x INT, y STRING>, d DOUBLE")))
    options = CsvOptions(
        ignore_parse_errors=rng.random() < 0.3,
        allow_comments=rng.random() < 0.2,
        null_literal=rng.choice((None, None, "nul", "")),
        empty_string_as_null=rng.random() < 0.3,
        escape_character=rng.choice((None, None, "\\")),
        ignore_trailing_unmappable=rng.random() < 0.2,
    )
    reader = CsvReader(schema, options)

    def second(message: bytes) -> Answer:
        try:
            found = reader.row(message)
        except (Malformed, FieldError):
            return None
        _check_cells(message, schema, options, found)
        return _as_columns(schema, [found])

    return Subject("csv", schema, options, (b",", b'"', b'""', b"\\", b"\n", b"#", b";", b" ", b"nul", b"\xff"), second)


_REGULAR = re.compile(r'(?:"(?:[^"]|"")*"|[^",\r\n\s][^",\r\n]*|)(?:,(?:"(?:[^"]|"")*"|[^",\r\n\s][^",\r\n]*|))*')


def _check_cells(message: bytes, schema: RowType, options: CsvOptions, found: Mapping[str, Any]) -> None:
    """Where Python's csv module and Jackson read a line alike, the cells are those of the csv module."""
    text = message.decode("utf-8", "replace")
    if options.escape_character or text.startswith("#") or not _REGULAR.fullmatch(text):
        return
    cells = next(csv.reader([text], strict=True), [""])
    for field, cell in zip(schema.fields, cells, strict=False):
        if field.name == "s" and cell and cell != options.null_literal:
            assert found["s"] == cell, f"the csv module reads {cell!r}, not {found['s']!r}"


# --- raw -----------------------------------------------------------------------------------------------------

_PACKED = {"BOOLEAN": "?", "TINYINT": "b", "SMALLINT": "h", "INT": "i", "BIGINT": "q", "FLOAT": "f", "DOUBLE": "d"}


def _raw(rng: random.Random) -> Subject:
    kind = rng.choice((*_PACKED, "STRING", "BYTES"))
    options = RawOptions(endianness=rng.choice(list(Endianness)))
    schema = parse_columns(f"x {kind}")
    order = ">" if options.endianness is Endianness.BIG else "<"

    def second(message: bytes) -> Answer:
        if kind == "BYTES":
            return [(message,)]
        if kind == "STRING":
            return [(_java_text(message),)]
        if len(message) != struct.calcsize(order + _PACKED[kind]):
            return None
        (value,) = struct.unpack(order + _PACKED[kind], message)
        return _as_columns(schema, [{"x": value}])

    return Subject("raw", schema, options, (b"\x00", b"\xff\xff\xff\xff", b"\xed\xa0\x80"), second)


def _java_text(message: bytes) -> str:
    """Text as Java decodes it: half of a surrogate pair is one mistake, and not three."""
    return "\ufffd".join(part.decode("utf-8", "replace") for part in re.split(rb"\xed[\xa0-\xbf][\x80-\xbf]", message))


# --- avro ----------------------------------------------------------------------------------------------------

_AVRO = (
    "b BOOLEAN, i INT, l BIGINT, f FLOAT, d DOUBLE, s STRING, y BYTES, a ARRAY<INT>, m MAP<STRING, STRING>, "
    "r ROW<f FLOAT, g ARRAY<STRING>>"
)


def _avro(rng: random.Random) -> Subject:
    from penstock.formats.avro.derived import derived
    from penstock.formats.avro.options import AvroOptions
    from penstock.formats.avro.schema import document_of

    schema = parse_columns(_AVRO)
    parsed = fastavro.parse_schema(document_of(derived(schema)))

    def second(message: bytes) -> Answer:
        try:
            value = fastavro.schemaless_reader(io.BytesIO(message), parsed, None)
            return _as_columns(schema, [_avro_value(schema, value)])
        except (ValueError, IndexError, EOFError, OverflowError, TypeError):
            return None

    def same(message: bytes, ours: Answer, theirs: Answer) -> bool:
        """Of what no writer makes, fastavro takes ints of 64 bits, and booleans other than 0 and 1 as true."""
        if ours == theirs or not theirs:
            return ours == theirs
        if _written(message, parsed):
            return False
        return ours is None or {
            name for name, one, other in zip(schema.names, ours[0], theirs[0], strict=True) if one != other
        } <= {"b", "i", "a"}

    return Subject(
        "avro", schema, AvroOptions(), (b"\x00", b"\x02", b"\x01", b"\xff" * 10, b"\x80\x80\x80"), second, same
    )


def _avro_value(kind: DataType, value: Any) -> Any:
    if value is None:
        return None
    match kind:
        case RowType(fields=fields):
            return {field.name: _avro_value(field.type, value[field.name]) for field in fields}
        case ArrayType(element=element):
            return [_avro_value(element, each) for each in value]
        case MapType(value=inner):
            return [(key, _avro_value(inner, each)) for key, each in value.items()]
    if kind.text() == "INT":
        return (value + 2**31) % 2**32 - 2**31
    return float(np.float32(value)) if kind.text() == "FLOAT" else value


def _written(message: bytes, schema: Any) -> bool:
    """Whether the message begins as a writer would write the value in it."""
    value = fastavro.schemaless_reader(io.BytesIO(message), schema, None)
    if not validate(value, schema, raise_errors=False):
        return False
    out = io.BytesIO()
    try:
        fastavro.schemaless_writer(out, schema, value)
    except (ValueError, OverflowError, struct.error):
        return False
    return message.startswith(out.getvalue())


SUBJECTS: Mapping[str, Callable[[random.Random], Subject]] = {"avro": _avro, "csv": _csv, "json": _json, "raw": _raw}
