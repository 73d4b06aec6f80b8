"""Tables of the source as tasks work on them: how their messages are read, and what their rows go through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.flow.kernels.session import Session
from penstock.ingest.tables.message_columns import RowDecoder
from penstock.ingest.tables.programs import Programs
from penstock.ingest.tables.row_fitting import RowFitter
from penstock.ingest.tables.source_tables import SourceTables
from penstock.ingest.transforms import TableTransform
from penstock.schemas import Schemas, SchemaVersion
from penstock.types import Field, RowType

#: The columns of a table that come from its messages, its primary key, and the metadata that is read.
_DecoderKey: TypeAlias = tuple[RowType, tuple[str, ...], tuple[Field, ...]]


@dataclass(frozen=True, eq=False)
class Target:
    """A table of the sink, and what the rows of a table of the source go through last."""

    version: SchemaVersion
    fitter: RowFitter


@dataclass(frozen=True, eq=False)
class BoundTable:
    """A table whose schema is known. ``columns`` are those that come from its messages, ``metadata`` is what
    derived ones read beside them. Tables that share a decoder and the rule of their transform can be worked on
    together."""

    version: SchemaVersion
    columns: RowType
    metadata: tuple[Field, ...]
    decoder: RowDecoder
    transform: TableTransform
    targets: tuple[Target, ...]


@dataclass(eq=False)
class TableBinder:
    """Binds tables, and keeps them for the next batches."""

    source: SourceTables
    programs: Programs
    session: Session
    _bound: dict[str, BoundTable] = field(default_factory=dict, init=False)
    _decoders: dict[_DecoderKey, RowDecoder] = field(default_factory=dict, init=False)
    _fitters: dict[tuple[RowType, RowType, bool], RowFitter] = field(default_factory=dict, init=False)

    def bind(self, name: str, schemas: Schemas) -> BoundTable:
        """A known table under these schemas. Raises a DefinitionError for a rule that does not fit it."""
        version = schemas.sources[name]
        sinks = tuple(self._find_sinks(name, schemas))
        found = self._bound.get(name)
        if found is None or found.version is not version or tuple(each.version for each in found.targets) != sinks:
            found = self._bound[name] = self._bind(name, version, sinks)
        return found

    def _find_sinks(self, name: str, schemas: Schemas) -> Iterator[SchemaVersion]:
        for target in self.programs.find_targets(name):
            version = schemas.sinks.get(target)
            if version is not None:
                yield version

    def _bind(self, name: str, version: SchemaVersion, sinks: tuple[SchemaVersion, ...]) -> BoundTable:
        columns = self.source.read_columns(version.schema.row)
        derived = self.source.declared.find_derived(name)
        metadata = () if derived is None else derived.metadata
        transform = self.programs.bind(name, version.schema)
        row = transform.schema.row
        targets = tuple(Target(sink, self._make_fitter(row, sink.schema.row, bool(sink.outcome))) for sink in sinks)
        return BoundTable(
            version,
            columns,
            metadata,
            self._make_decoder(columns, version.schema.primary_key, metadata),
            transform,
            targets,
        )

    def _make_decoder(self, *parts: *_DecoderKey) -> RowDecoder:
        if parts not in self._decoders:
            self._decoders[parts] = self.source.columns.make_decoder(*parts)
        return self._decoders[parts]

    def _make_fitter(self, given: RowType, wanted: RowType, lacks: bool) -> RowFitter:
        key = given, wanted, lacks
        if key not in self._fitters:
            self._fitters[key] = RowFitter.from_rows(given, wanted, self.session, lacks=lacks)
        return self._fitters[key]
