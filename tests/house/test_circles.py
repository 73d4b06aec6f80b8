"""No modules of a package import each other. What packages may import of others is in ``pyproject.toml``."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import penstock

SOURCE = Path(penstock.__file__).parent
PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))


def find_modules(folder: Path) -> dict[str, Path]:
    """The modules of a package in its source folder, by their full names."""
    paths = {path.relative_to(folder.parent): path for path in folder.rglob("*.py")}
    return {".".join(each.with_suffix("").parts).removesuffix(".__init__"): path for each, path in paths.items()}


def find_imports(text: str, known: set[str]) -> set[str]:
    """Those of the known modules that a module imports, wherever it does so: inside functions and for types alone, too.

    ``from package import module`` imports the module; ``from package import name`` what the package's ``__init__`` has.
    """
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            names |= {each if (each := f"{node.module}.{name.name}") in known else node.module for name in node.names}
        elif isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
    return names & known


@pytest.mark.parametrize("package", [each for each in PACKAGES if each != "datastream"])
def test_no_modules_import_each_other(package):
    modules = find_modules(SOURCE)
    inside = {name: path for name, path in modules.items() if f"{name}.".startswith(f"penstock.{package}.")}
    TopologicalSorter(
        {name: find_imports(path.read_text("utf-8"), inside.keys()) for name, path in inside.items()}
    ).prepare()


def test_circles_are_found():
    texts = {
        "house": "from house.rooms import Door",
        "house.rooms": "def door():\n    from house import windows",
        "house.windows": "import house.rooms",
    }
    with pytest.raises(CycleError):
        TopologicalSorter({name: find_imports(text, texts.keys()) for name, text in texts.items()}).prepare()
