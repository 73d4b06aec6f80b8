"""Rule "tasks run once": what is found out of tasks and stages that Spark ran twice, from Spark itself."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

NOT_KNOWN = "it is not known whether Spark ran a task of the batch twice"


def said_of(*names):
    """What is said of jobs of :mod:`tests.spark.attempts`, none of whose answers show an attempt number."""
    command = [sys.executable, "-m", "tests.spark.attempts", *names]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=400)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def verdicts():
    """Of all jobs."""
    return said_of()


@pytest.mark.parametrize("name", ["once", "adaptive"])
@pytest.mark.rule("tasks run once")
def test_a_job_whose_tasks_ran_once_is_clean(verdicts, name):
    assert verdicts[name] == ""


@pytest.mark.rule("tasks run once")
def test_a_task_that_failed_and_was_run_again_is_noticed(verdicts):
    assert "Spark ran a task of the batch twice within one transaction, after it failed" in verdicts["failed"]


@pytest.mark.rule("tasks run once")
def test_a_task_that_was_killed_and_run_again_is_noticed(verdicts):
    assert "Spark ran a task of the batch twice within one transaction, after it failed or was" in verdicts["killed"]


@pytest.mark.rule("tasks run once")
def test_a_stage_that_was_retried_is_noticed(verdicts):
    assert "Spark ran a stage of the batch twice" in verdicts["stage"]


@pytest.mark.rule("tasks run once")
def test_what_spark_has_forgotten_is_not_clean_and_not_called_a_second_attempt(verdicts):
    assert NOT_KNOWN in verdicts["gone"]
    assert "spark.ui.retainedJobs" in verdicts["gone"]


@pytest.mark.slow
@pytest.mark.rule("tasks run once")
def test_a_job_whose_stage_spark_has_forgotten_is_not_clean():
    (said,) = said_of("stage_gone").values()
    assert NOT_KNOWN in said
    assert "spark.ui.retainedStages" in said


@pytest.mark.rule("tasks run once")
def test_what_spark_does_not_tell_in_time_is_not_clean_and_not_called_a_second_attempt(verdicts):
    assert NOT_KNOWN in verdicts["late"]
    assert "TimeoutException" in verdicts["late"]
