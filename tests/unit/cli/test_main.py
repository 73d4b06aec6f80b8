"""What the process tells whoever started it."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import errors
from penstock.cli import main as main_module
from penstock.cli import run
from penstock.cli.main import main
from penstock.engine import session
from penstock.errors import ExecutionError, FencedError, OptionsError, Problem, SqlError


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ExecutionError("it broke"), 1),
        (errors.RetriableError("no broker answers"), 1),
        (errors.BatchError("a worker was lost"), 1),
        (errors.TransactionExpiredError("too late"), 1),
        (errors.PluginError("no such connector"), 1),
        (SqlError("line 1"), 2),
        (OptionsError((Problem("unknown"),)), 2),
        (FencedError("taken over"), 3),
        (errors.UnclaimedIdError("taken over, without a claim"), 1),
        (errors.AlreadyRunningError("it runs already"), 4),
        (errors.AnotherCopyError("another copy writes it"), 3),
        (errors.PossibleDataLossError("cut"), 3),
        (errors.CheckpointError("older"), 3),
        (errors.RecordError("no JSON", "in", 0, 3), 3),
        (errors.AuthenticationError("wrong password"), 3),
        (errors.AuthorizationError("not allowed"), 3),
        (KeyboardInterrupt(), 130),
    ],
)
@pytest.mark.rule("terminal errors end the job")
def test_a_job_that_must_not_be_started_again_says_so(error, status, monkeypatch, capsys):
    def fail(arguments):
        raise error

    monkeypatch.setattr(run, "_run", fail)
    assert main(["run", "job.sql"]) == status
    told = capsys.readouterr().err
    assert (f"error: {error}\n" in told) == (status != 130)


def test_other_commands_fail_as_they_do(monkeypatch, capsys):
    """Nobody restarts them."""

    def fail(arguments):
        raise FencedError("taken over")

    monkeypatch.setattr(run, "_check", fail)
    assert main(["check", "job.sql"]) == 1
    assert "taken over" in capsys.readouterr().err


def test_what_was_added_to_an_error_is_told(monkeypatch, capsys):
    def fail(arguments):
        error = ExecutionError("it broke")
        error.add_note("after 3 restarts")
        raise error

    monkeypatch.setattr(run, "_run", fail)
    assert main(["run", "job.sql"]) == 1
    assert capsys.readouterr().err == "error: it broke\nnote: after 3 restarts\n"


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1655395200000", 1655395200000),
        ("0", 0),
        ("2022-06-16T16:00:00Z", 1655395200000),
        ("2022-06-16T18:00:00.250+02:00", 1655395200250),
        ("2022-06-16 16:00+00:00", 1655395200000),
    ],
)
def test_a_start_time_is_iso_8601_or_milliseconds(text, millis):
    assert run._parse_start_time(text) == millis


@pytest.mark.parametrize("text", ["yesterday", "-1", "1655395200000 ms", "1969-12-31T00:00:00Z", ""])
def test_what_is_no_start_time_is_refused(text, capsys):
    with pytest.raises(SystemExit):
        main(["run", "job.sql", f"--start-time={text}"])
    assert f"expected a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970, not '{text}'" in (
        capsys.readouterr().err
    )


def test_a_start_time_is_for_every_job_of_the_file(monkeypatch, tmp_path):
    file, given = tmp_path / "job.sql", []
    file.write_text(
        "CREATE TABLE s (id INT) WITH ('connector' = 'kafka', 'topic' = 'a', 'format' = 'json', "
        "'properties.bootstrap.servers' = 'localhost:1');"
        "CREATE TABLE t (id INT) WITH ('connector' = 'blackhole');"
        "SET 'pipeline.name' = 'one'; INSERT INTO t SELECT * FROM s;"
        "SET 'pipeline.name' = 'two'; INSERT INTO t SELECT * FROM s;"
    )
    monkeypatch.setattr(run, "run_jobs", lambda jobs, metrics, quiet: given.append(jobs))
    monkeypatch.setattr(session, "prepare", lambda: None)  # no Spark for jobs that do not run
    assert main(["run", str(file), "--start-time", "2022-06-16T16:00:00Z"]) == 0
    assert main(["run", str(file)]) == 0
    assert [[(job.name, job.settings.start_time) for job in jobs] for jobs in given] == [
        [("one", 1655395200000), ("two", 1655395200000)],
        [("one", None), ("two", None)],
    ]


@pytest.mark.parametrize("module", main_module._COMMANDS)
def test_each_module_has_the_commands_that_it_is_imported_for(module):
    subparsers = argparse.ArgumentParser().add_subparsers()
    importlib.import_module(module).add_parser(subparsers)
    assert tuple(subparsers.choices) == main_module._COMMANDS[module]


def test_a_file_with_mistakes_is_answered_without_spark_and_other_commands(tmp_path):
    """They take longer to import than the file to read."""
    file = tmp_path / "job.sql"
    file.write_text("SELECT")
    program = (
        "import sys; from penstock.cli.main import main; status = main(sys.argv[1:]); "
        "print(status, [name for name in ('pyspark', 'pandas', 'penstock_testing') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "check", str(file)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "2 []\n"


def test_a_file_is_compiled_without_spark_and_clients():
    """They take as long to import as a long file takes to compile."""
    program = (
        "import sys; from bench.compile import measure; measure(); "
        "print([name for name in ('pyspark', 'pandas', 'kafka', 'confluent_kafka') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    assert done.stdout == "[]\n"


def test_explain_prints_a_plan_and_starts_nothing(tmp_path, capsys):
    table = "CREATE TABLE t (k STRING) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json', "
    table += "'properties.bootstrap.servers' = 'localhost:9092');"
    path = tmp_path / "explain.sql"
    path.write_text(table + "EXPLAIN SELECT k, COUNT(*) FROM t GROUP BY k;")

    assert main(["check", str(path)]) == 0
    assert "GroupAggregate(groupBy=[k]" in capsys.readouterr().out
