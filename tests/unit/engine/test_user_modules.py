"""The modules of functions in Python go to tasks with them."""

from __future__ import annotations

import base64
import subprocess
import sys
from typing import Any

from pyspark import cloudpickle

from penstock.engine.runs.user_modules import send_modules
from penstock.flow.rows.calc import calc_of
from penstock.plan.planning import plan_job
from penstock.sql import parse_script

TASK = """
import base64, pickle, sys
import pyarrow as pa
calc = pickle.loads(base64.b64decode(sys.stdin.read()))
print(calc.batch(pa.record_batch({"i": pa.array([1, 2], pa.int32())})).to_pylist())
"""


def test_a_task_needs_no_file_of_the_functions(tmp_path):
    (tmp_path / "modules_sent.py").write_text(
        "import helper_sent\ndef f(x: int) -> int:\n    return helper_sent.double(x) + helper_sent.ONE\n"
    )
    (tmp_path / "helper_sent.py").write_text("ONE = 1\ndef double(x):\n    return 2 * x\n")
    script = parse_script(
        "CREATE FUNCTION f AS 'modules_sent.f' LANGUAGE PYTHON; CREATE TABLE t (i INT) WITH ('connector' = 'datagen');"
        "CREATE TABLE o (x BIGINT) WITH ('connector' = 'print'); INSERT INTO o SELECT f(i) FROM t WHERE f(i) > 3;",
        folder=str(tmp_path),
    )
    job = plan_job(script.jobs[0])
    pickler: Any = cloudpickle

    send_modules(job)

    text = base64.b64encode(pickler.dumps(calc_of(job.sinks[0].input))).decode("ascii")
    done = subprocess.run([sys.executable, "-c", TASK], input=text, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[{'EXPR$0': 5}]\n", "")
    assert "pyarrow" not in pickler.list_registry_pickle_by_value()
    assert {"modules_sent", "helper_sent"} <= pickler.list_registry_pickle_by_value()


def test_modules_of_one_name_go_to_tasks_as_they_are(tmp_path):
    """Each job gets its own, also when another one of that name was imported later or before."""
    jobs = []
    for number, part in enumerate(("a", "b")):
        folder = tmp_path / part
        folder.mkdir()
        (folder / "sent_twice.py").write_text(
            f"import helper_{part}, helper_twice\n"
            f"def f(x: int) -> int:\n    return x + helper_twice.number() + helper_{part}.NUMBER\n"
        )
        (folder / "helper_twice.py").write_text(f"def number():\n    return {number}00\n")
        (folder / f"helper_{part}.py").write_text(f"NUMBER = {number}0\n")
        script = parse_script(
            "CREATE FUNCTION f AS 'sent_twice.f' LANGUAGE PYTHON;"
            "CREATE TABLE t (i INT) WITH ('connector' = 'datagen');"
            "CREATE TABLE o (x BIGINT) WITH ('connector' = 'print'); INSERT INTO o SELECT f(i) FROM t;",
            folder=str(folder),
        )
        jobs.append(plan_job(script.jobs[0]))
    pickler: Any = cloudpickle

    for job, expected in zip(jobs, ((1, 2), (111, 112)), strict=True):
        send_modules(job)
        text = base64.b64encode(pickler.dumps(calc_of(job.sinks[0].input))).decode("ascii")
        done = subprocess.run([sys.executable, "-c", TASK], input=text, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == (f"{[{'EXPR$0': each} for each in expected]}\n", "")
