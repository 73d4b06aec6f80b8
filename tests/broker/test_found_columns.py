"""Queries of tables that declare no columns: they are found in records, and kept in the checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.cli.main import main
from penstock.engine.checkpoint import job_location, read_location
from tests.sockets import free_port

if TYPE_CHECKING:
    from penstock_testing.services import KafkaCluster


def produce(kafka: KafkaCluster, topic: str, *records: Any, keys: Sequence[Any] = ()) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for at, value in enumerate(records):
        content = value if isinstance(value, bytes | None) else json.dumps(value).encode()
        producer.produce(topic, content, key=json.dumps(keys[at]).encode() if keys else None, partition=0)
    assert producer.flush(60) == 0


OUT = "CREATE TABLE shown ({}) WITH ('connector' = 'print');\n"
SOURCE = (
    "CREATE TABLE t {} WITH ('connector' = 'kafka', 'properties.bootstrap.servers' = '{}', 'topic' = '{}', "
    "'scan.startup.mode' = 'earliest-offset', 'format' = 'json'{});\n"
)


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., int]:
    """Runs a command on a file of SQL, with a directory for checkpoints."""

    def check(text: str, command: str = "check", *more: str) -> int:
        file = tmp_path / "job.sql"
        file.write_text(text)
        return main([command, str(file), "--checkpoint-dir", str(tmp_path / "checkpoints"), *more])

    return check


def test_a_table_without_columns_has_those_of_its_records(kafka, topic, check, capsys):
    name = topic(1)
    produce(
        kafka, name, {"id": 1, "at": "2026-01-02 03:04:05"}, None, {"id": 2, "price": 1.5, "tags": ["a"]}, b"broken"
    )
    text = SOURCE.format("", kafka.bootstrap, name, ", 'json.ignore-parse-errors' = 'true'")
    text += OUT.format("id BIGINT, later TIMESTAMP(6), tags STRING")
    text += "CREATE VIEW v AS SELECT * FROM t WHERE price > 1;\n"
    text += "INSERT INTO shown SELECT id, `at` + INTERVAL '1' DAY, tags FROM v;"
    assert check(text) == 0, capsys.readouterr().err
    captured = capsys.readouterr()
    assert "columns: `id` BIGINT, `at` TIMESTAMP(6), `price` DOUBLE, `tags` STRING" in captured.out
    assert "metadata columns only" not in captured.err


def test_metadata_comes_first_and_hints_may_name_the_topic(kafka, topic, check, capsys):
    name = topic(1)
    produce(kafka, name, {"id": 1, "part": "lost"})
    text = SOURCE.format("(`part` INT METADATA FROM 'partition')", kafka.bootstrap, "missing", "")
    text += OUT.format("part INT, id BIGINT")
    text += f"INSERT INTO shown SELECT * FROM t /*+ OPTIONS('topic' = '{name}') */;"
    assert check(text) == 0, capsys.readouterr().err
    captured = capsys.readouterr()
    assert "columns: `part` INT, `id` BIGINT" in captured.out
    assert "metadata columns only" not in captured.err


def test_a_table_of_a_catalog(kafka, topic, check, capsys):
    name = topic(1)
    produce(kafka, name, {"id": 1, "more": "x"}, keys=[{"id": 1, "user": "u"}])
    text = f"CREATE CATALOG k WITH ('type' = 'kafka', 'properties.bootstrap.servers' = '{kafka.bootstrap}', "
    text += "'key.format' = 'json', 'key.fields-prefix' = 'key_');\n" + OUT.format("a STRING, b BIGINT, c BIGINT")
    text += f"INSERT INTO shown SELECT key_user, value_id, `offset` FROM k.kafka.`{name}`;"
    assert check(text) == 0, capsys.readouterr().err
    columns = "`key_id` BIGINT, `key_user` STRING, `value_id` BIGINT, `value_more` STRING"
    metadata = "`partition` INT NOT NULL, `offset` BIGINT NOT NULL, `timestamp` TIMESTAMP_LTZ(3) NOT NULL"
    assert f"columns: {metadata}, {columns}" in capsys.readouterr().out


def test_columns_that_keys_alone_have_are_read_from_keys(kafka, topic, check, capsys):
    name = topic(1)
    produce(kafka, name, {"id": 1}, keys=[{"id": "x", "user": "u"}])
    text = SOURCE.format("", kafka.bootstrap, name, ", 'key.format' = 'json'") + OUT.format("a STRING")
    assert check(text + "INSERT INTO shown SELECT `user` FROM t;") == 0, capsys.readouterr().err
    assert "`user` STRING" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("records", "reason"),
    [((), "which has none yet"), ((None, b"1", {}), r"none of which (3 were read) has any")],
)
def test_a_topic_that_shows_no_columns(kafka, topic, check, capsys, records, reason):
    name = topic(1)
    produce(kafka, name, *records)
    text = SOURCE.format("", kafka.bootstrap, name, "") + OUT.format("id BIGINT")
    assert check(text + "INSERT INTO shown SELECT id FROM t;") == 2
    found = capsys.readouterr().err
    assert f"job.sql, line 3, column 34: the columns of table 't' are found in the records of topic '{name}', " in found
    assert f"{reason} (declare the columns of the table, or write a record first)" in found


def test_a_broker_that_is_away(check, capsys):
    limit = ", 'properties.default.api.timeout.ms' = '1000', 'properties.request.timeout.ms' = '1000'"
    text = SOURCE.format("", f"127.0.0.1:{free_port()}", "t", limit) + OUT.format("id BIGINT")
    assert check(text + "INSERT INTO shown SELECT id FROM t;") == 2
    found = capsys.readouterr().err
    assert "the columns of table 't' are found in the records of topic 't', which cannot be read: " in found
    assert "(declare the columns of the table, or start the broker)" in found


def test_nested_columns_are_not_flattened_for_queries(check, capsys):
    option = ", 'json.infer-schema.flatten-nested-columns.enable' = 'true'"
    text = SOURCE.format("", "127.0.0.1:1", "t", option) + OUT.format("id BIGINT")
    assert check(text + "INSERT INTO shown SELECT id FROM t;") == 2
    assert "is for copies with AS TABLE, and not for queries yet" in capsys.readouterr().err


def test_a_continued_job_has_the_columns_that_it_began_with(kafka, topic, check, tmp_path, capsys):
    """Records that came later show others, and without a checkpoint the job would have these."""
    name = topic(1)
    produce(kafka, name, {"id": 1})
    text = SOURCE.format("", kafka.bootstrap, name, "") + OUT.format("id STRING")
    text += "INSERT INTO shown SELECT CAST(id AS STRING) FROM t;"
    assert check(text, "run", "--available-now", "--quiet") == 0, capsys.readouterr().err
    place = read_location(job_location(str(tmp_path / "checkpoints"), "job"))
    assert place.read("source-0")["columns"]["columns"] == [["id", "BIGINT"]]
    produce(kafka, name, {"id": 7, "more": 2})
    capsys.readouterr()
    assert check(text, "run", "--available-now", "--quiet") == 0, capsys.readouterr().err
    assert "7" in capsys.readouterr().out

    assert check(text) == 0
    assert "columns: `id` BIGINT\n" in capsys.readouterr().out
    assert check(text, "check", "-D", "pipeline.name=another") == 0
    assert "columns: `id` BIGINT, `more` BIGINT\n" in capsys.readouterr().out
    assert check(text.replace(kafka.bootstrap, f"127.0.0.1:{free_port()}")) == 0  # nothing is read


@pytest.mark.parametrize(
    ("format", "statement", "place"),
    [
        ("csv", "INSERT INTO shown SELECT id FROM t", "line 3, column 34"),
        ("json", "INSERT INTO t SELECT id FROM shown", "line 3, column 13"),
    ],
)
def test_tables_whose_columns_have_to_be_declared(check, capsys, format, statement, place):
    text = SOURCE.format("", "127.0.0.1:1", "t", "").replace("json", format) + OUT.format("id BIGINT")
    assert check(f"{text}{statement};") == 2
    assert f"{place}: a table without columns is not supported (declare the columns" in capsys.readouterr().err
