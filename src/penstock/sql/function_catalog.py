"""The functions that the statements of a file create, and the modules that they are in."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.errors import DefinitionError
from penstock.flow.kernels.user_functions import UserKernelMaker
from penstock.plan.overloads import TypedOverload
from penstock.plan.scalar_functions import Function, Varies
from penstock.sql.catalogs import Catalogs, Path, Space
from penstock.sql.module_imports import importing, modules_of
from penstock.sql.parse.source import SourceText, suggest_name
from penstock.sql.parse.statements import CreateFunction, DropFunction
from penstock.sql.parse.syntax import Name, TableName
from penstock.table.udf import ScalarFunction, UserDefinedFunction, udf


@dataclass
class FunctionCatalog:
    """Functions by their names in upper case, since Flink does not tell cases apart: temporary ones of the session, and
    temporary and other ones of databases."""

    source: SourceText
    catalogs: Catalogs
    _system: dict[str, Function] = field(default_factory=dict)
    _temporary: dict[Path, Function] = field(default_factory=dict)
    _permanent: dict[Path, Function] = field(default_factory=dict)

    def create(self, statement: CreateFunction, files: Sequence[str]) -> None:
        """Add a function, whose module is in ``files`` or installed. Raises SqlError for a name that is taken, and for
        a function that does not exist or cannot be called."""
        name = statement.function
        holder, key = self._find_holder(name, statement.temporary, statement.system)
        if key in holder:
            if statement.if_not_exists:
                return
            hint = f"write IF NOT EXISTS, or {_write_drop(statement)} first"
            raise self.source.error(name.at, f"function '{name.text}' already exists", hint)
        holder[key] = self._function(statement, files)
        self.catalogs.version += 1  # a view may have called another function of this name

    def drop(self, statement: DropFunction) -> None:
        """Remove a function. Raises SqlError if there is none."""
        name = statement.function
        holder, key = self._find_holder(name, statement.temporary, statement.system)
        if key not in holder:
            if statement.if_exists:
                return
            hint = suggest_name(name.text, self.names(self.catalogs.current))
            if not statement.temporary and key in self._temporary:
                hint = "write DROP TEMPORARY FUNCTION"
            kind = "temporary system " if statement.system else "temporary " if statement.temporary else ""
            raise self.source.error(name.at, f"there is no {kind}function '{name.text}'", hint)
        del holder[key]
        self.catalogs.version += 1

    def names(self, space: Space) -> list[str]:
        """The functions that can be called in a database, as SHOW lists them."""
        own = (path[2] for path in (*self._temporary, *self._permanent) if path[:2] == space)
        return sorted({each.lower() for each in (*self._system, *own)})

    def restrict_to(self, space: Space) -> VisibleFunctions:
        """The functions for the expressions of a database."""
        return VisibleFunctions(self, space)

    def find_system_function(self, name: str) -> Function | None:
        """The temporary system function of a name."""
        return self._system.get(name)

    def find_function(self, path: Path) -> Function | None:
        """The function of a database; a temporary one hides another."""
        return self._temporary.get(path) or self._permanent.get(path)

    def _find_holder(self, name: TableName, temporary: bool, system: bool) -> tuple[dict[Any, Function], Any]:
        """Where a function is, and its key there."""
        if system:
            if name.spaces:
                raise self.source.error(name.at, "a system function has no database", f"write {name.name}")
            return self._system, name.name.upper()
        *spaces, last = self.catalogs.path(name.path)
        return self._temporary if temporary else self._permanent, (*spaces, last.upper())

    def _function(self, statement: CreateFunction, files: Sequence[str]) -> Function:
        return _function(statement.function.name, self._load_definition(statement.target, files))

    def _load_definition(self, target: Name, files: Sequence[str]) -> UserDefinedFunction:
        """The object that a name of a module and of a function in it means."""
        module, _, name = target.text.rpartition(".")
        if not module or not name.isidentifier():
            hint = "such as 'my_functions.length' for the function length in my_functions.py"
            raise self.source.error(target.at, f"'{target.text}' does not name a module and a function in it", hint)
        with importing(files, module):
            try:
                found = getattr(importlib.import_module(module), name)
                modules = modules_of(files)
            except AttributeError:
                public = [each for each in vars(sys.modules[module]) if not each.startswith("_")]
                hint = suggest_name(name, public)
                raise self.source.error(target.at, f"module '{module}' has no '{name}'", hint) from None
            except ModuleNotFoundError as error:
                raise self._not_found_error(target, module, error, files) from None
            except Exception as error:  # the module is the user's, and may raise anything
                reason = f"importing '{module}' raised {type(error).__name__}: {error}"
                raise self.source.error(target.at, reason, "fix the module") from error
        if isinstance(found, UserDefinedFunction):
            return replace(found, modules=modules)
        try:
            if not callable(found) and not isinstance(found, ScalarFunction):
                raise TypeError(f"'{target.text}' is a {type(found).__name__}, not a function")
            made = udf(found)
            assert isinstance(made, UserDefinedFunction)  # noqa: S101 - a function was given
            return replace(made, modules=modules)
        except (TypeError, ValueError) as error:
            raise self.source.error(target.at, str(error), "write it with @udf(result_type=..)") from None

    def _not_found_error(
        self, target: Name, module: str, error: ModuleNotFoundError, files: Sequence[str]
    ) -> DefinitionError:
        if error.name and not f"{module}.".startswith(f"{error.name}."):
            reason = f"'{module}' imports '{error.name}', which cannot be found"
            return self.source.error(target.at, reason, "install it, or set 'python.files' to where it is")
        searched = f" in {', '.join(files)}, and none is installed" if files else ", installed ones included"
        hint = "put it beside the SQL file, install it, or set 'python.files' to where it is"
        return self.source.error(target.at, f"there is no module '{module}'{searched}", hint)


@dataclass(frozen=True)
class VisibleFunctions:
    """The functions of a file, as expressions in a database see them."""

    catalog: FunctionCatalog
    space: Space

    def find_system_function(self, name: str) -> Function | None:
        """The temporary system function of a name."""
        return self.catalog.find_system_function(name)

    def find_function(self, parts: tuple[str, ...]) -> Function | None:
        """The function of the database, or of the one whose name comes before its own."""
        return self.catalog.find_function(self.catalog.catalogs.path(parts, self.space))

    def names(self) -> list[str]:
        """All of them."""
        return [each.upper() for each in self.catalog.names(self.space)]


def function_of_code(name: str, code: str) -> Function:
    """The function that ``code`` defines as ``eval``, under a name for SQL. Raises ValueError for code that raises, or
    has no such function."""
    space: dict[str, Any] = {"__name__": f"python-code of {name}"}  # no module: tasks get the code by value
    try:
        exec(compile(code, f"python-code of {name}", "exec"), space)  # noqa: S102 - the user's own code
        found = space["eval"]
        made = found if isinstance(found, UserDefinedFunction) else udf(found)
    except KeyError:
        raise ValueError(f"the code of function '{name}' has no function 'eval'") from None
    except Exception as error:  # the code is the user's, and may raise anything
        raise ValueError(f"the code of function '{name}' raised {type(error).__name__}: {error}") from error
    return _function(name, made)


def _function(name: str, definition: UserDefinedFunction) -> Function:
    overload = TypedOverload("", definition.result_type, types=definition.input_types)
    return Function(
        name.upper(),
        kernel=UserKernelMaker(definition),
        overloads=(overload,),
        varies=Varies.NEVER if definition.deterministic else Varies.BY_ROW,
    )


def _write_drop(statement: CreateFunction) -> str:
    return f"DROP {'TEMPORARY ' if statement.temporary else ''}{'SYSTEM ' if statement.system else ''}FUNCTION"
