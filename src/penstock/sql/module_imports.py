"""Imports from the files of a job: other jobs of the process may have modules of the same names."""

from __future__ import annotations

import importlib
import os
import site
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path


@contextmanager
def importing(files: Sequence[str], module: str) -> Iterator[None]:
    """Python searches for ``module``, and for the modules that it imports, in ``files`` first, which are folders, zip
    files or modules themselves, and then in its own path. Other modules with the same names are set aside until these
    are imported."""
    places = [str(Path(each).parent) if each.endswith(".py") else each for each in files]
    before = list(sys.path)
    sys.path[:0] = places
    importlib.invalidate_caches()
    away = {name: sys.modules.pop(name) for name in _find_others(module.partition(".")[0])}
    try:
        yield
    finally:
        sys.path[:] = before
        sys.modules.update(away)


def modules_of(files: Sequence[str]) -> tuple[str, ...]:
    """The names of the imported modules that are in ``files``, without what is installed there."""
    wanted = {os.path.realpath(each) for each in files}
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and name != "__main__" and not _is_installed(file):
            path = os.path.realpath(file)
            if any(_is_within(path, each) for each in wanted):
                found.append(name)
    return tuple(sorted(found))


def _find_others(target: str) -> list[str]:
    """The names of imported modules that an import would now find in another place, or nowhere: ``target``, and modules
    that are not installed."""
    tops = {name for name in sys.modules if "." not in name and name != "__main__"}
    moved = set()
    for name in tops:
        place = _find_place(getattr(sys.modules[name], "__spec__", None))
        if place is None or (name != target and _is_installed(place[0])):
            continue
        if _find_place(PathFinder.find_spec(name)) != place:
            moved.add(name)
    return [name for name in sys.modules if name.partition(".")[0] in moved]


def _find_place(spec: ModuleSpec | None) -> tuple[str, ...] | None:
    """The file of a module, or the folders of a package without one; None if it has neither."""
    if spec is None:
        return None
    if spec.has_location and spec.origin:
        return (spec.origin,)
    return tuple(spec.submodule_search_locations or ()) or None


def _is_installed(file: str) -> bool:
    """Whether a file is one of penstock, of Python or of an installed package."""
    return any(_is_within(file, each) for each in _find_installed())


def _is_within(file: str, folder: str) -> bool:
    return file == folder or file.startswith(f"{folder}{os.sep}")


@cache
def _find_installed() -> frozenset[str]:
    """The folders of penstock, of Python and of installed packages, as they are and without links."""
    package = str(Path(__file__).parents[1])
    places = [package, site.getusersitepackages(), *sysconfig.get_paths().values()]
    known = [each for each in places if each != sysconfig.get_path("data")]
    return frozenset([*known, *map(os.path.realpath, known)])
