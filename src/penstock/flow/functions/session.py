"""What depends on the session."""

from __future__ import annotations

from penstock.plan.scalar_functions import Entry

GROUP = "The session"

FUNCTIONS = (Entry("CURRENT_DATABASE", "CURRENT_DATABASE()", "in queries"),)
