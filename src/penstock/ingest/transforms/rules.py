"""Which rule a table takes, and what the texts of a rule say."""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.errors import PipelineError
from penstock.ingest.definition import TransformDef
from penstock.ingest.table_ids import explain_pattern, match_table_id

_ESCAPED_STAR = re.compile(r"(^|,)(\s*)\\\*")


def unescape_stars(projection: str) -> str:
    """A projection in which a star may be written with a backslash, as in Flink CDC."""
    return _ESCAPED_STAR.sub(r"\1\2 *", projection)


def choose_rule(rules: Sequence[TransformDef], table: str) -> TransformDef | None:
    """The first rule whose pattern matches ``table``, a dotted id; the others have no effect on it, as in Flink CDC.
    Raises PipelineError for a pattern that is not one."""
    for rule in rules:
        try:
            if match_table_id(rule.source_table, table):
                return rule
        except re.error as error:
            raise PipelineError((explain_pattern(rule.source_table, error, rule.origin),)) from None
    return None


def split_table_options(text: str, delimiter: str = ",") -> tuple[tuple[str, str], ...]:
    """``table-options``: pairs ``key=value`` with a delimiter between them, sorted. Raises ValueError with the reason
    for one without '='."""
    found: dict[str, str] = {}
    for each in text.split(delimiter or ",") if text.strip() else ():
        key, equals, value = each.partition("=")
        if not equals:
            raise ValueError(f"expected 'key=value' pairs with '{delimiter or ','}' between them, not '{each.strip()}'")
        found[key.strip()] = value.strip()
    return tuple(sorted(found.items()))
