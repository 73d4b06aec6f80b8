"""Kafka sources in YAML: a scan that gives messages as they are, and how tables are read from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

from penstock.errors import OptionsError, Problem, UnsupportedError
from penstock.ingest.declarations import LIST_OPTION, Declarations, suggest
from penstock.ingest.definition import SourceDef
from penstock.ingest.format_options import find_key_reader, find_prefix
from penstock.ingest.kafka_options import DDLS, DEFAULT_FORMAT, InferenceStrategy, KafkaIngestSourceOptions
from penstock.ingest.problems import Problems
from penstock.ingest.tables.declared_reader import DeclaredReader
from penstock.ingest.tables.declared_tables import DeclaredTable, DeclaredTables
from penstock.ingest.tables.message_columns import KEY, VALUE, MessageColumns
from penstock.ingest.tables.refused import ErrorPolicy
from penstock.ingest.tables.source_tables import TOPIC, SourceTables
from penstock.ingest.transforms import METADATA
from penstock.options import BOOLEAN, LIST
from penstock.plan.nodes import Scan
from penstock.spi import (
    CHANGES,
    INSERTIONS,
    BuildsDeadLetters,
    ChangeFormat,
    Column,
    ColumnKind,
    Format,
    InferringFormat,
    ScanSpec,
    Surface,
    TableDefinition,
    TableReader,
    connectors,
    formats,
    scan_spec,
)
from penstock.types import BYTES, RowKind

_T = TypeVar("_T")

#: The name of the table that gives the messages of a source as they are, in checkpoints too.
SOURCE = "source"
_STATIC = "'schema.inference.strategy: static'"
_WITH_OFFSET = "ISO-8601-WITH-OFFSET"
_PREFETCH = "scan.max.pre.fetch.records"
#: Options of columns that have to be declared.
_OF_DECLARED = ("key.fields", "value.fields-include")
#: The option for records that cannot be read, and the metadata that is kept of them.
_LETTERS, _OF_LETTERS = "scan.dead-letter.topic", ("__raw_key__", "header-list", "timestamp", "partition")
_IGNORES, _SKIPS = "ingestion.ignore-errors", ".ignore-parse-errors"
_OF_PARTS = ("value.format", _IGNORES, "key.format", "key.fields-prefix", "value.fields-prefix", *_OF_DECLARED)
_ALL, _EXCEPT_KEY = "ALL", "EXCEPT_KEY"


@dataclass(frozen=True)
class IngestSource:
    """The ``scan`` that gives messages as they are, how ``tables`` are read from them, the ``kinds`` of their rows, and
    what happens to records that cannot be read."""

    scan: Scan
    tables: SourceTables
    kinds: frozenset[RowKind]
    errors: ErrorPolicy


def read_source(source: SourceDef, problems: Problems, warn: Callable[[str], None]) -> IngestSource | None:
    """A source, or None after problems. ``warn`` is called for what has another effect than it seems."""
    return _KafkaSource(source, problems, warn).build()


class _KafkaSource:
    def __init__(self, source: SourceDef, problems: Problems, warn: Callable[[str], None]):
        self._source, self._problems, self._warn = source, problems, warn
        self._origin = source.origin
        self._given = dict(source.options)
        # In YAML it leaves a record out, where SQL has NULL for a value that does not fit.
        skips = [key for key, each in self._given.items() if key.endswith(_SKIPS) and each.strip().lower() == "true"]
        for key in skips:
            del self._given[key]
        self._skips = bool(skips)

    def build(self) -> IngestSource | None:
        """The source, or None after problems."""
        options = self._attempt(partial(KafkaIngestSourceOptions.from_text, self._given, self._origin))
        tolerates = self._attempt(self._read_tolerance)
        found = self._attempt(self._find_format)
        listed = self._attempt(lambda: self._declarations.listed)
        declared = None if found is None or listed is None else self._attempt(self._declarations.read_tables)
        static = options is not None and options.strategy is InferenceStrategy.STATIC
        fixed = static and declared is not None and len(declared) == 1
        messages = None
        if not fixed or self._attempt(self._check_declared) is not None:  # else the same problems would come again
            messages = self._attempt(partial(self._define_messages, declared or {}))
        spec = None if messages is None else self._attempt(partial(scan_spec, connectors.get("kafka"), messages))
        if options is None or found is None or declared is None:
            return None
        columns = self._attempt(partial(self._read_columns, found, declared, fixed=fixed))
        if messages is None or spec is None or columns is None or tolerates is None:
            return None
        tables = self._make_tables(options, columns, declared, spec)
        keeps = tables.letters is not None
        errors = ErrorPolicy(tolerates or keeps or self._skips, options.max_errors if tolerates or keeps else -1)
        scan = Scan(messages.produced, messages.name, self._source.type, spec)
        return IngestSource(scan, tables, CHANGES if isinstance(found, ChangeFormat) else INSERTIONS, errors)

    def _attempt(self, make: Callable[[], _T]) -> _T | None:
        return self._problems.attempt(self._source, make)

    def _error(self, key: str, reason: str, hint: str) -> OptionsError:
        # An option that is missing has the place of the connector.
        place = self._origin.locate(key if key in self._origin.places else "")
        return OptionsError((Problem(reason, key, place, hint),))

    def _refuse(self, keys: Iterable[str], reason: str, hint: str) -> None:
        """Raises UnsupportedError for these options, unless there are none."""
        found = tuple(Problem(reason, key, self._origin.locate(key), hint) for key in keys)
        if found:
            raise UnsupportedError(found)

    # --- options ---------------------------------------------------------------------------------------------

    def _read_tolerance(self) -> bool:
        """Whether records that cannot be read are left out. Raises OptionsError."""
        try:
            return bool(BOOLEAN.parse(self._given.get(_IGNORES, "false")))
        except ValueError as error:
            raise self._error(_IGNORES, str(error), "true leaves such records out") from None

    @property
    def _identifier(self) -> str:
        return self._given.get("value.format", DEFAULT_FORMAT).strip().lower()

    def _find_format(self) -> Format:
        if self._identifier not in formats.names():
            hint = suggest(self._identifier, formats.names())
            raise self._error("value.format", f"there is no format '{self._identifier}'", hint)
        return formats.get(self._identifier)

    @property
    def _prefix(self) -> str:
        """What the options of the format of values begin with; 'value.' may be left out."""
        return find_prefix(self._given, self._identifier)

    @cached_property
    def _declarations(self) -> Declarations:
        found = formats.get(self._identifier) if self._identifier in formats.names() else None
        return Declarations(self._given, self._origin, found.metadata if isinstance(found, ChangeFormat) else {})

    def _own_keys(self, *, of_values: bool) -> set[str]:
        """The options that the connector does not know, and with ``of_values`` those of the format of values."""
        found = formats.get(self._identifier) if self._identifier in formats.names() else None
        own = {*KafkaIngestSourceOptions.keys()}
        if isinstance(found, InferringFormat):
            own |= {f"{self._identifier}.{key}" for key in found.inference.keys()}  # noqa: SIM118
        if found is not None and of_values:
            own |= {self._prefix + key for key in found.options.keys()}  # noqa: SIM118 - a method of option sets
        return own

    # --- what is read ----------------------------------------------------------------------------------------

    def _check_declared(self) -> ScanSpec:
        """How the only table could be read if nothing had to be found. Raises the errors of its keys, prefixes,
        metadata and formats."""
        own, (table,) = self._own_keys(of_values=False), self._declarations.tables
        given = {key: each for key, each in self._given.items() if key not in own}
        fields = self._declarations.key_fields
        if not fields:  # the columns of keys, if they are read, are inferred
            given = {key: each for key, each in given.items() if not key.startswith("key.")}
        include = {"value.fields-include": _ALL if self._values_have_keys else _EXCEPT_KEY}
        listed = (Column(each.name, each.type, ColumnKind.METADATA, "", True) for each in self._declarations.listed)
        options = {"connector": "kafka", "value.format": DEFAULT_FORMAT, **include, **given}
        options |= {"key.fields": ";".join(fields)} if fields else {}
        columns, places = (*table.columns, *listed), self._origin.places
        origin = replace(self._origin, places={**places, "": places.get(DDLS, "")})  # of problems of columns
        definition = TableDefinition(SOURCE, columns, options, origin, Surface.YAML, table.primary_key)
        return scan_spec(connectors.get("kafka"), definition)

    def _define_messages(self, declared: Mapping[str, DeclaredTable]) -> TableDefinition:
        """The table that gives messages as they are."""
        own = {*self._own_keys(of_values=True), *_OF_PARTS}
        starts = (
            [] if self._identifier in formats.names() else [f"{each}{self._identifier}." for each in ("", "value.")]
        )
        key_format = self._given.get("key.format", "").strip().lower()
        if key_format in formats.names():
            own |= {f"key.{key_format}.{key}" for key in formats.get(key_format).options.keys()}  # noqa: SIM118
        else:  # the options of formats that there are not cannot be checked
            starts.append(f"key.{key_format}.")
        left = {key: each for key, each in self._given.items() if key not in own and not key.startswith((*starts,))}
        of_records = self._declarations.of_records
        keys = [each.name for each in self._declarations.listed] if declared else []
        keys += [name.removeprefix(METADATA) for each in declared.values() for name in each.metadata]
        keys += _OF_LETTERS if _LETTERS in self._given else ()
        keys += [KEY] if "key.format" in self._given else ()
        columns = [
            Column(key, of_records[key], ColumnKind.METADATA, key, True)
            for key in dict.fromkeys((TOPIC, *keys))
            if key in of_records
        ]
        options = {"connector": "kafka", "value.format": "raw", **left}
        return TableDefinition(SOURCE, (Column(VALUE, BYTES), *columns), options, self._origin, Surface.YAML)

    def _read_columns(self, found: Format, declared: Mapping[str, DeclaredTable], *, fixed: bool) -> MessageColumns:
        """How the columns of tables are read from values and keys. Raises a DefinitionError."""
        if not fixed and any(each.derived for each in declared.values()):
            hint = f"declare one table, and write {_STATIC}; or name metadata in '{LIST_OPTION}', and use a transform"
            raise self._error(DDLS, "columns that follow the messages are neither computed nor metadata", hint)
        if not fixed:
            given = [key for key in _OF_DECLARED if key in self._given]
            self._refuse(given, "is not supported with inferred schemas yet", "leave it out")
        key, value = (self._given.get(f"{each}.fields-prefix", "") for each in ("key", "value"))
        if key and value and (key.startswith(value) or value.startswith(key)):
            reason = f"'{key}' and the 'value.fields-prefix' '{value}' begin with the same text"
            raise self._error("key.fields-prefix", reason, "neither of the two may be a prefix of the other")
        reader = self._make_reader(found, declared, fixed=fixed)
        keys = self._make_key_reader()
        return MessageColumns(reader, value, keys, key, self._declarations.key_fields, self._values_have_keys)

    def _make_reader(self, found: Format, declared: Mapping[str, DeclaredTable], *, fixed: bool) -> TableReader[Any]:
        """What reads values. Raises OptionsError for a format from which schemas cannot be inferred."""
        standard = f"{self._prefix}timestamp-format.standard"
        offset = self._given.get(standard, "").strip().upper() == _WITH_OFFSET
        options = found.options.from_text(self._given, self._origin, self._prefix)
        if isinstance(found, InferringFormat):
            inference = found.inference.from_text(self._given, self._origin, f"{self._identifier}.")
            reader = found.table_reader(options, inference)
            if not offset:
                return reader
            if reader.names_tables or not fixed:
                self._refuse([standard], f"{_WITH_OFFSET} is not supported with inferred schemas yet", "use ISO-8601")
        elif not fixed:
            known = [name for name in formats.names() if isinstance(formats.get(name), InferringFormat)]
            reason = f"schemas cannot be inferred from '{self._identifier}'"
            hint = f"use {', '.join(known)}, or declare the table in '{DDLS}' with {_STATIC}"
            raise self._error("value.format", reason, hint)
        if not all(each.schema.row.fields for each in declared.values()):
            reason = "the table has no columns of messages, so the contents of its records would be lost"
            raise self._error(DDLS, reason, "declare the columns of the value")
        return DeclaredReader(self._identifier, options)

    @property
    def _values_have_keys(self) -> bool:
        """Whether values have the columns of keys too."""
        prefixed = "key.fields-prefix" in self._given or "value.fields-prefix" in self._given
        include = self._given.get("value.fields-include", _EXCEPT_KEY if prefixed else _ALL)
        return include.strip().upper() == _ALL

    def _make_key_reader(self) -> TableReader[Any] | None:
        """What reads keys; None if they are not read. Raises OptionsError for a format that keys cannot have."""
        identifier = self._given.get("key.format", "").strip().lower()
        if not identifier:
            return None
        if identifier not in formats.names():
            hint = suggest(identifier, formats.names())
            raise self._error("key.format", f"there is no format '{identifier}'", hint)
        declared = bool(self._declarations.key_fields)
        reader = find_key_reader(formats.get(identifier), self._given, self._origin, declared=declared)
        if reader is not None:
            return reader
        hint = f"use json, or name its columns in 'key.fields', and declare the table in '{DDLS}' with {_STATIC}"
        raise self._error("key.format", f"columns cannot be inferred from keys of '{identifier}'", hint)

    def _make_tables(
        self,
        options: KafkaIngestSourceOptions,
        columns: MessageColumns,
        declared: Mapping[str, DeclaredTable],
        spec: ScanSpec,
    ) -> SourceTables:
        by_topic = not columns.reader.names_tables
        topics = LIST.parse(self._given.get("topic", "")) if by_topic else ()
        tables = SourceTables(
            columns,
            self._identifier,
            self._prefix,
            DeclaredTables(declared, by_topic),
            self._declarations.listed,
            options.strategy is InferenceStrategy.STATIC,
            options.prefetch,
            spec if _LETTERS in self._given and isinstance(spec, BuildsDeadLetters) else None,
            tuple(topics),
        )
        self._warn_of_names(tables)
        settled = topics and len(tables.settled) == len(topics)
        if settled and _PREFETCH in self._given:
            place = self._origin.locate(_PREFETCH)
            self._warn(f"{place}: '{_PREFETCH}' has no effect: the schema is declared, and nothing is read before")
        fixed = any(key.startswith(f"{self._identifier}.infer-schema.fixed-types") for key in self._given)
        return replace(tables, looks_ahead=0) if settled or fixed else tables

    def _warn_of_names(self, tables: SourceTables) -> None:
        """Warn of topics whose table is declared under another name."""
        for topic in tables.names:
            declared = tables.declared.find_id(topic)
            if declared is not None and topic not in (declared, declared.rpartition(".")[2]):
                self._warn(
                    f"{self._origin.locate(DDLS)}: messages of '{self._identifier}' do not say which table they belong "
                    f"to, so the table is named after its topic, '{topic}', and has the columns of '{declared}'"
                )
