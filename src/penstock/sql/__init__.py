"""Flink SQL to the plan. Needs neither Spark nor a connector's code until a table is used.

``parse`` turns text into trees, ``bind`` turns trees into typed expressions and tables, and statements in order become
jobs (``settings``, ``script``). ``fragments`` does so for pieces of SQL in YAML and Python.
"""

from penstock.sql.bind.tables import ComputedColumn, read
from penstock.sql.fragments import TableSchema, columns, condition, expression, projection, tables
from penstock.sql.script import Script, parse_script

__all__ = [
    "ComputedColumn",
    "Script",
    "TableSchema",
    "columns",
    "condition",
    "expression",
    "parse_script",
    "projection",
    "read",
    "tables",
]
