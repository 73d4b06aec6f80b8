"""What a table goes through between its source and its sink, by the definition of the pipeline."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from penstock.ingest.definition import RouteDef, TransformDef
from penstock.ingest.table_ids import match_table_id
from penstock.ingest.tables.declared_tables import DeclaredTables
from penstock.ingest.transforms import DerivedColumns, TableTransform
from penstock.schemas import TableSchema

_MOST_SHOWN = 5


class RoutesTables(Protocol):
    """Says which tables of the sink a table goes to."""

    @property
    def routes(self) -> tuple[RouteDef, ...]:
        """The rules that it has for that."""

    def find_targets(self, table: str) -> tuple[str, ...]:
        """The ids of the tables of the sink."""


class BindsTables(Protocol):
    """Binds what the rows of tables go through."""

    @property
    def rules(self) -> tuple[TransformDef, ...]:
        """The rules by which tables are chosen; none where all go through the same."""

    def bind(self, table: str, schema: TableSchema, derived: DerivedColumns | None = None) -> TableTransform:
        """What the rows of a table of this schema, with the columns ``derived`` from them, go through. Raises a
        DefinitionError for a rule that does not fit it."""


@dataclass(frozen=True)
class Programs:
    """The transforms and routes of a pipeline, applied to tables as they are found."""

    router: RoutesTables
    binder: BindsTables
    declared: DeclaredTables
    has_functions: bool = False
    _targets: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Without what was found for tables."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.init}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def bind(self, table: str, schema: TableSchema) -> TableTransform:
        """What the rules of the pipeline do with a table of this schema. Raises PipelineError or UnsupportedError for
        a rule that does not fit it."""
        return self.binder.bind(table, schema, self.declared.find_derived(table))

    def explain_unused(self, tables: Collection[str], which: str = "tables that were found so far") -> list[str]:
        """The rules that match none of the tables, each with its place."""
        shown = ", ".join(sorted(tables)[:_MOST_SHOWN])
        more = f" and {len(tables) - _MOST_SHOWN} others" if len(tables) > _MOST_SHOWN else ""
        parts = ("transform", self.binder.rules), ("route", self.router.routes)
        return [
            f"{rule.origin.locate('source-table')}: the {part} for '{rule.source_table}' matches none of the {which}: "
            f"{shown}{more}"
            for part, rules in parts
            for rule in rules
            if not any(match_table_id(rule.source_table, each) for each in tables)
        ]

    def find_targets(self, table: str) -> tuple[str, ...]:
        """The ids of the tables of the sink that a table goes to."""
        if table not in self._targets:
            self._targets[table] = self.router.find_targets(table)
        return self._targets[table]
