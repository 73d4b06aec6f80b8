"""The start of Spark's JVM, with programs in the place of spark-submit."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from penstock.engine.session.jvm import Jvm
from penstock.errors import ExecutionError
from tests.processes import running
from tests.waiting import eventually


@pytest.fixture
def spark_submit(tmp_path, monkeypatch):
    """Puts a shell script in the place of spark-submit; gives its folder."""
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)

    def put(text):
        path = tmp_path / "bin" / "spark-submit"
        path.parent.mkdir()
        path.write_text("#!/bin/sh\n" + textwrap.dedent(text))
        path.chmod(0o755)
        return tmp_path

    return put


def test_a_jvm_that_ends_before_it_is_ready_is_an_error_after_its_own_words(spark_submit, capfd):
    spark_submit("echo 'JAVA_HOME is not set' >&2; exit 3")
    with pytest.raises(ExecutionError, match=r"JVM ended with status 3 before it was ready.*penstock doctor"):
        Jvm({}).gateway()
    assert capfd.readouterr().err == "JAVA_HOME is not set\n"


def test_what_java_says_at_every_start_is_left_out(spark_submit, capfd):
    spark_submit("echo 'WARNING: Using incubator modules: jdk.incubator.vector' >&2; echo 'another' >&2; exit 1")
    with pytest.raises(ExecutionError):
        Jvm({}).gateway()
    assert capfd.readouterr().err == "another\n"


def test_settings_and_the_user_s_arguments_are_given(spark_submit, monkeypatch, capfd):
    spark_submit('for each in "$@"; do echo "$each" >&2; done; exit 1')
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--jars 'my jar' pyspark-shell")
    with pytest.raises(ExecutionError):
        Jvm({"spark.a": "b c"}).gateway()
    assert capfd.readouterr().err.splitlines() == ["--conf", "spark.a=b c", "--jars", "my jar", "pyspark-shell"]


def test_a_spark_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "none"))
    with pytest.raises(ExecutionError, match=r"none/bin/spark-submit' cannot be started: .*correct SPARK_HOME"):
        Jvm({})


def test_a_jvm_that_nobody_has_connected_to_ends_with_its_process(spark_submit, tmp_path):
    """As for a job that cannot be read, while Spark starts."""
    spark_submit(
        f'echo "$$ $_PYSPARK_DRIVER_CONN_INFO_PATH" > {tmp_path}/draft; mv {tmp_path}/draft {tmp_path}/told\n'
        "exec sleep 1000"
    )
    program = f"""
        import pathlib, time
        from penstock.engine.session.jvm import Jvm

        jvm = Jvm({{}})
        while not pathlib.Path({str(tmp_path / "told")!r}).exists():
            time.sleep(0.01)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=120)
    pid, answer = (tmp_path / "told").read_text().split()
    eventually(lambda: not running(int(pid)))
    assert not Path(answer).parent.exists()
