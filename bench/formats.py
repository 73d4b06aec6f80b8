"""Records a second of each format, both ways, from Arrow columns to Arrow columns on one core.

Formats of change data read updates as their tools write them, two rows a message, and write changes of all kinds.

Everything runs round after round in one go, on processor time, so that other work on the machine weighs less; the
medians are printed. Beside Avro and protobuf stand the libraries fastavro and protobuf, which make Python objects,
beside JSON Arrow's own reader, which takes lines. "changes" are envelopes as Debezium writes them: what was before and
after, read out of much else. avro-confluent has a schema registry, which is asked once for each schema, before anything
is measured.

Usage: ``python -m bench.formats [--records N] [--rounds N] [--only FORMAT,...]``.
"""

from __future__ import annotations

import argparse
import datetime as dt
import io
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from google.protobuf.message_factory import GetMessageClass

from bench.messages import options_of
from bench.records import SCHEMA
from penstock.formats.avro.derived_schema import derive_schema
from penstock.formats.avro.schema import schema_document
from penstock.formats.json.factory import FORMAT
from penstock.formats.json.options import JsonOptions
from penstock.options import OptionSet
from penstock.spi import ChangeFormat, Decoder, Format, formats
from penstock.types import RowType, arrow_schema, parse_columns
from penstock_testing.services import RegistryServer

#: The columns of each shape of record. ``flat`` is what the whole path is measured with.
SHAPES = {
    "flat": SCHEMA,
    "scalars": "b BOOLEAN, t TINYINT, i INT, f FLOAT, n DECIMAL(10, 2), w DECIMAL(30, 4), y BYTES, d DATE, c TIME(3), "
    "ts TIMESTAMP(3)",
    "rows": "id BIGINT, place ROW<city STRING, at ROW<lat DOUBLE, lon DOUBLE>>, person ROW<name STRING, age INT>",
    "arrays": "id BIGINT, tags ARRAY<STRING>, numbers ARRAY<BIGINT>",
    "maps": "id BIGINT, properties MAP<STRING, STRING>",
    "arrays of rows": "id BIGINT, items ARRAY<ROW<sku STRING, amount INT, price DOUBLE>>",
}
_REGISTERED = "avro-confluent"
_AVRO_JSON = "avro in JSON"
_KNOWN = ("avro", _AVRO_JSON, _REGISTERED, "csv", "json", "protobuf", "raw")
#: What protobuf has no types for, in those that it has.
_OF_PROTOBUF = {
    "flat": SCHEMA.replace("TIMESTAMP(3)", "BIGINT"),
    "scalars": "b BOOLEAN, i INT, l BIGINT, f FLOAT, d DOUBLE, s STRING, y BYTES",
}
#: The shapes of formats that do not know all types.
_SHAPES_OF = {
    "csv": {"flat": SCHEMA},
    "protobuf": SHAPES | _OF_PROTOBUF,
    "raw": {"text": "s STRING", "number": "l BIGINT"},
}
#: Messages of an update: bytes as they are, and None for a row of the table.
_UPDATES: dict[str, tuple[bytes | None, ...]] = {
    "debezium-json": (
        b'{"before":',
        None,
        b',"after":',
        None,
        b',"source":{"version":"2.7","connector":"postgresql","name":"shop","ts_ms":1769000000123,"snapshot":"false",'
        b'"db":"shop","schema":"public","table":"items","txId":571,"lsn":24023128},"op":"u","ts_ms":1769000000999}',
    ),
    "canal-json": (
        b'{"data":[',
        None,
        b'],"database":"shop","es":1769000000000,"id":3,"isDdl":false,"mysqlType":{"user_id":"BIGINT"},'
        b'"old":[{"behavior":"buy"}],"pkNames":["user_id"],"sql":"","sqlType":{"user_id":-5},"table":"items",'
        b'"ts":1769000000477,"type":"UPDATE"}',
    ),
    "maxwell-json": (
        b'{"database":"shop","table":"items","type":"update","ts":1769000000,"xid":571,"commit":true,"data":',
        None,
        b',"old":{"behavior":"buy","amount":1.25}}',
    ),
    "ogg-json": (
        b'{"table":"SHOP.ITEMS","op_type":"U","op_ts":"2026-01-21 12:53:20.000000",'
        b'"current_ts":"2026-01-21T12:53:20.766000","pos":"00000000000000002928","primary_keys":["user_id"],"before":',
        None,
        b',"after":',
        None,
        b"}",
    ),
}

_IMAGE = "ROW<id BIGINT, name STRING, price DOUBLE, amount INT, at TIMESTAMP(3)>"
CHANGES = f"before {_IMAGE}, after {_IMAGE}, op STRING"
ENVELOPES = (
    f"before {_IMAGE}, after {_IMAGE}, source ROW<version STRING, connector STRING, name STRING, ts_ms BIGINT, "
    "snapshot BOOLEAN, db STRING, sequence STRING, `schema` STRING, `table` STRING, lsn BIGINT, xmin BIGINT>, "
    "op STRING, ts_ms BIGINT, transaction ROW<id STRING>"
)
#: What Arrow's reader of JSON understands as it stands.
_IN_ARROW = ("flat", "rows", "arrays", "arrays of rows")


@dataclass
class Case:
    """One thing that is measured: ``run`` handles all the records, which are ``size`` bytes as messages."""

    name: str
    size: int
    run: Callable[[], object]
    seconds: list[float] = field(default_factory=list)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.formats", description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", help="comma-separated formats")
    arguments = parser.parse_args()
    names = arguments.only.split(",") if arguments.only else [*_KNOWN, *_UPDATES]
    with ExitStack() as stack:
        url = stack.enter_context(RegistryServer()).url if _REGISTERED in names else ""
        _measure([case for name in names for case in _all_cases(name, arguments.records, url)], arguments)
    return 0


def _measure(cases: list[Case], arguments: argparse.Namespace) -> None:
    for number in range(arguments.rounds + 1):
        for case in cases:
            begun = time.process_time()
            case.run()
            if number:
                case.seconds.append(time.process_time() - begun)
    print(f"{arguments.records:,} records, median of {arguments.rounds} rounds, one core")
    print(f"{'':<42}{'records/s':>12}{'MB/s':>8}{'bytes':>7}")
    for case in cases:
        taken = statistics.median(case.seconds)
        rate, volume = arguments.records / taken, case.size / taken / 1e6
        print(f"{case.name:<42}{rate:>12,.0f}{volume:>8,.0f}{case.size / arguments.records:>7.0f}")


def _options(name: str, schema: RowType, subject: str, url: str) -> OptionSet:
    if name == "protobuf":
        return options_of(schema)
    given = {_REGISTERED: {"url": url, "subject": subject}, _AVRO_JSON: {"encoding": "json"}}.get(name, {})
    bound: OptionSet = _format(name).options.from_text(given)
    return bound


def _format(name: str) -> Format:
    found: Format = formats.get("avro" if name == _AVRO_JSON else name)
    return found


def _all_cases(name: str, records: int, url: str) -> list[Case]:
    return _updates(name, records) if name in _UPDATES else _cases(name, records, url)


def _cases(name: str, records: int, url: str) -> list[Case]:
    found = []
    for shape, columns in _SHAPES_OF.get(name, SHAPES).items():
        # protobuf has no nulls in arrays and maps, and raw has none at all
        nulls = shape != "flat" and name not in ("protobuf", "raw")
        schema, rows = parse_columns(columns), _make_rows(columns, records, nulls=nulls)
        bound = _options(name, schema, shape, url)
        decoder, encoder = _format(name).decoder(schema, bound), _format(name).encoder(schema, bound)
        messages = encoder.encode(rows)
        if not decoder.decode(messages).rows.equals(rows):
            raise SystemExit(f"{name}, {shape}: what was written is not what is read")
        size = _size(messages)
        found += [
            Case(f"{name} {shape} decode", size, lambda d=decoder, m=messages: d.decode(m)),
            Case(f"{name} {shape} encode", size, lambda e=encoder, r=rows: e.encode(r)),
        ]
        if name == _REGISTERED and shape == "flat":
            found.append(_two_schemas(decoder, columns, messages, url))
        if name == "avro" and shape == "flat":
            found.append(_fastavro(columns, messages))
        if name == "protobuf" and shape == "flat":
            found += _runtime(columns, messages, rows)
        if name == "json" and shape in _IN_ARROW:
            found.append(_arrow_json(shape, columns, messages))
    return found + (_changes(records) if name == "json" else [])


def _changes(records: int) -> list[Case]:
    """Half of them have nothing before; none belongs to a transaction."""
    schema, random = arrow_schema(parse_columns(ENVELOPES)), np.random.default_rng(1)
    columns = {each.name: _column(each.type, records, random, nulls=False) for each in schema}
    for name, chance in (("before", 0.5), ("transaction", 1.0)):
        column, mask = columns[name], pa.array(random.random(records) < chance)
        columns[name] = pa.StructArray.from_arrays(column.flatten(), fields=list(column.type), mask=mask)
    columns["op"] = pc.if_else(pc.is_null(columns["before"]), "c", "u")
    rows = pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)
    fmt = formats.get("json")
    options = fmt.options.from_text({})
    messages = fmt.encoder(parse_columns(ENVELOPES), options).encode(rows)
    decoder = fmt.decoder(parse_columns(CHANGES), options)
    if not decoder.decode(messages).rows.equals(rows.select(["before", "after", "op"])):
        raise SystemExit("json, changes: what was written is not what is read")
    return [
        Case("json changes decode", _size(messages), lambda: decoder.decode(messages)),
        _arrow_json("changes", CHANGES, messages),
    ]


def _arrow_json(shape: str, columns: str, messages: pa.BinaryArray) -> Case:
    lines = pa.py_buffer(b"\n".join(messages.to_pylist()))
    parsing = pj.ParseOptions(arrow_schema(parse_columns(columns)), unexpected_field_behavior="ignore")
    reading = pj.ReadOptions(use_threads=False)
    return Case(
        f"pyarrow.json {shape} decode",
        _size(messages),
        lambda: pj.read_json(pa.BufferReader(lines), reading, parsing),
    )


def _updates(name: str, records: int) -> list[Case]:
    fmt, schema, rows = formats.get(name), parse_columns(SCHEMA), _make_rows(SCHEMA, records, nulls=False)
    assert isinstance(fmt, ChangeFormat)
    bound = fmt.options.from_text({})
    decoder, encoder = fmt.decoder(schema, bound), fmt.encoder(schema, bound)
    texts = FORMAT.encoder(schema, JsonOptions()).encode(rows)
    parts = [texts if part is None else pa.scalar(part) for part in _UPDATES[name]]
    messages = pc.binary_join_element_wise(*parts, pa.scalar(b""))
    decoded = decoder.decode(messages)
    if decoded.bad or decoded.rows.num_rows != 2 * records:
        raise SystemExit(f"{name}: the messages are not read: {decoded.bad[:1]}")
    described = fmt.decoder(schema, bound, tuple(fmt.metadata))
    if described.decode(messages).bad:
        raise SystemExit(f"{name}: the messages are not read with metadata")
    kinds = np.arange(records).astype(np.int8) % np.int8(4)
    return [
        Case(f"{name} flat decode", _size(messages), lambda: decoder.decode(messages)),
        Case(f"{name} flat decode, all metadata", _size(messages), lambda: described.decode(messages)),
        Case(f"{name} flat encode", _size(encoder.encode(rows, kinds)), lambda: encoder.encode(rows, kinds)),
    ]


def _two_schemas(decoder: Decoder, columns: str, messages: pa.BinaryArray, url: str) -> Case:
    """Every other message by the schema of another version."""
    fmt, later = formats.get(_REGISTERED), parse_columns(f"{columns}, later BIGINT")
    encoder = fmt.encoder(later, fmt.options.from_text({"url": url, "subject": "flat"}))
    rows = decoder.decode(messages).rows
    others = encoder.encode(rows.append_column("later", pa.nulls(len(rows), pa.int64())))
    odd = pa.array(np.arange(len(rows)) % 2 == 1)
    mixed = pc.if_else(odd, others, messages)
    if not decoder.decode(mixed).rows.equals(rows):
        raise SystemExit("what was written by two schemas is not what is read")
    return Case(f"{_REGISTERED} flat decode, two schemas", _size(mixed), lambda: decoder.decode(mixed))


def _size(messages: pa.BinaryArray) -> int:
    offsets = np.frombuffer(messages.buffers()[1], np.int32)
    return int(offsets[len(messages)] - offsets[0])


def _fastavro(columns: str, messages: pa.BinaryArray) -> Case:
    parsed = fastavro.parse_schema(schema_document(derive_schema(parse_columns(columns))))

    def read() -> None:
        for message in messages.to_pylist():
            fastavro.schemaless_reader(io.BytesIO(message), parsed, None)

    return Case("fastavro flat decode", _size(messages), read)


def _runtime(columns: str, messages: pa.BinaryArray, rows: pa.RecordBatch) -> list[Case]:
    kind = GetMessageClass(options_of(parse_columns(columns)).loaded_definition.message)
    names = [field.name for field in kind.DESCRIPTOR.fields]

    def read() -> None:
        for message in messages.to_pylist():
            found = kind.FromString(message)
            for name in names:
                getattr(found, name)

    def write() -> None:
        for row in rows.to_pylist():
            kind(**row).SerializeToString()

    size = _size(messages)
    return [Case("protobuf's runtime flat decode", size, read), Case("protobuf's runtime flat encode", size, write)]


def _make_rows(columns: str, records: int, *, nulls: bool) -> pa.RecordBatch:
    """So many rows of these columns, the same ones every time; lists have 0 to 4 items, one value in ten is null."""
    random = np.random.default_rng(1)
    schema = arrow_schema(parse_columns(columns))
    arrays = [_column(each.type, records, random, nulls) for each in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(kind: pa.DataType, count: int, random: np.random.Generator, nulls: bool) -> pa.Array:
    valid = random.integers(0, 10, count) > 0 if nulls else np.ones(count, bool)
    mask = pa.array(~valid)
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays(
            [_column(each.type, count, random, nulls) for each in kind], fields=list(kind), mask=mask
        )
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        sizes = random.integers(0, 5, count) * valid
        offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32), mask=np.append(~valid, False))
        total = int(sizes.sum())
        if pa.types.is_list(kind):
            return pa.ListArray.from_arrays(offsets, _column(kind.value_type, total, random, nulls), type=kind)
        keys = pa.array([f"key{number % 4}" for number in _places(sizes)], pa.string())
        return pa.MapArray.from_arrays(offsets, keys, _column(kind.item_type, total, random, nulls), type=kind)
    return pa.array(_values(kind, count, random), kind, mask=~valid)


def _places(sizes: Any) -> list[int]:
    """The place of each item in its list."""
    return (np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)).tolist()


def _values(kind: pa.DataType, count: int, random: np.random.Generator) -> Any:
    if pa.types.is_boolean(kind):
        return random.integers(0, 2, count).astype(bool)
    if pa.types.is_floating(kind):
        return (random.integers(0, 100_000, count) / 100).astype(kind.to_pandas_dtype())
    if pa.types.is_decimal(kind):
        return pa.array(random.integers(-(10**6), 10**6, count)).cast(pa.decimal128(19, 0)).cast(kind).to_pylist()
    if pa.types.is_string(kind):
        return [f"text number {number}" for number in random.integers(0, 10**6, count)]
    if pa.types.is_binary(kind):
        return [number.to_bytes(8, "big") for number in random.integers(0, 2**60, count).tolist()]
    if pa.types.is_date(kind):
        return [dt.date(2020, 1, 1) + dt.timedelta(days=number) for number in random.integers(0, 3000, count).tolist()]
    if pa.types.is_time(kind):
        return pa.array(random.integers(0, 86_400_000, count) * 1_000_000).cast(kind).to_pylist()
    if pa.types.is_timestamp(kind):
        return pa.array(1_770_000_000_000_000 + random.integers(0, 10**9, count) * 1000).cast(kind).to_pylist()
    return random.integers(0, 100 if kind.bit_width < 16 else 5_000_000 if kind.bit_width > 16 else 30_000, count)


if __name__ == "__main__":
    raise SystemExit(main())
