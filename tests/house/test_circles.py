"""No modules import each other. What packages may import of others is in ``pyproject.toml``."""

from __future__ import annotations

import ast
from collections.abc import Collection
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import penstock

SOURCE = Path(penstock.__file__).parent
#: What modules import for types alone, because methods that PyFlink has return each other's classes.
RETURNED = {
    ("penstock.datastream.connected_streams", "penstock.datastream.data_stream"),
    ("penstock.datastream.data_stream", "penstock.datastream.stream_execution_environment"),
}


def find_modules() -> dict[str, ast.Module]:
    """The modules of penstock, by their full names."""
    paths = {path.relative_to(SOURCE.parent).with_suffix(""): path for path in SOURCE.rglob("*.py")}
    return {
        ".".join(name.parts).removesuffix(".__init__"): ast.parse(path.read_text("utf-8"))
        for name, path in paths.items()
    }


def find_imports(tree: ast.AST, known: Collection[str]) -> set[str]:
    """Those of the known modules that a module imports, wherever it does so: inside functions and for types alone, too.

    ``from package import module`` imports the module; ``from package import name`` what the package's ``__init__`` has.
    """
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {each if (each := f"{node.module}.{name.name}") in known else node.module for name in node.names}
        elif isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
    return names & set(known)


def find_type_imports(tree: ast.AST, known: Collection[str]) -> set[str]:
    """Those that it imports for types alone."""
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return set().union(*(find_imports(each, known) for each in blocks))


def check_circles(imports: dict[str, set[str]]) -> None:
    """Raises CycleError, which names the modules of a circle."""
    TopologicalSorter(imports).prepare()


@pytest.fixture(scope="module")
def modules() -> dict[str, ast.Module]:
    return find_modules()


def test_no_modules_import_each_other(modules):
    imports = {name: find_imports(tree, modules) for name, tree in modules.items()}
    check_circles(
        {name: found - {other for each, other in RETURNED if each == name} for name, found in imports.items()}
    )


@pytest.mark.parametrize(("module", "returned"), sorted(RETURNED))
def test_classes_that_methods_return_are_imported_for_types_alone(modules, module, returned):
    tree = modules[module]
    assert returned in find_type_imports(tree, modules)
    assert sum(ast.unparse(node).count(f"from {returned} import") for node in tree.body) == 1


def test_circles_are_found():
    texts = {
        "house": "from house.rooms import Door",
        "house.rooms": "def door():\n    from house import windows",
        "house.windows": "import house.rooms",
    }
    with pytest.raises(CycleError):
        check_circles({name: find_imports(ast.parse(text), texts) for name, text in texts.items()})
