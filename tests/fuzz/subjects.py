"""Each format with its second decoder."""

from __future__ import annotations

import atexit
import csv
import io
import json
import random
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from fastavro.validation import validate
from google.protobuf.message_factory import GetMessageClass

from bench.messages import options_of
from penstock.errors import RecordError
from penstock.exact.errors import FieldError, Malformed
from penstock.formats.avro.derived_schema import derive_schema
from penstock.formats.avro.json_encoding import JsonEncoding
from penstock.formats.avro.options import AvroOptions, Encoding
from penstock.formats.avro.schema import schema_document
from penstock.formats.avro_confluent.options import AvroConfluentOptions
from penstock.formats.csv.exact_reader import ExactCsvReader as CsvReader
from penstock.formats.csv.options import CsvOptions
from penstock.formats.json.exact_reader import ExactJsonReader as JsonReader
from penstock.formats.json.options import JsonOptions, TimestampStandard
from penstock.formats.json.parser import Document, Object, parse
from penstock.formats.protobuf.exact_reader import ExactProtobufReader as ProtobufReader
from penstock.formats.raw.options import Endianness, RawOptions
from penstock.options import OptionSet
from penstock.spi import Decoded, formats
from penstock.types import STRING, ArrayType, DataType, Field, MapType, RowKind, RowType, arrow_schema, parse_columns
from penstock_testing.services import RegistryServer
from tests.fuzz.values import plain, rows_of
from tests.unit.formats.protobuf.test_protobuf_agreement import is_like_java

__all__ = ["NEED_REGISTRY", "REFUSED", "SUBJECTS", "Answer", "Subject"]

#: What a decoder makes of one message: its rows, those of changes with their kinds, and REFUSED behind them if there is
#: something wrong with it.
Answer = list[tuple[Any, ...]]
REFUSED = ("refused",)

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
    answer is the right one where the second decoder gives another. ``messages`` makes good ones that the format does
    not write itself."""

    format: str
    schema: RowType
    options: OptionSet
    tokens: tuple[bytes, ...]
    second: Callable[[bytes], Answer]
    same: Callable[[bytes, Answer, Answer], bool] = lambda message, ours, theirs: ours == theirs
    messages: Callable[[random.Random], list[bytes]] | None = None

    def good(self, rng: random.Random) -> list[bytes]:
        """Messages as the format writes them."""
        found: list[bytes] = []
        if self.messages is not None:
            return [message for _ in range(50) for message in self.messages(rng)]
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
    origin = range(decoded.rows.num_rows) if decoded.origin is None else decoded.origin.tolist()
    rows = _tuples(decoded.rows)
    if decoded.kinds is not None:
        rows = [(kind, *row) for kind, row in zip(decoded.kinds.tolist(), rows, strict=True)]
    for index, row in zip(origin, rows, strict=True):
        found[index].append(row)
    for bad in decoded.bad:
        found[bad.index].append(REFUSED)
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
            return _as_columns(schema, reader.read_rows(message))
        except Malformed as error:
            return [*_as_columns(schema, error.rows), REFUSED]
        except FieldError:
            return [REFUSED]

    names = tuple(f'"{name}":'.encode() for name in schema.names)
    return Subject("json", schema, options, (*_JSON, *names), second)


_JSON = tuple(
    (
        b'{ } [ ] , : "" " \\ \\u0041 \\ud83d\\ude00 \\ud800 null true false 0 -0 -1 1e5 1.50 1e400 [] {} NaN \t '
        b'9223372036854775808 -1.5e-99999999999999999999 "2024-02-30" "12:00:00" "2024-01-01 00:00:00.5" '
        b'"2024-01-01T00:00:00Z" \xef\xbb\xbf'
    ).split(b" ")
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
            return [REFUSED]
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
            return [REFUSED]
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


_AVRO_TOKENS = (b"\x00", b"\x02", b"\x01", b"\xff" * 10, b"\x80\x80\x80")


def _avro(rng: random.Random) -> Subject:
    schema = parse_columns(_AVRO)
    second, same = _fastavro(schema, b"")
    if rng.random() < 0.5:
        return Subject("avro", schema, AvroOptions(), _AVRO_TOKENS, second, same)
    text = JsonEncoding(derive_schema(schema))

    def from_json(message: bytes) -> Answer:
        try:
            return second(text.binary(message))
        except (Malformed, FieldError):
            return [REFUSED]

    words = (b'{"int":', b'{"string":', b'{"array":[', b'{"map":{', b'{"bytes":', b'"l":', b"null}", b"},")
    return Subject("avro", schema, AvroOptions(encoding=Encoding.JSON), (*_JSON, *words), from_json)


def _avro_confluent(rng: random.Random) -> Subject:
    schema = parse_columns(_AVRO)
    options = AvroConfluentOptions.from_text({"url": _registry(), "subject": "fuzz"})
    message = formats.get("avro-confluent").encoder(schema, options).encode(rows_of(rng, schema, 1))[0].as_py()
    return Subject("avro-confluent", schema, options, _AVRO_TOKENS, *_fastavro(schema, message[:5]))


@cache
def _registry() -> str:
    """The address of a registry that ends with this process."""
    server = RegistryServer().start()
    atexit.register(server.stop)
    return server.url


def _fastavro(
    schema: RowType, header: bytes
) -> tuple[Callable[[bytes], Answer], Callable[[bytes, Answer, Answer], bool]]:
    """The second decoder of data behind a header, and what it is allowed to answer differently."""
    parsed = fastavro.parse_schema(schema_document(derive_schema(schema)))

    def second(message: bytes) -> Answer:
        if not message.startswith(header):
            return [REFUSED]
        try:
            value = fastavro.schemaless_reader(io.BytesIO(message[len(header) :]), parsed, None)
            return _as_columns(schema, [_avro_value(schema, value)])
        except (ValueError, IndexError, EOFError, OverflowError, TypeError):
            return [REFUSED]

    def same(message: bytes, ours: Answer, theirs: Answer) -> bool:
        """Of what no writer makes, fastavro takes ints of 64 bits, and booleans other than 0 and 1 as true."""
        if theirs in (ours, [REFUSED]):
            return ours == theirs
        if _written(message[len(header) :], parsed):
            return False
        return ours == [REFUSED] or {
            name for name, one, other in zip(schema.names, ours[0], theirs[0], strict=True) if one != other
        } <= {"b", "i", "a"}

    return second, same


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


# --- protobuf ------------------------------------------------------------------------------------------------


def _protobuf(rng: random.Random) -> Subject:
    schema = parse_columns(
        "b BOOLEAN, i INT, l BIGINT, f FLOAT, d DOUBLE, s STRING, y BYTES, r ROW<i INT, s STRING>, a ARRAY<INT>, "
        "t ARRAY<STRING>, m MAP<STRING, BIGINT>, ar ARRAY<ROW<d DOUBLE, y BYTES>>"
    )
    options = options_of(schema)
    kind = GetMessageClass(options.loaded_definition.message)
    reader = ProtobufReader(options.loaded_definition.message, schema, options.read_default_values)

    def second(message: bytes) -> Answer:
        try:
            return _as_columns(schema, [reader.read(message)])
        except (Malformed, FieldError):
            return [REFUSED]

    def same(message: bytes, ours: Answer, theirs: Answer) -> bool:
        """The entries of maps have no order; and some messages protobuf's runtime for Python reads otherwise than that
        for Java."""
        return _ordered(ours) == _ordered(theirs) or not is_like_java(kind, message)

    tokens = (b"\x08\x01", b"\x0b", b"\x0c", b"\x82\x01\x00", b"\xff" * 9 + b"\x01", b"\x00", b"\x2a\x01\xff")
    return Subject("protobuf", schema, options, tokens, second, same)


def _ordered(answer: Answer) -> Answer:
    """An answer with the entries of its only map, the last column but one, in the order of their keys."""
    if answer == [REFUSED]:
        return answer
    return [(*row[:-2], row[-2] and sorted(row[-2]), row[-1]) for row in answer]


# --- changes of rows -----------------------------------------------------------------------------------------

_CHANGING = (
    "id BIGINT, name STRING, price DECIMAL(10, 2), at TIMESTAMP(3), tags ARRAY<STRING>, place ROW<x INT, y STRING>"
)
_IMAGES = {"c": "INSERT", "r": "INSERT", "u": "UPDATE", "d": "DELETE", "I": "INSERT", "U": "UPDATE", "D": "DELETE"}


def _images(name: str, op: str) -> Callable[[random.Random], Subject]:
    """A format whose messages have the rows before and after a change."""
    names = ("c", "r", "u", "d") if op == "op" else ("I", "U", "D")

    def subject(rng: random.Random) -> Subject:
        schema, fmt = parse_columns(_CHANGING), formats.get(name)
        options = fmt.options.from_text({"ignore-parse-errors": str(rng.random() < 0.3).lower()})
        fields = (Field("before", schema), Field("after", schema), Field(op, STRING))

        def change(envelope: dict[str, Any], _: Object) -> Answer:
            before, after, action = envelope["before"], envelope["after"], envelope[op]
            if action not in names:
                return [REFUSED]
            match _IMAGES[action]:
                case "INSERT" if after:
                    return _kinds(schema, (RowKind.INSERT, after))
                case "DELETE" if before:
                    return _kinds(schema, (RowKind.DELETE, before))
                case "UPDATE" if before and after:
                    return _kinds(schema, (RowKind.UPDATE_BEFORE, before), (RowKind.UPDATE_AFTER, after))
            return [REFUSED]

        def messages(rng: random.Random) -> list[bytes]:
            before, after = _texts(rng, schema, 2)
            return [f'{{"before":{before},"after":{after},"{op}":"{rng.choice(names)}","more":[{{}}]}}'.encode()]

        return _changing(name, schema, options, RowType(fields), change, messages)

    return subject


def _maxwell(rng: random.Random) -> Subject:
    schema, fmt = parse_columns(_CHANGING), formats.get("maxwell-json")
    options = fmt.options.from_text({"ignore-parse-errors": str(rng.random() < 0.3).lower()})
    fields = (Field("data", schema), Field("old", schema), Field("type", STRING))

    def change(envelope: dict[str, Any], document: Object) -> Answer:
        data, action = envelope["data"], envelope["type"]
        if action not in ("insert", "update", "delete") or not data:
            return [REFUSED]
        if action != "update":
            return _kinds(schema, (RowKind.INSERT if action == "insert" else RowKind.DELETE, data))
        if not envelope["old"]:
            return [REFUSED]
        before = _overlaid(data, envelope["old"], dict(document.pairs)["old"])
        return _kinds(schema, (RowKind.UPDATE_BEFORE, before), (RowKind.UPDATE_AFTER, data))

    def messages(rng: random.Random) -> list[bytes]:
        data, other = _texts(rng, schema, 2)
        action = rng.choice(("insert", "update", "update", "delete"))
        return [f'{{"database":"d","type":"{action}","data":{data},"old":{_part(rng, other)}}}'.encode()]

    return _changing("maxwell-json", schema, options, RowType(fields), change, messages)


def _canal(rng: random.Random) -> Subject:
    schema, fmt = parse_columns(_CHANGING), formats.get("canal-json")
    ignore = rng.random() < 0.3
    options = fmt.options.from_text({"ignore-parse-errors": str(ignore).lower()})
    rows_type = ArrayType(element=schema)
    fields = (Field("data", rows_type), Field("old", rows_type), Field("type", STRING))

    def change(envelope: dict[str, Any], document: Object) -> Answer:
        action = envelope["type"]
        if action == "CREATE":
            return []
        if action not in ("INSERT", "UPDATE", "DELETE") or envelope["data"] is None:
            return [REFUSED]
        old = envelope["old"] or []
        given = dict(document.pairs).get("old")
        found: Answer = []
        for place, row in enumerate(envelope["data"]):
            before = old[place] if place < len(old) else None
            if not row or (action == "UPDATE" and not before):
                return [*found, REFUSED] if ignore else [REFUSED]
            if action == "UPDATE":
                assert isinstance(given, list)
                before = _overlaid(row, before, given[place])
                found += _kinds(schema, (RowKind.UPDATE_BEFORE, before), (RowKind.UPDATE_AFTER, row))
            else:
                found += _kinds(schema, (RowKind.INSERT if action == "INSERT" else RowKind.DELETE, row))
        return found

    def messages(rng: random.Random) -> list[bytes]:
        count = rng.randrange(3)
        data, old = _texts(rng, schema, count), [_part(rng, each) for each in _texts(rng, schema, count)]
        action = rng.choice(("INSERT", "UPDATE", "UPDATE", "DELETE", "CREATE"))
        return [f'{{"type":"{action}","data":[{",".join(data)}],"isDdl":false,"old":[{",".join(old)}]}}'.encode()]

    return _changing("canal-json", schema, options, RowType(fields), change, messages)


def _changing(
    name: str,
    schema: RowType,
    options: OptionSet,
    envelope: RowType,
    change: Callable[[dict[str, Any], Object], Answer],
    messages: Callable[[random.Random], list[bytes]],
) -> Subject:
    """A subject whose second decoder reads envelopes by the exact path of json, and changes one by one."""
    reader = JsonReader(envelope, options.json)  # type: ignore[attr-defined]

    def second(message: bytes) -> Answer:
        if not message:
            return []
        try:
            found, document = reader.read_rows(message), parse(message)
        except (Malformed, FieldError):
            return [REFUSED]
        if len(found) != 1:
            return [REFUSED]
        document = document[0] if isinstance(document, list) else document
        assert isinstance(document, Object)
        return change(found[0], document)

    words = (b'"before":', b'"after":', b'"data":', b'"old":', b'"type":"UPDATE"', b'"op":"u"', b'"op_type":"U"')
    return Subject(name, schema, options, (*_JSON, *words), second, messages=messages)


def _overlaid(row: dict[str, Any], old: dict[str, Any], given: Document) -> dict[str, Any]:
    """The row before an update: what ``old`` has, null included, else what the row has after it."""
    names = dict(given.pairs) if isinstance(given, Object) else {}
    return {name: old[name] if name in names else value for name, value in row.items()}


def _kinds(schema: RowType, *rows: tuple[RowKind, dict[str, Any]]) -> Answer:
    return [
        (int(kind), *row) for (kind, _), row in zip(rows, _as_columns(schema, [row for _, row in rows]), strict=True)
    ]


def _texts(rng: random.Random, schema: RowType, count: int) -> list[str]:
    """Rows as JSON."""
    encoder = formats.get("json").encoder(schema, JsonOptions())
    return [text.decode() for text in encoder.encode(rows_of(rng, schema, count)).to_pylist()]


def _part(rng: random.Random, text: str) -> str:
    """Some of the fields of a row that is JSON."""
    return json.dumps({name: value for name, value in json.loads(text).items() if rng.random() < 0.5})


#: By the names of the formats; those of NEED_REGISTRY have a schema registry run beside them.
SUBJECTS: Mapping[str, Callable[[random.Random], Subject]] = {
    "avro": _avro,
    "avro-confluent": _avro_confluent,
    "canal-json": _canal,
    "csv": _csv,
    "debezium-json": _images("debezium-json", "op"),
    "json": _json,
    "maxwell-json": _maxwell,
    "ogg-json": _images("ogg-json", "op_type"),
    "protobuf": _protobuf,
    "raw": _raw,
}
NEED_REGISTRY = ("avro-confluent",)
