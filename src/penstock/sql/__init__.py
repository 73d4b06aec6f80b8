"""Flink SQL to the plan. Needs neither Spark nor a connector's code until a table is used.

``parse`` turns text into trees, ``bind`` turns trees into typed expressions and tables, and statements in order become
jobs (``settings``, ``script``). ``fragments`` does so for pieces of SQL in YAML and Python.
"""

from penstock.sql.fragments import columns, condition, expression, projection
from penstock.sql.script import Script, parse_script

__all__ = ["Script", "columns", "condition", "expression", "parse_script", "projection"]
