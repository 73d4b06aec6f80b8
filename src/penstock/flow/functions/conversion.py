"""Casts, which are not calls in plans."""

from __future__ import annotations

from penstock.plan.scalar_functions import Entry

GROUP = "Conversion"

FUNCTIONS = (
    Entry("CAST", "CAST(a AS type)", "overflow as in Flink, or an error: `penstock.overflow`"),
    Entry("TRY_CAST", "TRY_CAST(a AS type)"),
    Entry("TYPEOF", "TYPEOF(a)"),
)
