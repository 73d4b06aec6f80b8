"""What holds for all of the source, beside the directions of imports (``make lint``)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
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


def modules(folder: Path) -> dict[str, Path]:
    """The modules of a package in its source folder, by their full names."""
    paths = {path.relative_to(folder.parent): path for path in folder.rglob("*.py")}
    return {".".join(each.with_suffix("").parts).removesuffix(".__init__"): path for each, path in paths.items()}


def imported(path: Path) -> set[str]:
    """The names that a module imports, wherever it does so: inside functions and for types alone, too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{each.name}" for each in node.names} | {str(node.module)}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return found


@pytest.mark.parametrize(
    "package", ["columns", "connectors", "delivery", "engine", "flow", "formats", "plan", "spi", "sql"]
)
def test_no_modules_import_each_other(package):
    known = modules(Path(penstock.__file__).parent)
    inside = {name: path for name, path in known.items() if f"{name}.".startswith(f"penstock.{package}.")}
    TopologicalSorter({name: imported(path) & inside.keys() for name, path in inside.items()}).prepare()
