"""A function is one object: with a kernel, with rules for its types, and the only place that its name needs."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.plan.scalar_functions import Function, catalogue, functions
from penstock.sql.bind.expressions.scope import FORMS
from penstock.sql.parse.functions import READERS
from penstock.sql.parse.vocabulary import AGGREGATES

SOURCE = Path(penstock.__file__).parent
GUIDE = Path(__file__).parents[3] / "docs" / "design" / "adding.md"
ENTRIES = [entry for group in catalogue().values() for entry in group]
#: Functions of plans that SQL has no name for.
OF_PLANS = {"ARRAY", "FITTED", "ITEM", "MAP", "NEGATE", "NOT NULL", "ORDERED", "JSON"}
#: Other words for a function that is listed: signs before an operand, and the test for UNKNOWN.
WORDS = {"+x", "-x", "IS UNKNOWN"}


def test_a_function_without_a_kernel_cannot_be_made():
    with pytest.raises(TypeError, match="function NOPE has neither a kernel nor a rewrite"):
        Function("NOPE", kernel=None)


def test_a_function_without_overloads_has_its_own_rules():
    bare = {name for name, each in functions().items() if not each.overloads}
    assert bare - FORMS.keys() - AGGREGATES == OF_PLANS


def test_rules_and_grammar_belong_to_functions():
    names = {each.name for each in ENTRIES}
    assert FORMS.keys() - names == WORDS
    written = {word for each in ENTRIES for word in re.findall(r"\w+", each.syntax)}
    assert READERS.keys() - written == set()


def kernels() -> set[str]:
    """What makes a kernel of a call, public in its module: ``module.name``."""
    found = set()
    for path in (SOURCE / "flow" / "kernels").rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and [each.arg for each in node.args.args] == ["call", "session"]:
                found.add(f"{path.stem}.{node.name}")
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                found |= {f"{path.stem}.{each.id}" for each in node.targets if isinstance(each, ast.Name)}
    return {each for each in found if not each.split(".")[1].startswith("_")}


def used(path: Path) -> set[str]:
    """What a module takes from others: ``module.name``."""
    tree = ast.parse(path.read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    modules = {each.asname or each.name: each.name for node in imports for each in node.names}
    found = {f"{str(node.module).rpartition('.')[2]}.{each.name}" for node in imports for each in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            found.add(f"{modules[node.value.id]}.{node.attr}")
    return found


def test_a_kernel_belongs_to_a_function():
    """Or another kernel is made of it."""
    assert len(kernels()) > 100
    assert kernels() - {name for path in (SOURCE / "flow").rglob("*.py") for name in used(path)} == set()


def test_names_are_told_once():
    names = [each.name for each in ENTRIES]
    assert len(names) == len(set(names))


PROGRAM = """
import json, sys
import penstock.flow.functions
penstock.flow.functions.__path__.append(sys.argv[1])

import pyarrow as pa
from penstock.cli.reference import render_pages
from penstock.flow.rows.expressions import compile_expression
from penstock.plan.flink_sql import flink_sql
from penstock.plan.scalar_functions import is_deterministic
from penstock.sql import parse_expression
from penstock.sql.bind.expressions.scope import known_functions
from penstock.types import parse_columns

bound = parse_expression("SHOUT(s, 2)", parse_columns("s STRING"))
rows = pa.RecordBatch.from_pydict({"s": ["a", None]})
print(json.dumps({
    "values": compile_expression(bound, rows.schema).column(rows).to_pylist(),
    "type": bound.type.text(),
    "sql": flink_sql(bound),
    "deterministic": is_deterministic(bound),
    "known": "SHOUT" in known_functions(),
    "line": next(each for each in render_pages()["functions.md"].splitlines() if "SHOUT" in each),
}))
"""


def test_a_function_is_added_as_the_guide_says(tmp_path):
    """One file."""
    code = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8").partition("## A function")[2], re.DOTALL)[0]
    (tmp_path / "loud.py").write_text(code)

    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "values": ["A!!", None],
        "type": "STRING",
        "sql": "SHOUT(`s`, 2)",
        "deterministic": True,
        "known": True,
        "line": "| `SHOUT(a [, times])` | yes; not in Flink |",
    }
