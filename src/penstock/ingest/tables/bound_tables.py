"""Tables of the source as tasks work on them: how their messages are read, and what their rows go through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.flow.kernels.session import Session
from penstock.ingest.tables.message_columns import RowDecoder
from penstock.ingest.tables.programs import Programs
from penstock.ingest.tables.row_fitting import RowFitter
from penstock.ingest.tables.source_tables import SourceTables
from penstock.ingest.transforms import TableTransform
from penstock.schemas import Schemas, SchemaVersion
from penstock.types import RowType


@dataclass(frozen=True, eq=False)
class Target:
    """A table of the sink, and what the rows of a table of the source go through last."""

    version: SchemaVersion
    fitter: RowFitter


@dataclass(frozen=True, eq=False)
class BoundTable:
    """A table whose schema is known. ``columns`` are those that come from its messages. Tables that share a decoder and
    the rule of their transform can be worked on together."""

    version: SchemaVersion
    columns: RowType
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
    _decoders: dict[RowType, RowDecoder] = field(default_factory=dict, init=False)
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
        transform = self.programs.bind(name, version.schema)
        row = transform.schema.row
        targets = tuple(Target(sink, self._make_fitter(row, sink.schema.row, bool(sink.outcome))) for sink in sinks)
        return BoundTable(version, columns, self._make_decoder(columns), transform, targets)

    def _make_decoder(self, columns: RowType) -> RowDecoder:
        if columns not in self._decoders:
            self._decoders[columns] = self.source.columns.make_decoder(columns)
        return self._decoders[columns]

    def _make_fitter(self, given: RowType, wanted: RowType, lacks: bool) -> RowFitter:
        key = given, wanted, lacks
        if key not in self._fitters:
            self._fitters[key] = RowFitter.from_rows(given, wanted, self.session, lacks=lacks)
        return self._fitters[key]
