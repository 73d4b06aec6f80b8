"""Whole jobs over the values connector: no broker takes part."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock import engine
from penstock.common import Row, RowKind
from penstock.connectors import values
from penstock.errors import CheckpointError
from penstock.sql import parse_script
from tests.waiting import while_running

DOCUMENT = Path(__file__).parents[2] / "docs" / "testing.md"


@pytest.fixture
def start(tmp_path):
    """Starts the one job of some SQL; it is stopped when the test ends."""
    started = []

    def run(sql):
        settings = f"SET 'execution.checkpointing.dir' = '{tmp_path}'; SET 'pipeline.name' = 'job';\n"
        (job,) = parse_script(settings + sql).jobs
        started.append(engine.start(job))
        return started[-1]

    yield run
    for running in started:
        running.stop()


def source(data_id, columns="id BIGINT, name STRING", **options):
    return _table("orders", columns, {"data-id": data_id, **options})


def sink(name, columns="id BIGINT, name STRING", **options):
    values.forget(name)
    return _table(name, columns, options)


def _table(name, columns, options):
    given = {"connector": "values", **{key.replace("__", ".").replace("_", "-"): text for key, text in options.items()}}
    clause = ", ".join(f"'{key}' = '{text}'" for key, text in given.items())
    return f"CREATE TABLE {name} ({columns}) WITH ({clause});\n"


def test_rows_go_through_sql_in_several_batches(start):
    data_id = values.register((number, f"n{number}") for number in range(7))
    sql = source(data_id, **{"scan.max-records-per-trigger": "3"}) + sink("copies")
    running = start(sql + "INSERT INTO copies SELECT id, UPPER(name) FROM orders WHERE id <> 2;")
    while not running.wait():
        pass

    assert values.rows("copies") == [Row(id=n, name=f"N{n}") for n in range(7) if n != 2]
    assert (running.progress.batches, running.progress.records_in, running.progress.records_out) == (3, 7, 6)
    assert running.lag() == 0


def test_changes_keep_their_kinds(start):
    rows = [Row(number, kind.short) for number, kind in enumerate(RowKind)]
    for row, kind in zip(rows, RowKind, strict=True):
        row.set_row_kind(kind)
    sql = source(values.register(rows), changelog_mode="I,UB,UA,D") + sink("copies", sink_insert_only="false")
    start(sql + "INSERT INTO copies SELECT * FROM orders;").wait()

    assert [(row.get_row_kind().short, row.name) for row in values.rows("copies")] == [
        (kind.short, kind.short) for kind in RowKind
    ]


def test_all_statements_of_a_set_are_written(start):
    """Two of them to one table, and one to another."""
    sql = source(values.register([(1, "a"), (2, "b")])) + sink("copies") + sink("names", "name STRING")
    start(
        sql + "EXECUTE STATEMENT SET BEGIN INSERT INTO copies SELECT * FROM orders; INSERT INTO copies SELECT id + 10, "
        "name FROM orders WHERE id = 1; INSERT INTO names SELECT name FROM orders; END;"
    ).wait()

    assert sorted(row.id for row in values.rows("copies")) == [1, 2, 11]
    assert values.rows("names") == [Row(name="a"), Row(name="b")]


def test_print_writes_all_statements_of_a_set(start, capsys):
    sql = source(values.register([(1, "a"), (2, "b")])) + "CREATE TABLE p (n BIGINT) WITH ('connector' = 'print');"
    start(
        sql + "EXECUTE STATEMENT SET BEGIN INSERT INTO p SELECT id FROM orders; INSERT INTO p SELECT id + 10 FROM "
        "orders; END;"
    ).wait()

    assert sorted(capsys.readouterr().out.splitlines()) == sorted(f"+I[{number}]" for number in (1, 2, 11, 12))


def test_a_table_without_an_end_is_read_until_the_job_is_stopped(start):
    sql = source(values.register([(1, "a")]), bounded="false") + sink("copies")
    running = start(sql + "INSERT INTO copies SELECT * FROM orders;")
    while_running(running, lambda: values.rows("copies"))

    assert not running.wait(timeout=0)
    running.stop()
    assert running.result().stopped


def test_a_job_goes_on_where_its_checkpoint_says_and_with_the_same_rows_only(start):
    data_id = values.register([(1, "a"), (2, "b")])
    sql = source(data_id) + sink("copies") + "INSERT INTO copies SELECT * FROM orders;"
    start(sql).wait()
    start(sql).wait()
    assert len(values.rows("copies")) == 2

    values.register([(3, "c")], data_id)
    with pytest.raises(CheckpointError, match="other rows than table 'orders' has now"):
        start(sql)


def test_the_examples_of_the_document_run(tmp_path, capsys):
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    test, program = (block for block in blocks if "values" in block)
    names = {"__name__": "example"}
    exec(compile(test, str(DOCUMENT), "exec"), names)
    names["test_names_are_in_capitals"](tmp_path)
    with pytest.warns(UserWarning, match="checkpointing is off"):
        exec(compile(program, str(DOCUMENT), "exec"), names)
    assert "['to', 'be', 'or', 'not']" in capsys.readouterr().out
