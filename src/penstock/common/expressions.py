"""SQL text in place of a Python function.

PyFlink has ``call_sql`` in ``pyflink.table.expressions`` for tables only. Here streams accept it too: ``map`` and
``filter`` with SQL run inside Spark, without a Python call per record.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SqlExpression:
    """Flink SQL over the columns of a stream; a stream of single values has the one column ``f0``."""

    text: str


def call_sql(sql_expression: str) -> SqlExpression:
    """SQL for ``DataStream.filter`` (a condition) or ``DataStream.map`` (a select list)."""
    return SqlExpression(sql_expression)
