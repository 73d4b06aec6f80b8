"""Hints in ``/*+ .. */``: options of a table for one use of it; and those that have no effect here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.options import Origin
from penstock.sql.bind.tables import DeclaredTable
from penstock.sql.parse.source import SourceText
from penstock.sql.parse.syntax import Hint

#: Hints about how Flink finds a result, and not about which one.
_WITHOUT_EFFECT = ("BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "MULTI_JOIN")


def with_options(table: DeclaredTable, hints: Sequence[Hint], source: SourceText) -> DeclaredTable:
    """The table with the options of OPTIONS hints in place of its own. Raises SqlError for another connector, and
    UnsupportedError for another hint."""
    for hint in hints:
        if hint.name.text != "OPTIONS":
            raise source.unsupported(hint.name.at, f"the hint {hint.name.text} is not supported here", "leave it out")
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


def ignored(hints: Sequence[Hint], source: SourceText) -> list[str]:
    """Warnings about the hints of a SELECT. Raises UnsupportedError for one that would change the result."""
    warnings = []
    for hint in hints:
        name, at = hint.name.text, hint.name.at
        if name == "STATE_TTL":
            raise source.unsupported(at, "STATE_TTL is not supported", "leave it out: state is kept for ever")
        if name not in _WITHOUT_EFFECT:
            raise source.unsupported(at, f"the hint {name} is not supported", "leave it out")
        warnings.append(f"{source.at(at)}: the hint {name} has no effect here")
    return warnings
