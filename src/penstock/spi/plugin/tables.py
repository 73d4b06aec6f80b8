"""What a connector implements, and the table definition it is given."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from penstock.errors import DefinitionError, OptionsError, PluginError, Problem, UnsupportedError
from penstock.options import OptionSet, Origin, unknown_keys
from penstock.spi.plugin.specs import ScanSpec, SinkSpec
from penstock.spi.plugin.watermarks import Watermark, split_options
from penstock.types import DataType, Field, RowType

_Options = TypeVar("_Options", bound=OptionSet)
_Spec = TypeVar("_Spec")


class Surface(enum.Enum):
    """The front end that a definition came through; some of Flink's defaults differ between them."""

    SQL = "sql"
    YAML = "yaml"
    BUILDER = "builder"


class ColumnKind(enum.Enum):
    """Where a column's values come from."""

    PHYSICAL = "physical"
    METADATA = "metadata"
    COMPUTED = "computed"


@dataclass(frozen=True)
class Column:
    """A column of a table. ``key`` is the metadata key of a METADATA column; ``virtual`` metadata is read but not
    written."""

    name: str
    type: DataType
    kind: ColumnKind = ColumnKind.PHYSICAL
    key: str = ""
    virtual: bool = False


@dataclass(frozen=True)
class TableDefinition:
    """A table as the user wrote it, before a connector has checked it.

    ``options`` is the WITH clause, the flat YAML map or the calls of a builder, with values as text. ``objects`` are a
    builder's arguments that have no text, by the keys of the options that they replace.
    """

    name: str
    columns: tuple[Column, ...]
    options: Mapping[str, str]
    origin: Origin = field(default_factory=Origin)
    surface: Surface = Surface.SQL
    primary_key: tuple[str, ...] = ()
    objects: Mapping[str, Any] = field(default_factory=dict)
    watermark: Watermark | None = None
    #: The columns of PARTITIONED BY, which only connectors :class:`WithPartitions` read.
    partitioned_by: tuple[str, ...] = ()
    #: Whether writing replaces the rows that were in the table before, in connectors :class:`WithOverwrite`.
    overwrite: bool = False

    @property
    def physical(self) -> RowType:
        """The physical columns: those that formats read and write."""
        return self._make_row(lambda column: column.kind is ColumnKind.PHYSICAL)

    @property
    def produced(self) -> RowType:
        """The columns that a scan produces: physical and metadata ones, in the order of declaration."""
        return self._make_row(lambda column: column.kind is not ColumnKind.COMPUTED)

    @property
    def written(self) -> RowType:
        """The columns that INSERT INTO expects: physical and writable metadata ones, in the order of declaration."""
        return self._make_row(
            lambda column: (
                column.kind is ColumnKind.PHYSICAL or (column.kind is ColumnKind.METADATA and not column.virtual)
            )
        )

    def _make_row(self, wanted: Callable[[Column], bool]) -> RowType:
        return RowType(tuple(Field(c.name, c.type) for c in self.columns if wanted(c)), nullable=False)

    def bind_options(self, options: type[_Options], *others: type[OptionSet]) -> _Options:
        """The options of the table that ``options`` declares. Those of ``others`` may be given too: a table may be both
        read and written. Raises OptionsError with every problem."""
        declared: tuple[type[OptionSet], ...] = (options, *others)
        known = {"connector", *(key for each in declared for key in each.keys())}  # noqa: SIM118
        prefixes = tuple(prefix for each in declared for prefix in each.prefixes())
        problems = unknown_keys(self.options, known, prefixes, self.origin)
        try:
            found = options.from_text(self.options, self.origin)
        except OptionsError as error:
            raise OptionsError((*problems, *error.problems)) from None
        if problems:
            raise OptionsError(problems)
        return found


@runtime_checkable
class Connector(Protocol):
    """A connector of the registry: Readable, Writable or both."""

    #: Lower-case name, as in ``'connector' = 'kafka'``.
    identifier: str
    #: The option sets, for the reference: title to class.
    options: Mapping[str, type[OptionSet]]
    #: ``module:Name`` of the class that runs the specs on Spark (see penstock.engine).
    runtime: str


@runtime_checkable
class WithMetadata(Connector, Protocol):
    """A connector whose tables may have columns of metadata."""

    #: Metadata key to the type that is read.
    metadata: Mapping[str, DataType]


@runtime_checkable
class WithPartitions(Connector, Protocol):
    """A connector whose tables may have PARTITIONED BY."""

    partitioned: Literal[True]


@runtime_checkable
class WithOverwrite(Connector, Protocol):
    """A connector for whose tables there is INSERT OVERWRITE."""

    overwrites: Literal[True]


@runtime_checkable
class Readable(Connector, Protocol):
    """A connector whose tables can be read."""

    def scan(self, table: TableDefinition) -> ScanSpec:
        """How to read ``table``. Raises DefinitionError with every problem found."""


@runtime_checkable
class Writable(Connector, Protocol):
    """A connector whose tables can be written."""

    def sink(self, table: TableDefinition) -> SinkSpec:
        """How to write ``table``. Raises DefinitionError with every problem found."""


@runtime_checkable
class WritesTables(Connector, Protocol):
    """A connector that can write tables which are found while a job runs, and whose columns change."""

    def tables_sink(self, table: TableDefinition) -> SinkSpec:
        """How such tables are written, apart from their columns: the spec of all of them together. ``table`` has their
        options, and no columns. Its committer's writers get each table by :meth:`penstock.spi.Writer.add_output`.
        Raises DefinitionError with every problem found."""


#: Hints on reading the data of connectors that only write.
_READING = {
    "postgres": "use it in INSERT INTO only; to read the database, let Debezium write its changes to a topic, and read "
    "that with 'format' = 'debezium-json', or join a table of 'upsert-kafka' that holds its rows"
}


def scan_spec(connector: Connector, table: TableDefinition) -> ScanSpec:
    """How ``connector`` reads ``table``. Raises DefinitionError with every problem found, UnsupportedError when its
    tables cannot be read, and PluginError for an incomplete spec."""
    if not isinstance(connector, Readable):
        hint = _READING.get(connector.identifier, "use it in INSERT INTO only")
        raise _one_way_error(connector, table, "cannot be read", hint)
    with _separate_event_time(table) as rest:
        return _check_complete(connector, connector.scan(rest), ScanSpec)  # type: ignore[type-abstract]


def sink_spec(connector: Connector, table: TableDefinition) -> SinkSpec:
    """How ``connector`` writes ``table``. Raises DefinitionError with every problem found, UnsupportedError when its
    tables cannot be written, and PluginError for an incomplete spec."""
    if not isinstance(connector, Writable):
        raise _one_way_error(connector, table, "cannot be written", "use it in FROM only")
    with _separate_event_time(table) as rest:
        return _check_complete(connector, connector.sink(rest), SinkSpec)  # type: ignore[type-abstract]


@contextmanager
def _separate_event_time(table: TableDefinition) -> Iterator[TableDefinition]:
    """The table as its connector sees it: its watermark includes the options of event time. Raises OptionsError with
    the problems of these options and the problems that the connector found."""
    if table.surface is not Surface.SQL:
        yield table
        return
    options, event_time, problems = split_options(table.options, table.origin)
    watermark = table.watermark
    if watermark is not None and event_time.idle_timeout is not None:
        watermark = replace(watermark, idle_timeout=event_time.idle_timeout)
    try:
        yield replace(table, options=options, watermark=watermark)
    except DefinitionError as error:
        if not problems:
            raise
        raise OptionsError((*problems, *error.problems)) from None
    if problems:
        raise OptionsError(problems)


def _one_way_error(connector: Connector, table: TableDefinition, reason: str, hint: str) -> UnsupportedError:
    reason = f"connector '{connector.identifier}' {reason}"
    return UnsupportedError((Problem(reason, where=f"table '{table.name}'", hint=hint),))


def _check_complete(connector: Connector, spec: object, wanted: type[_Spec]) -> _Spec:
    if isinstance(spec, wanted):
        return spec
    lacking = sorted(name for name in vars(wanted) if not name.startswith("_") and name not in dir(spec))
    raise PluginError(
        f"connector '{connector.identifier}' returns a {type(spec).__name__}, which is not a {wanted.__name__}: it "
        f"lacks {', '.join(lacking)}"
    )
