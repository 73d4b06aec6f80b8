"""``penstock decode`` and ``penstock encode``: messages to rows and back, without a broker."""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, BinaryIO, TypeVar, cast

import numpy as np
import pyarrow as pa

from penstock.cli.columns import Columns
from penstock.errors import DefinitionError, OptionsError, PluginError, Problem, RecordError
from penstock.formats.columns.buffers import batch_of
from penstock.formats.exact.errors import FieldError, Malformed
from penstock.formats.json.exact_reader import ExactJsonReader
from penstock.formats.json.options import JsonOptions
from penstock.formats.json.parser import Object, parse
from penstock.options import Origin, unknown_keys
from penstock.spi import ChangeEncoder, ChangeFormat, Decoder, Format, FormatSpec, formats
from penstock.types import RowKind, RowType, arrow_schema

_Built = TypeVar("_Built")

_LINES_AT_ONCE = 10_000
_REFUSED = 2


def add_parser(subparsers: Any) -> None:
    """Register ``decode`` and ``encode``."""
    for name, run, summary, file_help in (
        ("decode", _decode, "turn messages into rows", "a file of messages, one per line"),
        (
            "encode",
            _encode,
            "turn rows into messages",
            'a file of rows, one per line, {"op": "+I", "row": {...}} or {...}',
        ),
    ):
        parser = subparsers.add_parser(name, help=summary, description=f"{summary.capitalize()}, line by line.")
        parser.add_argument("--format", required=True, help=f"one of {', '.join(formats.names())}")
        parser.add_argument(
            "--schema",
            required=True,
            help="the columns as in CREATE TABLE, for example 'id BIGINT, name STRING'; what change data says besides "
            "its rows as in \"origin STRING METADATA FROM 'value.table'\"",
        )
        parser.add_argument(
            "--option",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="a format option as in a WITH clause, for example json.ignore-parse-errors=true; may be repeated",
        )
        parser.add_argument(
            "--base64",
            action="store_true",
            help="messages are base64, as those of a binary format must be: they may have line ends in them",
        )
        parser.add_argument(
            "file", nargs="?", default="-", metavar="FILE", help=f"{file_help}; standard input if absent"
        )
        parser.set_defaults(run=run)


def _decode(args: argparse.Namespace) -> int:
    try:
        columns, fmt, spec = _definition(args)
        decoder, show = _decoder(columns, fmt, spec), columns.shower(fmt)
        source = _opened(args.file)
    except (DefinitionError, PluginError) as error:
        return _refuse("decode", str(error))
    failed, refused = False, 0
    with source:
        for first, given in _batches(source):
            lines, places = _messages(given, first) if args.base64 else (given, range(first, first + len(given)))
            failed |= len(lines) < len(given)
            decoded = decoder.decode(pa.array(lines, pa.binary()))
            texts = show(decoded.rows)
            ops = [RowKind.INSERT] * len(texts) if decoded.kinds is None else map(RowKind, decoded.kinds.tolist())
            for op, text in zip(ops, texts, strict=True):
                sys.stdout.buffer.write(b'{"op": "%s", "row": %s}\n' % (op.short.encode(), text))
            for bad in () if decoder.ignores_errors else decoded.bad:
                refused += 1
                _complain(f"line {places[bad.index]}", RecordError(bad.reason, format=spec.identifier, field=bad.field))
    sys.stdout.buffer.flush()
    if refused and "ignore-parse-errors" in fmt.options.keys():  # noqa: SIM118 - the option set's own method
        way = f"--option {spec.identifier}.ignore-parse-errors=true"
        print(f"penstock decode: {refused} of the messages cannot be read; {way} leaves them out", file=sys.stderr)
    return int(failed or refused > 0)


def _encode(args: argparse.Namespace) -> int:
    try:
        columns, fmt, spec = _definition(args)
        schema = columns.physical
        encoder = _built(lambda: fmt.encoder(schema, spec.options), spec)
        changes = isinstance(fmt, ChangeFormat)
        reader = ExactJsonReader(schema, JsonOptions())
        source = _opened(args.file)
    except (DefinitionError, PluginError) as error:
        return _refuse("encode", str(error))
    failed = False
    with source:
        for first, lines in _batches(source):
            rows: list[dict[str, Any]] = []
            kinds: list[RowKind] = []
            places: list[int] = []
            for number, line in enumerate(lines, first):
                if not line.strip():
                    continue
                try:
                    kind, given = _row_object(line, schema, changes)
                    rows.append(reader.row(given))
                    kinds.append(kind)
                    places.append(number)
                except (Malformed, FieldError) as error:
                    failed = True
                    _complain(f"line {number}", RecordError(str(error), field=getattr(error, "field", "")))
            arrow = arrow_schema(schema)
            arrays = [pa.array([row[field.name] for row in rows], field.type) for field in arrow]
            batch = batch_of(arrays, arrow, len(rows))
            try:
                if changes:
                    encoded = cast(ChangeEncoder, encoder).encode(batch, np.array(kinds, np.int8))
                else:
                    encoded = encoder.encode(batch)
                messages = encoded.to_pylist()
            except RecordError as error:
                _complain(f"line {places[error.offset]}" if error.offset >= 0 else f"lines from {first} on", error)
                return 1
            for place, message in zip(places, messages, strict=True):
                if not args.base64 and b"\n" in (message or b""):
                    failed = True
                    hint = "write the messages with --base64"
                    _complain(f"line {place}", RecordError("its message has a line end in it", hint=hint))
                    continue
                sys.stdout.buffer.write((base64.b64encode(message or b"") if args.base64 else message or b"") + b"\n")
    sys.stdout.buffer.flush()
    return int(failed)


def _messages(lines: list[bytes], first: int) -> tuple[list[bytes], list[int]]:
    """The messages in lines of base64, and the line of each; complains of those that are none."""
    messages, places = [], []
    for number, line in enumerate(lines, first):
        try:
            messages.append(base64.b64decode(line.strip(), validate=True))
            places.append(number)
        except ValueError as error:
            _complain(f"line {number}", RecordError(f"expected base64: {error}"))
    return messages, places


def _row_object(line: bytes, schema: RowType, changes: bool) -> tuple[RowKind, Object]:
    """The row in a line and its kind: the line itself, or what stands under ``row`` beside ``op``; ``changes``: the
    format writes all kinds. Raises Malformed."""
    document = parse(line)
    if not isinstance(document, Object):
        raise Malformed("expected a JSON object")
    pairs = dict(document.pairs)
    inner = pairs.get("row")
    if (
        not isinstance(inner, Object)
        or not pairs.keys() <= {"op", "row"}
        or ("op" not in pairs and schema.field("row"))
    ):
        return RowKind.INSERT, document
    op = pairs.get("op", "+I")
    kind = next((each for each in RowKind if each.short == op), None)
    if kind is None:
        raise Malformed(f"expected the op {', '.join(repr(each.short) for each in RowKind)}, not {op!r}")
    if not changes and kind not in (RowKind.INSERT, RowKind.UPDATE_AFTER):
        raise Malformed(f"expected the op '+I' or '+U', the only ones that an insert-only format writes, not {op!r}")
    return kind, inner


def _definition(args: argparse.Namespace) -> tuple[Columns, Format, FormatSpec]:
    """Columns, format and bound options. Raises DefinitionError with every problem found."""
    problems: list[Problem] = []
    given: dict[str, str] = {}
    for option in args.option:
        key, equals, value = option.partition("=")
        if not equals:
            problems.append(Problem(f"expected KEY=VALUE, not '{option}'", where="--option"))
        else:
            given[key.strip()] = value
    columns = Columns()
    try:
        columns = Columns.parse(args.schema)
    except DefinitionError as error:
        problems += error.problems
    try:
        fmt = formats.get(args.format)
    except PluginError as error:
        raise DefinitionError((*problems, Problem(str(error)))) from error
    problems += columns.problems(fmt)
    prefix, origin = f"{fmt.identifier}.", Origin("--option")
    known = tuple(prefix + key for key in fmt.options.keys())  # noqa: SIM118 - a method of option sets, not a mapping's
    problems += unknown_keys(given, known, tuple(prefix + each for each in fmt.options.prefixes()), origin)
    spec = None
    try:
        spec = FormatSpec.bind(fmt, given, origin, prefix)
    except OptionsError as error:
        problems += error.problems
    if problems or spec is None:
        raise DefinitionError(tuple(problems))
    return columns, fmt, spec


def _decoder(columns: Columns, fmt: Format, spec: FormatSpec) -> Decoder:
    if isinstance(fmt, ChangeFormat):
        return _built(lambda: fmt.decoder(columns.physical, spec.options, columns.metadata), spec)
    return _built(lambda: fmt.decoder(columns.physical, spec.options), spec)


def _built(build: Callable[[], _Built], spec: FormatSpec) -> _Built:
    """A decoder or an encoder. Raises DefinitionError, options named as they are written."""
    try:
        return build()
    except OptionsError as error:
        named = tuple(replace(each, key=f"{spec.identifier}.{each.key}") for each in error.problems)
        raise OptionsError(named) from error


def _opened(path: str) -> BinaryIO:
    if path == "-":
        return open(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return open(path, "rb")
    except OSError as error:
        raise DefinitionError((Problem(f"cannot read the file: {error.strerror}", path),)) from error


def _batches(source: BinaryIO) -> Iterator[tuple[int, list[bytes]]]:
    """Lines without their ends, many at a time, each time with the number of the first."""
    first = 1
    while lines := [line.removesuffix(b"\n") for line in islice(source, _LINES_AT_ONCE)]:
        yield first, lines
        first += len(lines)


def _refuse(command: str, text: str) -> int:
    for line in text.splitlines():
        print(f"penstock {command}: {line}", file=sys.stderr)
    return _REFUSED


def _complain(place: str, error: RecordError) -> None:
    print(f"{place}: {error}", file=sys.stderr)
