"""Flink SQL to the plan. Needs neither Spark nor a connector's code until a table is used.

Text becomes tokens (``tokens``), tokens become statements and expression trees (``cursor``, ``grammar``,
``statements``, ``syntax``), trees become typed Spark SQL (``resolution`` with ``functions``, ``coercion`` and
``rendering``), and statements in order become jobs (``tables``, ``settings``, ``selection``, ``script``).
"""

from penstock.sql.fragments import columns, condition, expression, projection
from penstock.sql.rendering import Expression
from penstock.sql.script import Script, parse_script

__all__ = ["Expression", "Script", "columns", "condition", "expression", "parse_script", "projection"]
