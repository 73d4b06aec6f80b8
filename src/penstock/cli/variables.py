"""The variables of SQL and YAML files: from the command line, from files of variables, and from the environment."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from penstock.cli.display import add_pairs, parse_pairs
from penstock.errors import DefinitionError, Problem

#: What the names of variables in the environment begin with.
PREFIX = "PENSTOCK_VAR_"


class Variables(Mapping[str, str]):
    """Given variables, and below them those of the environment: ``${secret_values.user}`` is
    ``PENSTOCK_VAR_SECRET_VALUES_USER`` there. Iteration leaves those of the environment out, whose names it cannot
    know."""

    def __init__(self, given: Mapping[str, str], environ: Mapping[str, str]):
        self._given = given
        self._environ = environ

    def __getitem__(self, name: str) -> str:
        found = self._given.get(name)
        return self._environ[name_in_environment(name)] if found is None else found

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


def name_in_environment(name: str) -> str:
    """The name of a variable in the environment."""
    return PREFIX + re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def add_variables(parser: argparse.ArgumentParser) -> None:
    """Adds ``--var`` and ``--var-file``; :func:`read_variables` reads them."""
    add_pairs(parser, "--var", "replace ${KEY} in the file")
    parser.add_argument(
        "--var-file",
        action="append",
        default=[],
        type=Path,
        metavar="PATH",
        help="read variables from lines KEY=VALUE of a file, such as one of secrets; repeatable, the last one wins",
    )


def read_variables(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Variables:
    """The variables that options and the environment give: ``--var`` is looked at first, then ``--var-file``, then the
    environment. Raises DefinitionError with every problem; none shows a value."""
    given, problems = parse_pairs(arguments.var, "--var")
    found: dict[str, str] = {}
    for path in arguments.var_file:
        try:
            text = path.read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            problems.append(Problem(f"cannot be read: {reason}", where=f"--var-file {path}"))
        else:
            found |= _read_lines(text.splitlines(), path, problems)
    if problems:
        raise DefinitionError(tuple(problems))
    return Variables(found | given, environ)


def _read_lines(lines: Iterable[str], path: Path, problems: list[Problem]) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            problems.append(Problem("expected KEY=VALUE, or '#' and a comment", where=f"{path}, line {number}"))
        else:
            found[name.strip()] = _unquote(value.strip())
    return found


def _unquote(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value
