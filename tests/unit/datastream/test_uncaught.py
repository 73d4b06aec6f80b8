"""What a program shows of an error that it does not catch, and of warnings: in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.errors import VERBOSE

BEGIN = """from penstock.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
stream = env.from_collection([1, 2])
"""


@pytest.fixture
def run(tmp_path):
    """Runs a program: what it shows on standard error."""

    def run(text, **environment):
        path = tmp_path / "program.py"
        path.write_text(text)
        given = {key: value for key, value in os.environ.items() if key != VERBOSE}
        given |= {"PYTHONPATH": str(Path(penstock.__file__).parents[1]), "XDG_STATE_HOME": str(tmp_path), **environment}
        done = subprocess.run([sys.executable, path], capture_output=True, text=True, env=given, check=False)
        assert done.returncode == 1
        return done.stderr

    return run


def test_a_mistake_is_one_line_with_its_place(run):
    shown = run(f"{BEGIN}stream.key_by(abs)\n")
    assert shown.startswith("error: program.py, line 4: 'key_by': is not supported yet")
    assert shown.count("\n") == 1


def test_verbose_leaves_the_traceback(run):
    shown = run(f"{BEGIN}stream.key_by(abs)\n", PENSTOCK_VERBOSE="1")
    assert shown.startswith("Traceback (most recent call last):\n")


def test_errors_of_others_have_their_traceback(run):
    shown = run(f"{BEGIN}stream.map(lambda: 1 / 0).print()\n1 / 0\n")
    assert shown.startswith("Traceback (most recent call last):\n")
    assert shown.endswith("ZeroDivisionError: division by zero\n")


def test_a_program_s_own_way_of_showing_errors_stays(run):
    own = "import sys\nsys.excepthook = lambda *_: print('mine', file=sys.stderr)\n"
    assert run(f"{own}{BEGIN}stream.key_by(abs)\n") == "mine\n"


def test_an_error_can_be_caught_and_has_the_program_s_lines_only(run):
    text = f"""{BEGIN}
import traceback
from penstock.errors import PenstockError
stream.print()
env.enable_checkpointing(1000)
try:
    env.execute()
except PenstockError as error:
    print(type(error).__name__, len(traceback.format_exception(error)) < 8, file=sys.stderr)
    raise SystemExit(1)
"""
    shown = run("import sys\n" + text, SPARK_REMOTE="sc://localhost")
    assert shown == "UnsupportedError True\n"


def test_a_warning_names_the_program_s_line(run):
    shown = run(f"{BEGIN}env.enable_checkpointing(1000).disable_operator_chaining()\nraise SystemExit(1)\n")
    first, *_ = shown.splitlines()
    assert first.partition("program.py:")[2].startswith("4: UserWarning: ")
