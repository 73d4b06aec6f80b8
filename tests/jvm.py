"""Options of the JVMs of servers and jobs that live for seconds, as those of tests do."""

from __future__ import annotations

__all__ = ["UNOPTIMISED"]

#: Optimising code takes longer than the test that runs it.
UNOPTIMISED = "-XX:TieredStopAtLevel=1"
