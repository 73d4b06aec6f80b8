"""Hints in ``/*+ .. */``: options of a table for one use of it, state TTLs, and hints without effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from penstock.options import DURATION, Origin
from penstock.spi import split_options
from penstock.sql.bind.tables.definitions import DeclaredTable
from penstock.sql.bind.tables.sources import Source
from penstock.sql.parse.source import SourceText
from penstock.sql.parse.syntax import Hint
from penstock.sql.parse.tokens import Token

#: Hints about how Flink computes a result, which do not change the result.
_WITHOUT_EFFECT = ("BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "MULTI_JOIN")


def with_options(table: DeclaredTable, hints: Sequence[Hint], source: SourceText) -> DeclaredTable:
    """The table with the options of OPTIONS hints in place of its own. Raises SqlError for another connector, and
    UnsupportedError for another hint."""
    for hint in hints:
        if hint.name.text != "OPTIONS":
            raise source.unsupported_feature(
                hint.name.at, f"the hint {hint.name.text} is not supported here", "leave it out"
            )
        for key, value in hint.options:
            if key.text == "connector":
                raise source.error(key.at, "a hint cannot change the connector", "declare another table")
            definition, origin = table.definition, table.definition.origin
            places = {**origin.places, key.text: source.at(key.at).spot}
            definition = replace(
                definition,
                options={**definition.options, key.text: value.text},
                origin=Origin(origin.name, places),
            )
            shown = {**table.shown, key.text: (value.text, value.shown)} if "${" in value.shown else table.shown
            table = replace(table, definition=definition, shown=shown)
    return table


def collect_remarks(hints: Sequence[Hint], source: SourceText) -> list[str]:
    """Warnings about options of OPTIONS hints that have no effect."""
    given = {
        key.text: (value.text, key.at) for hint in hints if hint.name.text == "OPTIONS" for key, value in hint.options
    }
    _, options, _ = split_options({key: text for key, (text, _) in given.items()}, Origin())
    return [f"{source.at(given[key][1])}: '{key}' has no effect here: {why}" for key, why in options.remarks]


@dataclass(frozen=True)
class QueryHints:
    """The hints of a SELECT: how long stateful operators keep the rows of its tables, by their names in it, and
    warnings about hints without effect."""

    lifetimes: Mapping[str, timedelta] = field(default_factory=dict)
    #: The place of each name.
    places: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_hints(cls, hints: Sequence[Hint], source: SourceText) -> QueryHints:
        """The hints. Raises UnsupportedError for one that would change the result, and SqlError for a time that cannot
        be read. Of several STATE_TTL hints the first that names a table counts, as in Flink."""
        warnings, found, places = [], dict[str, timedelta](), dict[str, int]()
        for hint in hints:
            name, at = hint.name.text, hint.name.at
            if name == "STATE_TTL":
                given = {key.text: (key.at, _read_duration(value, source)) for key, value in hint.options}
                if not given:
                    raise source.error(at, "STATE_TTL does not name a table", "write STATE_TTL('table' = '1 d')")
                places |= {key: place for key, (place, _) in given.items() if key not in found}
                found = {key: time for key, (_, time) in given.items()} | found
            elif name not in _WITHOUT_EFFECT:
                raise source.unsupported_feature(at, f"the hint {name} is not supported", "leave it out")
            else:
                warnings.append(f"{source.at(at)}: the hint {name} has no effect here")
        return cls(found, places, tuple(warnings))

    def find_ttl(self, read: Source) -> timedelta | None:
        """How long a join or a GROUP BY keeps the rows that it takes from ``read``; None where no hint sets it, as for
        the rows of a join, which has no name."""
        names = [each.qualifier for each in read.tables]
        return self.lifetimes.get(names[0]) if len(names) == 1 else None

    def check(self, read: Source, source: SourceText, *, stateful: bool) -> Iterator[str]:
        """Yields a warning for hints about a query without a join or a group. Raises SqlError for a name that no table
        or query in FROM has."""
        names = [each.qualifier for each in read.tables if each.qualifier]
        for name, at in self.places.items():
            if name not in names:
                hint = f"the tables and queries of FROM are {', '.join(names)}" if names else "FROM has no table"
                raise source.error(at, f"STATE_TTL names '{name}', which this query does not read", hint)
        if self.places and not stateful:
            yield f"{source.at(min(self.places.values()))}: STATE_TTL has no effect on a query without JOIN or GROUP BY"


def _read_duration(value: Token, source: SourceText) -> timedelta:
    try:
        found: timedelta = DURATION.parse(value.text)
    except ValueError as error:
        raise source.error(
            value.at, f"{error}, not {value.shown}", "write a time such as '36 h'; 0 means forever"
        ) from None
    return found
