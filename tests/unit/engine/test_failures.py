"""Spark's errors as penstock's: what happened, and what to do next."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from penstock.engine.runs import supervisor
from penstock.engine.runs.failures import explain_failure, translate_errors
from penstock.engine.runs.supervisor import RunningJob
from penstock.errors import ExecutionError
from penstock.settings import Settings


def test_an_error_of_spark_s_says_where_the_whole_report_is() -> None:
    job, spark = SimpleNamespace(name="totals"), SimpleNamespace()
    found = explain_failure(ValueError("odd\n\tat x"), job, spark, "/checkpoint")  # type: ignore[arg-type]
    assert type(found) is ExecutionError
    assert str(found) == "Spark ended the job 'totals': odd; read Spark's log for the whole report"


def test_a_job_that_spark_refuses_says_where_the_whole_report_is() -> None:
    refused = r"^Spark refuses the job: \[ODD\] no; read Spark's log for the whole report$"
    with pytest.raises(ExecutionError, match=refused), translate_errors():
        raise AnalysisException("[ODD] no\n\tat x")


def test_a_job_that_cannot_be_restarted_says_what_to_do_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "is_alive", lambda _: True)
    job: Any = SimpleNamespace(name="totals", settings=Settings())
    spark: Any = None
    lease: Any = SimpleNamespace(release=lambda: None)
    running = RunningJob(job, spark, spark, pytest.fail, lease)

    def fail() -> bool:
        raise ValueError("odd")

    running._run = SimpleNamespace(wait=fail, close=lambda: None)  # type: ignore[assignment]
    running._supervise()
    assert str(running._failure) == (
        "job 'totals' cannot be restarted: ValueError('odd'); read Spark's log for the whole report, then start the "
        "job again"
    )
