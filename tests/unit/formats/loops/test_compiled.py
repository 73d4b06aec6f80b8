"""Rules of compiled code that no compiler checks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import penstock.formats

SOURCES = Path(penstock.formats.__file__).parent


def names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def arguments(function: ast.FunctionDef) -> set[str]:
    """The names of a function's arguments, and of what is unpacked from them."""
    given = {each.arg for each in function.args.args}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            if all(isinstance(part, ast.Name) and part.id in given for part in parts):
                given |= names(node.targets[0])
    return given


def borrowings(tree: ast.AST) -> Iterator[tuple[ast.Call, set[str]]]:
    """Each call of ``borrow``, and the arguments of the function that contains it."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            given = arguments(function)
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "borrow":
                    yield call, given


def test_only_arguments_are_borrowed() -> None:
    found = [
        (f"{path.relative_to(SOURCES)}:{call.lineno}", ast.unparse(call.args[0]), given)
        for path in SOURCES.rglob("*.py")
        for call, given in borrowings(ast.parse(path.read_text("utf-8")))
    ]
    assert found
    assert [(where, borrowed) for where, borrowed, given in found if borrowed not in given] == []
