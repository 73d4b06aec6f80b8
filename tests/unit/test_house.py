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


def calls() -> Iterator[tuple[Path, ast.Call]]:
    """All calls in the source."""
    for path in (path for folder in SOURCE for path in folder.rglob("*.py")):
        yield from ((path, node) for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call))


def named(node: ast.expr) -> str:
    """The last name of ``a.b.name`` or of ``name``."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def shown(found: list[tuple[Path, ast.Call]]) -> list[str]:
    return [f"{path.relative_to(ROOT)}:{call.lineno}: {ast.unparse(call)}" for path, call in found]


def test_specs_declare_what_decides_about_them():
    """A misspelt attribute of a spec is an error, never the default of ``getattr``."""
    asked = [
        (path, call)
        for path, call in calls()
        if named(call.func) in {"getattr", "hasattr"}
        and named(call.args[0]) in {"spec", "capabilities", "sink", "scan"}
    ]
    assert shown(asked) == []


def test_no_spark_sql_is_written():
    """One meaning is computed in one place: kernels compute expressions."""
    given = [
        (path, call) for path, call in calls() if isinstance(call.func, ast.Attribute) and call.func.attr in TAKE_SQL
    ]
    assert shown(given) == []


@pytest.mark.parametrize("package", [penstock.engine, penstock_testing.services], ids=lambda package: package.__name__)
def test_names_that_are_imported_late_are_there(package):
    assert [name for name in package.__all__ if not hasattr(package, name)] == []


ROOT = Path(penstock.engine.__file__).parents[1]
#: Packages whose modules import one another in a circle nowhere, those included that a function imports.
WITHOUT_CIRCLES = ("connectors", "delivery", "engine", "formats", "kafka", "spi")


def imported() -> dict[str, set[str]]:
    """By the name of each module in those packages, the modules in them that it imports anywhere."""
    paths = {
        ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for package in WITHOUT_CIRCLES
        for path in (ROOT / package).rglob("*.py")
    }
    found = {}
    for module, path in paths.items():
        nodes = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
        names = {(node.module or "", alias.name) for node in nodes for alias in node.names}
        found[module] = (
            {f"{source}.{name}" for source, name in names} | {source for source, _ in names}
        ) & paths.keys()
        # A name of a package is in one of its modules, or is one.
        found[module] -= {source for source, name in names if f"{source}.{name}" in paths} | {module}
    return found


def test_modules_import_one_another_in_no_circle():
    left = imported()
    while free := [module for module, needed in left.items() if not needed & left.keys()]:
        for module in free:
            del left[module]
    # What is left is in a circle, or needs one that is.
    while last := [module for module in left if not any(module in needed for needed in left.values())]:
        for module in last:
            del left[module]
    assert sorted(left) == []
