"""The status of a record after the compiled loop."""

from __future__ import annotations

__all__ = ["EXACT", "NO_ROW", "READ"]

#: The loop read the record, left it to the exact reader, or the message gives no row.
READ, EXACT, NO_ROW = 0, 1, 2
