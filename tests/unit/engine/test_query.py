"""What Spark reports, as one human-readable line; what a query that is closed waits for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.engine.runs.query import Query
from penstock.errors import PossibleDataLossError, from_wire, to_wire
from penstock.spi import cause_of

PYTHON = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/usr/lib/pyspark/worker.py", line 1, in main
    process()
ZeroDivisionError: division by zero

During handling of the above exception, another exception occurred:

pyspark.errors.exceptions.base.PySparkRuntimeError: [SOMETHING] happened later
\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:581)
"""
JAVA = """[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0. SQLSTATE: 22012
== DataFrame ==
"divide" was called from
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.divideByZeroError(QueryExecutionErrors.scala:1)
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (PYTHON, "ZeroDivisionError: division by zero"),
        (JAVA, "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0. SQLSTATE: 22012"),
        ("Traceback (most recent call last):\n  x\nKeyboardInterrupt\n", "KeyboardInterrupt"),
        ("Traceback (most recent call last):\n  x\nSystemExit: 3\n", "SystemExit: 3"),
        ("\n\n   something   \nmore", "something"),
        (
            "An error occurred while calling o1.start.\n: java.io.IOException: no space\n\tat x",
            "java.io.IOException: no space",
        ),
        ("An error occurred while calling o1.start.", "An error occurred while calling o1.start."),
        ("", ""),
    ],
)
def test_the_line_that_says_most_is_the_cause(text, cause):
    assert cause_of(text) == cause


def test_an_error_of_ours_is_found_in_what_spark_makes_of_it():
    error = PossibleDataLossError("topic 'a', partition 0: \"offsets\" 3 to 5\nare gone")
    text = f"Traceback (most recent call last):\n  x\nRuntimeError: {to_wire(error)}\n\tat org.apache.spark\n"

    found = from_wire(text)
    assert type(found) is PossibleDataLossError
    assert str(found) == str(error)


def test_a_query_that_two_threads_close_waits_for_sparks_log_in_both():
    """The other one has closed it when this one asks for the log."""
    logged = [3, 3, 4]

    def first_batch() -> int:
        query._published = None
        return logged.pop(0)

    query = object.__new__(Query)
    given: Any = {"checkpoint": SimpleNamespace(first_batch=first_batch), "spark_query": SimpleNamespace(isActive=True)}
    vars(query).update(given, _failure=None, _published=3)
    query._await_log()
    assert logged == []
