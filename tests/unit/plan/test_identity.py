"""Jobs that run side by side."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.cli.main import main
from penstock.cli.run import run_jobs
from penstock.errors import OptionsError
from penstock.plan.guarantees import check_identities
from penstock.sql import parse_script

KAFKA = "'connector' = 'kafka', 'properties.bootstrap.servers' = 'localhost:1', 'format' = 'json'"


def script(*sinks):
    """A job for each sink: (table, prefix of its transactional ids)."""
    tables = f"CREATE TABLE s (id INT) WITH ({KAFKA}, 'topic' = 'in', 'scan.startup.mode' = 'earliest-offset');\n"
    for table, prefix in sinks:
        exact = f"'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{prefix}'"
        tables += f"CREATE TABLE {table} (id INT) WITH ({KAFKA}, 'topic' = '{table}', {exact});\n"
    return tables + "".join(f"INSERT INTO {table} SELECT id FROM s;\n" for table, _ in sinks)


@pytest.mark.rule("one identity per job")
def test_two_jobs_of_one_name_are_refused_before_anything_starts():
    """There is nothing at their address: starting them would take long and fail otherwise."""
    one, two = parse_script(script(("a", "x"), ("b", "y")), default_name="copy").jobs
    with pytest.raises(OptionsError) as raised:
        run_jobs([one, replace(two, name=one.name)])
    assert str(raised.value).startswith("job 'copy': another job has the same name")


@pytest.mark.rule("one identity per job")
def test_two_jobs_with_one_transactional_id_are_refused():
    """The names differ, and so do the prefixes: together they do not."""
    one, two = parse_script(script(("a", "x"), ("b", "x-y")), default_name="y-z").jobs
    check_identities((one, two))
    two = replace(two, name="z")
    with pytest.raises(OptionsError, match="job 'z': its transactional id 'x-y-z' is also that of job 'y-z'"):
        check_identities((one, two))
    check_identities((one, replace(two, name="y")))


@pytest.mark.rule("one identity per job")
def test_a_file_with_such_jobs_is_refused_by_check_too(tmp_path, capsys):
    file = tmp_path / "jobs.sql"
    text = script(("a", "x-y"), ("b", "x")).replace("INSERT INTO b", "SET 'pipeline.name' = 'y-z';\nINSERT INTO b")
    file.write_text("SET 'pipeline.name' = 'z';\n" + text)
    assert main(["check", str(file)]) == 2
    assert "its transactional id 'x-y-z' is also that of job 'z'" in capsys.readouterr().err


def test_the_sinks_of_one_job_may_share_their_prefix():
    text = script(("a", "x"), ("b", "x"))
    inserts = text.index("INSERT")
    (job,) = parse_script(f"{text[:inserts]}EXECUTE STATEMENT SET BEGIN {text[inserts:]} END;").jobs
    check_identities((job,))
