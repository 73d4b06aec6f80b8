"""The file of what Spark and Python report."""

from __future__ import annotations

import os

import pytest

from penstock.engine.session import logs
from penstock.errors import VERBOSE, ExecutionError


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv(VERBOSE, raising=False)
    return tmp_path


def caused():
    try:
        raise ValueError("seventy lines of Spark")
    except ValueError as cause:
        error = ExecutionError("one line")
        error.__cause__ = cause
        return error


def test_java_writes_to_a_file_of_this_process(state):
    path = state / "penstock" / "logs" / f"{logs._STARTED}-{os.getpid()}.log"
    assert logs.java_options() == ["-Dpenstock.log.to=file", f"-Dpenstock.log={path}"]
    assert not path.exists()


def test_with_verbose_it_writes_to_the_terminal(monkeypatch):
    monkeypatch.setenv(VERBOSE, "1")
    assert logs.java_options() == ["-Dpenstock.log.to=stderr"]
    assert logs.report(caused()) == ""


def test_without_a_folder_it_writes_to_the_terminal(state):
    (state / "penstock").write_text("a file")
    assert logs.java_options() == ["-Dpenstock.log.to=stderr"]
    assert logs.report(caused()) == ""


def test_a_report_has_the_errors_behind_an_error(state):
    path = logs.report(caused())
    assert path == str(logs.log_file())
    text = logs.log_file().read_text()
    assert "ValueError: seventy lines of Spark" in text
    assert text.endswith("penstock.errors.ExecutionError: one line\n")


def test_an_error_with_nothing_behind_it_names_the_file_only_if_java_has_written(state):
    assert logs.report(ExecutionError("alone")) == ""
    logs.log_file().parent.mkdir(parents=True)
    logs.log_file().write_text("ERROR Utils\n")
    assert logs.report(ExecutionError("alone")) == str(logs.log_file())


def test_files_of_former_processes_are_kept_for_a_while(state):
    folder = logs.log_file().parent
    folder.mkdir(parents=True)
    for number in range(30):
        (folder / f"20200101-0000{number:02}-1.log").touch()
    logs.java_options()
    left = sorted(each.name for each in folder.iterdir())
    assert (len(left), left[0]) == (20, "20200101-000010-1.log")
