"""Keys of Flink of which only the default is kept: another value would change what a table holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Refused:
    """A key whose value can only be the ``default``, because of what is not done here."""

    default: str
    reason: str

    def check(self, text: str) -> None:
        """Raises ValueError for another value."""
        if text.strip().casefold() != self.default.casefold():
            raise ValueError(f"{self.reason}; expected {self.default or 'no value'}")


#: Flink's experimental keys of windows (``table.exec.emit.*``) would give results early, and change them later.
_ONCE = "a window gives its rows once, when it closes, and late rows are left out"

REFUSED: Mapping[str, Refused] = {
    "fs.default-scheme": Refused("", "a path without a scheme is one of the machine"),
    "table.builtin-catalog-name": Refused("default_catalog", "the first catalog has this name"),
    "table.builtin-database-name": Refused("default_database", "the first database has this name"),
    "table.column-expansion-strategy": Refused("", "* gives all columns, metadata columns included"),
    "table.dynamic-table-options.enabled": Refused("true", "OPTIONS hints are always taken"),
    "table.exec.emit.allow-lateness": Refused("", _ONCE),
    "table.exec.emit.early-fire.delay": Refused("", _ONCE),
    "table.exec.emit.early-fire.enabled": Refused("false", _ONCE),
    "table.exec.emit.late-fire.delay": Refused("", _ONCE),
    "table.exec.emit.late-fire.enabled": Refused("false", _ONCE),
    "table.exec.legacy-cast-behaviour": Refused(
        "DISABLED", "a CAST that fails ends the job, and TRY_CAST gives NULL in its place"
    ),
    "table.exec.non-temporal-sort.enabled": Refused(
        "false", "ORDER BY in a stream takes a time attribute, or a LIMIT; batches take all columns"
    ),
    "table.exec.sink.nested-constraint-enforcer": Refused(
        "IGNORE", "NOT NULL and lengths inside rows, arrays and maps are not checked when they are written"
    ),
    "table.exec.sort.default-limit": Refused("-1", "ORDER BY takes no LIMIT that is not written"),
    "table.legacy-nested-row-nullability": Refused("false", "NOT NULL of the columns of a ROW is kept"),
}
