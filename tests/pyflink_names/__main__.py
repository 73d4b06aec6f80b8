"""``python -m tests.pyflink_names FOLDER``: writes ``names.json``, every class, method, argument and default that
the pages 000, 001 and 002 in FOLDER document of PyFlink's API.

Two of them are pages that Sphinx made, the third is a source file whose line breaks are lost. The pages stay where they
are; what is kept of them are the names, and a hash that says which text they come from.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = Path(__file__).parent / "names.json"
_HOW = "Made by `python -m tests.pyflink_names FOLDER` from the pages in FOLDER. Do not edit it."
#: A line of a page: ``class pyflink.datastream.StateBackend(j_state_backend)[source]¶``. The marks depend on Sphinx.
_CLASS = re.compile(r"^class (?:(?P<module>[\w.]+)\.)?(?P<name>\w+)(?:\((?P<arguments>.*)\))?\[source\](?:¶|#)$")
_METHOD = re.compile(r"^(?P<static>static )?(?P<name>\w+)\((?P<arguments>.*)\)\[source\]¶$")
_CONSTANT = re.compile(r"^(?P<name>\w+) = (?P<value>\S+)¶$")
_BASES = re.compile(r"^Bases: (?P<bases>.+)$")
#: The same in a source file of one line, after its docstring.
_MEMBER = re.compile(r"\b(?P<name>[A-Z_]+) = (?P<value>\d+)")
_DEFINITION = re.compile(r"(?P<static>@staticmethod )?def (?P<name>\w+)\((?P<arguments>[^)]*)\)")
_PUBLIC = re.compile(r"__all__ = (?P<names>\[[^]]*\])")
_IMPORT = re.compile(r"from (?P<module>pyflink[\w.]*) import (?P<name>\w+)")
#: A name that a page mentions or links to: a class or a function of PyFlink's, perhaps with a member.
_MENTIONED = re.compile(r"\bpyflink(?:\.[a-z_]+)+\.[A-Z]\w+(?:\.\w+)?")


def arguments(text: str) -> list[dict[str, Any]]:
    """The arguments of a signature: their names, ``default`` (as it is written) where they have one, and ``star`` for
    ``*names``."""
    if not text:
        return []
    (function,) = ast.parse(f"def f({text}): pass").body
    assert isinstance(function, ast.FunctionDef)
    given = function.args
    found: list[dict[str, Any]] = [{"name": each.arg} for each in given.args]
    if given.defaults:
        for argument, default in zip(found[-len(given.defaults) :], given.defaults, strict=True):
            argument["default"] = ast.literal_eval(default)
    if given.vararg:
        found.append({"name": given.vararg.arg, "star": True})
    return found


def page(text: str, module: str) -> Iterator[dict[str, Any]]:
    """The classes of a page of Sphinx. Those without a module of their own belong to ``module``."""
    found: dict[str, Any] | None = None
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if match := _CLASS.match(line):
            if found:
                yield found
            found = {
                "module": match["module"] or module,
                "name": match["name"],
                "arguments": arguments(match["arguments"] or ""),
                "bases": [],
                "constants": {},
                "methods": {},
            }
        elif found is None:
            continue
        elif match := _BASES.match(line):
            found["bases"] = match["bases"].split(", ")
        elif match := _CONSTANT.match(line):
            found["constants"][match["name"]] = ast.literal_eval(match["value"])
        elif match := _METHOD.match(line):
            found["methods"][match["name"]] = {
                "static": match["static"] is not None,
                "arguments": arguments(match["arguments"]),
            }
        elif line == "Attributes":  # a list of names without values, until an ordinary line follows
            names = [each for each in lines[number + 1 : lines.index("previous", number)] if each]
            found["constants"] |= dict.fromkeys(names)
    if found:
        yield found


def source(text: str, module: str) -> dict[str, Any]:
    """The one class of a source file whose line breaks are lost."""
    match = re.search(r'class (\w+)\((\w+)\): """.*?"""', text)
    assert match is not None
    body = text[match.end() :]
    methods = {
        each["name"]: {
            "static": each["static"] is not None,
            "arguments": [one for one in arguments(each["arguments"]) if one["name"] != "self"],
        }
        for each in _DEFINITION.finditer(body)
    }
    public = _PUBLIC.search(text)
    return {
        "module": module,
        "name": match[1],
        "arguments": [{"name": "value"}],
        "bases": [match[2]],
        "constants": {each["name"]: int(each["value"]) for each in _MEMBER.finditer(body)},
        "methods": methods,
        "public": ast.literal_eval(public["names"]) if public else [],
    }


def mentioned(text: str) -> list[str]:
    """The full names of PyFlink's in a text, and what it imports from PyFlink."""
    imported = {f"{each['module']}.{each['name']}" for each in _IMPORT.finditer(text)}
    return sorted(imported.union(_MENTIONED.findall(text)))


def page_file(folder: Path, number: str) -> Path:
    """The file of a page."""
    (found,) = folder.glob(f"{number}_*.txt")
    return found


def main() -> None:
    """Write the names."""
    parser = argparse.ArgumentParser(description="write the names of PyFlink's documented API")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the folder with the pages 000, 001 and 002")
    folder: Path = parser.parse_args().folder
    files = {number: page_file(folder, number) for number in ("000", "001", "002")}
    texts = {number: path.read_text("utf-8") for number, path in files.items()}
    classes = {
        "000": list(page(_one_class(texts["000"]), "pyflink.datastream.connectors.kafka")),
        "001": [source(texts["001"], "pyflink.datastream.checkpointing_mode")],
        "002": list(page(texts["002"], "pyflink.datastream")),
    }
    names = {
        "how": _HOW,
        "pages": {
            number: {
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                "mentioned": mentioned(texts[number]),
                "classes": classes[number],
            }
            for number, path in files.items()
        },
    }
    NAMES.write_text(json.dumps(names, indent=1) + "\n", "utf-8")


def _one_class(text: str) -> str:
    """The page of one class: the text of its definition, which repeats its title."""
    return text[text.index("class ") :]


if __name__ == "__main__":
    main()
