"""What SHOW, DESCRIBE and the statements about catalogs print: the cases of tests/specs/sql/statements.yaml."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.errors import UnsupportedError
from penstock.plan.explain import explain
from penstock.plan.nodes import scans
from penstock.sql import parse_script

SPEC = yaml.safe_load((Path(__file__).parents[2] / "specs/sql/statements.yaml").read_text("utf-8"))
CASES = SPEC["cases"]


def test_no_case_is_lost():
    assert len(CASES) == SPEC["count"]
    assert len({case["sql"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["sql"])
def test_a_statement_prints(case: dict[str, Any]):
    script = parse_script(SPEC["tables"] + case["sql"], variables={"NAME": "hidden"})

    assert "\n".join(script.printed) + "\n" == case["prints"]
    assert not script.jobs


CREATED = [case["sql"] for case in CASES if "SHOW CREATE TABLE" in case["sql"] and "${" not in case["sql"]]


@pytest.mark.parametrize("sql", CREATED)
def test_what_show_create_table_prints_makes_the_same_table(sql: str):
    (shown,) = parse_script(SPEC["tables"] + sql).printed
    name = sql.rsplit(maxsplit=1)[-1]

    (again,) = parse_script(f"{shown}; SHOW CREATE TABLE {name}").printed

    assert again == shown


def test_tables_of_one_name_in_two_databases_are_two_tables():
    options = "'connector' = 'kafka', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json'"
    text = f"""
    CREATE TABLE t (a INT) WITH ({options}, 'topic' = 'one');
    CREATE DATABASE other;
    CREATE TABLE other.t (a INT) WITH ({options}, 'topic' = 'two');
    CREATE TABLE s (a INT) WITH ('connector' = 'print');
    INSERT INTO s SELECT t.a FROM default_catalog.default_database.t AS t JOIN other.t AS u ON t.a = u.a;
    """
    (job,) = parse_script(text).jobs

    assert [scan.table for scan in scans(*job.sinks)] == ["t", "other.t"]


def test_a_view_keeps_the_names_of_the_database_it_was_made_in():
    options = "'connector' = 'kafka', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json'"
    text = f"""
    CREATE TABLE s (a INT) WITH ('connector' = 'print');
    CREATE DATABASE d;
    USE d;
    CREATE TABLE t (a INT) WITH ({options}, 'topic' = 'one');
    CREATE VIEW v AS SELECT a FROM t;
    ALTER TABLE t SET ('topic' = 'two');
    USE default_database;
    INSERT INTO s SELECT a FROM d.v;
    """
    (job,) = parse_script(text).jobs

    (scan,) = scans(*job.sinks)
    assert scan.table == "d.t"
    assert "two" in scan.spec.describe()


def test_the_current_database_is_that_of_its_query():
    text = """
    CREATE TABLE default_database.s (a STRING) WITH ('connector' = 'print');
    CREATE DATABASE d;
    INSERT INTO s SELECT CURRENT_DATABASE();
    USE d;
    INSERT INTO default_database.s SELECT a FROM (VALUES ('x')) AS t (a) WHERE a IN (SELECT CURRENT_DATABASE());
    INSERT INTO default_database.s SELECT CURRENT_DATABASE();
    """
    found = [set(re.findall("'(d|default_database)'", explain(job))) for job in parse_script(text).jobs]
    assert found == [{"default_database"}, {"d"}, {"d"}]
    with pytest.raises(UnsupportedError, match=r"outside of queries .write the database's name in quotes"):
        parse_script("CREATE TABLE t (a INT, b AS CURRENT_DATABASE()) WITH ('connector' = 'print')")
