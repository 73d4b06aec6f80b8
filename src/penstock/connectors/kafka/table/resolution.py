"""From a table definition to options, formats and columns that fit together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from penstock.connectors.kafka.table.client_properties import CONNECTOR_PROPERTIES, add_group
from penstock.connectors.kafka.table.metadata import OF_VALUE, READABLE, WRITABLE, MetadataColumn
from penstock.connectors.kafka.table.options import (
    FieldsInclude,
    KafkaSinkOptions,
    KafkaSourceOptions,
    KafkaTableOptions,
)
from penstock.connectors.kafka.table.spec import KafkaTableSpec
from penstock.errors import OptionsError, Problem, SchemaError, UnsupportedError, nearest
from penstock.kafka.properties import check, describe_without_effect, find_remarks, find_without_effect
from penstock.options import LIST, Absent, OptionSet, Properties, select_properties, unknown_keys
from penstock.spi import (
    ChangeFormat,
    Column,
    ColumnKind,
    Format,
    FormatSpec,
    Surface,
    TableDefinition,
    TableFormat,
    formats,
)
from penstock.types import DataType, RowType
from penstock.types.casts import is_castable

_Options = TypeVar("_Options", bound=KafkaTableOptions)

_ABSENT: Absent = {
    "*.infer-schema.*": (
        "columns are declared, and not found in messages",
        "leave it out, and declare the columns, nested ones as ROW<..>",
    ),
}


class Resolution:
    """Resolves a table for reading or (``writes``) writing. Collects every problem before it raises."""

    #: The options that a table may have, and those of them that name a format.
    declared: tuple[type[OptionSet], ...] = (KafkaSourceOptions, KafkaSinkOptions)
    format_options: tuple[str, ...] = ("value.format", "format", "key.format")
    #: The option that names the columns of the key.
    key_option = "key.fields"
    #: Whether a row replaces the one with the same key.
    upserts = False
    absent: Absent = _ABSENT

    def __init__(self, table: TableDefinition, *, writes: bool):
        self.table = table
        self.writes = writes
        self.origin = table.origin if table.origin.locate("") else replace(table.origin, name=f"table '{table.name}'")
        self.given = dict(table.options)
        self.problems: list[Problem] = []
        self.unsupported: list[Problem] = []
        self.notes: list[str] = []

    def resolve(self, cls: type[_Options]) -> KafkaTableSpec[_Options]:
        """The table with options of ``cls``. Raises UnsupportedError with every problem if all are about what penstock
        lacks, else OptionsError."""
        self._note_older_names()
        self._check_unknown_options()
        options = self._parse_options(cls)
        if options:
            self.notes += [f"'{key}' has no effect: {why}" for key, why in options.remarks]
        keys = self._key_columns(options) if options else ()
        values = self._value_columns(options, keys) if options else ()
        physical = self.table.physical
        key_schema = value_schema = None
        if options and not self.problems:
            key_schema = physical.select(keys).without_prefix(options.key_fields_prefix)
            value_schema = physical.select(values).without_prefix(options.value_fields_prefix)
        metadata = self._metadata(options)
        written_raw = {column.key for column in metadata} if self.writes else set()
        if "__raw_value__" in written_raw:
            self._note_unwritten("__raw_value__", "value", values)
            value_schema = None
        if "__raw_key__" in written_raw:
            self._note_unwritten("__raw_key__", "key", keys)
            key_schema = None
        value = self._resolve_format("value.format" if "value.format" in self.given else "format", value_schema)
        key = self._resolve_format("key.format", key_schema)
        if (
            self.table.primary_key
            and value
            and not self.upserts
            and not isinstance(formats.get(value.identifier), ChangeFormat)
        ):
            self.notes.append(
                f"PRIMARY KEY has no effect: with '{value.identifier}' each message is a new row and replaces none"
            )
        if options is None or value is None or self.problems or self.unsupported:
            error = OptionsError if self.problems else UnsupportedError
            raise error((*self.problems, *self.unsupported))
        return KafkaTableSpec(
            table=self.table.name,
            options=options,
            value=value,
            key=key,
            physical=physical,
            key_columns=keys,
            value_columns=values,
            metadata=metadata,
            client=add_group(options.properties, ""),
            upserts=self.upserts,
            notes=tuple(self.notes),
        )

    def problem(self, reason: str, key: str = "", hint: str = "") -> None:
        """Add a problem of an option, or of the whole table."""
        self.problems.append(Problem(reason, key, self.origin.locate(key), hint))

    # --- options ---------------------------------------------------------------------------------------------

    def _note_older_names(self) -> None:
        if "sink.semantic" in self.given:  # the older name wins, as in Flink
            self.given.pop("sink.delivery-guarantee", None)
            self.notes.append("'sink.semantic' is deprecated; write 'sink.delivery-guarantee'")

    def _parse_options(self, cls: type[_Options]) -> _Options | None:
        properties = select_properties(self.given)
        for each in check(dict(properties)):
            key = f"properties.{each.key}"
            self.problems.append(replace(each, key=key, where=each.where or self.origin.locate(key)))
        remarked, others = find_remarks(dict(properties)), find_without_effect(dict(properties))
        self.notes += [f"'properties.{name}' has no effect: {why}" for name, why in remarked]
        if others:
            self.notes.append(describe_without_effect(others, "properties."))
        unused = {*CONNECTOR_PROPERTIES, *dict(remarked), *others}
        properties = tuple((name, value) for name, value in properties if name not in unused)
        given = dict(self.given)
        if self.table.surface is Surface.BUILDER:
            for option in cls.declared_options().values():
                if option.key in cls.builder_defaults and given.keys().isdisjoint(option.all_keys):
                    given[option.key] = cls.builder_defaults[option.key]
        try:
            return self._bind(cls, given, properties)
        except OptionsError as error:
            known = {problem.key for problem in self.problems}
            self.problems += [problem for problem in error.problems if problem.key not in known]
            return None

    def _bind(self, cls: type[_Options], given: Mapping[str, str], properties: Properties) -> _Options:
        """The options of the text ``given``. Raises OptionsError with every problem."""
        return cls.from_text(given, self.origin, properties=properties)

    def _check_unknown_options(self) -> None:
        """A table may be both read and written, so the options of both sides are known, and those of its formats."""
        known = {"connector", *(key for options in self.declared for key in options.keys())}  # noqa: SIM118
        lenient = ["properties."]
        for name in self.format_options:
            identifier = self._read_identifier(name)
            for prefix in self._find_prefixes(name):
                if identifier in formats.names():
                    declared = formats.get(identifier).options
                    known |= {prefix + key for key in declared.keys()}  # noqa: SIM118 - a method of option sets
                    lenient += [prefix + each for each in declared.prefixes()]
                else:  # the format is reported; its options cannot be checked
                    lenient.append(prefix)
        self.problems += unknown_keys(self.given, known, tuple(lenient), self.origin, self.absent)

    # --- formats ---------------------------------------------------------------------------------------------

    def _read_identifier(self, name: str) -> str:
        return self.given.get(name, "").strip().lower()

    def _find_prefixes(self, name: str) -> tuple[str, ...]:
        """The prefixes of the options of the format that option ``name`` names. YAML may leave ``value.`` out."""
        identifier = self._read_identifier(name)
        if not identifier:
            return ()
        if name == "format":
            return (f"{identifier}.",)
        if name == "value.format" and self.table.surface is Surface.YAML:
            return (f"value.{identifier}.", f"{identifier}.")
        return (f"{name.removesuffix('format')}{identifier}.",)

    def _resolve_format(self, name: str, schema: RowType | None) -> FormatSpec | None:
        identifier = self._read_identifier(name)
        if not identifier:
            return None
        if identifier not in formats.names():
            hint = nearest(identifier, formats.names()) or f"known are {', '.join(formats.names())}"
            self.problem(f"there is no format '{identifier}'", name, hint)
            return None
        prefixes = self._find_prefixes(name)
        prefix = next((each for each in prefixes if any(key.startswith(each) for key in self.given)), prefixes[0])
        found = formats.get(identifier)
        if isinstance(found, ChangeFormat) and self._refuses_changes(name, identifier):
            return None
        try:
            spec = FormatSpec.bind(found, self.given, self.origin, prefix, self._choose_subject(name))
            if isinstance(found, TableFormat) and self.table.surface is Surface.YAML and self.writes:
                table_id = tuple(self.table.name.split("."))
                schema_too = bool(self.table.objects.get("value.schema"))
                options = found.with_table(spec.options, table_id, self.table.primary_key, with_schema=schema_too)
                spec = replace(spec, options=options)
            if schema is not None:
                self._try_schema(found, schema, spec, prefix)
        except OptionsError as error:
            self.problems += error.problems
            return None
        return spec

    def _refuses_changes(self, name: str, identifier: str) -> bool:
        """Whether a format of changes is refused as ``name``; then the problem is added."""
        if name == "key.format":
            self.problem(f"'{identifier}' reads change messages, which keys cannot be", name, "for example 'json'")
        return name == "key.format"

    def _choose_subject(self, name: str) -> str | None:
        """The subject of a sink's messages, for a format with a schema registry; None unless there is one topic."""
        topics = LIST.parse(self.given.get("topic", ""))
        if not self.writes or len(topics) != 1 or "topic-pattern" in self.given:
            return None
        return f"{topics[0]}-{'key' if name == 'key.format' else 'value'}"

    def _try_schema(self, found: Format, schema: RowType, spec: FormatSpec, prefix: str) -> None:
        build = found.encoder if self.writes else found.decoder
        try:
            build(schema, spec.options)
        except SchemaError as error:
            where = self.origin.locate("")
            self.problems += [
                replace(each, where=", ".join(filter(None, (where, each.where)))) for each in error.problems
            ]
        except OptionsError as error:
            for each in error.problems:
                self.problem(each.reason, prefix + each.key, each.hint)

    # --- columns ---------------------------------------------------------------------------------------------

    def _key_columns(self, options: KafkaTableOptions) -> tuple[str, ...]:
        physical = self.table.physical.names
        for name in options.key_fields:
            if name not in physical:
                self.problem(
                    f"'{name}' is not a physical column of the table",
                    self.key_option,
                    nearest(name, physical) or f"physical columns are {', '.join(physical) or 'none'}",
                )
            elif not name.startswith(options.key_fields_prefix):
                self.problem(
                    f"'{name}' does not begin with '{options.key_fields_prefix}'",
                    self.key_option,
                    "every key column begins with 'key.fields-prefix'",
                )
        return tuple(name for name in options.key_fields if name in physical)

    def _value_columns(self, options: KafkaTableOptions, keys: tuple[str, ...]) -> tuple[str, ...]:
        names = self.table.physical.names
        if options.value_fields_include is FieldsInclude.EXCEPT_KEY:
            names = tuple(name for name in names if name not in keys)
        for name in names:
            if not name.startswith(options.value_fields_prefix):
                self.problem(
                    f"column '{name}' of the value does not begin with '{options.value_fields_prefix}'",
                    "value.fields-prefix",
                )
        return names

    def _metadata(self, options: KafkaTableOptions | None) -> tuple[MetadataColumn, ...]:
        columns = [column for column in self.table.columns if column.kind is ColumnKind.METADATA]
        if not self.writes:
            found = [self._resolve_readable(column) for column in columns]
        else:
            found = [self._resolve_writable(column, options) for column in columns if not column.virtual]
            keys = [column.key for column in found if column]
            for number, column in enumerate(filter(None, found)):
                if column.key in keys[:number]:
                    reason = f"metadata '{column.key}' is written by another column too"
                    self._add_column_problem(column.name, reason, "drop one of the two")
            if "headers" in keys and "header-list" in keys:
                self._add_column_problem(
                    "headers", "cannot be written together with 'header-list'", "drop one of the two"
                )
            if options and (len(options.topic) > 1 or options.topic_pattern) and "topic" not in keys:
                self.problem(
                    "writing to several topics needs a column that names each row's topic",
                    "topic-pattern" if options.topic_pattern else "topic",
                    "declare a column STRING METADATA FROM 'topic'",
                )
        return tuple(column for column in found if column)

    def _resolve_readable(self, column: Column) -> MetadataColumn | None:
        key, readable = column.key or column.name, {**self._value_metadata(), **READABLE}
        if key not in readable:
            hint = nearest(key, readable) or f"known are {', '.join(readable)}"
            self._add_column_problem(column.name, f"there is no metadata '{key}'", hint)
            return None
        if not is_castable(readable[key], column.type):
            self._add_column_problem(
                column.name,
                f"metadata '{key}' is {readable[key]} and cannot be cast to {column.type}",
                f"declare it {readable[key].text()}",
            )
        return MetadataColumn(column.name, key, column.type, readable[key])

    def _value_metadata(self) -> dict[str, DataType]:
        """The metadata that the value's format reads."""
        identifier = self._read_identifier("value.format") or self._read_identifier("format")
        found = formats.get(identifier) if identifier in formats.names() else None
        metadata = found.metadata if isinstance(found, ChangeFormat) else {}
        return {OF_VALUE + key: each for key, each in metadata.items()}

    def _resolve_writable(self, column: Column, options: KafkaTableOptions | None) -> MetadataColumn | None:
        key = column.key or column.name
        fixed_topic = key == "topic" and options is not None and len(options.topic) == 1
        if key not in WRITABLE or fixed_topic:
            reason = "is written only with several topics" if fixed_topic else "cannot be written"
            self._add_column_problem(column.name, f"metadata '{key}' {reason}", "declare the column VIRTUAL")
            return None
        if not is_castable(column.type, WRITABLE[key]):
            self._add_column_problem(
                column.name,
                f"{column.type} cannot be cast to metadata '{key}', which is {WRITABLE[key]}",
                f"declare it {WRITABLE[key].text()}",
            )
        return MetadataColumn(column.name, key, column.type, WRITABLE[key])

    def _note_unwritten(self, key: str, part: str, columns: tuple[str, ...]) -> None:
        if columns:
            self.notes.append(f"the {part} of a message is '{key}': it does not contain {', '.join(columns)}")

    def _add_column_problem(self, column: str, reason: str, hint: str) -> None:
        self.problems.append(Problem(reason, where=f"{self.origin.locate('')}, column '{column}'", hint=hint))
