"""Python programs for ``penstock run`` and ``penstock check``."""

from __future__ import annotations

import pkgutil
import re
import runpy
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.common.program_lines import ProgramLine
from penstock.datastream import execution
from penstock.errors import DefinitionError, Problem, UnsupportedError, nearest
from penstock.plan.nodes import Job

_PACKAGE = Path(__file__).parents[1]
#: The packages with PyFlink's names.
_FACADES = {"common", "datastream", "table"}
_MISSING = re.compile(r"cannot import name '(\w+)'")


def run_program(path: Path, run_job: Callable[[Job], Any]) -> Problem | None:
    """Runs a file as ``python FILE`` does: without arguments, and with its own folder first on the import path. Each
    job that it executes goes to ``run_job``.

    Returns the problem of a program that has executed no job. Raises UnsupportedError if the program uses a PyFlink
    name that penstock does not have, and DefinitionError for any other mistake, with the program's line.
    """
    jobs: list[Job] = []

    def run(job: Job) -> Any:
        jobs.append(job)
        return run_job(job)

    arguments, folders = sys.argv, sys.path
    sys.argv, sys.path = [str(path)], [str(path.resolve().parent), *folders]
    try:
        with execution.runner(run):
            runpy.run_path(str(path), run_name="__main__")
    except (ImportError, AttributeError) as error:
        if problem := _unknown_name(error):
            raise UnsupportedError((problem,)) from error
        raise
    except DefinitionError as error:
        where = str(ProgramLine.find(error) or path)
        problems = tuple(each if each.where else replace(each, where=where) for each in error.problems)
        raise type(error)(problems) from error
    finally:
        sys.argv, sys.path = arguments, folders
    hint = "end it with execute() on its StreamExecutionEnvironment, and call the function that does so"
    return None if jobs else Problem("the program has started no job", where=str(path), hint=hint)


def _unknown_name(error: ImportError | AttributeError) -> Problem | None:
    """The problem of a program that uses a name that penstock does not have; None for any other error."""
    frames = (each for each in traceback.extract_tb(error.__traceback__) if each.name != "__getattr__")
    *_, frame = frames
    if Path(frame.filename).is_relative_to(_PACKAGE):  # a bug of penstock
        return None
    reason = _missing_import(error) if isinstance(error, ImportError) else _missing_attribute(error)
    if reason is None:
        return None
    return Problem(reason[0], where=f"{Path(frame.filename).name}, line {frame.lineno}", hint=reason[1])


def _missing_import(error: ImportError) -> tuple[str, str] | None:
    """The reason and the hint of an import that failed; None if it is not of penstock."""
    module = error.name or ""
    package = module.partition(".")[0]
    if package == "pyflink":
        return f"there is no module '{module}'", "import it from 'penstock' instead of 'pyflink'"
    if package != "penstock":
        return None
    if (found := _MISSING.search(str(error))) and module in sys.modules:
        if module == "penstock.table":
            return _no_table_api(f"'{module}' has no '{found[1]}'")
        return _explain_missing(f"'{module}'", found[1], _public_names(sys.modules[module]))
    parent, _, name = module.rpartition(".")
    while parent not in sys.modules:
        parent, _, name = parent.rpartition(".")
    if parent == "penstock.table":
        return _no_table_api(f"'{parent}' has no '{name}'")
    return _explain_missing(f"'{parent}'", name, _public_names(sys.modules[parent]))


def _no_table_api(reason: str) -> tuple[str, str]:
    return f"{reason}: there is no Table API", "write its SQL to a .sql file, which `penstock run` runs"


def _missing_attribute(error: AttributeError) -> tuple[str, str] | None:
    owner: Any = error.obj
    if isinstance(owner, ModuleType):
        title, home = f"'{owner.__name__}'", owner.__name__
    else:
        owner_type = owner if isinstance(owner, type) else type(owner)
        title, home = owner_type.__name__, owner_type.__module__
    if home.partition(".")[0] != "penstock" or error.name is None:
        return None
    return _explain_missing(title, error.name, _public_names(owner))


def _explain_missing(owner: str, name: str, names: Iterable[str]) -> tuple[str, str]:
    known = sorted(names)
    hint = nearest(name, known)
    return f"{owner} has no '{name}'", "; ".join(filter(None, (hint, f"there are: {', '.join(known)}")))


def _public_names(owner: Any) -> set[str]:
    """The public names of a module, a class or an object."""
    if not isinstance(owner, ModuleType):
        return {name for name in dir(owner) if not name.startswith("_")}
    if owner.__name__ == "penstock":
        return _FACADES
    packages = {each.name for each in pkgutil.iter_modules(getattr(owner, "__path__", ())) if each.ispkg}
    return packages.union(getattr(owner, "__all__", ()))
