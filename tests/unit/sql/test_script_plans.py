"""SQL files in, plans out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from penstock.errors import OptionsError, SchemaError
from penstock.plan.explain import explain
from penstock.plan.flink_sql import flink_sql
from penstock.plan.nodes import Filter, Job, Project, Scan, Sink, Stateful, row_of, scans
from penstock.plan.planning import plan_job
from penstock.plan.walk import fold
from penstock.settings import ExponentialDelay, FailureRate, FixedDelay, Settings
from penstock.spi import Column, ColumnKind, Surface, TableDefinition, connectors
from penstock.sql import Script, parse_condition, parse_expression, parse_projection, parse_script
from penstock.sql.bind.tables.definitions import ComputedColumn
from penstock.types import BIGINT, INT, STRING, DataType, TimestampType, parse_columns, parse_type
from tests.tables import Read, Written

OPTIONS = {
    "connector": "kafka",
    "topic": "in",
    "properties.bootstrap.servers": "localhost:9092",
    "format": "json",
}
WITH = "WITH (" + ", ".join(f"'{key}' = '{value}'" for key, value in OPTIONS.items()) + ")"
FLIGHTS = f"CREATE TABLE flights (id INT, carrier STRING, dep_delay DOUBLE) {WITH};"
SHOWN = "CREATE TABLE shown (id BIGINT, carrier STRING) WITH ('connector' = 'print');"
TABLES = FLIGHTS + SHOWN


def only(script: Script) -> Job:
    (job,) = script.jobs
    return job


def shown(node: Project) -> list[tuple[str, str]]:
    return [(item.name, flink_sql(item.expression)) for item in node.items]


def only_sink(text: str, **given: Any) -> Sink:
    (sink,) = only(parse_script(text, **given)).sinks
    return sink


def kafka(name: str, columns: str, **options: str) -> TableDefinition:
    row = parse_columns(columns)
    return TableDefinition(name, tuple(Column(f.name, f.type) for f in row.fields), OPTIONS | options)


def test_insert_select_where():
    sink = only_sink(TABLES + "INSERT INTO shown SELECT id, UPPER(carrier) AS c FROM flights WHERE dep_delay>60;")
    definition = kafka("flights", "id INT, carrier STRING, dep_delay DOUBLE")
    spec = connectors.get("kafka").scan(definition)
    scan = Scan(definition.produced, "flights", "kafka", spec)
    items = parse_projection("id, UPPER(carrier) AS c", scan.schema)

    assert sink.input == Project(
        row_of(items), Filter(scan.schema, scan, parse_condition("dep_delay > 60", scan.schema)), items
    )
    assert sink.table == "shown"
    assert sink.connector == "print"
    assert sink.schema == parse_columns("id BIGINT, carrier STRING")
    assert sink.spec == connectors.get("print").sink(
        TableDefinition("shown", (Column("id", BIGINT), Column("carrier", STRING)), {"connector": "print"})
    )


def test_star_of_the_same_columns_is_no_projection():
    for query in (
        "SELECT * FROM flights",
        "SELECT f.* FROM flights AS f",
        "SELECT id, f.carrier, dep_delay FROM flights f",
    ):
        sink = only_sink(f"{FLIGHTS} CREATE TABLE copy (id INT, c STRING, d DOUBLE) {WITH}; INSERT INTO copy {query}")

        assert isinstance(sink.input, Scan)


def test_computed_columns_are_projected_above_the_scan():
    table = f"""CREATE TABLE events (
        id INT, at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL, `day` AS CAST(at AS DATE), twice AS id * 2
    ) {WITH};"""
    sink = only_sink(
        table
        + "CREATE TABLE s (a INT, d DATE) WITH ('connector' = 'print'); INSERT INTO s SELECT twice, `day` FROM events"
    )

    assert isinstance(sink.input, Project)
    below = sink.input.input
    assert isinstance(below, Project)
    assert shown(below) == [("id", "`id`"), ("at", "`at`"), ("day", "CAST(`at` AS DATE)"), ("twice", "`id` * 2")]
    assert isinstance(below.input, Scan)
    assert below.input.schema.names == ("id", "at")


class Noted:
    """Takes down the definitions it is given; for what no spec shows."""

    identifier = "noted"
    options: Mapping[str, Any] = {}
    runtime = ""

    def __init__(self) -> None:
        self.definitions: dict[str, TableDefinition] = {}

    def names(self) -> tuple[str, ...]:
        return ("noted",)

    def get(self, identifier: str) -> Noted:
        assert identifier == "noted"
        return self

    def scan(self, table: TableDefinition) -> Read:
        self.definitions[table.name] = table
        return Read(table.name)

    def sink(self, table: TableDefinition) -> Written:
        self.definitions[table.name] = table
        return Written(table.name, table.written)


def definition(columns: str, rest: str = "") -> TableDefinition:
    noted: Any = Noted()
    text = f"CREATE TABLE t (\n{columns}\n) {rest}\n\n  WITH ('connector' = 'noted',     'a' = 'it''s');"
    text += "CREATE TABLE s (x STRING) WITH ('connector' = 'noted'); INSERT INTO s SELECT 'x' FROM t"
    parse_script(text, connectors=noted)
    found: TableDefinition = noted.definitions["t"]
    return found


def test_a_table_definition_holds_all_that_was_written():
    found = definition(
        "id INT COMMENT 'the key', `odd``name` STRING NOT NULL, topic STRING NOT NULL METADATA VIRTUAL COMMENT 'x', "
        "at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', up AS UPPER(topic) COMMENT 'y', "
        "CONSTRAINT pk PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR at AS at - INTERVAL '5' SECOND",
        "COMMENT 'all of it' PARTITIONED BY (id)",
    )

    upper = parse_expression("UPPER(topic)", parse_columns("topic STRING NOT NULL"))
    assert found.columns == (
        Column("id", INT.with_nullability(False)),
        Column("odd`name", STRING.with_nullability(False)),
        Column("topic", STRING.with_nullability(False), ColumnKind.METADATA, "topic", virtual=True),
        Column("at", TimestampType(3, local_zone=True), ColumnKind.METADATA, "timestamp"),
        ComputedColumn("up", STRING.with_nullability(False), ColumnKind.COMPUTED, expression=upper),
    )
    assert found.options == {"connector": "noted", "a": "it's"}
    assert found.primary_key == ("id",)
    assert found.surface is Surface.SQL
    assert found.origin.locate("a") == "line 5, column 36"
    assert found.origin.locate("") == "line 1, column 14, table 't'"


@pytest.mark.parametrize(
    "text",
    [
        "BOOLEAN", "TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DOUBLE PRECISION", "DATE",
        "DECIMAL", "DECIMAL(10, 2)", "NUMERIC(5)", "CHAR(3)", "VARCHAR", "VARCHAR(17)", "STRING", "BINARY(2)",
        "VARBINARY(9)", "BYTES", "TIME", "TIME(3)", "TIMESTAMP", "TIMESTAMP(3)", "TIMESTAMP(3) WITHOUT TIME ZONE",
        "TIMESTAMP_LTZ(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "STRING NOT NULL", "ARRAY<INT NOT NULL>", "INT ARRAY",
        "MAP<STRING, ARRAY<BIGINT>>", "ROW<a INT, `b c` ROW<d STRING NOT NULL>>", "ROW(a INT 'comment')",
        "MULTISET<STRING>",
    ],
)  # fmt: skip
def test_every_type_of_flink_is_read(text: str):
    wanted: DataType = parse_type(text)

    assert definition(f"c {text}").columns == (Column("c", wanted),)
    assert definition(f"c {text} METADATA FROM 'k', d INT").columns[0] == Column("c", wanted, ColumnKind.METADATA, "k")


def test_insert_with_columns_puts_them_in_the_tables_order():
    sink = only_sink(TABLES + "INSERT INTO shown (carrier) SELECT carrier FROM flights")
    assert isinstance(sink.input, Project)
    assert shown(sink.input) == [("id", "CAST(NULL AS BIGINT)"), ("carrier", "`carrier`")]

    sink = only_sink(TABLES + "INSERT INTO shown (carrier, id) SELECT carrier, id FROM flights")
    assert isinstance(sink.input, Project)
    assert shown(sink.input) == [("id", "`id`"), ("carrier", "`carrier`")]


def test_null_takes_the_type_of_its_column():
    sink = only_sink(TABLES + "INSERT INTO shown SELECT NULL, carrier FROM flights")

    assert isinstance(sink.input, Project)
    assert shown(sink.input)[0] == ("EXPR$0", "CAST(NULL AS BIGINT)")
    assert sink.input.schema.fields[0].type == BIGINT


def test_a_virtual_column_is_written_only_when_it_is_named():
    sink = f"CREATE TABLE out_t (id INT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL) {WITH};"
    plain = only_sink(FLIGHTS + sink + "INSERT INTO out_t SELECT id FROM flights")
    assert plain.schema.names == ("id",)

    script = parse_script(FLIGHTS + sink + "\nINSERT INTO out_t (id, ts) SELECT id, NOW() FROM flights", file="f.sql")
    assert only(script).sinks[0].schema.names == ("id", "ts")
    assert script.warnings == ("f.sql, line 2, column 24: 'ts' is VIRTUAL, but is written because it is named here",)


@pytest.mark.parametrize(
    "text",
    [
        "EXECUTE STATEMENT SET BEGIN {0}; {1}; END;",
        "EXECUTE STATEMENT SET\nBEGIN\n{0};{1};\nEND",
        "BEGIN STATEMENT SET; {0}; {1}; END;",
    ],
)
def test_a_statement_set_is_one_job(text: str):
    first = "INSERT INTO shown SELECT id, carrier FROM flights WHERE dep_delay > 60"
    second = "INSERT INTO shown SELECT id, 'on time' FROM flights WHERE dep_delay <= 60"

    job = only(parse_script(TABLES + text.format(first, second), default_name="delays"))

    assert job.name == "delays"
    assert [sink.table for sink in job.sinks] == ["shown", "shown"]


@pytest.mark.parametrize(
    ("columns", "query", "reason"),
    [
        ("id INT", "SELECT ts, id", "the number of columns in the query is 2, but 'out_t' takes 1: id"),
        ("id INT, v INT", "SELECT ts, id", r"TIMESTAMP_LTZ\(3\) does not fit column 'id', which is INT"),
    ],
)
def test_a_virtual_column_is_written_only_if_it_is_named(columns: str, query: str, reason: str):
    source = f"CREATE TABLE in_t (id INT, ts TIMESTAMP_LTZ(3)) {WITH};"
    sink = f"CREATE TABLE out_t (ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL, {columns}) {WITH};"
    hint = r"'ts' is VIRTUAL: it is written only if named, as in INSERT INTO out_t \(ts, \.\.\)"

    with pytest.raises(SchemaError, match=f"{reason} .{hint}"):
        parse_script(f"{source}{sink} INSERT INTO out_t {query} FROM in_t;")


def test_a_table_of_metadata_alone_loses_the_contents_of_its_records():
    """As seed 003's second example declares it."""
    text = (
        "CREATE TABLE s (`offset` INT NOT NULL METADATA, part BIGINT NOT NULL METADATA FROM 'partition', "
        f"PRIMARY KEY (part, `offset`) NOT ENFORCED) {WITH};"
        f"CREATE TABLE t (a INT, b BIGINT) {WITH}; INSERT INTO t SELECT * FROM s;"
    )

    assert parse_script(text, file="f.sql").warnings == (
        "f.sql, line 1, column 14: 's' has metadata columns only: the contents of its records are lost",
    )
    assert not parse_script(
        text.replace("`offset` INT NOT NULL METADATA", "`offset` STRING METADATA FROM '__raw_value__'").replace(
            "a INT", "a STRING"
        )
    ).warnings


def test_each_insert_is_a_job_with_a_name_of_its_own():
    insert = "INSERT INTO shown SELECT id, carrier FROM flights;"

    assert [job.name for job in parse_script(TABLES + insert * 3, default_name="delays").jobs] == [
        "delays",
        "delays-shown",
        "delays-shown-2",
    ]
    assert [job.name for job in parse_script(TABLES + insert).jobs] == ["insert-into_shown"]
    named = TABLES + insert + "SET 'pipeline.name' = 'b';" + "EXECUTE " + insert
    assert [job.name for job in parse_script(named, default_name="a").jobs] == ["a", "b"]


def test_settings_hold_for_what_follows():
    insert = "INSERT INTO shown SELECT id, carrier FROM flights;"
    first, second = parse_script(
        TABLES
        + "SET 'execution.checkpointing.interval' = '10 s'; SET execution.checkpointing.dir = file:///checkpoints/a-b;"
        + "SET 'parallelism.default' = '4'; SET table.local-time-zone = Europe/Berlin;"
        + "SET 'execution.runtime-mode' = 'streaming';"
        + "SET 'penstock.progress-topic' = 'p'; SET penstock.adopt-progress = true;"
        + insert
        + "RESET 'parallelism.default'; SET 'execution.checkpointing.interval' = '500';"
        + insert
    ).jobs

    assert first.settings == Settings(
        checkpoint_interval=timedelta(seconds=10),
        checkpoint_dir="file:///checkpoints/a-b",
        parallelism=4,
        session_time_zone="Europe/Berlin",
        progress_topic="p",
        adopt_progress=True,
        restart=ExponentialDelay(),
    )
    assert second.settings.parallelism is None
    assert second.settings.checkpoint_interval == timedelta(milliseconds=500)
    assert only(parse_script(TABLES + "SET 'parallelism.default' = '4'; RESET;" + insert)).settings == Settings()


def test_what_has_no_effect_is_said():
    script = parse_script(
        TABLES
        + "\nSET 'state.backend.type' = 'rocksdb';\nSET 'table.dml-sync' = 'true';\n"
        + "SET 'execution.runtime-mode' = 'streaming';\n"
        + "INSERT INTO shown SELECT id, carrier FROM flights",
        file="f.sql",
    )

    assert script.warnings == (
        "f.sql, line 2, column 5: 'state.backend.type' has no effect here. State is kept in files of the checkpoint, "
        "each with the changes of some batches.",
        "f.sql, line 3, column 5: 'table.dml-sync' has no effect here. The jobs of a file run at the same time.",
    )


def test_a_restart_strategy_is_set_for_the_jobs_that_follow():
    insert = "INSERT INTO shown SELECT id, carrier FROM flights;\n"
    jobs = parse_script(
        TABLES
        + insert
        + "SET 'restart-strategy.type' = 'fixed-delay'; SET 'restart-strategy.fixed-delay.attempts' = '3';\n"
        + insert
        + "SET restart-strategy.fixed-delay.delay = 5s; RESET 'restart-strategy.fixed-delay.attempts';\n"
        + insert
        + "SET 'restart-strategy.type' = 'exponentialdelay'; RESET restart-strategy.fixed-delay.delay;\n"
        + insert
        + "SET 'restart-strategy.type' = 'none';\n"
        + insert
        + "RESET; SET 'restart-strategy' = 'failure-rate';\n"
        + insert
    ).jobs

    assert [job.settings.restart for job in jobs] == [
        None,
        FixedDelay(attempts=3),
        FixedDelay(delay=timedelta(seconds=5)),
        ExponentialDelay(),
        None,
        FailureRate(),
    ]


def test_keys_of_another_restart_strategy_are_said_once():
    script = parse_script(
        TABLES
        + "\nSET 'restart-strategy.type' = 'fixed-delay';\nSET 'restart-strategy.failure-rate.delay' = '2 s';\n"
        + "INSERT INTO shown SELECT id, carrier FROM flights;\n" * 2,
        file="f.sql",
    )

    assert script.warnings == (
        "f.sql, line 3, column 45: 'restart-strategy.failure-rate.delay' has no effect: "
        "'restart-strategy.type' is 'fixed-delay'",
    )
    assert [job.settings.restart for job in script.jobs] == [FixedDelay()] * 2


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        (
            "SET 'restart-strategy.type' = 'sometimes';",
            "line 2, column 31: 'restart-strategy.type': expected one of 'fixed-delay', 'failure-rate', "
            "'exponential-delay', 'none', 'off', 'disable', not 'sometimes'",
        ),
        (
            "SET 'restart-strategy.fixed-delay.attempts' = '-1';",
            "line 2, column 47: 'restart-strategy.fixed-delay.attempts': expected a number between 0 and "
            "2147483647, not '-1'",
        ),
        (
            "SET 'restart-strategy.fixed-delay.atempts' = '1';",
            "line 2, column 5: 'restart-strategy.fixed-delay.atempts': unknown key "
            "(did you mean 'restart-strategy.fixed-delay.attempts'?)",
        ),
        (
            "SET 'restart-strategy'='exponential-delay'; SET 'restart-strategy.exponential-delay.max-backoff'='1';",
            "line 2, column 98: 'restart-strategy.exponential-delay.max-backoff': expected 1 s or more, not 1 ms: no "
            "pause is shorter than initial-backoff (set that, too)",
        ),
    ],
)
def test_a_restart_strategy_that_means_nothing_is_refused(statement, problem):
    with pytest.raises(OptionsError) as raised:
        parse_script(f"{TABLES}\n{statement}\n" + "INSERT INTO shown SELECT id, carrier FROM flights;\n" * 2)

    assert str(raised.value) == problem


@pytest.mark.parametrize(("mode", "warnings"), [("EXACTLY_ONCE", 0), ("exactly_once", 0), ("AT_LEAST_ONCE", 1)])
@pytest.mark.rule("unsafe setups are refused")
def test_flinks_checkpointing_modes_are_accepted(mode, warnings):
    """State is exact in either; what reaches the outside is the guarantee of each sink."""
    statement = f"SET 'execution.checkpointing.mode' = '{mode}';"
    script = parse_script(TABLES + statement + "INSERT INTO shown SELECT id, carrier FROM flights")

    assert len(script.warnings) == warnings


@pytest.mark.rule("unsafe setups are refused")
def test_another_checkpointing_mode_is_refused():
    statement = "\nSET 'execution.checkpointing.mode' = 'AT_MOST_ONCE';"
    reason = r"line 2, column 38: .* expected one of 'exactly_once', 'at_least_once', not"
    with pytest.raises(OptionsError, match=reason):
        parse_script(TABLES + statement + "INSERT INTO shown SELECT id, carrier FROM flights")


def test_tables_come_and_go_in_order():
    text = f"""
        {TABLES}
        DROP TABLE IF EXISTS nothing;
        DROP TABLE shown;
        CREATE TABLE IF NOT EXISTS default_catalog.default_database.shown (c STRING) WITH ('connector' = 'blackhole');
        CREATE TABLE IF NOT EXISTS shown (other INT) WITH ('connector' = 'print');
        INSERT INTO `default_database`.shown SELECT carrier FROM flights;
    """

    assert only_sink(text).connector == "blackhole"


def test_a_connector_is_looked_for_where_a_table_is_used():
    script = parse_script(
        """
        CREATE TABLE unused (a INT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:x', 'no' = 'such');
        CREATE TABLE base (id BIGINT, name STRING);
        CREATE TABLE later (id BIGINT) PARTITIONED BY (id) WITH ('connector' = 'print2');
        ALTER TABLE later SET ('connector' = 'print');
        CREATE TABLE t WITH ('connector' = 'datagen') LIKE base;
        INSERT INTO later SELECT id FROM t;
        DESCRIBE base;
        SHOW CREATE TABLE base;
        """,
        file="f.sql",
    )
    assert [job.name for job in script.jobs] == ["insert-into_later"]
    partitioned, unused = script.warnings
    assert "PARTITIONED BY has no effect here" in partitioned
    assert unused == (
        "f.sql, line 2, column 43: table 'unused' cannot be read or written: there is no connector 'jdbc' yet"
    )
    assert "BIGINT" in script.printed[0]
    assert script.printed[1].endswith("`name` STRING\n)")


BASE = """
CREATE TABLE base (id BIGINT NOT NULL, name STRING, ts TIMESTAMP(3), up AS UPPER(name), PRIMARY KEY (id) NOT ENFORCED,
  WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
"""


@pytest.mark.parametrize(
    ("statement", "columns", "key"),
    [
        ("made WITH (..) AS SELECT id, name FROM base", "id BIGINT NOT NULL, name STRING", ""),
        ("made (name, id) WITH (..) AS SELECT id, name FROM base", "name STRING, id BIGINT NOT NULL", ""),
        (
            "made (more INT, n STRING, PRIMARY KEY (name) NOT ENFORCED) WITH (..) AS SELECT name, up AS n, 1 FROM base",
            "more INT, name STRING NOT NULL, n STRING, `EXPR$2` INT NOT NULL",
            "(`name`)",
        ),
        ("made WITH (..) AS WITH q AS (SELECT 1 AS a) SELECT a, a FROM q", "a INT NOT NULL, a0 INT NOT NULL", ""),
        ("made WITH (..) AS TABLE base", "id BIGINT NOT NULL, name STRING, ts TIMESTAMP(3), up STRING", "(`id`)"),
        (
            "made WITH (..) AS TABLE base ADD COLUMN (n AS id + 1, o AS name COMMENT 'x')",
            "id BIGINT NOT NULL, name STRING, ts TIMESTAMP(3), up STRING, n BIGINT NOT NULL, o STRING",
            "(`id`)",
        ),
        (
            "IF NOT EXISTS made COMMENT 'x' WITH (..) AS VALUES (1, 'a')",
            "`EXPR$0` INT NOT NULL, `EXPR$1` STRING NOT NULL",
            "",
        ),
    ],
)
def test_a_table_is_made_as_what_a_query_gives(statement, columns, key):
    statement = statement.replace("..", "'connector' = 'print'")
    script = parse_script(f"{BASE}CREATE TABLE {statement}; SHOW CREATE TABLE made")
    (job,) = script.jobs
    assert job.name == "insert-into_made"
    assert job.sinks[0].schema == parse_columns(columns)
    assert script.warnings == ()
    assert script.printed[0].partition("PRIMARY KEY ")[2].partition(" NOT ENFORCED")[0] == key


@pytest.mark.parametrize("query", ["TABLE base", "SELECT * FROM (TABLE base) AS b", "WITH q AS (TABLE base) TABLE q"])
def test_a_table_is_a_query_of_all_its_columns(query):
    into = "CREATE TABLE t (a BIGINT, b STRING, c TIMESTAMP(3), d STRING) WITH ('connector' = 'print');"
    (plain,) = parse_script(f"{BASE}{into}INSERT INTO t SELECT * FROM base").jobs
    assert parse_script(f"{BASE}{into}INSERT INTO t {query}").jobs == (plain,)


def test_a_made_table_has_computed_columns_and_a_watermark_of_its_own():
    text = """
    CREATE TABLE made (cost AS price * 2, at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', WATERMARK FOR ts AS ts) WITH (
      'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json'
    ) AS SELECT CAST(id AS DOUBLE) AS price, ts FROM base;
    INSERT INTO again SELECT cost, price FROM made
    """
    script = parse_script(f"{BASE}CREATE TABLE again (a DOUBLE, b DOUBLE) WITH ('connector' = 'print');{text}")
    made, again = script.jobs
    assert made.sinks[0].schema == parse_columns("at TIMESTAMP_LTZ(3), price DOUBLE NOT NULL, ts TIMESTAMP(3)")
    assert "`cost` = `price` * CAST(2 AS DOUBLE)" in explain(again)
    assert "event time: watermark of a partition: ts less 0 ms" in explain(again)


def test_a_table_that_is_there_takes_the_rows_of_a_query():
    made = "CREATE TABLE IF NOT EXISTS made WITH ('connector' = 'print') AS SELECT id, name FROM base"
    declared = "CREATE TABLE made (a BIGINT, b STRING) WITH ('connector' = 'blackhole');"
    (job,) = parse_script(BASE + declared + made).jobs
    assert (job.sinks[0].connector, job.sinks[0].schema) == ("blackhole", parse_columns("a BIGINT, b STRING"))


def test_a_made_table_may_be_in_a_statement_set_and_is_not_there_after_explain():
    made = "CREATE TABLE made WITH ('connector' = 'print') AS SELECT id FROM base;"
    (job,) = parse_script(f"{BASE}BEGIN STATEMENT SET; {made} INSERT INTO made SELECT id + 1 FROM base; END").jobs
    assert [each.table for each in job.sinks] == ["made", "made"]

    script = parse_script(f"{BASE}EXPLAIN {made} SHOW TABLES")
    assert "Sink(table=[made], fields=[id]" in script.printed[0]
    assert "made" not in script.printed[1]
    assert script.jobs == ()


def test_hints_give_a_table_options_for_one_use():
    script = parse_script(
        TABLES
        + "\nINSERT INTO shown /*+ OPTIONS('standard-error' = 'true') */ SELECT /*+ BROADCAST(b), MULTI_JOIN(a) */"
        " a.id, b.carrier FROM flights /*+ OPTIONS('topic' = '${t}', 'scan.startup.mode' = 'earliest-offset') */ AS a"
        " JOIN flights b ON a.id = b.id /* no hint */",
        variables={"t": "other"},
    )
    (sink,) = only(script).sinks
    first, second = scans(sink)

    assert sink.spec.options.standard_error
    assert [each.spec.options.topic for each in (first, second)] == [("other",), ("in",)]
    assert script.warnings == (
        "line 2, column 72: the hint BROADCAST has no effect here",
        "line 2, column 86: the hint MULTI_JOIN has no effect here",
    )
    assert only(parse_script(TABLES + "INSERT INTO shown SELECT 2*/**/id, carrier FROM flights")).sinks


def test_hints_give_the_rows_of_joins_and_groups_a_time_to_live():
    script = parse_script(
        TABLES + "CREATE TABLE counts (carrier STRING, n BIGINT, PRIMARY KEY (carrier) NOT ENFORCED) WITH ("
        "'connector' = 'upsert-kafka', 'topic' = 'c', 'properties.bootstrap.servers' = 'b:1', 'key.format' = 'json', "
        "'value.format' = 'json');\n"
        "SET 'table.exec.state.ttl' = '2 h';"
        "INSERT INTO counts SELECT /*+ STATE_TTL('j' = '3 s') */ carrier, COUNT(*) FROM ("
        "SELECT /*+ STATE_TTL('a' = '1d', 'b' = '0'), STATE_TTL('a' = '9d') */ a.carrier FROM flights AS a "
        "JOIN flights AS b ON a.id = b.id JOIN flights AS c ON a.id = c.id) AS j GROUP BY carrier"
    )
    job = only(script)
    (sink,) = plan_job(job).sinks
    found = []
    fold(
        (sink,),
        lambda node, _: found.append(node.lifetimes(job.settings.state_ttl)) if isinstance(node, Stateful) else None,
    )
    day, second, default = timedelta(days=1), timedelta(seconds=1), timedelta(hours=2)

    assert [each for each in found if any(each)] == [(day, None), (default, default), (3 * second,)]
    shown = explain(plan_job(job))
    assert "state is kept for: 2 h" in shown
    assert "forgets the left rows 24 h after their last change, the right ones never" in shown
    assert "forgets them 3 s after their last change" in shown


def test_a_time_to_live_of_a_query_without_state_has_no_effect():
    script = parse_script(
        TABLES + "\nINSERT INTO shown SELECT /*+ STATE_TTL('flights' = '1d') */ id, carrier FROM flights"
    )
    assert script.warnings == ("line 2, column 40: STATE_TTL has no effect on a query without JOIN or GROUP BY",)


def test_explain_gives_a_plan_and_starts_nothing():
    script = parse_script(
        TABLES
        + "EXPLAIN PLAN FOR SELECT carrier, COUNT(*) FROM flights GROUP BY carrier;"
        + "EXPLAIN ESTIMATED_COST, CHANGELOG_MODE INSERT INTO shown SELECT id, carrier FROM flights;"
    )
    rows, insert = script.printed

    assert script.jobs == ()
    assert "state=[EXPLAIN: group(flights): each group], changelogMode=[I,UB,UA]" in rows
    assert "\nSink(table=[shown], fields=[id, carrier], changelogMode=[NONE])\n" in insert
    with pytest.raises(SchemaError, match="table 'out': takes insertions only"):
        parse_script(
            f"{FLIGHTS} CREATE TABLE `out` (c STRING) {WITH};EXPLAIN INSERT INTO `out` SELECT MAX(carrier) FROM flights"
        )


def test_variables_are_put_in_everywhere():
    text = f"""
        -- ${{undefined}} in a comment is nothing
        CREATE TABLE ${{prefix}}_in (id INT, secret STRING) {WITH.replace("'in'", "'${topic}'")};
        {SHOWN}
        INSERT INTO shown SELECT id + ${{step}}, '<${{quote}}>' FROM ${{prefix}}_in WHERE secret <> '${{quote}}';
    """
    variables = {"prefix": "eu", "topic": "it's ${not} read again", "step": "2 * 3", "quote": "it's"}

    sink = only_sink(text, variables=variables)

    assert isinstance(sink.input, Project)
    assert shown(sink.input) == [("EXPR$0", "`id` + 2 * 3"), ("EXPR$1", "'<it''s>'")]
    assert isinstance(sink.input.input, Filter)
    scan = sink.input.input.input
    assert isinstance(scan, Scan)
    assert scan.table == "eu_in"
    assert scan.spec.options.topic == ("it's ${not} read again",)


@pytest.mark.parametrize(
    ("columns", "query", "texts"),
    [
        ("id INT, name STRING, age INT", "id, name, CAST(age AS STRING)", ["`id`", "`name`", "CAST(`age` AS STRING)"]),
        (
            "`offset` INT NOT NULL METADATA, `part` BIGINT NOT NULL METADATA FROM 'partition', v STRING, "
            "PRIMARY KEY (`part`, `offset`) NOT ENFORCED",
            "part, v, CAST(`offset` AS STRING)",
            ["`part`", "`v`", "CAST(`offset` AS STRING)"],
        ),
        (
            "`distinct_id` INT NOT NULL, `properties` STRING, `timestamp` TIMESTAMP_LTZ METADATA, "
            "`date` AS CAST(`timestamp` AS DATE)",
            "`distinct_id`, CAST(`date` AS STRING), COALESCE(JSON_VALUE(`properties`, '$.order_id'), 'default')",
            [
                "`distinct_id`",
                "CAST(`date` AS STRING)",
                "COALESCE(JSON_VALUE(`properties`, '$.order_id'), 'default')",
            ],
        ),
        (
            "id VARCHAR, `name` VARCHAR, properties ROW<`owner` STRING, engine STRING>",
            "CAST(id AS INT), properties.owner, src.properties.engine",
            ["CAST(`id` AS INT)", "`properties`.`owner`", "`properties`.`engine`"],
        ),
    ],
    ids=["1", "2", "4", "5"],
)
def test_the_sources_of_the_documented_examples(columns: str, query: str, texts: list[str]):
    sink = only_sink(
        f"CREATE TEMPORARY TABLE src ({columns}) {WITH}; "
        "CREATE TABLE s (a BIGINT, b STRING, c STRING) WITH ('connector' = 'print'); "
        f"INSERT INTO s SELECT {query} FROM src;"
    )

    assert isinstance(sink.input, Project)
    assert [text for _, text in shown(sink.input)] == texts


def test_a_plan_is_explained_without_its_secrets():
    text = (
        TABLES.replace("'format'", "'properties.sasl.jaas.config' = 'x password=\"${pw}\"', 'format'")
        + "SET 'execution.checkpointing.interval' = '10 s';"
        + "INSERT INTO shown SELECT id, UPPER(carrier) AS c FROM flights WHERE dep_delay > 60"
    )

    found = explain(only(parse_script(text, variables={"pw": "hunter2"}, default_name="delays")))

    lines = found.splitlines()
    assert lines[0] == "job 'delays'"
    assert "  a batch every: 10 s" in lines
    assert "  print sink 'shown' to standard output" in lines
    assert "    select" in lines
    assert "      `c` = UPPER(`carrier`)" in lines
    assert "      where `dep_delay` > 60" in lines
    assert "        kafka scan 'flights'" in lines
    assert "hunter2" not in found


def test_batch_mode_is_explained():
    text = "SET 'execution.runtime-mode' = 'batch';" + TABLES + "INSERT INTO shown SELECT id, carrier FROM flights"

    lines = explain(only(parse_script(text))).splitlines()

    assert lines[1] == "  batch mode: all rows are computed in one batch"
    assert not any("a batch every" in line for line in lines)
