"""What holds for all of the source, beside the directions of imports (``make lint``)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock.engine
import penstock_testing.services

ROOT = Path(__file__).parents[2]
#: Of both distributions.
SOURCE = [Path(package.__file__).parent for package in (penstock, penstock_testing)]
#: Methods of PySpark that take SQL as text.
TAKE_SQL = {"expr", "selectExpr", "sql"}


def find_calls() -> Iterator[tuple[Path, ast.Call]]:
    """All calls in the source."""
    for path in (path for folder in SOURCE for path in folder.rglob("*.py")):
        yield from ((path, node) for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call))


def last_name(node: ast.expr) -> str:
    """The last name of ``a.b.name`` or of ``name``."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def show_calls(calls: list[tuple[Path, ast.Call]]) -> list[str]:
    return [f"{path.relative_to(ROOT)}:{call.lineno}: {ast.unparse(call)}" for path, call in calls]


def test_specs_declare_what_decides_about_them():
    """A misspelt attribute of a spec is an error, never the default of ``getattr``."""
    asked = [
        (path, call)
        for path, call in find_calls()
        if last_name(call.func) in {"getattr", "hasattr"}
        and last_name(call.args[0]) in {"spec", "capabilities", "sink", "scan"}
    ]
    assert show_calls(asked) == []


def test_no_spark_sql_is_written():
    """One meaning is computed in one place: kernels compute expressions."""
    written = [
        (path, call)
        for path, call in find_calls()
        if isinstance(call.func, ast.Attribute) and call.func.attr in TAKE_SQL
    ]
    assert show_calls(written) == []


@pytest.mark.parametrize("package", [penstock.engine, penstock_testing.services], ids=lambda package: package.__name__)
def test_names_that_are_imported_late_are_there(package):
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
