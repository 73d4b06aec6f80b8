from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.errors import ExecutionError, ServiceError
from penstock.plan.nodes import Filter, Job, MapRows, Scan, Sink
from penstock.types import parse_columns
from penstock_testing import Disturbance, Mishap

SCHEMA = parse_columns("id INT, name STRING")
SCAN = Scan(SCHEMA, "s", "values", None)


def is_two(row):
    return row["id"] == 2


def job(*inputs):
    return Job("job", tuple(Sink(SCHEMA, each, "t", "print", None) for each in inputs))


def test_it_stands_above_each_scan_and_equal_plans_stay_equal(tmp_path: Path) -> None:
    disturbance = Disturbance(is_two, Mishap.STOP, tmp_path)
    one, other = disturbance.on(job(SCAN, Filter(SCHEMA, SCAN, "`id` > 1"))).sinks
    assert isinstance(one.input, MapRows)
    assert one.input.input == SCAN
    assert isinstance(other.input, Filter)
    assert other.input.input == one.input


def test_it_happens_at_its_record_and_only_once(tmp_path: Path) -> None:
    disturbance = Disturbance(is_two, Mishap.STOP, tmp_path / "new")
    (sink,) = disturbance.on(job(SCAN)).sinks
    rows = [(1, "a"), (2, "b"), (2, "c"), (3, "d")]
    with pytest.raises(ExecutionError, match="marked to stop"):
        list(sink.input.rows(iter(rows)))
    assert disturbance.happened
    assert list(sink.input.rows(iter(rows))) == rows
    again = Disturbance(is_two, Mishap.STOP, tmp_path / "new").on(job(SCAN)).sinks[0]
    assert list(again.input.rows(iter(rows))) == rows


def test_a_task_that_waits_goes_on_when_it_is_released(tmp_path: Path) -> None:
    disturbance = Disturbance(is_two, Mishap.PAUSE, tmp_path)
    (sink,) = disturbance.on(job(SCAN)).sinks
    passed: list[tuple[object, ...]] = []
    task = threading.Thread(target=lambda: passed.extend(sink.input.rows(iter([(1, "a"), (2, "b")]))))
    task.start()
    disturbance.wait(60)
    assert task.is_alive()
    disturbance.release()
    task.join(60)
    assert passed == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(("mishap", "dies"), [("CRASH_WORKER", "worker"), ("CRASH_DRIVER", "driver")])
def test_worker_and_driver_are_killed(mishap: str, dies: str, tmp_path: Path) -> None:
    program = f"""
import os, signal, sys
from pathlib import Path
from penstock_testing import Disturbance, Mishap
disturbance = Disturbance(lambda row: True, Mishap.{mishap}, Path({str(tmp_path)!r}))
worker = os.fork()
if not worker:
    disturbance.happen()
    os._exit(0)
sys.exit(os.waitpid(worker, 0)[1])  # 9 where the worker was killed
"""
    status = subprocess.run([sys.executable, "-c", program], check=False).returncode
    assert status == (signal.SIGKILL if dies == "worker" else -signal.SIGKILL)


def test_what_does_not_happen_is_told(tmp_path: Path) -> None:
    disturbance = Disturbance(is_two, Mishap.CRASH_DRIVER, tmp_path)
    with pytest.raises(ServiceError, match="the driver is killed"):
        disturbance.wait(0.1)
    assert os.getpid() == disturbance._driver
