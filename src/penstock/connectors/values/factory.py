"""The ``values`` connector: from a table definition to how the table is read or written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.columns.streams import ipc_stream
from penstock.common import Row
from penstock.connectors.values import memory
from penstock.connectors.values.options import ValuesSinkOptions, ValuesSourceOptions
from penstock.connectors.values.spec import ValuesScanSpec, ValuesSinkSpec
from penstock.errors import OptionsError, Problem, SchemaError, UnsupportedError, nearest
from penstock.options import OptionSet
from penstock.spi import KIND, ColumnKind, NotNull, TableDefinition, missing_text
from penstock.types import Field, RowType, arrow_type


class ValuesConnector:
    """Tables whose rows are in the process that starts the job: for tests, for trying out SQL, and as an example of a
    connector. See [testing](../testing.md)."""

    identifier = "values"
    options: Mapping[str, type[OptionSet]] = {"Source": ValuesSourceOptions, "Sink": ValuesSinkOptions}
    runtime = "penstock.connectors.values.spark:ValuesRuntime"

    def scan(self, table: TableDefinition) -> ValuesScanSpec:
        """How ``table`` is read. Raises OptionsError, UnsupportedError or SchemaError with every problem of the
        options, the columns or the rows."""
        options = table.bind_options(ValuesSourceOptions, ValuesSinkOptions)
        if options.data_id not in memory.list_ids():
            hint = (
                nearest(options.data_id, memory.list_ids()) or "register them with penstock.connectors.values.register"
            )
            problem = Problem(
                f"this process has no rows '{options.data_id}'", "data-id", table.origin.locate("data-id"), hint
            )
            raise OptionsError((problem,))
        unsupported = tuple(_find_unsupported(table))
        if unsupported:
            raise UnsupportedError(unsupported)
        data = _encode_rows(memory.rows(options.data_id), table, options)
        return ValuesScanSpec(
            table=table.name, options=options, schema=table.produced, data=data, primary_key=table.primary_key
        )

    def sink(self, table: TableDefinition) -> ValuesSinkSpec:
        """How ``table`` is written. Raises OptionsError with every problem found."""
        options = table.bind_options(ValuesSinkOptions, ValuesSourceOptions)
        return ValuesSinkSpec(table=table.name, options=options, schema=table.written)

    def tables_sink(self, table: TableDefinition) -> ValuesSinkSpec:
        """How tables with the options of ``table`` are written, which are found while the job runs. Raises OptionsError
        with every problem found."""
        return self.sink(table)


def _find_unsupported(table: TableDefinition) -> Iterator[Problem]:
    where = table.origin.locate("") or f"table '{table.name}'"
    for column in table.columns:
        if column.kind is ColumnKind.METADATA:
            reason = f"column '{column.name}': connector 'values' has no metadata columns"
            yield Problem(reason, where=where, hint="declare it without METADATA")
    if table.watermark is not None:
        yield Problem("connector 'values' has no event time", where=where, hint="leave WATERMARK FOR out")


def _encode_rows(rows: Sequence[Row], table: TableDefinition, options: ValuesSourceOptions) -> bytes:
    """The rows as an Arrow IPC stream. Raises SchemaError with every value that does not fit."""
    fields = table.produced.fields
    problems = tuple(_find_misfits(rows, table.produced, options))
    columns = []
    if not problems:
        for number, field in enumerate(fields):
            values = [_to_plain(row[number]) for row in rows]
            try:
                columns.append(pa.array(values, arrow_type(field.type)))
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                problems += (Problem(f"{_locate_misfit(values, field)}: {error}"),)
    if not problems:
        named = dict(zip(table.produced.names, columns, strict=True))
        for name, mask in NotNull(table.produced).missing(named):
            problems += (Problem(f"row {int(np.argmax(mask))}: {missing_text(table.produced, name)}"),)
    if problems:
        raise SchemaError(tuple(Problem(each.reason, "data-id", table.origin.locate("data-id")) for each in problems))
    columns.append(pa.array([int(row.get_row_kind()) for row in rows], pa.int8()))
    batch = pa.RecordBatch.from_arrays(columns, names=[*table.produced.names, KIND])
    return bytes(ipc_stream(batch))


def _find_misfits(rows: Sequence[Row], schema: RowType, options: ValuesSourceOptions) -> Iterator[Problem]:
    for number, row in enumerate(rows):
        if len(row) != len(schema.fields):
            yield Problem(f"row {number} has {len(row)} values for {len(schema.fields)} columns")
            continue
        if row.get_row_kind() not in options.kinds:
            yield Problem(f"row {number} is {row.get_row_kind().short}, which 'changelog-mode' leaves out")
        for value, field in zip(row, schema.fields, strict=True):
            if value is None and not field.type.nullable:
                yield Problem(f"row {number} has no value for column '{field.name}', which is {field.type}")


def _locate_misfit(values: Sequence[Any], field: Field) -> str:
    """The position of the first value that is not of a column's type."""
    for number, value in enumerate(values):
        try:
            pa.array([value], arrow_type(field.type))
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            return f"row {number}, column '{field.name}': not a value of {field.type}"
    return f"column '{field.name}'"


def _to_plain(value: Any) -> Any:
    """A value as Arrow accepts it, with tuples for Rows."""
    match value:
        case Row():
            return tuple(_to_plain(each) for each in value)
        case list():
            return [_to_plain(each) for each in value]
    return value
