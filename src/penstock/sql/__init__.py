"""Flink SQL to the plan. Needs neither Spark nor a connector's code until a table is used.

``parse`` turns text into unbound syntax, ``bind`` turns that into typed expressions and tables, and ``script`` turns
statements into jobs. ``fragments`` binds pieces of SQL in YAML and Python.
"""

from penstock.sql.bind.expressions.dialect import FLINK_SQL, Dialect
from penstock.sql.bind.expressions.visible_functions import NO_FUNCTIONS, NamedFunctions, UserFunctions
from penstock.sql.bind.tables.definitions import ComputedColumn, locate_problem, read_table
from penstock.sql.copies import TableCopy
from penstock.sql.fragments import (
    TableSchema,
    parse_condition,
    parse_expression,
    parse_projection,
    parse_table_columns,
    parse_tables,
)
from penstock.sql.function_catalog import function_of_code
from penstock.sql.script import Script, parse_script

__all__ = [
    "FLINK_SQL",
    "NO_FUNCTIONS",
    "ComputedColumn",
    "Dialect",
    "NamedFunctions",
    "Script",
    "TableCopy",
    "TableSchema",
    "UserFunctions",
    "function_of_code",
    "locate_problem",
    "parse_condition",
    "parse_expression",
    "parse_projection",
    "parse_script",
    "parse_table_columns",
    "parse_tables",
    "read_table",
]
