"""Functions in Python in a whole job: they and their modules reach the tasks."""

from __future__ import annotations

import pytest

from penstock import engine
from penstock.connectors import values
from penstock.errors import FunctionError
from penstock.sql import parse_script

FUNCTIONS = """
from helper_of_functions import factor
from penstock.table import ScalarFunction
from penstock.table.udf import udf

def scaled(x: int) -> int:
    return factor() * x

class Named(ScalarFunction):
    def open(self, context):
        self.names = {0: "even", 1: "odd"}
    def eval(self, x):
        return self.names[x % 2]

named = udf(Named(), result_type="STRING")

@udf(result_type="BIGINT", func_type="pandas")
def both(a, b):
    return a + b

def fails(x: int) -> int:
    return 1 // (x - 3)
"""
SQL = """
SET 'execution.checkpointing.dir' = '{folder}/checkpoints'; SET 'pipeline.name' = 'job';
CREATE FUNCTION scaled AS 'functions_of_job.scaled' LANGUAGE PYTHON;
CREATE FUNCTION named AS 'functions_of_job.named' LANGUAGE PYTHON;
CREATE FUNCTION both AS 'functions_of_job.both' LANGUAGE PYTHON;
CREATE FUNCTION fails AS 'functions_of_job.fails' LANGUAGE PYTHON;
CREATE TABLE given (id BIGINT)
  WITH ('connector' = 'values', 'data-id' = '{data}', 'scan.max-records-per-trigger' = '3');
CREATE TABLE rows_of_functions (x BIGINT, s STRING) WITH ('connector' = 'values');
CREATE TABLE groups_of_functions (s STRING, n BIGINT) WITH ('connector' = 'values', 'sink-insert-only' = 'false');
"""


@pytest.fixture
def script(tmp_path):
    """Makes the only job of statements behind those that create functions and tables."""
    (tmp_path / "functions_of_job.py").write_text(FUNCTIONS)
    (tmp_path / "helper_of_functions.py").write_text("def factor() -> int:\n    return 10\n")
    for name in ("rows_of_functions", "groups_of_functions"):
        values.forget(name)

    def made(sql):
        text = SQL.format(folder=tmp_path, data=values.register((number,) for number in range(7)))
        (job,) = parse_script(text + sql, folder=str(tmp_path)).jobs
        return job

    return made


def test_functions_below_and_above_state(script):
    engine.run(
        script(
            "EXECUTE STATEMENT SET BEGIN "
            "INSERT INTO rows_of_functions SELECT scaled(id), named(id) FROM given WHERE both(id, scaled(id)) > 33; "
            "INSERT INTO groups_of_functions SELECT named(id), scaled(COUNT(*)) FROM given GROUP BY named(id) "
            "HAVING scaled(SUM(id)) >= 90; END;"
        )
    )

    assert sorted((row.x, row.s) for row in values.rows("rows_of_functions")) == [
        (40, "even"),
        (50, "odd"),
        (60, "even"),
    ]
    last: dict[str, int] = {}
    for row in values.rows("groups_of_functions"):
        if row.get_row_kind().short in ("+I", "+U"):
            last[row.s] = row.n
    assert last == {"even": 40, "odd": 30}


def test_an_exception_ends_the_job_with_the_name_of_the_function(script):
    job = script("INSERT INTO rows_of_functions SELECT fails(id), 'x' FROM given;")
    with pytest.raises(FunctionError, match=r"FAILS: the function raised ZeroDivisionError \(functions_of_job.py"):
        engine.run(job)


def test_an_exception_names_the_record_of_the_topic(jobs, topics, topic, tmp_path):
    """Where its rows still have a place: in a job without state, and below GROUP BY."""
    (tmp_path / "functions_of_topics.py").write_text(
        "def fails(x: int) -> int:\n    return 1 // (x - 3)\n", encoding="utf-8"
    )
    source = topic()
    topics.write_ids(source, 5)
    created = (
        f"SET 'python.files' = '{tmp_path}';\n"
        "CREATE FUNCTION fails AS 'functions_of_topics.fails' LANGUAGE PYTHON;\n"
        + jobs.bounded("s", "id BIGINT", source)
        + "CREATE TABLE p (x BIGINT) WITH ('connector' = 'blackhole');\n"
    )
    for number, query in enumerate(
        (
            "SELECT fails(id) FROM s",
            "SELECT COUNT(*) FROM s GROUP BY fails(id)",
            "SELECT id FROM s WHERE fails(id) > -1",
        )
    ):
        with pytest.raises(FunctionError, match=f"topic '{source}', partition 0, offset 3: FAILS: the function raised"):
            jobs.run(created + f"INSERT INTO p {query};", f"job{number}")
