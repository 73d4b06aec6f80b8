"""Functions of JSON: parts of documents, documents of values, and tests of texts."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Sequence
from datetime import datetime, time
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.exact.numbers import format_double
from penstock.flow.kernels.json.path import InvalidPathError, PathError, parse_path
from penstock.flow.kernels.rowwise import ValueFailure, compute_each, row_by_row
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Kernel, Vector
from penstock.plan.expressions import Call, Literal
from penstock.types import ArrayType, DataType, MapType, NullType, RowType, TimestampType, TimeType, arrow_type
from penstock.types.logical import root

_SPACE = " \t\n\r"


class _Unreadable(Exception):
    """Text that is not JSON."""


def _refuse_constant(text: str) -> None:
    raise ValueError(text)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=Decimal)


def read(text: str) -> Any:
    """The first JSON value of a text; what follows it is ignored, as Flink does. Raises _Unreadable."""
    plain = text.lstrip(_SPACE)
    try:
        found, end = _DECODER.raw_decode(plain)
    except (ValueError, RecursionError):
        raise _Unreadable from None
    scalar = not plain.startswith(("{", "[", '"'))
    if scalar and end < len(plain) and plain[end] not in _SPACE:
        raise _Unreadable
    return found


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, dict | list)


def write_value(value: Any) -> str:
    """A value that was read, as JSON without spaces, its keys in their order."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quote_text(key)}:{write_value(each)}" for key, each in sorted(value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write_value, value)) + "]"
    if isinstance(value, str):
        return _quote_text(value)
    return _write_plain(value)


def _quote_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _write_plain(value: Any) -> str:
    """A scalar as Java prints it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Decimal():
            return str(abs(value) if value.is_zero() else value)
    return str(value)


# --- parts of documents --------------------------------------------------------------------------------------


def _read_word(call: Call, index: int) -> str:
    given = call.args[index]
    assert isinstance(given, Literal)  # noqa: S101 - so it was bound
    return str(given.value)


def _compute_from(kernel: Callable[..., Any], call: Call, values: Sequence[int]) -> Kernel:
    """Computes from the arguments with these numbers, row by row, null where the first one is."""
    arrow = arrow_type(call.type)

    def run(args: Sequence[Vector], rows: int) -> Vector:
        failures = tuple(failure for each in args for failure in each.failures)
        given = [args[index].spread(rows) for index in values]
        made = compute_each(kernel, arrow, given, strict=False)
        return Vector(made.values, (*failures, *made.failures))

    return run


def _find_value(text: str, path: str) -> Any:
    """The value at a path. Raises _Unreadable or PathError; also for the document ``null``, as Flink does."""
    try:
        way = parse_path(path)
    except InvalidPathError:
        raise PathError from None
    try:
        document = read(text)
    except _Unreadable:
        if way.lax:
            return None
        raise
    if document is None:
        raise PathError
    return way.find(document)


def value(call: Call, session: Session) -> Kernel:
    """``JSON_VALUE``: a scalar at a path."""
    path, on_empty, on_error = (_read_word(call, index) for index in (1, 2, 4))
    return _compute_from(partial(_value, path, root(call.type), on_empty, on_error), call, (0, 3, 5))


def _value(path: str, kind: str, on_empty: str, on_error: str, text: str | None, empty: Any, error: Any) -> Any:
    if text is None:
        return None
    try:
        found = _find_value(text, path)
        if found is not None and _is_scalar(found):
            return _convert_to(kind, found)
        if parse_path(path).lax:
            return _replace_value(on_empty, empty, f"JSON_VALUE finds nothing at '{path}'")
    except (_Unreadable, PathError):
        pass
    return _replace_value(on_error, error, f"JSON_VALUE does not find one value at '{path}' of {text[:100]}")


def _replace_value(behaviour: str, default: Any, reason: str) -> Any:
    if behaviour == "ERROR":
        raise ValueFailure(reason)
    return default if behaviour == "DEFAULT" else None


def _convert_to(kind: str, found: Any) -> Any:
    match kind:
        case "STRING":
            return found if isinstance(found, str) else _write_plain(found)
        case "BOOLEAN" if isinstance(found, bool):
            return found
        case "INT" if isinstance(found, int) and not isinstance(found, bool) and -(2**31) <= found < 2**31:
            return found
        case "DOUBLE" if isinstance(found, int | Decimal) and not isinstance(found, bool):
            return float(found)
    raise ValueFailure(f"JSON_VALUE finds {_write_plain(found)}, which is not of type {kind}")


def query(call: Call, session: Session) -> Kernel:
    """``JSON_QUERY``: an object or an array at a path."""
    path, wrapper, on_empty, on_error = (_read_word(call, index) for index in (1, 2, 3, 4))
    listed = isinstance(call.type, ArrayType)
    return _compute_from(partial(_query, path, wrapper, on_empty, on_error, listed), call, (0,))


def _query(path: str, wrapper: str, on_empty: str, on_error: str, listed: bool, text: str | None) -> Any:
    if text is None:
        return None
    try:
        found = _find_value(text, path)
        wrapped = wrapper == "UNCONDITIONAL" or (wrapper == "CONDITIONAL" and not isinstance(found, list))
        if found is not None and wrapped:
            found = [found]
        if isinstance(found, list) if listed else not _is_scalar(found):
            if listed:
                return [each if each is None or isinstance(each, str) else write_value(each) for each in found]
            return write_value(found)
        if parse_path(path).lax:
            return _replace_query(on_empty, listed, f"JSON_QUERY finds nothing at '{path}'")
    except (_Unreadable, PathError):
        pass
    return _replace_query(on_error, listed, f"JSON_QUERY finds no object or array at '{path}' of {text[:100]}")


def _replace_query(behaviour: str, listed: bool, reason: str) -> Any:
    match behaviour:
        case "EMPTY ARRAY":
            return [] if listed else "[]"
        case "EMPTY OBJECT":
            return "{}"
        case "ERROR":
            raise ValueFailure(reason)
    return None


def exists(call: Call, session: Session) -> Kernel:
    """``JSON_EXISTS``."""
    path, on_error = _read_word(call, 1), _read_word(call, 2)
    return _compute_from(partial(_exists, path, on_error), call, (0,))


def _exists(path: str, on_error: str, text: str | None) -> bool | None:
    if text is None:
        return None
    try:
        found = _find_value(text, path)
        if found is None and not parse_path(path).lax:
            raise PathError
        return found is not None
    except (_Unreadable, PathError):
        if on_error == "ERROR":
            raise ValueFailure(f"JSON_EXISTS cannot follow '{path}' in {text[:100]}") from None
        return {"TRUE": True, "FALSE": False}.get(on_error)


def is_json(call: Call, session: Session) -> Kernel:
    """``IS JSON``: false for null."""
    return _compute_from(partial(_is_json, _read_word(call, 1)), call, (0,))


def _is_json(kind: str, text: str | None) -> bool:
    try:
        found = read(text or "")
    except _Unreadable:
        return False
    match kind:
        case "ARRAY":
            return isinstance(found, list)
        case "OBJECT":
            return isinstance(found, dict)
        case "SCALAR":
            return _is_scalar(found)
    return True


# --- documents of values -------------------------------------------------------------------------------------

Writer = Callable[[Any], str]


def writer(data_type: DataType) -> Writer:
    """Writes values of a type, which are not null, as Flink's JSON functions do."""
    match data_type:
        case ArrayType(element=element):
            each = write_nullable(writer(element))
            return lambda values: "[" + ",".join(map(each, values)) + "]"
        case MapType(key=_, value=value):
            part = write_nullable(writer(value))
            return lambda pairs: "{" + ",".join(f"{_quote_text(str(key))}:{part(item)}" for key, item in pairs) + "}"
        case RowType(fields=fields):
            parts = [(_quote_text(field.name), field.name, write_nullable(writer(field.type))) for field in fields]
            return lambda row: "{" + ",".join(f"{key}:{write(row[name])}" for key, name, write in parts) + "}"
        case TimestampType(precision=precision, local_zone=zoned):
            return partial(_write_timestamp, precision, zoned)
        case TimeType():
            return lambda value: f'"{_write_time(value)}"'
        case NullType():
            return lambda _: "null"
    match root(data_type):
        case "STRING":
            return _quote_text
        case "BYTES":
            return lambda value: f'"{base64.b64encode(value).decode()}"'
        case "DATE":
            return lambda value: f'"{value.isoformat()}"'
        case "FLOAT" | "DOUBLE":
            return _write_real
    return _write_plain


def _write_real(value: float) -> str:
    """By the digits of a DOUBLE, as Java's BigDecimal prints them. Numbers that JSON does not have are strings."""
    text = format_double(value)
    return _write_plain(Decimal(text)) if math.isfinite(value) else f'"{text}"'


def _write_time(value: time) -> str:
    return value.isoformat() if value.microsecond else f"{value:%H:%M:%S}"


def _write_timestamp(precision: int, zoned: bool, value: datetime) -> str:
    fraction = f"{value.microsecond:06d}"[:precision].rstrip("0") if precision else ""
    return f'"{value:%Y-%m-%dT%H:%M:%S}{"." + fraction if fraction else ""}{"Z" if zoned else ""}"'


def write_nullable(write: Writer) -> Writer:
    """The writer of values that may be null."""
    return lambda value: "null" if value is None else write(value)


def _make_writer(call: Call, index: int) -> Writer:
    """Writes an argument: a document made by another of these functions as a part of this one."""
    arg = call.args[index]
    if isinstance(arg, Call) and arg.function in ("JSON_OBJECT", "JSON_ARRAY", "JSON"):
        return str
    return writer(arg.type)


def string(call: Call, session: Session) -> Kernel:
    """``JSON_STRING``."""
    write = _make_writer(call, 0)
    return _compute_from(lambda value: None if value is None else write(value), call, (0,))


def document(call: Call, session: Session) -> Kernel:
    """``JSON('..')``, which is checked, and written without spaces."""

    def check(text: str | None) -> str | None:
        if text is None:
            return None
        try:
            return write_value(read(text))
        except _Unreadable:
            raise ValueFailure(f"JSON takes a JSON document, not '{text[:100]}'") from None

    return _compute_from(check, call, (0,))


def object_(call: Call, session: Session) -> Kernel:
    """``JSON_OBJECT``, its keys in their order."""
    absent = _read_word(call, 0) == "ABSENT"
    keys = [_read_word(call, index) for index in range(1, len(call.args), 2)]
    places = range(2, len(call.args), 2)
    writers = [_make_writer(call, index) for index in places]

    def make(*values: Any) -> str:
        parts: dict[str, str] = {}
        for key, value, write in zip(keys, values, writers, strict=True):
            if value is not None:
                parts[key] = write(value)
            elif not absent:
                parts[key] = "null"
        return "{" + ",".join(f"{_quote_text(key)}:{text}" for key, text in sorted(parts.items())) + "}"

    return _make_constructor(make, call, places)


def object_of(call: Call, session: Session) -> Kernel:
    """``JSON_OBJECTAGG`` of the entries: rows of a key and the JSON of its value. Keys are in their order."""

    def make(entries: list[dict[str, str | None]] | None) -> str:
        parts: dict[str, str | None] = {}
        for entry in entries or ():
            key = entry["key"]
            if key is None:
                raise ValueFailure("a key of JSON_OBJECTAGG is NULL: filter such rows with FILTER (WHERE ..)")
            if key in parts:
                raise ValueFailure(f"key '{key[:100]}' of JSON_OBJECTAGG occurs twice, and keys must be unique")
            parts[key] = entry["value"]
        return "{" + ",".join(f"{_quote_text(key)}:{text}" for key, text in sorted(parts.items())) + "}"

    return _compute_from(make, call, (0,))


def array(call: Call, session: Session) -> Kernel:
    """``JSON_ARRAY``."""
    absent = _read_word(call, 0) == "ABSENT"
    places = range(1, len(call.args))
    writers = [write_nullable(_make_writer(call, index)) for index in places]

    def make(*values: Any) -> str:
        parts = [write(each) for each, write in zip(values, writers, strict=True) if not (absent and each is None)]
        return "[" + ",".join(parts) + "]"

    return _make_constructor(make, call, places)


def _make_constructor(make: Callable[..., str], call: Call, places: Sequence[int]) -> Kernel:
    if not places:
        return lambda args, rows: Vector(pa.scalar(make(), pa.string()))
    return _compute_from(make, call, places)


# --- quotes --------------------------------------------------------------------------------------------------


def quote_json(text: str) -> str:
    """``JSON_QUOTE``: characters beyond ASCII are written by their numbers."""
    return json.dumps(text)


def unquote_json(text: str) -> str | None:
    """``JSON_UNQUOTE``: the text in a JSON string; other texts unchanged."""
    if len(text) < 2 or not (text.startswith('"') and text.endswith('"')):
        return text
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, str) else text


JSON_QUOTE, JSON_UNQUOTE = row_by_row(quote_json), row_by_row(unquote_json)
