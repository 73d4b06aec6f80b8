"""The rooms of ``penstock.formats``."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import penstock.formats

ROOT = Path(penstock.formats.__file__).parent


def test_every_module_is_in_a_room() -> None:
    assert [path.name for path in ROOT.glob("*.py")] == ["__init__.py"]


def test_no_two_classes_have_one_name() -> None:
    found = defaultdict(list)
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path.relative_to(ROOT)))
    assert len(found) > 50
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
