"""CREATE TABLE .. AS TABLE: the new table follows the columns of the other, which messages show."""

from __future__ import annotations

import pytest

from penstock.errors import DefinitionError, SchemaError, SqlError, UnsupportedError
from penstock.ingest import copy_table
from penstock.sql import parse_script
from tests.unit.ingest.pipelines import TIME, Message, Pipeline

KAFKA = "'connector' = 'kafka', 'properties.bootstrap.servers' = 'host:9092', 'topic' = 'orders', "
KAFKA += "'scan.startup.mode' = 'earliest-offset'"
HOLOGRES = """CREATE CATALOG hologres WITH (
  'type' = 'hologres', 'endpoint' = 'host:80', 'username' = 'me', 'password' = 'secret');
"""
PRINT = " WITH ('connector' = 'print') AS TABLE t"


def source(columns: str, *more: str, format: str = "json") -> str:
    options = ", ".join((KAFKA, f"'format' = '{format}'", *more))
    return f"CREATE TEMPORARY TABLE t ({columns}) WITH ({options});\n"


def test_the_schema_and_the_rows_of_a_topic():
    """As an example of Realtime Compute shows it: metadata is the key, and all other columns are found."""
    text = HOLOGRES + source(
        "`offset` INT NOT NULL METADATA, `part` BIGINT NOT NULL METADATA FROM 'partition', "
        "PRIMARY KEY (`part`, `offset`) NOT ENFORCED",
        "'json.infer-schema.flatten-nested-columns.enable' = 'true'",
    )
    text += """CREATE TABLE IF NOT EXISTS hologres.kafka.`sync_kafka` WITH ('connector' = 'hologres')
        AS TABLE vvp.`default`.t;"""
    found = Pipeline(text).run({"id": 1, "a": {"b": "x"}})

    (table,) = found.schemas.sinks
    wanted = "offset INT NOT NULL, part BIGINT NOT NULL, id BIGINT, a.b STRING"
    assert found.columns(table) == wanted
    assert found.schemas.sinks[table].schema.primary_key == ("part", "offset")
    assert found.table(table) == [{"offset": 0, "part": 0, "id": 1, "a.b": "x"}]
    found.run({"id": "text", "more": 1.5})
    assert found.columns(table) == wanted.replace("id BIGINT", "id STRING") + ", more DOUBLE"
    spec = found.work.output(found.schemas.sinks[table]).spec
    assert (spec.table_name, spec.address.database) == ('"sync_kafka"', "kafka")
    assert not found.warnings


def test_columns_that_are_declared_computed_and_added():
    text = source(
        "`distinct_id` INT NOT NULL, `properties` STRING, `timestamp` TIMESTAMP_LTZ(3) METADATA, "
        "`date` AS CAST(`timestamp` AS DATE)"
    )
    text += f"""CREATE TABLE c{PRINT}
        ADD COLUMN (`order_id` AS COALESCE(JSON_VALUE(`properties`, '$.order_id'), 'default'),
                    `next` AS distinct_id + 1, `year` AS YEAR(`date`));"""
    found = Pipeline(text).run({"distinct_id": 7, "properties": '{"order_id": "x"}'})

    names = "distinct_id INT NOT NULL, properties STRING, timestamp TIMESTAMP_LTZ(3), date DATE"
    assert found.columns("c") == f"{names}, order_id STRING NOT NULL, next INT NOT NULL, year BIGINT"
    found.run({"distinct_id": 2**40, "new": True})
    assert found.columns("c") == (
        f"{names}, order_id STRING NOT NULL, next INT NOT NULL, year BIGINT, new BOOLEAN".replace("INT", "BIGINT", 1)
        .replace("next INT", "next BIGINT")
    )  # fmt: skip
    first, last = found.table("c")
    assert (first["order_id"], first["next"], first["year"]) == ("x", 8, 2026)
    assert first["timestamp"] == TIME
    assert (last["order_id"], last["next"], last["new"]) == ("default", 2**40 + 1, True)


@pytest.mark.parametrize("format", ["debezium-json", "canal-json"])
def test_all_messages_are_of_the_table_whatever_they_name(format):
    changes = {
        "debezium-json": [{"op": "c", "after": {"id": at}, "source": {"db": "db", "table": f"t{at}"}} for at in (1, 2)],
        "canal-json": [{"type": "INSERT", "data": [{"id": at}], "database": "db", "table": f"t{at}"} for at in (1, 2)],
    }
    text = source("id BIGINT, PRIMARY KEY (id) NOT ENFORCED", format=format) + f"CREATE TABLE c{PRINT};"
    found = Pipeline(text).run(*(Message(each) for each in changes[format]))

    assert found.table("c") == [{"id": 1}, {"id": 2}]
    assert found.schemas.sinks["c"].schema.primary_key == ("id",)


def test_a_table_of_a_topic_is_written_with_the_format_of_the_target():
    target = "'connector' = 'kafka', 'topic' = 'out', 'properties.bootstrap.servers' = 'host:9092'"
    text = source("id BIGINT") + f"CREATE TABLE c WITH ({target}, 'format' = 'json') AS TABLE t;"
    found = Pipeline(text).run({"id": 1, "b": 2})

    spec = found.work.output(found.schemas.sinks["c"]).spec
    assert spec.topics == ("out",)
    assert spec.schema.names == ("id", "b")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            source("id BIGINT, two AS nothing * 2") + f"CREATE TABLE c{PRINT};",
            DefinitionError,
            "there is no column 'nothing'",
        ),
        (
            source("id BIGINT") + f"CREATE TABLE c{PRINT} ADD COLUMN x AS UNKNOWN(id);",
            DefinitionError,
            "there is no function UNKNOWN",
        ),
        (
            source("id BIGINT", "'json.infer-schema.flatten' = 'true'") + f"CREATE TABLE c{PRINT};",
            DefinitionError,
            "json.infer-schema.flatten'",
        ),
        ("CREATE CATALOG c WITH ('type' = 'mysql');", UnsupportedError, "'generic_in_memory', 'hologres', 'postgres'"),
        ("CREATE CATALOG c WITH ('type' = 'hologres');", SqlError, "the catalog has no 'endpoint'"),
        ("CREATE CATALOG c WITH ('type' = 'postgres', 'a' = 'b');", SqlError, "has no option 'a'"),
    ],
)
def test_mistakes(text, error, message):
    with pytest.raises(error, match=None) as raised:
        parse_script(text, file="p.sql", copies=copy_table)
    assert message in str(raised.value)
    assert "p.sql, line" in str(raised.value)


def test_a_key_that_messages_do_not_show_is_an_error_when_they_are_read():
    text = source("`offset` BIGINT METADATA") + f"CREATE TABLE c (PRIMARY KEY (nr) NOT ENFORCED){PRINT};"
    assert Pipeline(text).run({"nr": 1}).schemas.sinks["c"].schema.primary_key == ("nr",)
    with pytest.raises(SchemaError, match=r"p.sql, line 2, .* names 'nr', which is not a column of 't'"):
        Pipeline(text).run({"id": 1})


def test_added_columns_may_use_those_that_messages_show():
    text = source("`offset` BIGINT METADATA") + f"CREATE TABLE c{PRINT} ADD COLUMN loud AS UPPER(note);"
    assert Pipeline(text).run({"note": "a"}).table("c") == [{"offset": 0, "note": "a", "loud": "A"}]
    with pytest.raises(SchemaError, match=r"p.sql, line 2, .* there is no column 'note' \(declare the column in 't'"):
        Pipeline(text).run({"id": 1})


def test_a_table_of_a_catalog_has_the_options_of_the_catalog():
    text = """CREATE CATALOG pg WITH (
          'type' = 'postgres', 'url' = 'postgresql://host/shop', 'username' = 'me', 'password' = 'secret');
        CREATE TABLE pg.sales.orders (id BIGINT);
        CREATE TEMPORARY TABLE n (id BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1');
        INSERT INTO pg.sales.orders SELECT id FROM n;
        SHOW CREATE CATALOG pg;"""
    script = parse_script(text)

    (job,) = script.jobs
    assert job.sinks[0].spec.table_name == "sales.orders"
    assert "secret" not in "".join(script.printed)


CATALOG = """CREATE CATALOG k WITH (
  'type' = 'kafka', 'properties.bootstrap.servers' = 'host:9092', 'max.fetch.records' = '7',
  'infer-schema.flatten-nested-columns.enable' = 'true'{});
"""


def test_a_topic_of_a_catalog_of_kafka():
    text = CATALOG.format("") + "CREATE TABLE c WITH ('connector' = 'print') AS TABLE k.kafka.orders;"
    found = Pipeline(text).run({"id": 1, "a": {"b": "x"}})

    metadata = "partition INT NOT NULL, offset BIGINT NOT NULL, timestamp TIMESTAMP_LTZ(3) NOT NULL"
    assert found.columns("c") == f"{metadata}, value_id BIGINT, value_a.b STRING"
    assert found.schemas.sinks["c"].schema.primary_key == ("partition", "offset")
    scan = found.job.sinks[0].input.input.spec
    assert scan.options.topic == ("orders",)
    assert found.work.looks_ahead == 7


def test_all_topics_of_a_catalog_become_the_tables_of_a_database():
    text = HOLOGRES + CATALOG.format(", 'value.fields-prefix' = '', 'properties.security.protocol' = 'SSL'")
    text += "CREATE DATABASE IF NOT EXISTS hologres.shop AS DATABASE k.kafka INCLUDING TABLE 'o.*', 'items' "
    text += "EXCLUDING TABLE 'old.*';"
    found = Pipeline(text).run(
        Message({"id": 1}, "orders"), Message({"nr": "x"}, "items"), Message({"id": 2}, "orders")
    )

    scan = found.job.sinks[0].input.input.spec
    assert scan.options.topic_pattern == "(?!(?:(?:old.*))$)(?:(?:o.*)|(?:items))"
    assert sorted(found.schemas.sinks) == ["items", "orders"]
    assert [row["id"] for row in found.table("orders")] == [1, 2]
    spec = found.work.output(found.schemas.sinks["items"]).spec
    assert (spec.table_name, spec.address.database) == ('"items"', "shop")
    assert found.schemas.sinks["items"].schema.primary_key == ("partition", "offset")


def test_a_database_whose_schemas_have_the_tables():
    text = CATALOG.format("") + "CREATE CATALOG pg WITH ('type' = 'postgres', 'url' = 'postgresql://host/db');"
    text += "CREATE DATABASE pg.sales AS DATABASE k.kafka INCLUDING ALL TABLES;"
    found = Pipeline(text).run(Message({"id": 1}, "orders"))

    assert found.work.output(found.schemas.sinks["sales.orders"]).spec.table_name == '"sales"."orders"'


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT * FROM k.kafka.orders", "the columns of 'k.kafka.orders' are found in its records"),
        ("CREATE DATABASE d AS DATABASE default_database INCLUDING ALL TABLES", "of a catalog of type 'kafka'"),
        ("CREATE DATABASE d AS DATABASE k.kafka INCLUDING ALL TABLES", "'connector': is required"),
        ("CREATE DATABASE d AS DATABASE k.kafka", "INCLUDING"),
        ("CREATE DATABASE d AS DATABASE k.kafka INCLUDING orders", "ALL TABLES or TABLE after INCLUDING"),
    ],
)
def test_mistakes_with_catalogs_of_kafka(statement, message):
    insert = "CREATE TABLE p (a INT) WITH ('connector' = 'print'); INSERT INTO p " if statement[0] == "S" else ""
    with pytest.raises(DefinitionError) as raised:
        parse_script(CATALOG.format("") + insert + statement + ";", file="p.sql", copies=copy_table)
    assert message in str(raised.value)


def test_the_columns_of_keys_are_declared():
    """As an example of Realtime Compute shows it, but for a parenthesis: those of values follow the messages."""
    options = "'key.format' = 'json'", "'value.format' = 'json'", "'key.fields' = 'key_id'"
    prefixes = "'key.fields-prefix' = 'key_'", "'value.fields-prefix' = 'val_'"
    text = source("`key_id` INT NOT NULL, `val_name` VARCHAR(200)", *options, *prefixes, EXCEPT_KEY)
    text = HOLOGRES + text.replace("'format' = 'json', ", "", 1)
    text += "CREATE TABLE IF NOT EXISTS hologres.kafka.`sync_kafka` WITH ('connector' = 'hologres') "
    text += "AS TABLE vvp.`default`.t;"
    found = Pipeline(text).run(Message({"name": "x"}, key={"id": 7, "more": 1}), Message({"new": 1.5}, key={"id": 8}))

    (table,) = found.schemas.sinks
    assert found.columns(table) == "key_id INT NOT NULL, val_name VARCHAR(200), val_new DOUBLE"
    assert found.table(table) == [
        {"key_id": 7, "val_name": "x", "val_new": None},
        {"key_id": 8, "val_name": None, "val_new": 1.5},
    ]


EXCEPT_KEY = "'value.fields-include' = 'EXCEPT_KEY'"


@pytest.mark.parametrize("use", ["USE CATALOG vvp; USE `default`", "USE vvp.`default`", "USE CATALOG vvp"])
@pytest.mark.parametrize("name", ["t", "`default`.t", "vvp.`default`.t", "default_catalog.default_database.t"])
def test_the_default_catalog_is_called_vvp(use, name):
    text = source("id BIGINT") + f"CREATE CATALOG other WITH ('type' = 'generic_in_memory'); USE CATALOG other; {use};"
    text += f"CREATE TABLE c WITH ('connector' = 'print') AS SELECT id FROM {name};"
    assert parse_script(text).jobs[0].sinks[0].schema.names == ("id",)


def test_another_catalog_may_be_called_vvp():
    text = "CREATE CATALOG vvp WITH ('type' = 'generic_in_memory'); USE CATALOG vvp; SHOW CURRENT CATALOG;"
    assert "vvp" in "".join(parse_script(text).printed)
