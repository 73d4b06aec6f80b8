"""Tables of PostgreSQL that a job finds while it runs: how they follow their schemas, and what is written into them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from penstock.connectors.postgres.address import parse_address
from penstock.connectors.postgres.at_least_once import AtLeastOnceCommitter
from penstock.connectors.postgres.column_types import choose_column_type
from penstock.connectors.postgres.committer import PostgresCommitter
from penstock.connectors.postgres.database import Database
from penstock.errors import DatabaseError, FencedError, PenstockError, RecordError, SchemaError
from penstock.schemas import (
    AddColumns,
    AlterColumnTypes,
    AlterTableComment,
    CreateTable,
    DropColumns,
    DropTable,
    NewColumn,
    RenameColumns,
    TableSchema,
    TruncateTable,
)
from penstock.spi import HIDDEN, KIND, Guarantee, Output, Surface, TableDefinition, Task, TaskResults, connectors
from penstock.spi import Column as TableColumn
from penstock.types import Field, RowKind, RowType, arrow_schema, parse_columns, parse_type
from tests.spark.failpoints import before_insertion_is_committed, failures
from tests.spark.test_postgres import batch, context

I, B, A, D = RowKind  # noqa: E741 - as Flink prints them: +I, -U, +U, -D

#: A column of each type that a table may have, with the type of a new column, and that of one with BROADEN.
TYPES = {
    "BOOLEAN": ("boolean", "boolean"),
    "TINYINT": ("smallint", "bigint"),
    "SMALLINT": ("smallint", "bigint"),
    "INT": ("integer", "bigint"),
    "BIGINT": ("bigint", "bigint"),
    "FLOAT": ("real", "double precision"),
    "DOUBLE": ("double precision", "double precision"),
    "DECIMAL(38, 10)": ("numeric(38,10)", "numeric(38,10)"),
    "CHAR(3)": ("character(3)", "text"),
    "VARCHAR(20)": ("character varying(20)", "text"),
    "VARCHAR(20000000)": ("text", "text"),
    "STRING": ("text", "text"),
    "BINARY(3)": ("bytea", "bytea"),
    "BYTES": ("bytea", "bytea"),
    "DATE": ("date", "date"),
    "TIME(3)": ("time(3) without time zone", "time(3) without time zone"),
    "TIMESTAMP(3)": ("timestamp(3) without time zone", "timestamp(3) without time zone"),
    "TIMESTAMP(9)": ("timestamp(6) without time zone", "timestamp(6) without time zone"),
    "TIMESTAMP_LTZ(6)": ("timestamp(6) with time zone", "timestamp(6) with time zone"),
    "ARRAY<INT>": ("integer[]", "bigint[]"),
    "ARRAY<VARCHAR(5)>": ("character varying(5)[]", "text[]"),
}


def schema(columns: str, *keys: str) -> TableSchema:
    return TableSchema(parse_columns(columns), keys)


def column(text: str) -> Field:
    return parse_columns(text).fields[0]


def altered(table: str, columns: str) -> AlterColumnTypes:
    return AlterColumnTypes(table, tuple((each.name, each.type) for each in parse_columns(columns).fields))


@dataclass
class Pipeline:
    """The committer of a job that finds tables, and the tables."""

    db: Any
    kind: type = PostgresCommitter
    connector: str = "postgres"
    options: dict[str, str] = field(default_factory=dict)
    next_batch: int = 0
    versions: list[Output] = field(default_factory=list)

    def __post_init__(self) -> None:
        address = parse_address(self.db.url, self.db.server.user, self.db.server.password)
        guarantee = Guarantee.EXACTLY_ONCE if self.kind is PostgresCommitter else Guarantee.AT_LEAST_ONCE
        given = {"username": address.username, "password": address.password}
        given |= {"sink.delivery-guarantee": guarantee.value}
        if self.connector == "postgres":
            given["url"] = self.db.url
        else:
            given |= {"endpoint": f"{address.host}:{address.port}", "dbname": address.database}
        self.given = given | self.options
        found: Any = connectors.get(self.connector)
        spec = found.tables_sink(TableDefinition("tables", (), self.given, surface=Surface.YAML))
        self.output = Output(0, "tables", spec, RowType((), nullable=False))
        self.committer = self.kind([self.output], context(next_batch=self.next_batch), Database(address))
        self.committer.check()
        self.committer.open()
        self.committer.use_tables(self)

    def find_output(self, number: int) -> Output:
        return self.versions[number - 1]

    def list_tables(self) -> list[str]:
        return [each.table for each in self.versions]

    def make(self, table: str, now: TableSchema) -> Output:
        columns = tuple(TableColumn(each.name, each.type) for each in now.row.fields)
        found: Any = connectors.get(self.connector)
        spec = found.sink(
            TableDefinition(table, columns, self.given, surface=Surface.YAML, primary_key=now.primary_key)
        )
        return Output(0, table, spec, spec.schema)

    def follow(self, table: str, now: TableSchema, *changes: Any) -> int:
        """Have the table follow changes to the schema; the number of its rows."""
        made = self.make(table, now)
        self.committer.apply_changes(changes or (CreateTable(table, now),), made)
        self.versions.append(made)
        return len(self.versions)

    def publish(self, number: int, *rows: tuple[int, RowKind, Any], tasks: int = 1) -> Any:
        """Publish changes of tables, by their numbers; all of them are read by each of the tasks."""
        return self.committer.publish(batch(number), Changes(self, rows, tasks))


@dataclass
class Changes:
    """Tasks with changes, which are passed on before they are copied."""

    pipeline: Pipeline
    rows: Any
    tasks: int = 1
    state: str = "state"
    computed: bool = True

    def parts(self) -> Iterator[tuple[int, pa.RecordBatch, pa.RecordBatch]]:
        for place, (number, kind, values) in enumerate(self.rows):
            row = self.pipeline.find_output(number).schema
            columns = [pa.array([value], each.type) for value, each in zip(values, arrow_schema(row), strict=True)]
            hidden = [pa.array([0], pa.int32()), pa.array([place], pa.int64()), pa.array([int(kind)], pa.int8())]
            yield (
                number,
                pa.RecordBatch.from_arrays(columns, names=list(row.names)),
                pa.RecordBatch.from_arrays(hidden, names=[*HIDDEN.names, KIND]),
            )

    def collect(self, instructions: str = "", **_: Any) -> TaskResults:
        factory = self.pipeline.committer.writers()
        told = []
        for task in range(self.tasks):
            writer, passed = factory.open(Task(task, self.tasks)), []
            for number in dict.fromkeys(number for number, _, _ in self.rows):
                writer.add_output(number, self.pipeline.find_output(number))
            for part in self.parts():
                passed += writer.write(*part)
            passed += writer.finish()
            copying = Task(task, self.tasks, instructions)
            for each in factory.publish(copying, passed, memoryview):
                told += each.to_pylist()
        return TaskResults(told)


def columns(db: Any, table: str) -> dict[str, tuple[str, bool]]:
    """The type of each column of a table, and whether it is NOT NULL."""
    sql = (
        "SELECT attname::text, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute "
        f"WHERE attrelid = to_regclass('{table}') AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
    )
    return {name: (kind, required) for name, kind, required in db.rows(sql)}


@pytest.fixture(params=[PostgresCommitter, AtLeastOnceCommitter])
def pipeline(request, db) -> Iterator[Pipeline]:
    made = Pipeline(db, request.param)
    with closing(made.committer):
        yield made


# --- tables follow their schemas -------------------------------------------------------------------------------------


@pytest.mark.parametrize("wide", [False, True])
def test_a_table_of_every_type_is_made(db, wide):
    chosen = {f"c{at}": parse_type(each) for at, each in enumerate(TYPES)}
    assert [choose_column_type(each, wide=wide) for each in chosen.values()] == [each[wide] for each in TYPES.values()]
    strategy = {"sink.type-normalize-strategy": "BROADEN" if wide else "STANDARD"}
    made = Pipeline(db, connector="hologres", options=strategy)
    made.follow("s.t", TableSchema(RowType(tuple(Field(name, each) for name, each in chosen.items()))))
    assert [each for each, _ in columns(db, "s.t").values()] == [each[wide] for each in TYPES.values()]


@pytest.mark.parametrize("type_", ["MAP<STRING, INT>", "ROW<a INT>", "ARRAY<ARRAY<INT>>"])
def test_a_type_that_postgresql_does_not_have_is_named(db, type_):
    with pytest.raises(PenstockError, match=r"'t'.*'m'.*PostgreSQL has no type for .* that can be written"):
        Pipeline(db).follow("t", schema(f"id BIGINT, m {type_}"))


def test_an_id_names_a_table_and_its_schema(pipeline, db):
    for table in ("t", "Sh op.T", "db.a.t"):
        pipeline.follow(table, schema('id BIGINT NOT NULL, `A "q"` STRING, `b\\c` INT', "id"))
    found = db.rows("SELECT schemaname::text, tablename::text FROM pg_tables WHERE tablename IN ('t', 'T') ORDER BY 1")
    assert found == [("Sh op", "T"), ("a", "t"), ("public", "t")]
    assert columns(db, '"Sh op"."T"') == {
        "id": ("bigint", True),
        'A "q"': ("text", False),
        "b\\c": ("integer", False),
    }


@pytest.mark.parametrize("other", ["b.s.t", "s.t"])
def test_two_ids_of_one_table_are_refused(pipeline, db, other):
    pipeline.follow("a.s.t", schema("id BIGINT"))
    message = r"table '.*s\.t': 'a\.s\.t' is written to \"s\"\.\"t\" too.*give one of them another name in a 'route'"
    with pytest.raises(SchemaError, match=message):
        pipeline.follow(other, schema("id BIGINT"))
    again = Pipeline(db, pipeline.kind, versions=pipeline.versions)  # which knows the table from its state
    with closing(again.committer), pytest.raises(SchemaError, match="is written to"):
        again.follow(other, schema("id BIGINT"))


@pytest.mark.parametrize(
    ("table", "column", "message"),
    [
        ("penstock_progress", "id", "are penstock's own"),
        ("s.penstock_stage_a", "id", "are penstock's own"),
        ("s.", "id", "is empty"),
        ("pg_catalog.pg_class", "id", "'pg_catalog' is the database's own"),
        ("information_schema.t", "id", "is the database's own"),
        ("ü" * 32, "id", "is longer than 63 bytes"),
        (f"{'s' * 64}.t", "id", "is longer than 63 bytes"),
        ("t", "x" * 64, "x.*': a column's name has 1 to 63 bytes"),
    ],
)
def test_names_that_postgresql_cannot_have_are_refused(pipeline, table, column, message):
    with pytest.raises(SchemaError, match=message):
        pipeline.follow(table, schema(f"`{column}` BIGINT"))


def test_each_change_may_come_again(pipeline, db):
    made = TableSchema(parse_columns("id BIGINT NOT NULL, a INT NOT NULL, b STRING"), ("id",), comment="it's \\ one")
    key = "id BIGINT NOT NULL, "
    steps = [
        (CreateTable("s.t", made), "a INT NOT NULL, b STRING"),
        (AddColumns("s.t", (NewColumn(column("c VARCHAR(5)"), ""),)), "a INT NOT NULL, b STRING, c VARCHAR(5)"),
        (altered("s.t", "a INT"), "a INT, b STRING, c VARCHAR(5)"),
        (altered("s.t", "a BIGINT, c VARCHAR(9)"), "a BIGINT, b STRING, c VARCHAR(9)"),
        (altered("s.t", "a STRING"), "a STRING, b STRING, c VARCHAR(9)"),
        (DropColumns("s.t", ("b",)), "a STRING, c VARCHAR(9)"),
        (RenameColumns("s.t", (("c", "d"),)), "a STRING, d VARCHAR(9)"),
        (AlterTableComment("s.t", "another"), "a STRING, d VARCHAR(9)"),
    ]
    for change, now in steps:
        for _ in range(2):
            pipeline.follow("s.t", schema(key + now, "id"), change)
        if isinstance(change, CreateTable):
            assert db.rows("SELECT obj_description('s.t'::regclass)") == [("it's \\ one",)]
            db.rows("INSERT INTO s.t VALUES (1, 7, 'x')")
    assert columns(db, "s.t") == {
        "id": ("bigint", True),
        "a": ("text", False),
        "d": ("character varying(9)", False),
    }
    assert db.rows("SELECT id, a, d FROM s.t") == [(1, "7", None)]
    assert db.rows("SELECT obj_description('s.t'::regclass)") == [("another",)]
    now = schema("id BIGINT NOT NULL, a STRING, d VARCHAR(9)", "id")
    pipeline.follow("s.t", now, TruncateTable("s.t"))
    assert db.rows("SELECT * FROM s.t") == []
    for _ in range(2):
        pipeline.follow("s.t", now, TruncateTable("s.t"), DropTable("s.t"))
    assert columns(db, "s.t") == {}


def test_a_table_that_a_former_run_has_widened_is_made_again(pipeline, db):
    """Before any version was committed: the table is made as at first, and follows again."""
    first, other = "id BIGINT NOT NULL, n BIGINT, d DATE, f DOUBLE", "id BIGINT NOT NULL, n STRING, d TIMESTAMP(6)"
    widened = altered("s.t", "n STRING, d TIMESTAMP(6)")
    for _ in range(2):
        pipeline.follow("s.t", schema(first, "id"))
        pipeline.follow("s.t", schema(f"{other}, f DOUBLE", "id"), widened)
    assert columns(db, "s.t") == {
        "id": ("bigint", True),
        "n": ("text", False),
        "d": ("timestamp(6) without time zone", False),
        "f": ("double precision", False),
    }
    with pytest.raises(SchemaError, match="'f': BOOLEAN is declared, but the table's column is double precision"):
        pipeline.follow("s.t", schema("id BIGINT NOT NULL, f BOOLEAN", "id"))
    narrow = pipeline.follow("s.t", schema(first, "id"))
    with pytest.raises(SchemaError, match="'n': BIGINT is declared, but the table's column is text"):
        pipeline.publish(0, (narrow, I, (1, 1, None, 1.0)))


def test_types_become_wider_where_postgresql_can(pipeline, db):
    pairs = [
        ("TINYINT", "SMALLINT", "1"), ("SMALLINT", "INT", "1"), ("INT", "DECIMAL(38, 0)", "1"),
        ("BIGINT", "DOUBLE", "1"),
        ("FLOAT", "DOUBLE", "1.5"), ("DECIMAL(10, 2)", "DECIMAL(12, 4)", "1.25"), ("BOOLEAN", "STRING", "true"),
        ("DATE", "TIMESTAMP(3)", "'2024-02-29'"), ("TIMESTAMP(3)", "TIMESTAMP(6)", "'2024-02-29 12:00:00.123'"),
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "'2024-02-29 12:00:00'"), ("TIME(0)", "TIME(3)", "'12:00:01'"),
        ("CHAR(2)", "STRING", "'ab'"), ("BINARY(2)", "BYTES", "'ab'"), ("ARRAY<INT>", "ARRAY<BIGINT>", "'{1}'"),
    ]  # fmt: skip
    key = "id BIGINT NOT NULL, "
    pipeline.follow("t", schema(key + ", ".join(f"c{at} {old}" for at, (old, _, _) in enumerate(pairs)), "id"))
    db.rows(f"INSERT INTO t VALUES (1, {', '.join(value for _, _, value in pairs)})")
    before = db.rows("SELECT * FROM t")
    types = tuple((f"c{at}", parse_type(new)) for at, (_, new, _) in enumerate(pairs))
    after = schema(key + ", ".join(f"{name} {new}" for name, new in types), "id")
    pipeline.follow("t", after, AlterColumnTypes("t", types))
    found = list(columns(db, "t").values())[1:]
    assert [each for each, _ in found] == [choose_column_type(new) for _, new in types]
    assert len(before) == len(db.rows("SELECT * FROM t")) == 1
    assert db.rows("SELECT c7::text, c6, c11 FROM t") == [("2024-02-29 00:00:00", "true", "ab")]


def test_a_change_of_type_that_postgresql_cannot_make_is_told_with_the_column(pipeline):
    pipeline.follow("t", schema("id BIGINT, a INT"))
    message = r"table 't', column 'a': .*cannot (cast|be cast)"
    with pytest.raises(DatabaseError, match=message):
        pipeline.follow("t", schema("id BIGINT, a DATE"), altered("t", "a DATE"))


def test_a_table_that_is_there_is_used_as_it_is(pipeline, db):
    db.rows('CREATE TABLE t (extra int DEFAULT 7, id numeric(20), "B" jsonb, UNIQUE (id))')
    pipeline.follow("t", schema("ID BIGINT NOT NULL, B STRING, c INT", "ID"))
    assert columns(db, "t") == {
        "extra": ("integer", False),
        "id": ("numeric(20,0)", False),
        "B": ("jsonb", False),
        "c": ("integer", False),
    }
    db.rows("CREATE TABLE u (id int, a int)")
    with pytest.raises(SchemaError, match=r"table 'u'.*'id': BIGINT is declared, but the table's column is integer"):
        pipeline.follow("u", schema("id BIGINT, a INT"))
    db.rows("CREATE TABLE v (id bigint)")
    with pytest.raises(SchemaError, match="no primary key and no unique index"):
        pipeline.follow("v", schema("id BIGINT NOT NULL", "id"))


def test_hologres_tolerates_what_its_columns_hold(db):
    broad = Pipeline(db, connector="hologres", options={"sink.type-normalize-strategy": "broaden"})
    broad.follow("t", schema("id INT NOT NULL, a TINYINT NOT NULL, f FLOAT, s CHAR(3)", "id"))
    now = "id BIGINT NOT NULL, a BIGINT, f DOUBLE, s STRING"
    broad.follow("t", schema(now, "id"), altered("t", now))
    assert columns(db, "t") == {
        "id": ("bigint", True),
        "a": ("bigint", False),
        "f": ("double precision", False),
        "s": ("text", False),
    }
    worse = schema("id BIGINT NOT NULL, a STRING, f DOUBLE, s STRING", "id")
    message = r"'a': the column is bigint, which does not hold STRING, and hologres changes no types .make a new column"
    with pytest.raises(SchemaError, match=message) as raised:
        broad.follow("t", worse, altered("t", "a STRING"))
    assert "BROADEN" not in str(raised.value)
    standard = Pipeline(db, connector="hologres")
    standard.follow("u", schema("a INT"))
    with pytest.raises(SchemaError, match=r"with 'sink.type-normalize-strategy: BROADEN' new tables get wider types"):
        standard.follow("u", schema("a BIGINT"), altered("u", "a BIGINT"))


@pytest.mark.rule("progress decides")
def test_a_run_that_was_taken_over_changes_no_table(db):
    former, _ = Pipeline(db), Pipeline(db)
    with pytest.raises(FencedError):
        former.follow("t", schema("id BIGINT"))
    assert columns(db, "t") == {}


# --- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("source order is kept")
def test_rows_of_many_tables_arrive_by_their_keys(pipeline, db):
    one = pipeline.follow("s.one", schema("id BIGINT NOT NULL, x STRING", "id"))
    two = pipeline.follow("two", schema("a STRING NOT NULL, b INT NOT NULL", "a", "b"))
    plain = pipeline.follow("plain", schema("x DOUBLE"))
    done = pipeline.publish(
        0,
        (one, I, (1, "a")), (two, I, ("k", 1)), (one, B, (1, "a")), (one, A, (1, "b")), (plain, I, (1.5,)),
        (one, I, (2, "c")), (two, I, ("k", 2)), (two, D, ("k", 1)), (plain, I, (1.5,)), (one, I, (3, None)),
        tasks=2,
    )  # fmt: skip
    assert [each.records for each in done.written] == [2 * (3 + 2 + 2)]
    assert db.rows("SELECT * FROM s.one ORDER BY id") == [(1, "b"), (2, "c"), (3, None)]
    assert db.rows("SELECT * FROM two") == [("k", 2)]
    assert db.rows("SELECT * FROM plain") == [(1.5,)] * 4
    pipeline.publish(1, (one, D, (3, None)), (one, B, (2, "c")), (one, A, (4, "c")))
    assert db.rows("SELECT * FROM s.one ORDER BY id") == [(1, "b"), (4, "c")]
    wider = pipeline.follow(
        "s.one",
        schema("id BIGINT NOT NULL, x STRING, y INT", "id"),
        AddColumns("s.one", (NewColumn(column("y INT")),)),
    )
    pipeline.publish(2, (wider, A, (1, "b", 7)))
    assert db.rows("SELECT * FROM s.one ORDER BY id") == [(1, "b", 7), (4, "c", None)]
    assert len(db.staging()) == 4, "that of the table's former version is dropped"
    assert all(db.rows(f"SELECT count(*) FROM {each}") == [(0,)] for each in db.staging())
    pipeline.committer.close()
    assert db.staging() == []


@pytest.mark.parametrize(("kind", "shown"), [(A, r"\+U"), (D, "-D"), (B, "-U")])
def test_changes_of_a_table_without_a_key_are_refused(pipeline, db, kind, shown):
    number = pipeline.follow("s.t", schema("x BIGINT"))
    with pytest.raises(RecordError, match=rf"table 's\.t': the change {shown} .*'primary-keys'.*'transform'"):
        pipeline.publish(0, (number, I, (1,)), (number, kind, (1,)))
    assert db.rows("SELECT * FROM s.t") == []


@pytest.mark.rule("progress decides")
def test_a_batch_is_in_the_tables_once_while_tables_come_and_go(db, monkeypatch):
    first = Pipeline(db)
    one = first.follow("one", schema("id BIGINT"))
    first.publish(0, (one, I, (1,)))
    assert db.rows("SELECT tables FROM penstock_progress") == [('["*"]',)]
    two = first.follow("two", schema("id BIGINT"))
    before_insertion_is_committed(monkeypatch, failures(3, lambda: DatabaseError("before the commit")))
    with pytest.raises(DatabaseError, match="before the commit"):
        first.publish(1, (one, I, (2,)), (two, I, (2,)))
    assert (db.ids("one"), db.ids("two")) == ([1], [])

    monkeypatch.undo()
    again = Pipeline(db, next_batch=1)  # which makes the table again
    numbers = again.follow("one", schema("id BIGINT")), again.follow("two", schema("id BIGINT"))
    rows = [(number, I, (2,)) for number in numbers]
    again.publish(1, *rows)
    replayed = Pipeline(db, next_batch=1, versions=again.versions)
    assert replayed.publish(1, *rows).skipped
    assert (db.ids("one"), db.ids("two")) == ([1, 2], [2])
    assert len(db.progress()) == 1


def test_a_run_whose_staging_tables_are_gone_makes_none(pipeline, db):
    number = pipeline.follow("t", schema("id BIGINT NOT NULL", "id"))
    other = Pipeline(db, pipeline.kind)
    with closing(other.committer), pytest.raises(FencedError):
        pipeline.publish(0, (number, I, (1,)))
    assert db.staging() == []
    assert db.ids() == []


def test_a_table_that_was_changed_by_hand_is_told(pipeline, db):
    number = pipeline.follow("s.t", schema("id BIGINT"))
    db.rows("DROP TABLE s.t")
    with pytest.raises(SchemaError, match=r"table 's\.t'.*the database has no table of this name"):
        pipeline.publish(0, (number, I, (1,)))
