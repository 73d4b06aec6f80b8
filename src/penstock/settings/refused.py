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
        if text.strip().upper() != self.default:
            raise ValueError(f"expected {self.default}: {self.reason}")


REFUSED: Mapping[str, Refused] = {
    "table.exec.sink.nested-constraint-enforcer": Refused(
        "IGNORE", "NOT NULL and lengths inside rows, arrays and maps are not checked when they are written"
    ),
}
