"""Newer versions of schemas, from what tasks have seen and from the definition of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.flow.rows.table_rows import Evolution
from penstock.ingest.tables.programs import Programs
from penstock.ingest.tables.reports import Position, SeenTable, merge_reports
from penstock.ingest.tables.source_tables import SourceTables
from penstock.schemas import (
    ChangeFilter,
    SchemaChange,
    SchemaChangeBehavior,
    Schemas,
    SchemaVersion,
    Side,
    TableSchema,
    apply_change,
    derive_changes,
    describe_change,
    find_changes,
    widen_schema,
)


@dataclass(frozen=True)
class Evolver:
    """Has schemas follow what is seen, as the pipeline's ``behavior`` and the filter of the sink's changes say."""

    source: SourceTables
    programs: Programs
    behavior: SchemaChangeBehavior
    chosen: ChangeFilter

    def evolve(self, schemas: Schemas, reports: Sequence[bytes]) -> list[Evolution]:
        """The newer versions, those of the source first. Raises SchemaError for a change that the pipeline does not
        allow."""
        found: list[Evolution] = []
        before = {name: each.schema for name, each in schemas.sources.items()}
        after = dict(before)
        firsts: dict[str, Position] = {}
        for seen in merge_reports(reports, self.source.static):
            known = schemas.sources.get(seen.table)
            schema = self._widen(known, seen)
            if known is not None and schema == known.schema:
                continue
            changes = find_changes(seen.table, None if known is None else known.schema, schema)
            after[seen.table], firsts[seen.table] = schema, seen.position
            number = 1 if known is None else known.number + 1
            texts = tuple(map(describe_change, changes))
            version = SchemaVersion(Side.SOURCE, seen.table, number, schema, texts)
            found.append(Evolution(version, seen.position))
        return [*found, *self._follow(schemas, before, after, firsts, starts=not reports)]

    def _widen(self, known: SchemaVersion | None, seen: SeenTable) -> TableSchema:
        """The schema of a table of the source after what was seen."""
        if known is None:
            initial = self.source.initial_schema(seen.table)
            widened = widen_schema(initial, TableSchema(seen.row)) if initial.row.fields else TableSchema(seen.row)
            row = seen.sort_columns(initial.row, widened.row)
            if self.source.static and initial.row.fields:
                row = initial.row
            schema = replace(initial, row=self.source.add_metadata(row))
            return _with_key(schema, initial.primary_key or seen.primary_key)
        read = replace(known.schema, row=self.source.read_columns(known.schema.row))
        widened = widen_schema(read, TableSchema(seen.row))
        widened = replace(widened, row=seen.sort_columns(read.row, widened.row))
        # Metadata stays where it is: new columns are the last ones.
        names = {each.name: each for each in widened.row.fields}
        kept = [names.pop(each.name, each) for each in known.schema.row.fields]
        return known.schema.with_fields([*kept, *names.values()])

    def _follow(
        self,
        schemas: Schemas,
        before: Mapping[str, TableSchema],
        after: Mapping[str, TableSchema],
        firsts: Mapping[str, Position],
        *,
        starts: bool,
    ) -> Iterator[Evolution]:
        """The newer versions of tables of the sink. Where a run ``starts``, tables follow its definition, which may be
        another than that of the run before. Changes that a table has not followed are tried again then, and with its
        next ones."""
        members: dict[str, list[str]] = {}
        for table in after:
            for target in self.programs.find_targets(table):
                members.setdefault(target, []).append(table)
        number = schemas.outputs
        for target in sorted(members):
            known = schemas.sinks.get(target)
            pending = known is not None and bool(known.outcome)
            if known is not None and not starts and not any(each in firsts for each in members[target]):
                continue
            wanted = self._merge(members[target], after)
            former = self._merge(members[target], before)
            if wanted is None or not wanted.row.fields:
                continue  # no message has shown a column yet
            changes = find_changes(target, None if known is None else former, wanted)
            if known is not None and (former is None or pending or starts):
                changes = find_changes(target, known.schema, widen_schema(known.schema, wanted))
            schema = None if known is None else known.schema
            derived = self.chosen.select(derive_changes(changes, schema, self.behavior))
            if not derived:
                continue
            schema = _apply(schema, derived)
            if schema is None:
                continue
            positions = [firsts[each] for each in members[target] if each in firsts]
            version = SchemaVersion(
                Side.SINK,
                target,
                1 if known is None else known.number + 1,
                schema,
                tuple(map(describe_change, derived)),
                output=number,
            )
            number += 1
            fallback = None
            if known is not None and self.behavior is not SchemaChangeBehavior.EVOLVE:
                fallback = replace(version, schema=known.schema)
            yield Evolution(version, min(positions, default=None), derived, fallback)

    def _merge(self, tables: Sequence[str], schemas: Mapping[str, TableSchema]) -> TableSchema | None:
        """The schema of a table of the sink that these tables go to, in their order; None if none is known."""
        found: TableSchema | None = None
        for each in tables:
            if each in schemas:
                found = widen_schema(found, self.programs.bind(each, schemas[each]).schema)
        return found


def _apply(schema: TableSchema | None, changes: Sequence[SchemaChange]) -> TableSchema | None:
    for each in changes:
        schema = apply_change(schema, each)
    return schema


def _with_key(schema: TableSchema, key: tuple[str, ...]) -> TableSchema:
    """The schema with a primary key, whose columns are NOT NULL; without one where the table lacks a column of it."""
    if not set(key) <= set(schema.row.names):
        return schema
    columns = (
        replace(each, type=each.type.with_nullability(False)) if each.name in key else each
        for each in schema.row.fields
    )
    return replace(schema.with_fields(columns), primary_key=key)
