"""What docstrings and comments refer to by ``:func:``, ``:meth:``, ``:class:`` and the like is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import penstock
import penstock_testing

SOURCE = [Path(package.__file__).parent for package in (penstock, penstock_testing)]
REFERENCE = re.compile(r":(?:func|meth|class|data|attr|mod):`~?([A-Za-z0-9_.]+)`")


def find_names(node: ast.Module | ast.ClassDef) -> Iterator[str]:
    """The names in a module or class: functions, classes, what they contain, and variables and imports."""
    for each in node.body:
        match each:
            case ast.FunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name):
                yield name
                yield from find_names(each)
            case ast.Import(names=imports) | ast.ImportFrom(names=imports):
                yield from ((one.asname or one.name).rpartition(".")[2] for one in imports)
            case ast.Assign() | ast.AnnAssign():
                variables = [one.id for one in ast.walk(each) if isinstance(one, ast.Name) and is_set(one)]
                yield from variables
                if variables == ["__all__"]:  # of a package that imports some of its names late
                    yield from ast.literal_eval(each.value)


def is_set(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def test_references_are_to_names_that_are_there():
    texts = {
        ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__"): path.read_text(
            "utf-8"
        )
        for folder in SOURCE
        for path in folder.rglob("*.py")
    }
    names = {module: set(find_names(ast.parse(text))) for module, text in texts.items()}
    anywhere = set().union(*names.values())
    missing = []
    for module, text in texts.items():
        for reference in REFERENCE.findall(text):
            place, _, name = reference.rpartition(".")
            if reference not in texts and name not in names.get(place, anywhere):
                missing.append(f"{module}: {reference}")
    assert missing == []
