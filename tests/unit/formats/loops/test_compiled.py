"""Rules of compiled code that no compiler checks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import penstock.formats

SOURCES = Path(penstock.formats.__file__).parent


def borrowings(tree: ast.AST) -> Iterator[tuple[ast.Call, set[str]]]:
    """Each call of ``borrowed`` and the names of the arguments of the function that it stands in."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            given = {each.arg for each in function.args.args}
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "borrowed":
                    yield call, given


def test_only_arguments_are_borrowed() -> None:
    found = [
        (f"{path.relative_to(SOURCES)}:{call.lineno}", ast.unparse(call.args[0]), given)
        for path in SOURCES.rglob("*.py")
        for call, given in borrowings(ast.parse(path.read_text("utf-8")))
    ]
    assert found
    assert [(where, borrowed) for where, borrowed, given in found if borrowed not in given] == []
