"""The ``values`` connector: tables whose rows are in this process. The smallest connector that reads and writes."""

from penstock.connectors.values.memory import forget, register, rows

__all__ = ["forget", "register", "rows"]
