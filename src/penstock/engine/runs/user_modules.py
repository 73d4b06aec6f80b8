"""The modules of users' functions, which go to tasks with them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from pyspark import cloudpickle

from penstock.flow.kernels.user_functions import UserKernelMaker
from penstock.plan.expressions import Expression, walk
from penstock.plan.nodes import Job, Node
from penstock.plan.scalar_functions import UserCall
from penstock.plan.walk import fold
from penstock.table.udf import UserDefinedFunction


def send_modules(job: Job) -> None:
    """Pickle what the functions of a job take from the user's own modules by value from now on: tasks, perhaps on other
    machines, need not have their files. Installed modules are imported there."""
    pickler: Any = cloudpickle
    for name in {name for definition in _definitions(job) for name in definition.modules}:
        # Pickle goes by names: the module may be another one than that of the job.
        pickler.register_pickle_by_value(sys.modules[name])


def _definitions(job: Job) -> Iterator[UserDefinedFunction]:
    found: list[Expression] = []

    def visit(node: Node, _: tuple[None, ...]) -> None:
        found.extend(part for each in node.expressions for part in walk(each))

    fold(job.sinks, visit)
    for each in found:
        if isinstance(each, UserCall) and isinstance(each.definition.kernel, UserKernelMaker):
            yield each.definition.kernel.definition
