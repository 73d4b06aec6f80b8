"""The postgres connector as far as it needs no server: addresses, options, columns, staged rows."""

from __future__ import annotations

import logging
import math
import pickle
import re
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock import notices
from penstock.connectors.postgres.address import parse_address
from penstock.connectors.postgres.changes import LastChanges, find_last_of_keys
from penstock.connectors.postgres.columns import TableColumn, choose_stage_type, match_columns
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.spec import PostgresSinkSpec
from penstock.connectors.postgres.staging import (
    CopyingWriter,
    PostgresOutput,
    StageSpec,
    _Stage,
    build_copying_instructions,
    build_writer_factory,
    copy_passed_rows,
)
from penstock.errors import (
    BatchError,
    CheckpointError,
    DatabaseUnavailableError,
    OptionsError,
    RecordError,
    SchemaError,
    UnsupportedError,
)
from penstock.plan.nodes import Materialize
from penstock.plan.planning import plan_job
from penstock.spi import (
    CHANGES,
    HIDDEN,
    INSERTIONS,
    KIND,
    Column,
    ColumnKind,
    Guarantee,
    Output,
    Surface,
    TableDefinition,
    Task,
    connectors,
    scan_spec,
)
from penstock.sql import parse_script
from penstock.types import BIGINT, STRING, RowKind, parse_columns, parse_type
from tests.sockets import nobody, silent

URL = "postgresql://db.example:5433/shop"


COLUMNS = (Column("id", BIGINT),)


def table(columns=COLUMNS, primary_key=(), **options):
    given = {"connector": "postgres", "url": URL, "table-name": "orders"}
    given |= {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
    return TableDefinition("t", columns, given, primary_key=primary_key)


def sink(**options):
    return connectors.get("postgres").sink(table(**options))


# --- addresses -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://db.example:5433/shop", ("db.example", 5433, "shop", "", "")),
        ("jdbc:postgresql://db.example/shop", ("db.example", 5432, "shop", "", "")),
        ("postgres://ann:p%40ss@[::1]:5433/my%20shop", ("::1", 5433, "my shop", "ann", "p@ss")),
        ("postgresql:///shop", ("localhost", 5432, "shop", "", "")),
        ("postgresql://ann@localhost", ("localhost", 5432, "ann", "ann", "")),
        ("jdbc:postgresql://h/d?user=ann&password=a%26b", ("h", 5432, "d", "ann", "a&b")),
    ],
)
def test_an_address_is_read_as_libpq_and_the_jdbc_driver_do(url, expected):
    found = parse_address(url)
    assert (found.host, found.port, found.database, found.username, found.password) == expected


def test_a_connection_string_is_quoted_and_gives_up_on_a_silent_server():
    address = parse_address("postgresql://h/d?sslmode=require&connectTimeout=3", "o'neil", "back\\slash")
    text = address.connection_string()
    assert "user='o\\'neil'" in text
    assert "password='back\\\\slash'" in text
    assert "sslmode='require'" in text
    assert "connect_timeout='3'" in text
    assert "tcp_user_timeout='60000'" in text


def test_a_server_that_does_not_answer_is_told_of_while_it_is_tried(caplog, monkeypatch):
    """Its packets are dropped, as by a firewall."""
    monkeypatch.setattr(notices, "PATIENCE_SECONDS", 0.1)
    with silent() as place, caplog.at_level(logging.WARNING, notices.LOG):
        database = Database(parse_address(f"postgresql://{place}/d?connect_timeout=2"))
        with pytest.raises(DatabaseUnavailableError, match=r"connecting: .*timeout"), database.transaction():
            pass
    (said,) = (record.getMessage() for record in caplog.records if record.name == notices.LOG)
    assert said == (
        f"database postgresql://{place}/d, connecting: no answer; check the address, that no firewall is in between, "
        "and that the server runs. Trying for another 2 s"
    )


def test_a_server_that_is_not_there_is_told_of_while_it_is_tried(caplog, monkeypatch):
    monkeypatch.setattr(notices, "PATIENCE_SECONDS", 0.1)
    with nobody() as place, caplog.at_level(logging.WARNING, notices.LOG):
        database = Database(parse_address(f"postgresql://{place}/d?connect_timeout=2"))
        with pytest.raises(DatabaseUnavailableError), database.transaction(patience=0.5):
            pass
    (said,) = (record.getMessage() for record in caplog.records if record.name == notices.LOG)
    assert said.startswith(f"database postgresql://{place}/d, connecting: Failed to connect: connection to server at ")
    assert re.search(r"Connection refused.*\. Trying for another 2 s$", said)


@pytest.mark.parametrize(("given", "seconds"), [("", 10), ("?connectTimeout=3", 3), ("?connect_timeout=0", math.inf)])
def test_how_long_an_attempt_to_connect_may_last(given, seconds):
    assert parse_address(f"postgresql://h/d{given}", "me").connect_seconds == seconds


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mysql://u:so-secret@h/d", "expected postgresql://"),
        ("postgresql:h/d", "expected postgresql://"),
        ("postgresql://u:so-secret@h:99999/d", "expected a port"),
        ("postgresql://u:so-secret@h:5432", "names another"),
        ("postgresql://h", "the name of one database"),
        ("postgresql://h1,h2/d", "expected"),
        ("postgresql://h/d?password=so-secret&pasword=so-secret", "parameter 'pasword' is unknown"),
        ("postgresql://u:so-secret@h/d?password=so-secret", "'password' is given twice"),
        ("postgresql://:so-secret@h/d", "a password is given without a user"),
    ],
)
def test_a_wrong_url_is_refused_without_showing_it(url, reason):
    username = "somebody" if reason == "names another" else None
    given = {"url": url, "table__name": "t"} | ({"username": username} if username else {})
    with pytest.raises(OptionsError, match=reason) as raised:
        sink(**given)
    assert "so-secret" not in str(raised.value)


# --- tables --------------------------------------------------------------------------------------------------------


def test_a_sink_shows_no_password_and_survives_pickling():
    for options in (
        {"username": "ann", "password": "so-secret"},
        {"url": "postgresql://ann:so-secret@db.example/shop"},
    ):
        found = sink(**options)
        assert found.address.password == "so-secret"
        assert "so-secret" not in repr(found) + found.describe()
        assert "as 'ann'" in found.describe()
        assert "exactly-once" in found.describe()
        assert pickle.loads(pickle.dumps(found)) == found


def test_every_problem_of_the_options_is_reported():
    with pytest.raises(OptionsError) as raised:
        connectors.get("postgres").sink(TableDefinition("t", (), {"connector": "postgres", "table": "x"}))
    assert [problem.key for problem in raised.value.problems] == ["table", "url", "table-name"]
    with pytest.raises(OptionsError) as raised:
        sink(url="nowhere", table__name=" ", sink_delivery__guarantee="none")
    assert [problem.key for problem in raised.value.problems] == ["url", "table-name", "sink.delivery-guarantee"]


def test_the_guarantee_is_exactly_once_unless_the_table_says_otherwise():
    assert sink().guarantee is Guarantee.EXACTLY_ONCE
    assert sink(sink_delivery__guarantee="at-least-once").guarantee is Guarantee.AT_LEAST_ONCE


def test_what_is_not_supported_is_refused_by_name():
    with pytest.raises(UnsupportedError, match="cannot be read"):
        scan_spec(connectors.get("postgres"), table())
    columns = (
        Column("id", BIGINT),
        Column("at", BIGINT, ColumnKind.METADATA, "offset"),
        Column("m", parse_type("MAP<STRING, INT>")),
        Column("r", parse_type("ROW<a INT>")),
        Column("aa", parse_type("ARRAY<ARRAY<INT>>")),
    )
    with pytest.raises(UnsupportedError) as raised:
        sink(columns=columns, primary_key=("id",))
    told = [problem.reason for problem in raised.value.problems]
    assert [reason.partition(":")[0] for reason in told] == [
        "column 'at'",
        "column 'm'",
        "column 'r'",
        "column 'aa'",
    ]


# --- columns -------------------------------------------------------------------------------------------------------

FITS = [
    ("BOOLEAN", "boolean"),
    ("TINYINT", "smallint"),
    ("SMALLINT", "integer"),
    ("INT", "bigint"),
    ("INT", "numeric(12,2)"),
    ("BIGINT", "bigint"),
    ("BIGINT", "numeric"),
    ("FLOAT", "double precision"),
    ("DOUBLE", "double precision"),
    ("DECIMAL(10, 2)", "numeric(12,3)"),
    ("DECIMAL(38, 38)", "numeric"),
    ("DATE", "date"),
    ("TIME(3)", "time(3) without time zone"),
    ("TIMESTAMP(9)", "timestamp without time zone"),
    ("TIMESTAMP(3)", "timestamp(3) without time zone"),
    ("TIMESTAMP_LTZ(6)", "timestamp with time zone"),
    ("STRING", "text"),
    ("CHAR(3)", "character(3)"),
    ("STRING", "character varying(10)"),
    ("BYTES", "bytea"),
    ("ARRAY<INT>", "bigint[]"),
    ("ARRAY<DECIMAL(5, 2)>", "numeric(5,2)[]"),
    ("ARRAY<TIMESTAMP(3)>", "timestamp without time zone[]"),
]

MISFITS = [
    ("INT", "smallint"),
    ("BIGINT", "integer"),
    ("BIGINT", "numeric(18,0)"),
    ("BIGINT", "text"),
    ("BIGINT", "double precision"),
    ("DOUBLE", "real"),
    ("DOUBLE", "numeric"),
    ("DECIMAL(10, 2)", "numeric(12,1)"),
    ("DECIMAL(10, 2)", "numeric(9,2)"),
    ("DECIMAL(10, 2)", "double precision"),
    ("TIME(3)", "time(2) without time zone"),
    ("TIMESTAMP(6)", "timestamp(3) without time zone"),
    ("TIMESTAMP(6)", "timestamp with time zone"),
    ("TIMESTAMP_LTZ(6)", "timestamp without time zone"),
    ("TIMESTAMP(6)", "date"),
    ("STRING", "bytea"),
    ("STRING", "integer"),
    ("ARRAY<INT>", "integer"),
    ("INT", "integer[]"),
    ("ARRAY<BIGINT>", "integer[]"),
    ("ARRAY<DECIMAL(5, 2)>", "numeric(5,1)[]"),
]


@pytest.mark.parametrize(("declared", "found"), FITS)
def test_a_column_that_holds_every_value_fits(declared, found):
    matched = match_columns("t", parse_columns(f"c {declared}"), [TableColumn("c", found)])
    assert (matched.names, matched.casts) == (("c",), ("",))


@pytest.mark.parametrize(("declared", "found"), MISFITS)
def test_a_column_that_may_lose_something_is_refused(declared, found):
    with pytest.raises(SchemaError) as raised:
        match_columns("t", parse_columns(f"c {declared}"), [TableColumn("c", found)])
    assert found in str(raised.value)


def test_texts_are_cast_to_what_else_is_written_as_text():
    columns = [TableColumn("a", "jsonb"), TableColumn("b", "uuid"), TableColumn("c", "my.mood", enum=True)]
    matched = match_columns("t", parse_columns("a STRING, b STRING, c STRING"), columns)
    assert matched.casts == ("jsonb", "uuid", "my.mood")
    with pytest.raises(SchemaError):
        match_columns("t", parse_columns("a BIGINT"), columns)


def test_a_name_means_the_same_in_lower_case_unless_it_is_there_as_written():
    found = [TableColumn("orderid", "bigint"), TableColumn("Kind", "text")]
    assert match_columns("t", parse_columns("Kind STRING, orderId BIGINT"), found).names == ("Kind", "orderid")
    with pytest.raises(SchemaError, match="and so is another column"):
        match_columns("t", parse_columns("orderid BIGINT, orderId BIGINT"), found)


def test_every_type_has_a_staged_one_or_is_refused():
    assert choose_stage_type(parse_type("ARRAY<TIMESTAMP_LTZ(3)>")) == "timestamp with time zone[]"
    assert choose_stage_type(parse_type("ARRAY<ARRAY<INT>>")) is None
    assert choose_stage_type(parse_type("ARRAY<MAP<INT, INT>>")) is None


# --- staged rows -----------------------------------------------------------------------------------------------------


def add(stage: _Stage, batch: pa.RecordBatch) -> pa.RecordBatch | None:
    names = list(stage.branch.schema.names)
    return stage.add(batch.select(names), batch.select([each for each in batch.schema.names if each not in names]))


def rows(**columns):
    count = len(next(iter(columns.values())))
    hidden = {
        HIDDEN.names[0]: pa.array([3] * count, pa.int32()),
        HIDDEN.names[1]: pa.array(range(100, 100 + count), pa.int64()),
    }
    return pa.RecordBatch.from_pydict({**columns, **hidden})


def branch(text, keys=()):
    schema, address = parse_columns(text), parse_address(URL)
    spec = PostgresSinkSpec(
        table="t",
        table_name="t",
        schema=schema,
        guarantee=Guarantee.EXACTLY_ONCE,
        address=address,
        upsert_keys=tuple(keys),
    )
    return PostgresOutput(0, "t", spec, schema, staging="stage")


def test_rows_are_staged_by_position_and_without_hidden_columns():
    given = rows(id=pa.array([1, 2], pa.int64()), text=pa.array(["x", None]))
    staged = add(_Stage(branch("id BIGINT, text STRING"), 7), given)
    assert staged.schema.names == ["writer", "c0", "c1"]
    assert staged.to_pylist() == [{"writer": 7, "c0": 1, "c1": "x"}, {"writer": 7, "c0": 2, "c1": None}]


@pytest.mark.parametrize("texts", [["a", "", None, "b\0c"], [None, "\0", "x", "b\0c"][2:] * 2, ["é", "\0"]])
def test_a_text_with_a_zero_is_named_by_its_place(texts):
    expected = next(i for i, text in enumerate(texts) if text is not None and "\0" in text)
    with pytest.raises(RecordError) as raised:
        add(_Stage(branch("text STRING"), 7), rows(text=pa.array(texts)))
    assert (raised.value.partition, raised.value.offset, raised.value.field) == (3, 100 + expected, "text")


def test_a_zero_outside_a_slice_or_in_numbers_is_none_of_a_text():
    sliced = rows(text=pa.array(["\0", "a", "b", "\0"]), n=pa.array([0, 0, 0, 0])).slice(1, 2)
    assert add(_Stage(branch("text STRING, n BIGINT"), 7), sliced).num_rows == 2


@pytest.fixture
def copied(monkeypatch) -> list[pa.RecordBatch]:
    """What tasks copy into staging tables."""
    found: list[pa.RecordBatch] = []
    monkeypatch.setattr(CopyingWriter, "_copy", lambda _, stage, staged: staged and found.append(staged))
    return found


def pass_on(
    before: PostgresOutput, now: PostgresOutput, given: pa.RecordBatch, abandoned: Callable[[], bool] = lambda: False
) -> None:
    """A task passes rows of a table on, and the one that copies them knows another definition of it, perhaps."""
    names = list(before.schema.names)
    values, hidden = given.select(names), given.select([each for each in given.schema.names if each not in names])
    outputs = [Output(0, "t", each.spec, each.schema) for each in (before, now)]
    passed = build_writer_factory(outputs[:1], 1).run(Task(0, 1), [(0, values, hidden)])
    instructions = build_copying_instructions(StageSpec(now.spec.address, "s", (now,)))
    list(copy_passed_rows(outputs[1:], Task(0, 1, instructions, abandoned=abandoned), passed, memoryview))


def test_rows_that_are_passed_on_are_copied_by_position(copied):
    table = branch("id BIGINT, text STRING")
    pass_on(table, table, rows(id=pa.array([1, 2], pa.int64()), text=pa.array(["x", None])))
    assert [each.drop_columns("writer").to_pylist() for each in copied] == [
        [{"c0": 1, "c1": "x"}, {"c0": 2, "c1": None}]
    ]


def test_a_driver_that_ends_copies_no_more_rows(copied):
    table = branch("id BIGINT")
    with pytest.raises(BatchError, match="the job ends"):
        pass_on(table, table, rows(id=pa.array([1], pa.int64())), abandoned=lambda: True)
    assert copied == []


@pytest.mark.parametrize(("ident", "text", "field"), [(1, "a\0", "text"), (None, "a", "id")])
def test_a_row_that_cannot_be_copied_is_not_passed_on(copied, ident, text, field):
    """Another target may have the batch when it is copied."""
    table = branch("id BIGINT, text STRING", ["id"])
    given = rows(id=pa.array([2, ident], pa.int64()), text=pa.array(["x", text]))
    names = list(table.schema.names)
    writer = build_writer_factory([Output(0, "t", table.spec, table.schema)], 1).open(Task(0, 1))
    with pytest.raises(RecordError) as raised:
        list(writer.write(0, given.select(names), given.select(list(HIDDEN.names))))
    assert (raised.value.partition, raised.value.offset, raised.value.field) == (3, 101, field)


@pytest.mark.parametrize(
    "changed", ["id BIGINT, text STRING, n INT", "text STRING, id BIGINT", "id BIGINT", "id BIGINT, note STRING"]
)
def test_rows_that_were_kept_for_other_columns_are_refused(copied, changed):
    """A job dies when one of its targets has a batch, and its definition changes before the other one gets it."""
    given = rows(id=pa.array([1], pa.int64()), text=pa.array(["x"]))
    with pytest.raises(CheckpointError, match=r"table 't'.*`id` BIGINT, `text` STRING>, .*has changed since"):
        pass_on(branch("id BIGINT, text STRING"), branch(changed), given)
    assert copied == []


# --- changes by key --------------------------------------------------------------------------------------------------

INSERT, BEFORE, AFTER, DELETE = map(int, RowKind)


def test_of_each_key_the_last_change_is_staged_with_its_place():
    changes = [
        (1, "a", INSERT),
        (2, "b", None),
        (1, "a", BEFORE),
        (1, "c", AFTER),
        (3, "d", AFTER),
        (2, None, DELETE),
        (3, "d", BEFORE),  # its row has another key from here on
        (4, "d", AFTER),
    ]
    ids, texts, kinds = zip(*changes, strict=True)
    given = rows(id=pa.array(ids, pa.int64()), x=pa.array(texts), **{KIND: pa.array(kinds, pa.int8())})
    stage = _Stage(branch("id BIGINT, x STRING", keys=("id",)), 7)
    assert [add(stage, given.slice(0, 5)), add(stage, given.slice(5))] == [None, None]
    staged = stage.take_rest()
    assert staged.schema.names == ["writer", "place", "deleted", "c0", "c1"]
    assert [tuple(row.values()) for row in staged.to_pylist()] == [
        (7, 3, False, 1, "c"),
        (7, 5, True, 2, None),
        (7, 6, True, 3, "d"),
        (7, 7, False, 4, "d"),
    ]
    assert stage.take_rest() is None


def test_the_last_of_keys_of_several_columns():
    rng = np.random.default_rng(7)
    for count in (0, 1, 1000):
        columns = [pa.array(rng.integers(0, most, count)) for most in (9, 4, 5)]
        columns[1] = columns[1].cast(pa.string())
        last = {key: place for place, key in enumerate(zip(*(each.to_pylist() for each in columns), strict=True))}
        found = find_last_of_keys(columns)
        assert (list(range(count)) if found is None else found.tolist()) == sorted(last.values())
    assert find_last_of_keys([pa.array([1, 2]), pa.array(["a", "a"])]) is None
    assert find_last_of_keys([pa.array([[1], [1]])]) is None, "PostgreSQL finds the last one of lists"


def test_few_keys_are_held_back_and_many_are_not():
    held = LastChanges(["c0"])
    batch = pa.RecordBatch.from_pydict({"c0": pa.array(range(10_000)), "place": pa.array(range(10_000))})
    assert [held.add(batch) for _ in range(20)] == [None] * 20
    assert held.take().num_rows == 10_000
    sent = [held.add(batch.set_column(0, "c0", pc.add(batch.column(0), 10_000 * each))) for each in range(7)]
    assert [each and each.num_rows for each in sent] == [None] * 6 + [70_000]
    assert held.take() is None


def test_null_in_a_key_is_named_by_its_place():
    stage = _Stage(branch("id BIGINT, x STRING", keys=("id", "x")), 7)
    with pytest.raises(RecordError, match="NULL cannot be part of the PRIMARY KEY") as raised:
        add(stage, rows(id=pa.array([1, 2]), x=pa.array(["a", None])))
    assert (raised.value.partition, raised.value.offset, raised.value.field) == (3, 101, "x")


def test_a_table_with_a_key_takes_changes():
    assert sink(primary_key=("id",)).capabilities.kinds == CHANGES
    assert sink(primary_key=("id",)).capabilities.upsert_keys == ("id",)
    assert "key: id" in sink(primary_key=("id",)).describe()
    assert sink().capabilities.kinds == INSERTIONS


def test_a_query_that_updates_or_deletes_rows_needs_a_key():
    sql = (
        "CREATE TABLE given (g STRING) WITH ('connector' = 'kafka', 'topic' = 's', 'format' = 'json',"
        " 'properties.bootstrap.servers' = 'h:1');\n"
        f"CREATE TABLE t (g STRING, n BIGINT%s) WITH ('connector' = 'postgres', 'url' = '{URL}', 'table-name' = 't');\n"
        "INSERT INTO t SELECT g, COUNT(*) FROM given GROUP BY g;"
    )
    with pytest.raises(SchemaError, match=r"takes insertions only, .*aggregate.*declare a PRIMARY KEY for the table"):
        plan_job(parse_script(sql % "").jobs[0])
    plain, keyed = (parse_script(sql % f", PRIMARY KEY ({key}) NOT ENFORCED").jobs[0] for key in ("g", "n"))
    assert not isinstance(plan_job(plain).sinks[0].input, Materialize)
    assert isinstance(plan_job(keyed).sinks[0].input, Materialize), "several groups may have one number"


# --- what it costs those who do not use it -------------------------------------------------------------------------


def test_checking_a_file_does_not_load_the_client():
    code = (
        "import sys; from penstock.sql import parse_script\n"
        "sql = '''CREATE TABLE s (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 's', 'format' = 'json',"
        " 'properties.bootstrap.servers' = 'h:1');"
        f" CREATE TABLE t (id BIGINT) WITH ('connector' = 'postgres', 'url' = '{URL}', 'table-name' = 't');"
        " INSERT INTO t SELECT id FROM s;'''\n"
        "(job,) = parse_script(sql, file='job.sql').jobs\n"
        "assert job.sinks[0].connector == 'postgres'\n"
        "assert [name for name in sys.modules if name.startswith('adbc') or name == 'pyspark'] == []\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_column_of_text_needs_no_length():
    assert choose_stage_type(STRING) == choose_stage_type(parse_type("VARCHAR(5)")) == "text"


# --- pipelines -------------------------------------------------------------------------------------------------------

USER = {"username": "u", "password": "secret"}
HOLOGRES = {"endpoint": "h:80", "dbname": "shop", **USER}


def yaml_table(name: str, options: dict[str, str]) -> TableDefinition:
    return TableDefinition(name, (Column("id", BIGINT),), options, surface=Surface.YAML)


@pytest.mark.parametrize(("connector", "given"), [("postgres", {"url": URL, **USER}), ("hologres", HOLOGRES)])
@pytest.mark.parametrize(
    ("name", "named"), [("t", '"t"'), ("s.T", '"s"."T"'), ("db.s.t", '"s"."t"'), ('a."b', '"a"."""b"')]
)
def test_a_table_of_a_pipeline_has_the_name_of_its_id(connector, given, name, named):
    assert connectors.get(connector).sink(yaml_table(name, given)).table_name == named


def test_only_pipelines_leave_the_name_out():
    with pytest.raises(OptionsError, match="'table-name': is required"):
        connectors.get("postgres").sink(TableDefinition("t", (Column("id", BIGINT),), {"url": URL}))


@pytest.mark.parametrize(
    ("connector", "given"),
    [("postgres", {"url": URL, "table-name": "t"}), ("hologres", {**HOLOGRES, "tablename": "t"})],
)
def test_the_name_of_one_table_is_refused_for_many(connector, given):
    with pytest.raises(OptionsError, match=r"names one table, and each table of this pipeline .*leave it out"):
        connectors.get(connector).tables_sink(yaml_table("tables", given))


def test_the_tables_of_a_pipeline_take_changes():
    found = connectors.get("hologres").tables_sink(yaml_table("tables", HOLOGRES))
    assert found.capabilities.kinds == CHANGES
    assert (found.schema.fields, found.upsert_keys, found.alters) == ((), (), False)
    assert found.describe().startswith("hologres sink 'tables'\n  table: by their ids\n")
    assert str(found.address) == "postgresql://h:80/shop"
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("endpoint", "h", "'endpoint': expected host:port .for example"),
        ("endpoint", "me:secret@h:80", "'endpoint': expected host:port"),
        ("endpoint", "h:99999", "'endpoint': expected a port from 0 to 65535"),
        ("sink.type-normalize-strategy", "ONLY_BIGINT_OR_TEXT", "is not supported .write BROADEN"),
        ("sink.type-normalize-strategy", "WIDE", "expected one of STANDARD, BROADEN"),
        ("sink.delivery-guarantee", "none", "'none' is not supported"),
    ],
)
def test_mistakes_in_the_options_of_hologres_are_named(option, value, message):
    with pytest.raises(OptionsError, match=message) as raised:
        connectors.get("hologres").tables_sink(yaml_table("tables", {**HOLOGRES, option: value}))
    assert "secret" not in str(raised.value)
