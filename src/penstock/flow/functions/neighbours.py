"""Functions of the rows around a row."""

from __future__ import annotations

from penstock.plan.scalar_functions import Entry

GROUP = "Rows around a row"
_BATCH = "in batch mode"
_RANKS = "where a condition keeps the first numbers, in batch mode"

FUNCTIONS = (
    Entry("ROW_NUMBER", "ROW_NUMBER() OVER (..)"),
    Entry("RANK", "RANK() OVER (..)", _RANKS),
    Entry("DENSE_RANK", "DENSE_RANK() OVER (..)", _RANKS),
    Entry("PERCENT_RANK", "PERCENT_RANK() OVER (..)", _BATCH),
    Entry("CUME_DIST", "CUME_DIST() OVER (..)", _BATCH),
    Entry("NTILE", "NTILE(n) OVER (..)", _BATCH),
    Entry("LAG", "LAG(a [, offset [, default]]) OVER (..)"),
    Entry("LEAD", "LEAD(a [, offset [, default]]) OVER (..)", _BATCH),
)
