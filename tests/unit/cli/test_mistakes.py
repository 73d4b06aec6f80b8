"""Mistakes that users make on the command line and in files, and what they read then."""

from __future__ import annotations

import os
import signal

import pytest

from penstock.cli.main import main
from penstock.cli.run import _collect_signals
from penstock_testing.commands.demo import _ended_by_sigterm

TABLES = """CREATE TABLE s (id INT) WITH ('connector' = 'datagen');
CREATE TABLE p (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '/tmp/out', 'format' = 'json');
"""
YAML = """source:
  type: kafka
  topic: t
sink:
  type: {sink}
"""


@pytest.fixture
def said(tmp_path, capsys):
    """Runs `penstock`: its status and what it says on standard error; ``files`` are written before."""

    def run(*arguments, **files):
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(text)
        paths = [str(tmp_path / each) if (tmp_path / each).is_file() else each for each in arguments]
        return main(paths), capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        (
            "CREATE TABLE a (id INT) WITH ('connector' = 'print' 'x' = 'y');",
            "line 1, column 53: expected ',' or ')', found a string (separate options with commas)",
        ),
        (
            f"{TABLES}DROP TABLE s\nCREATE TABLE t (id INT) WITH ('connector' = 'print');",
            "line 4, column 1: expected the end of the statement, found 'CREATE' (a ';' is missing before it)",
        ),
        (
            "CREATE TABLE a (id INT) WITH (\n 'connector' = 'print,\n 'x' = 'y'\n);\nINSERT INTO a SELECT 'b';",
            "line 2, column 16: the string continues to line 3, and a later one is not closed (add ' where it ends)",
        ),
        (
            f"{TABLES}INSERT INTO p SELECT COUNT(*) FROM s;",
            "line 3, column 1: table 'p': takes insertions only, and the query's aggregate changes rows",
        ),
        (
            "CREATE FUNCTION f AS 'a.B';",
            "a function in Java is not supported (write the function in Python, and LANGUAGE PYTHON after its name)",
        ),
        (
            "CREATE TABLE d (id INT) WITH ('connector' = 'postgres', 'url' = 'postgresql://h/d', 'table-name' = 'd');\n"
            "CREATE TABLE p (id INT) WITH ('connector' = 'print');\nINSERT INTO p SELECT id FROM d;",
            "connector 'postgres' cannot be read (use it in INSERT INTO only; to read the database, let Debezium write",
        ),
    ],
)
def test_a_mistake_in_sql_is_reported_where_it_is(said, sql, error):
    status, text = said("check", "a.sql", a_sql=sql)
    assert status == 2
    assert error in text


@pytest.mark.parametrize(
    ("sink", "error"),
    [
        ("paimon", "'type': there is no connector 'paimon' yet"),
        ("kafka\n  topik: t", "'topik': unknown option (did you mean 'topic'?)"),
    ],
)
def test_both_sides_of_a_pipeline_are_checked(said, sink, error):
    status, text = said("check", "a.yaml", a_yaml=YAML.format(sink=sink))
    assert status == 2
    assert error in text
    assert "line 1, column 1: 'properties.bootstrap.servers': is required" in text


def test_a_column_of_a_source_that_is_not_known_is_no_mistake(said):
    _, text = said("check", "a.yaml", a_yaml=YAML.format(sink="kafka\n  key.fields: customer\n  key.format: json"))
    assert "customer" not in text


def test_a_job_that_is_not_there_is_named_with_those_that_are(said, tmp_path):
    (tmp_path / "orders" / "penstock").mkdir(parents=True)
    (tmp_path / "orders" / "penstock" / "job.json").write_text('{"job": "orders", "query_id": "q"}')
    for name, hint in (("order", "did you mean 'orders'?"), ("zzz", "there are orders")):
        status, text = said("state", name, "--checkpoint-dir", str(tmp_path))
        assert status == 2
        assert text.startswith(f"error: JOB: there is no checkpoint of a job '{name}' at '{tmp_path}/{name}' ({hint}; ")


def test_a_command_that_is_not_there(said):
    status, text = said("chek", "a.sql")
    assert (status, text) == (2, "error: there is no command 'chek' (did you mean 'check'?)\n")
    assert "(there are run, check, " in said("frobnicate")[1]


def test_an_option_that_is_not_there(said):
    status, text = said("run", "--checkpointdir", "x", "a.sql")
    assert status == 2
    assert text == "error: unrecognized: --checkpointdir a.sql (did you mean '--checkpoint-dir'?)\n"


def test_the_first_signal_asks_a_job_to_stop_and_the_second_interrupts_it():
    with _collect_signals() as received:
        os.kill(os.getpid(), signal.SIGINT)
        assert received == [signal.SIGINT]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_an_option_of_a_hint_without_effect_is_warned_of(said):
    table = "CREATE TABLE s (id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');\n"
    sink = "CREATE TABLE p (id INT) WITH ('connector' = 'print');\n"
    hint = "OPTIONS('scan.watermark.emit.strategy' = 'on-event')"
    status, text = said("check", "a.sql", a_sql=f"{table}{sink}INSERT INTO p SELECT id FROM s /*+ {hint} */;")
    expected = (
        "warning: a.sql, line 3, column 44: 'scan.watermark.emit.strategy' has no effect here: the watermark advances"
    )
    assert status == 0
    assert text.startswith(expected)


def test_a_table_that_is_never_idle_says_so(capsys, tmp_path):
    (tmp_path / "a.sql").write_text(
        "CREATE TABLE s (id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 't',\n"
        "'properties.bootstrap.servers' = 'b:9092', 'format' = 'json', 'scan.watermark.idle-timeout' = '0',\n"
        "'scan.startup.mode' = 'earliest-offset');\n"
        "CREATE TABLE p (id INT) WITH ('connector' = 'print');\nINSERT INTO p SELECT id FROM s;"
    )
    assert main(["check", str(tmp_path / "a.sql")]) == 0
    assert ", never idle; of the table: the smallest" in capsys.readouterr().out


def test_sigterm_ends_the_demonstration_as_an_exception_does():
    with pytest.raises(SystemExit) as raised, _ended_by_sigterm():
        os.kill(os.getpid(), signal.SIGTERM)
    assert raised.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
