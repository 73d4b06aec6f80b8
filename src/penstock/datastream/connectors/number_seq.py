"""PyFlink's ``pyflink.datastream.connectors.number_seq``."""

from __future__ import annotations

from penstock.common import Types
from penstock.datastream.connectors.values import ValuesSource


class NumberSequenceSource(ValuesSource):
    """The numbers from ``start`` to ``end``, both included."""

    def __init__(self, start: int, end: int):
        super().__init__(range(start, end + 1), Types.LONG())
