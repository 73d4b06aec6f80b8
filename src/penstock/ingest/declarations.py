"""What the options of a source declare of tables: their columns, which of them keys have, and which are metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from penstock.errors import DefinitionError, OptionsError, Problem, SchemaError, nearest
from penstock.ingest.kafka_options import DDLS
from penstock.ingest.tables.declared_tables import DeclaredTable
from penstock.ingest.transforms import METADATA, DerivedColumns
from penstock.options import LIST, Origin
from penstock.plan.expressions import ColumnRef, Expression, cast, rewrite, substitute
from penstock.schemas import TableSchema
from penstock.spi import ColumnKind, WithMetadata, connectors
from penstock.sql import ComputedColumn, parse_tables
from penstock.sql import TableSchema as WrittenTable
from penstock.types import STRING, DataType, Field, RowType

LIST_OPTION = "metadata.list"
#: Metadata that is bytes, and text in the columns of 'metadata.list'.
_TEXTS = ("__raw_key__", "__raw_value__")


@dataclass(frozen=True)
class Declarations:
    """The options ``given`` for the columns of tables. ``of_format`` is the metadata of the format of values."""

    given: Mapping[str, str]
    origin: Origin
    of_format: Mapping[str, DataType]

    @cached_property
    def tables(self) -> tuple[WrittenTable, ...]:
        """The tables as they are written, with the prefixes of their columns. Raises a DefinitionError."""
        try:
            found = parse_tables(self.given.get(DDLS, ""), origin=self.origin.locate(DDLS))
        except DefinitionError as error:
            raise type(error)(tuple(replace(each, key=DDLS) for each in error.problems)) from None
        return tuple(map(self._add_prefixes, found))

    @cached_property
    def listed(self) -> tuple[Field, ...]:
        """The columns of 'metadata.list', named by their keys. Raises OptionsError."""
        names = [name.strip() for name in self.given.get(LIST_OPTION, "").split(",") if name.strip()]
        problems = [
            self._problem(LIST_OPTION, f"there is no metadata '{name}'", suggest(name, self.of_records))
            for name in names
            if name not in self.of_records
        ]
        if problems:
            raise OptionsError(tuple(problems))
        return tuple(Field(name, STRING if name in _TEXTS else self.of_records[name]) for name in names)

    @cached_property
    def of_records(self) -> Mapping[str, DataType]:
        """The metadata of records."""
        kafka = connectors.get("kafka")
        return kafka.metadata if isinstance(kafka, WithMetadata) else {}

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The columns of keys, with their prefix."""
        prefix = self.given.get("key.fields-prefix", "")
        return tuple(prefix + name.removeprefix(prefix) for name in LIST.parse(self.given.get("key.fields", "")))

    def read_tables(self) -> dict[str, DeclaredTable]:
        """The declared tables by their ids. Raises SchemaError for two columns of one name, or another
        DefinitionError."""
        listed = {each.name for each in self.listed}
        hint = f"rename it in '{DDLS}', or leave it out of '{LIST_OPTION}'"
        problems = [
            self._problem(DDLS, f"there are two columns '{column.name}'", hint)
            for each in self.tables
            for column in each.columns
            if column.name in listed
        ]
        if problems:
            raise SchemaError(tuple(problems))
        return {".".join(each.id): self._make_table(each) for each in self.tables}

    def _problem(self, key: str, reason: str, hint: str) -> Problem:
        return Problem(reason, key, self.origin.locate(key), hint)

    # --- columns ---------------------------------------------------------------------------------------------

    def _add_prefixes(self, table: WrittenTable) -> WrittenTable:
        """The table with the prefixes of keys and values before the names of columns that lack them. Which columns are
        of keys is only known if they are named, or if keys are not read."""
        value_prefix = self.given.get("value.fields-prefix", "")
        if "key.format" in self.given and not self.key_fields:
            return table
        prefix = self.given.get("key.fields-prefix", "")
        declared = {each.name for each in table.columns if each.kind is ColumnKind.PHYSICAL}
        names = {name: value_prefix + name.removeprefix(value_prefix) for name in declared}
        for full in self.key_fields:
            names[full if full in declared else full.removeprefix(prefix)] = full

        def rename(part: Expression) -> Expression:
            return replace(part, name=names.get(part.name, part.name)) if isinstance(part, ColumnRef) else part

        columns = tuple(
            replace(each, expression=rewrite(each.expression, rename))
            if isinstance(each, ComputedColumn)
            else replace(each, name=names.get(each.name, each.name))
            for each in table.columns
        )
        return WrittenTable(table.id, columns, tuple(names.get(name, name) for name in table.primary_key))

    def _make_table(self, table: WrittenTable) -> DeclaredTable:
        physical = tuple(Field(each.name, each.type) for each in table.columns if each.kind is ColumnKind.PHYSICAL)
        return DeclaredTable(TableSchema(RowType(physical, nullable=False), table.primary_key), self._derive(table))

    def _derive(self, table: WrittenTable) -> DerivedColumns | None:
        """The columns that are metadata or computed; None if there are none."""
        expressions: dict[str, Expression] = {}
        read: dict[str, Field] = {}
        known = {**self.of_records, **{f"value.{key}": each for key, each in self.of_format.items()}}
        for each in table.columns:
            if each.kind is ColumnKind.METADATA:
                # What is no metadata, or cannot be cast, is a problem of the table.
                native = known.get(each.key or each.name, each.type)
                field = Field(METADATA + (each.key or each.name), native)
                read[field.name] = field
                ref = ColumnRef(field.name, type=native)
                same = native.with_nullability(True) == each.type.with_nullability(True)
                expressions[each.name] = ref if same else cast(ref, each.type)
        for each in table.columns:
            if isinstance(each, ComputedColumn):
                expressions[each.name] = substitute(each.expression, expressions)
        if not expressions:
            return None
        declared = tuple(Field(each.name, each.type) for each in table.columns)
        return DerivedColumns(expressions, tuple(read.values()), declared, table.primary_key)


def suggest(name: str, known: Mapping[str, object] | Sequence[str]) -> str:
    """A hint with the name that is meant, or all that there are."""
    return nearest(name, known) or f"there are {', '.join(known)}"
