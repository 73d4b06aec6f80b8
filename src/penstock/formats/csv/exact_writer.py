"""Writes CSV in Python: one unquoted text per value for columns that the compiled loop cannot write, and whole lines
for options that it does not support."""

from __future__ import annotations

import pyarrow as pa

from penstock.exact.texts import slices, text_writer, write_texts
from penstock.formats.csv.options import CsvOptions
from penstock.types import ArrayType, DataType, DecimalType, PrimitiveType, RowType

#: Jackson quotes longer text without checking its characters. The length is in UTF-16 units, as in Java.
LONGEST_CHECKED = 24


def write_csv_lines(rows: pa.RecordBatch, schema: RowType, options: CsvOptions) -> list[bytes]:
    """One line per row, as :func:`penstock.formats.csv.write_kernel.write_records` writes it, for any characters that
    the options name."""
    null = options.null_literal or ""
    columns: list[list[str]] = []
    for column, field in zip(rows.columns, schema.fields, strict=True):
        texts = write_csv_texts(column, field.type, options)
        bare = isinstance(field.type, DecimalType) or (
            isinstance(field.type, PrimitiveType) and field.type.name != "DATE"
        )
        columns.append([null if each is None else each if bare else _quote(each, options) for each in texts])
    lines = zip(*columns, strict=True) if columns else [()] * rows.num_rows
    return [options.field_delimiter.join(line).encode() for line in lines]


def _quote(text: str, options: CsvOptions) -> str:
    quote, escape = options.quote, options.escape_character
    if quote is None:
        return text
    safe = max(options.field_delimiter, quote)
    needed = any(each <= safe or each == (escape or "\\") for each in text)
    if not needed and len(text.encode("utf-16-le")) <= 2 * LONGEST_CHECKED:
        return text
    return quote + "".join(each * 2 if each in (quote, escape) else each for each in text) + quote


def write_csv_texts(array: pa.Array, data_type: DataType, options: CsvOptions) -> list[str | None]:
    """One text per value, None for null."""
    match data_type:
        case ArrayType(element=element):
            return _write_arrays(array, element, options)
        case RowType():
            return _row_texts(array, data_type, options)
    return write_texts(array, text_writer(data_type, plain=True))


def _write_arrays(array: pa.Array, element: DataType, options: CsvOptions) -> list[str | None]:
    null = options.null_literal or ""
    elements = [null if each is None else each for each in write_csv_texts(array.values, element, options)]
    return [None if part is None else options.array_element_delimiter.join(elements[part]) for part in slices(array)]


def _row_texts(array: pa.Array, data_type: RowType, options: CsvOptions) -> list[str | None]:
    null = options.null_literal or ""
    columns = [
        write_csv_texts(column, each.type, options)
        for column, each in zip(array.flatten(), data_type.fields, strict=True)
    ]
    return [
        options.array_element_delimiter.join(null if each is None else each for each in parts) if given else None
        for given, *parts in zip(array.is_valid().to_pylist(), *columns, strict=True)
    ]
