"""The status of a record after the compiled loop."""

from __future__ import annotations

#: The loop read the record, left it to the exact reader, or the message gives no row.
READ, EXACT, NO_ROW = 0, 1, 2
