"""The modules of users' functions, which go to tasks with them."""

from __future__ import annotations

import site
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import cloudpickle

from penstock.flow.kernels.user_functions import UserKernelMaker
from penstock.plan.expressions import Expression, walk
from penstock.plan.nodes import Job, Node
from penstock.plan.scalar_functions import UserCall
from penstock.plan.walk import fold
from penstock.table.udf import UserDefinedFunction


def send_modules(job: Job) -> None:
    """Pickle what the functions of a job take from the files that they are in by value from now on: tasks, perhaps on
    other machines, need not have these files. Installed modules are imported there."""
    folders = {Path(each).resolve() for definition in _definitions(job) for each in definition.files}
    pickler: Any = cloudpickle
    for module in _modules(folders):
        pickler.register_pickle_by_value(module)


def _definitions(job: Job) -> Iterator[UserDefinedFunction]:
    found: list[Expression] = []

    def visit(node: Node, _: tuple[None, ...]) -> None:
        found.extend(part for each in node.expressions for part in walk(each))

    fold(job.sinks, visit)
    for each in found:
        if isinstance(each, UserCall) and isinstance(each.definition.kernel, UserKernelMaker):
            yield each.definition.kernel.definition


def _modules(folders: set[Path]) -> list[ModuleType]:
    """The imported modules from these folders and files, without what is installed in one of them."""
    places = [str(Path(__file__).parents[2]), site.getusersitepackages(), *sysconfig.get_paths().values()]
    installed = [Path(each).resolve() for each in places if each != sysconfig.get_path("data")]
    found = []
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not file or module.__name__ == "__main__":
            continue
        path = Path(file).resolve()
        own = not any(map(path.is_relative_to, installed))
        if own and any(folder in (path, *path.parents) for folder in folders):
            found.append(module)
    return found
