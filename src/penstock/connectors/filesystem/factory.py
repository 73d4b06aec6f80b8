"""The ``filesystem`` connector: from a table definition to how its files are read and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.connectors.filesystem.metadata import READABLE
from penstock.connectors.filesystem.metadata import problems as metadata_problems
from penstock.connectors.filesystem.options import ABSENT, PARQUET, FilesystemOptions
from penstock.connectors.filesystem.partitions import Partitions
from penstock.connectors.filesystem.partitions import problems as partition_problems
from penstock.connectors.filesystem.spec import FilesystemScanSpec, FilesystemSinkSpec, FilesystemSpec
from penstock.errors import OptionsError, Problem, SchemaError, UnsupportedError
from penstock.options import OptionSet, unknown_keys
from penstock.spi import ColumnKind, FormatSpec, TableDefinition, formats
from penstock.types import RowType


class FilesystemConnector:
    """Tables in the files of a folder. Reading ends with the last of the files that are there when the job starts for
    the first time; hidden files, whose names begin with `.` or `_`, are left out. Each batch writes its own files,
    which appear when the batch is complete; a batch that is published again replaces its files. INSERT OVERWRITE, in
    batch mode, deletes all other files; in a table with partitions, only in the folders that it writes to."""

    identifier = "filesystem"
    options: Mapping[str, type[OptionSet]] = {"Source": FilesystemOptions, "Sink": FilesystemOptions}
    runtime = "penstock.connectors.filesystem.spark:FilesystemRuntime"
    partitioned = True
    overwrites = True
    metadata = READABLE

    def scan(self, table: TableDefinition) -> FilesystemScanSpec:
        """How ``table`` is read. Raises OptionsError, UnsupportedError or SchemaError with every problem found."""
        return FilesystemScanSpec(**_resolve(table, table.produced, writes=False))

    def sink(self, table: TableDefinition) -> FilesystemSinkSpec:
        """How ``table`` is written. Raises OptionsError, UnsupportedError or SchemaError with every problem found."""
        return FilesystemSinkSpec(**_resolve(table, table.written, writes=True), overwrite=table.overwrite)


def _resolve(table: TableDefinition, schema: RowType, *, writes: bool) -> dict[str, Any]:
    """The parts of a spec."""
    where = table.origin.locate("") or f"table '{table.name}'"
    metadata = [column for column in table.columns if column.kind is ColumnKind.METADATA]
    unknown = tuple(replace(each, where=where) for each in metadata_problems(metadata, writes=writes))
    if unknown:
        raise UnsupportedError(unknown)
    name = table.options.get("format", "").strip().lower()
    found = formats.get(name) if name in formats.names() and name != PARQUET else None
    known = {"connector", *FilesystemOptions.keys()}
    if found is not None:
        known |= {f"{name}.{key}" for key in found.options.keys()}  # noqa: SIM118
    problems = unknown_keys(table.options, known, (), table.origin, ABSENT)
    try:
        options = FilesystemOptions.from_text(table.options, table.origin)
    except OptionsError as error:
        raise OptionsError((*problems, *error.problems)) from None
    if problems:
        raise OptionsError(problems)
    wrong = tuple(replace(each, where=where) for each in partition_problems(schema, table.partitioned_by))
    if wrong:
        raise UnsupportedError(wrong)
    by = table.partitioned_by
    partitions = Partitions(schema.select(by), options.default_partition) if by else None
    parts: dict[str, Any] = {
        "table": table.name,
        "options": options,
        "schema": schema,
        "format": None,
        "partitions": partitions,
        "metadata": tuple((each.name, each.key or each.name) for each in metadata if each.name in schema.names),
    }
    stored = FilesystemSpec(**parts).stored
    if not stored.fields:
        problem = Problem("no column of the table is in its files", where=where, hint="declare one that is")
        raise UnsupportedError((problem,))
    if found is None:
        return parts
    spec = FormatSpec.bind(found, table.options, table.origin, f"{name}.")
    try:
        (found.encoder if writes else found.decoder)(stored, spec.options)
    except SchemaError as error:
        raise SchemaError(
            tuple(replace(each, where=", ".join(filter(None, (where, each.where)))) for each in error.problems)
        ) from None
    return {**parts, "format": spec}
