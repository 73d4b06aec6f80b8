"""The names of PyFlink's ``pyflink.table`` that functions in Python need. There is no Table API: SQL files have the
rest."""

from penstock.table.types import DataTypes
from penstock.table.udf import FunctionContext, ScalarFunction

__all__ = ["DataTypes", "FunctionContext", "ScalarFunction"]
