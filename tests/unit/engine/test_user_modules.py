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
