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
from penstock.cli.display import add_pairs, describe_command, parse_pairs
from penstock.columns.buffers import build_batch
from penstock.errors import DefinitionError, OptionsError, PluginError, Problem, RecordError
from penstock.exact.errors import FieldError, Malformed
from penstock.formats.json.exact_reader import ExactJsonReader
from penstock.formats.json.options import JsonOptions
from penstock.formats.json.parser import Object, parse
from penstock.options import Origin, unknown_keys
from penstock.spi import ChangeEncoder, ChangeFormat, Decoder, Format, FormatSpec, formats
from penstock.types import RowKind, RowType, arrow_schema

_Built = TypeVar("_Built")

_LINES_AT_ONCE = 10_000


def add_parser(subparsers: Any) -> None:
    """Registers ``decode`` and ``encode``."""
    rows = 'rows, one per line, {"op": "+I", "row": {...}} or {...}'
    for name, convert, summary, content in (
        ("decode", _decode, "turn messages into rows", "messages, one per line"),
        ("encode", _encode, "turn rows into messages", rows),
    ):
        parser = subparsers.add_parser(name, help=summary, description=describe_command(f"{summary}, line by line"))
        parser.add_argument("--format", required=True, help=f"one of {', '.join(formats.names())}")
        parser.add_argument(
            "--schema",
            required=True,
            help="the columns as in CREATE TABLE, for example 'id BIGINT, name STRING'; metadata of change data as in "
            "\"origin STRING METADATA FROM 'value.table'\"",
        )
        option = "a format option as in a WITH clause, for example json.ignore-parse-errors=true"
        add_pairs(parser, "--option", option)
        parser.add_argument(
            "--base64",
            action="store_true",
            help="messages are base64; needed for binary formats, whose messages may contain line ends",
        )
        file = f"a file of {content}; standard input if absent"
        parser.add_argument("file", nargs="?", default="-", metavar="FILE", help=file)
        parser.set_defaults(run=_run, command=name, convert=convert)


def _run(args: argparse.Namespace) -> int:
    try:
        failed: bool = args.convert(args)
    except (DefinitionError, PluginError) as error:
        for line in str(error).splitlines():
            print(f"penstock {args.command}: {line}", file=sys.stderr)
        return 2
    sys.stdout.buffer.flush()
    return int(failed)


def _decode(args: argparse.Namespace) -> bool:
    """Whether a message could not be read."""
    columns, fmt, spec = _read_definition(args)
    decoder, show = _build_decoder(columns, fmt, spec), columns.json_writer(fmt)
    failed, refused = False, 0
    with _open_input(args.file) as source:
        for first, given in _read_batches(source):
            numbers, messages = (
                _decode_lines(given, first) if args.base64 else (range(first, first + len(given)), given)
            )
            failed |= len(messages) < len(given)
            decoded = decoder.decode(pa.array(messages, pa.binary()))
            texts = show(decoded.rows)
            ops = [RowKind.INSERT] * len(texts) if decoded.kinds is None else map(RowKind, decoded.kinds.tolist())
            for op, text in zip(ops, texts, strict=True):
                sys.stdout.buffer.write(b'{"op": "%s", "row": %s}\n' % (op.short.encode(), text))
            for bad in () if decoder.ignores_errors else decoded.bad:
                refused += 1
                error = RecordError(bad.reason, format=spec.identifier, field=bad.field)
                _report(f"line {numbers[bad.index]}", error)
    if refused and "ignore-parse-errors" in fmt.options.keys():  # noqa: SIM118 - the option set's own method
        way = f"--option {spec.identifier}.ignore-parse-errors=true"
        print(f"penstock decode: {refused} of the messages cannot be read; {way} leaves them out", file=sys.stderr)
    return failed or refused > 0


def _decode_lines(lines: list[bytes], first: int) -> tuple[list[int], list[bytes]]:
    """The messages in lines of base64, and their line numbers. Reports other lines."""
    numbers, messages = [], []
    for number, line in enumerate(lines, first):
        try:
            messages.append(base64.b64decode(line.strip(), validate=True))
            numbers.append(number)
        except ValueError as error:
            _report(f"line {number}", RecordError(f"expected base64: {error}"))
    return numbers, messages


def _encode(args: argparse.Namespace) -> bool:
    """Whether a row could not be written."""
    columns, fmt, spec = _read_definition(args)
    schema, changes = columns.physical, isinstance(fmt, ChangeFormat)
    encoder = _build(lambda: fmt.encoder(schema, spec.options), spec)
    reader = ExactJsonReader(schema, JsonOptions())
    arrow = arrow_schema(schema)
    failed = False
    with _open_input(args.file) as source:
        for first, lines in _read_batches(source):
            numbers: list[int] = []
            kinds: list[RowKind] = []
            rows: list[dict[str, Any]] = []
            for number, line in enumerate(lines, first):
                if not line.strip():
                    continue
                try:
                    kind, given = _parse_row(line, schema, changes)
                    rows.append(reader.row(given))
                    kinds.append(kind)
                    numbers.append(number)
                except (Malformed, FieldError) as error:
                    failed = True
                    _report(f"line {number}", RecordError(str(error), field=getattr(error, "field", "")))
            arrays = [pa.array([row[field.name] for row in rows], field.type) for field in arrow]
            batch = build_batch(arrays, arrow, len(rows))
            try:
                if changes:
                    encoded = cast(ChangeEncoder, encoder).encode(batch, np.array(kinds, np.int8))
                else:
                    encoded = encoder.encode(batch)
            except RecordError as error:
                _report(f"line {numbers[error.offset]}" if error.offset >= 0 else f"lines from {first} on", error)
                return True
            for number, message in zip(numbers, encoded.to_pylist(), strict=True):
                text = base64.b64encode(message or b"") if args.base64 else message or b""
                if b"\n" in text:
                    failed = True
                    hint = "write the messages with --base64"
                    _report(f"line {number}", RecordError("its message has a line end in it", hint=hint))
                else:
                    sys.stdout.buffer.write(text + b"\n")
    return failed


def _parse_row(line: bytes, schema: RowType, changes: bool) -> tuple[RowKind, Object]:
    """The row in a line and its kind. The row is the whole object, or its member ``row`` beside ``op``. ``changes``:
    the format writes all kinds. Raises Malformed."""
    document = parse(line)
    if not isinstance(document, Object):
        raise Malformed("expected a JSON object")
    members = dict(document.pairs)
    inner = members.get("row")
    if (
        not isinstance(inner, Object)
        or not members.keys() <= {"op", "row"}
        or ("op" not in members and schema.field("row"))
    ):
        return RowKind.INSERT, document
    op = members.get("op", "+I")
    kind = next((each for each in RowKind if each.short == op), None)
    if kind is None:
        raise Malformed(f"expected the op {', '.join(repr(each.short) for each in RowKind)}, not {op!r}")
    if not changes and kind not in (RowKind.INSERT, RowKind.UPDATE_AFTER):
        raise Malformed(f"expected the op '+I' or '+U', the only ones that an insert-only format writes, not {op!r}")
    return kind, inner


def _read_definition(args: argparse.Namespace) -> tuple[Columns, Format, FormatSpec]:
    """Columns, format and bound options. Raises DefinitionError with every problem found."""
    given, problems = parse_pairs(args.option, "--option")
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


def _build_decoder(columns: Columns, fmt: Format, spec: FormatSpec) -> Decoder:
    if isinstance(fmt, ChangeFormat):
        return _build(lambda: fmt.decoder(columns.physical, spec.options, columns.metadata), spec)
    return _build(lambda: fmt.decoder(columns.physical, spec.options), spec)


def _build(build: Callable[[], _Built], spec: FormatSpec) -> _Built:
    """A decoder or an encoder. Raises DefinitionError, which names options with their prefix."""
    try:
        return build()
    except OptionsError as error:
        named = tuple(replace(each, key=f"{spec.identifier}.{each.key}") for each in error.problems)
        raise OptionsError(named) from error


def _open_input(path: str) -> BinaryIO:
    if path == "-":
        return open(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return open(path, "rb")
    except OSError as error:
        raise DefinitionError((Problem(f"cannot read the file: {error.strerror}", path),)) from error


def _read_batches(source: BinaryIO) -> Iterator[tuple[int, list[bytes]]]:
    """Lines without their ends, in batches, each with the number of its first line."""
    first = 1
    while lines := [line.removesuffix(b"\n") for line in islice(source, _LINES_AT_ONCE)]:
        yield first, lines
        first += len(lines)


def _report(place: str, error: RecordError) -> None:
    print(f"{place}: {error}", file=sys.stderr)
