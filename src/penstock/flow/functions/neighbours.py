"""Functions of the rows around a row."""

from __future__ import annotations

from penstock.plan.scalar_functions import Entry, Missing

GROUP = "Rows around a row"
_OVER = (
    "OVER takes ROW_NUMBER(), RANK() and DENSE_RANK() only; number the rows, and join the numbered rows with themselves"
)
_BATCH = "in batch mode, where a condition keeps the first numbers"

FUNCTIONS = (
    Entry("ROW_NUMBER", "ROW_NUMBER() OVER (..)", "where a condition keeps the first numbers"),
    Entry("RANK", "RANK() OVER (..)", _BATCH),
    Entry("DENSE_RANK", "DENSE_RANK() OVER (..)", _BATCH),
    Missing("PERCENT_RANK", "PERCENT_RANK() OVER (..)", reason=_OVER),
    Missing("CUME_DIST", "CUME_DIST() OVER (..)", reason=_OVER),
    Missing("NTILE", "NTILE(n) OVER (..)", reason=_OVER),
    Missing("LAG", "LAG(a [, offset [, default]]) OVER (..)", reason=_OVER),
    Missing("LEAD", "LEAD(a [, offset [, default]]) OVER (..)", reason=_OVER),
)
