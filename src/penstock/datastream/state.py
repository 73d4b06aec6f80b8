"""PyFlink's ``pyflink.datastream.state``: state belongs to keyed streams, which penstock does not have yet."""

from __future__ import annotations

from penstock.datastream.refusals import lookup

__getattr__ = lookup("state")
