"""How long each file of tests takes: ``tests/durations.txt``, which ``make durations`` writes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = ROOT / "tests" / "durations.txt"
_LINE = re.compile(r" *([\d.]+) s +(\d+) tests?  (\S+)")


@dataclass(frozen=True)
class Duration:
    """The seconds that the tests of a file take together, and their number."""

    seconds: float
    tests: int


def read_durations(path: Path) -> dict[str, Duration]:
    """The durations in a file, by the paths of test files; empty if it does not exist."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return {found[3]: Duration(float(found[1]), int(found[2])) for line in lines if (found := _LINE.fullmatch(line))}


def update_durations(path: Path, measured: Mapping[str, Duration]) -> None:
    """Write what was measured, the longest first. Files that were not run now keep what they have, unless they are
    gone."""
    known = {name: each for name, each in read_durations(path).items() if (ROOT / name).exists()} | dict(measured)
    ordered = sorted(known.items(), key=lambda item: (-round(item[1].seconds, 1), item[0]))
    total = sum(each.seconds for each in known.values()), sum(each.tests for each in known.values())
    lines = [f"{each.seconds:7.1f} s {each.tests:5} tests  {name}" for name, each in ordered]
    path.write_text("\n".join([f"{total[0]:7.1f} s {total[1]:5} tests", *lines, ""]), "utf-8")


def find_test_files() -> list[str]:
    """The files with tests that ``make test`` runs."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(path.relative_to(ROOT)) for path in files if _has_quick_tests(ast.parse(path.read_text("utf-8")))]


def _has_quick_tests(module: ast.Module) -> bool:
    marks = [node.value for node in module.body if isinstance(node, ast.Assign) and _names(node) == "pytestmark"]
    return not _is_slow(marks) and any(
        not _is_slow(node.decorator_list)
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def _names(assignment: ast.Assign) -> str:
    return ", ".join(map(ast.unparse, assignment.targets))


def _is_slow(marks: Iterable[ast.expr]) -> bool:
    """Whether one of the marks is that of slow tests. Marks of single parameters do not count."""
    return any(re.search(r"^\[?(?:.*, )?pytest\.mark\.slow\b", ast.unparse(each)) for each in marks)
