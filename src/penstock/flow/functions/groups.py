"""Which of several groupings a row belongs to."""

from __future__ import annotations

from penstock.plan.scalar_functions import Entry

GROUP = "Groups"

FUNCTIONS = (
    Entry("GROUPING", "GROUPING(a, ..)"),
    Entry("GROUPING_ID", "GROUPING_ID(a, ..)"),
    Entry("GROUP_ID", "GROUP_ID()", "how many equal GROUPING SETS precede the row's"),
)
