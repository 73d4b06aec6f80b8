"""Which tables of the sink a table goes to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.ingest.definition import RouteDef, RouteMode
from penstock.ingest.table_ids import match_table_id


@dataclass(frozen=True)
class Router:
    """The routes of a pipeline. A table that none matches keeps its id."""

    routes: tuple[RouteDef, ...]
    mode: RouteMode

    def find_targets(self, table: str) -> tuple[str, ...]:
        """The ids of the tables of the sink that a table goes to."""
        return tuple(dict.fromkeys(self._match(table))) or (table,)

    def _match(self, table: str) -> Iterator[str]:
        for route in self.routes:
            match = match_table_id(route.source_table, table)
            if match is not None:
                yield make_target_id(route, match, table)
                if self.mode is RouteMode.FIRST_MATCH:
                    return


def make_target_id(route: RouteDef, match: re.Match[str], table: str) -> str:
    """The id of the sink's table, in which the source table's name replaces the symbol, and groups of the pattern
    replace ``$1`` and so on."""
    if route.replace_symbol:
        return route.sink_table.replace(route.replace_symbol, table.rpartition(".")[2])

    def group(found: re.Match[str]) -> str:
        number = int(found[1])
        return (match[number] or "") if number <= len(match.groups()) else found[0]

    return re.sub(r"\$(\d+)", group, route.sink_table)
