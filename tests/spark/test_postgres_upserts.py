"""Tables of PostgreSQL with a key: what changes make of their rows, and that it happens once."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock import engine
from penstock.common import Row, RowKind
from penstock.connectors import values
from penstock.connectors.postgres.at_least_once import AtLeastOnceCommitter
from penstock.connectors.postgres.committer import PostgresCommitter
from penstock.errors import DatabaseError, ExecutionError, FencedError, PenstockError, SchemaError
from penstock.spi import HIDDEN, KIND, Guarantee
from penstock.sql import parse_script
from penstock.types import arrow_schema, parse_columns
from tests.spark.failpoints import before_insertion_is_committed, failures
from tests.spark.test_postgres import batch, context, copy_rows, forget_last_commit, made_committer, output

I, B, A, D = RowKind  # noqa: E741 - as Flink prints them: +I, -U, +U, -D


# --- the committer by itself -----------------------------------------------------------------------------------------


def keyed(db, columns, keys, table="t", guarantee=Guarantee.EXACTLY_ONCE):
    """An output with a key, whose columns are those of the frame with the same names."""
    made, schema = output(db, table, guarantee), parse_columns(columns)
    spec = replace(made.spec, schema=schema, upsert_keys=tuple(keys))
    return replace(made, spec=spec, schema=schema)


def copied(outputs, changes_of_tasks, instructions):
    """Copies the changes of tasks, the last task first: ``[(kind, *values), ...]`` by task. The values are those of all
    columns of all outputs."""
    types = {field.name: field.type for output in outputs for field in arrow_schema(output.schema)}
    told = []
    for number, changes in reversed(list(enumerate(changes_of_tasks))):
        kinds, *columns = zip(*changes, strict=True)
        arrays = [pa.array(each, type_) for each, type_ in zip(columns, types.values(), strict=True)]
        places = pa.array(range(len(changes)), pa.int64())
        hidden = [places.cast(pa.int32()), places, pa.array(map(int, kinds), pa.int8())]
        names = [*types, *HIDDEN.names, KIND]
        told += copy_rows(outputs, instructions, number, pa.RecordBatch.from_arrays([*arrays, *hidden], names=names))
    return told


def opened_with(outputs, cls=PostgresCommitter):
    committer = made_committer(cls, outputs, context(), copied)
    committer.check()
    committer.open()
    return committer


def opened(db, columns, keys, cls=PostgresCommitter):
    guarantee = Guarantee.EXACTLY_ONCE if cls is PostgresCommitter else Guarantee.AT_LEAST_ONCE
    return opened_with([keyed(db, columns, keys, guarantee=guarantee)], cls)


@pytest.mark.parametrize("cls", [PostgresCommitter, AtLeastOnceCommitter])
@pytest.mark.rule("source order is kept")
def test_the_last_change_of_each_key_stays(db, cls):
    db.rows("CREATE TABLE t (id bigint PRIMARY KEY, x text, other int DEFAULT 7)")
    db.rows("INSERT INTO t VALUES (1, 'old', 1), (2, 'old', 2), (3, 'old', 3), (9, 'old', 9)")
    committer = opened(db, "id BIGINT, x STRING", ["id"], cls)
    committer.publish(
        batch(0),
        [
            [(A, 1, "a"), (D, 2, "old"), (I, 4, "d"), (D, 4, "d"), (I, 5, "e"), (B, 9, "old"), (A, 10, "old")],
            [(A, 1, "b"), (D, 5, None), (D, 8, None), (I, 2, "c"), (B, 3, "old"), (A, 3, None)],
        ],
    )
    assert db.rows("SELECT * FROM t ORDER BY id") == [(1, "b", 1), (2, "c", 2), (3, None, 3), (10, "old", 7)]
    committer.publish(batch(1), [[(D, 1, None)]])
    committer.publish(batch(2), [[(A, 2, "d")]])
    assert db.rows("SELECT id, x FROM t ORDER BY id") == [(2, "d"), (3, None), (10, "old")]
    committer.close()
    assert db.staging() == []


@pytest.mark.parametrize("when", ["before it copies", "after it has copied"])
def test_a_run_without_progress_whose_staging_tables_another_has_dropped_says_so(db, when):
    db.rows("CREATE TABLE t (id bigint PRIMARY KEY, x text)")
    made = keyed(db, "id BIGINT, x STRING", ["id"], guarantee=Guarantee.AT_LEAST_ONCE)
    others = []

    def taken_over(outputs, changes, instructions):
        if when == "before it copies":
            others.append(opened_with([made], AtLeastOnceCommitter))
        told = copied(outputs, changes, instructions)
        if when != "before it copies":
            others.append(opened_with([made], AtLeastOnceCommitter))
        return told

    first = made_committer(AtLeastOnceCommitter, [made], context(), taken_over)
    first.check()
    first.open()
    with pytest.raises(FencedError, match=r"job 'job', .*Another run of the job may have taken over; stop one of the"):
        first.publish(batch(0), [[(A, 1, "a")]])
    others[0].publish(batch(0), [[(A, 1, "a")]])
    assert db.rows("SELECT * FROM t") == [(1, "a")]


@pytest.mark.rule("progress decides")
def test_a_replayed_batch_changes_nothing(db):
    """Not even rows that somebody else has changed since."""
    db.rows("CREATE TABLE t (id bigint PRIMARY KEY, x text)")
    changes = [[(I, 1, "a"), (I, 2, "b"), (D, 3, None)]]
    opened(db, "id BIGINT, x STRING", ["id"]).publish(batch(0), changes)
    db.rows("UPDATE t SET x = 'changed' WHERE id = 1")
    db.rows("INSERT INTO t VALUES (3, 'new')")
    db.rows("DELETE FROM t WHERE id = 2")
    again = opened(db, "id BIGINT, x STRING", ["id"])
    assert again.publish(batch(0), changes).skipped
    assert db.rows("SELECT * FROM t ORDER BY id") == [(1, "changed"), (3, "new")]


KEYS = {
    "BOOLEAN": ("boolean", [True, False]),
    "TINYINT": ("smallint", [1, -1]),
    "INT": ("numeric(12,2)", [1, -1]),
    "BIGINT": ("bigint", [1, 2**63 - 1]),
    "FLOAT": ("double precision", [float("nan"), 0.1]),
    "DOUBLE": ("double precision", [0.1, float("-inf")]),
    "DECIMAL(20, 4)": ("numeric(20,4)", ["1.5000", "-123456789012.0001"]),
    "DATE": ("date", [1, 19_000]),
    "TIME(3)": ("time(3)", [1, 86_399_999]),
    "TIMESTAMP(6)": ("timestamp", [1, 1_700_000_000_123_456]),
    "TIMESTAMP_LTZ(3)": ("timestamptz", [1, 1_700_000_000_123]),
    "STRING": ("varchar(5)", ["a", "a "]),
    "VARCHAR(5)": ('text COLLATE "C"', ["a", "ä"]),
    "CHAR(4)": ("char(4)", ["a   ", "b"]),
    "BYTES": ("bytea", [b"", b"\x00\xff"]),
    "ARRAY<INT>": ("bigint[]", [[1, None], []]),
    "ARRAY<STRING>": ("varchar(9)[]", [["a"], ["b", ""]]),
    "STRING NOT NULL": ("uuid", ["0c64d3f1-6d4a-4b0e-9d52-0242ac120002", "0c64d3f1-6d4a-4b0e-9d52-0242ac120003"]),
    "VARCHAR(20)": ("mood", ["sunny", "dark"]),
    "VARCHAR(10)": ('"Name it"', ["a", "b"]),
}


def typed(values, logical):
    """The values as Arrow's of this type; decimals are given as text, times as numbers."""
    (field,) = arrow_schema(parse_columns(f"k {logical}"))
    whole = pa.types.is_temporal(field.type)
    plain = pa.array(values, (pa.int32() if field.type.bit_width == 32 else pa.int64()) if whole else None)
    return (plain if pa.types.is_nested(field.type) else plain.cast(field.type)).to_pylist()


def counts(db, tables):
    """How many rows each of the tables ``t0`` and so on has."""
    each = [f"SELECT {number} AS number, count(*) FROM t{number}" for number in range(tables)]
    return [count for _, count in sorted(db.rows(" UNION ALL ".join(each)))]


def test_every_type_of_a_key_finds_its_row(db):
    db.rows("CREATE TYPE mood AS ENUM ('sunny', 'dark')")
    db.rows('CREATE DOMAIN "Name it" AS varchar(10) COLLATE "C" CHECK (value <> \'\')')
    outputs = []
    for number, (logical, (found, _)) in enumerate(KEYS.items()):
        db.rows(f'CREATE TABLE t{number} (k{number} {found}, "n"" m" int, PRIMARY KEY ("n"" m", k{number}))')
        key = [f"k{number}", 'n" m']
        outputs.append(keyed(db, f'`n" m` INT, k{number} {logical}', key, f"t{number}"))
    one, other = zip(*(typed(given, logical) for logical, (_, given) in KEYS.items()), strict=True)
    committer = opened_with(outputs)
    committer.publish(batch(0), [[(I, 1, *one), (I, 1, *other)], [(A, 1, *one)]])
    assert counts(db, len(KEYS)) == [2] * len(KEYS)
    committer.publish(batch(1), [[(D, 1, *other)]])
    assert counts(db, len(KEYS)) == [1] * len(KEYS)
    committer.publish(batch(2), [[(D, 2, *one)]])
    assert counts(db, len(KEYS)) == [1] * len(KEYS)
    committer.publish(batch(3), [[(D, 1, *one)]])
    assert counts(db, len(KEYS)) == [0] * len(KEYS)
    committer.close()


def test_values_that_are_equal_for_the_database_are_one_key(db):
    cases = [
        ("uuid", "STRING", "0c64d3f1-6d4a-4b0e-9d52-0242ac120002", "0C64D3F1-6D4A-4B0E-9D52-0242AC120002"),
        ("double precision", "DOUBLE", 0.0, -0.0),
        ("char(3)", "STRING", "a", "a  "),
        ("jsonb", "STRING", '{"a": 1}', '{"a":1}'),
    ]
    outputs = []
    for number, (found, logical, *_) in enumerate(cases):
        db.rows(f"CREATE TABLE t{number} (k{number} {found} PRIMARY KEY, x int)")
        outputs.append(keyed(db, f"x INT, k{number} {logical}", [f"k{number}"], f"t{number}"))
    one, other = zip(*(each[2:] for each in cases), strict=True)
    committer = opened_with(outputs)
    committer.publish(batch(0), [[(I, 1, *one), (A, 2, *other)], [(A, 3, *one)]])
    assert [db.rows(f"SELECT x FROM t{number}") for number in range(len(cases))] == [[(3,)]] * len(cases)
    committer.publish(batch(1), [[(D, 3, *other)]])
    assert counts(db, len(cases)) == [0] * len(cases)
    committer.close()


def test_a_key_that_is_all_of_the_row(db):
    db.rows('CREATE SCHEMA "Shop"')
    db.rows('CREATE TABLE "Shop"."T t" (a int, b int, UNIQUE (b, a))')
    committer = opened_with([keyed(db, "a INT, b INT", ["a", "b"], '"Shop"."T t"')])
    committer.publish(batch(0), [[(I, 1, 1), (I, 1, 2), (I, 1, 1), (I, 3, 3), (D, 3, 3)]])
    committer.publish(batch(1), [[(I, 1, 1), (D, 1, 2)]])
    assert db.rows('SELECT * FROM "Shop"."T t"') == [(1, 1)]


def test_a_row_may_get_the_unique_value_of_one_that_is_deleted(db):
    db.rows("CREATE TABLE t (id int PRIMARY KEY, email text UNIQUE)")
    committer = opened(db, "id INT, email STRING", ["id"])
    committer.publish(batch(0), [[(I, 1, "a@b")]])
    committer.publish(batch(1), [[(I, 2, "a@b"), (D, 1, "a@b")]])
    assert db.rows("SELECT * FROM t") == [(2, "a@b")]


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("CREATE TABLE t (id int, g int, x text)", "CREATE UNIQUE INDEX ON public.t"),
        ("CREATE TABLE t (id int PRIMARY KEY, g int UNIQUE, x text)", r"the key that the table has: \(id\) or \(g\)"),
        ("CREATE TABLE t (id int, g int, x text, UNIQUE (id, g) DEFERRABLE)", "no unique index"),
        ("CREATE TABLE t (id int, g int, x text); CREATE UNIQUE INDEX ON t (id, g) WHERE x > ''", "no unique index"),
        ("CREATE TABLE t (id int, g int, x text); CREATE UNIQUE INDEX ON t (id, abs(g))", "no unique index"),
        ("CREATE TABLE u (id int, g int, x text, UNIQUE (id, g)); CREATE VIEW t AS SELECT * FROM u", "no unique index"),
    ],
)
def test_a_table_without_the_key_is_refused_at_the_start(db, made, told):
    for each in made.split("; "):
        db.rows(each)
    with pytest.raises(SchemaError, match=told):
        opened(db, "id INT, g INT, x STRING", ["id", "g"])


def test_indexes_that_hold_the_key_do(db):
    db.rows("CREATE TABLE t (id int NOT NULL, g int NOT NULL, x text) PARTITION BY RANGE (id)")
    db.rows("CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (10)")
    db.rows("CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM (10) TO (20)")
    db.rows("CREATE UNIQUE INDEX ON t (g, id) INCLUDE (x)")
    committer = opened(db, "id INT, g INT, x STRING", ["id", "g"])
    committer.publish(batch(0), [[(I, 1, 1, "a"), (I, 11, 1, "b"), (I, 2, 1, "c")]])
    committer.publish(batch(1), [[(A, 1, 1, "d"), (D, 11, 1, "b")]])
    assert db.rows("SELECT * FROM t ORDER BY id") == [(1, 1, "d"), (2, 1, "c")]


def test_the_rights_are_looked_at_before_the_start(db):
    db.rows("CREATE TABLE t (id bigint PRIMARY KEY)")
    db.rows(f"CREATE ROLE {db.name} LOGIN PASSWORD 'so-secret'")
    db.rows(f"GRANT INSERT, SELECT, UPDATE ON t TO {db.name}")
    made = keyed(db, "id BIGINT", ["id"])
    address = replace(made.spec.address, username=db.name, password="so-secret")
    made = replace(made, spec=replace(made.spec, address=address))
    with pytest.raises(SchemaError, match=r"GRANT SELECT, INSERT, UPDATE, DELETE ON public.t"):
        made_committer(PostgresCommitter, [made], context(), copied).check()


# --- whole jobs ------------------------------------------------------------------------------------------------------

GIVEN = "id BIGINT, g STRING, v BIGINT, PRIMARY KEY (id) NOT ENFORCED"


@pytest.fixture
def run(tmp_path):
    """Runs the one job of some SQL to its end. Each run continues with the checkpoint of the one before."""

    def run(sql):
        settings = f"SET 'execution.checkpointing.dir' = '{tmp_path}'; SET 'pipeline.name' = 'job';\n"
        (job,) = parse_script(settings + sql).jobs
        running = engine.start(job)
        try:
            while not running.wait():
                pass
        finally:
            running.stop()
        return running.progress

    return run


def changes(count, keys, groups):
    """Random changes of a table, and the rows that they leave."""
    rng, now, made = random.Random(7), {}, []

    def change(kind, number, row):
        made.append(Row(number, *row))
        made[-1].set_row_kind(kind)

    while len(made) < count:
        number = rng.randrange(keys)
        new = (f"g{rng.randrange(groups)}", rng.randrange(10))
        if number not in now:
            change(I, number, new)
            now[number] = new
        elif rng.random() < 0.4:
            change(D, number, now.pop(number))
        else:
            change(B, number, now[number])
            change(A, number, new)
            now[number] = new
    return made, now


def given(rows, per_batch, columns=GIVEN):
    options = f"'connector' = 'values', 'data-id' = '{values.register(rows)}', 'changelog-mode' = 'I,UB,UA,D', "
    return f"CREATE TABLE given ({columns}) WITH ({options}'scan.max-records-per-trigger' = '{per_batch}');\n"


@pytest.mark.parametrize("guarantee", ["exactly-once", pytest.param("at-least-once", marks=pytest.mark.slow)])
def test_a_changelog_becomes_a_table(db, run, guarantee):
    rows, left = changes(400, 40, 5)
    db.rows("CREATE TABLE t (id bigint PRIMARY KEY, g text, v bigint)")
    db.rows("CREATE TABLE few (v bigint, id bigint PRIMARY KEY)")
    option = {"sink_delivery__guarantee": guarantee}
    sql = given(rows, 90) + db.table("t", GIVEN, **option)
    sql += db.table("few", "v BIGINT, id BIGINT, PRIMARY KEY (id) NOT ENFORCED", **option)
    sql += "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT * FROM given; "
    sql += "INSERT INTO few SELECT v, id FROM given WHERE v > 6; END;"
    assert run(sql).batches > 3
    assert db.rows("SELECT * FROM t ORDER BY id") == [(number, *row) for number, row in sorted(left.items())]
    few = [(v, number) for number, (_, v) in sorted(left.items()) if v > 6]
    assert db.rows("SELECT * FROM few ORDER BY id") == few
    assert db.staging() == []


@pytest.mark.slow
@pytest.mark.rule("state commits with the output")
@pytest.mark.rule("progress decides")
def test_tables_of_a_job_with_state_are_exact_whatever_fails_between_its_steps(db, run, monkeypatch):
    rows, left = changes(500, 60, 9)
    db.rows("CREATE SCHEMA shop")
    db.rows("CREATE TABLE shop.totals (g text PRIMARY KEY, n bigint, s bigint)")
    db.rows("CREATE TABLE best (r bigint, g text, id bigint, PRIMARY KEY (g, r))")
    db.rows("CREATE TABLE pairs (a bigint, b bigint, PRIMARY KEY (a, b))")
    db.rows("CREATE TABLE by_v (v bigint PRIMARY KEY, id bigint)")
    sql = given(rows, 100)
    sql += db.table("totals", "g STRING, n BIGINT, s BIGINT, PRIMARY KEY (g) NOT ENFORCED", "shop.totals")
    sql += db.table("best", "g STRING, r BIGINT, id BIGINT, PRIMARY KEY (g, r) NOT ENFORCED")
    sql += db.table("pairs", "a BIGINT, b BIGINT, PRIMARY KEY (a, b) NOT ENFORCED")
    sql += db.table("by_v", "v BIGINT, id BIGINT, PRIMARY KEY (v) NOT ENFORCED")
    sql += """EXECUTE STATEMENT SET BEGIN
        INSERT INTO totals SELECT g, COUNT(*), SUM(v) FROM given GROUP BY g HAVING COUNT(*) > 1;
        INSERT INTO best SELECT g, r, id FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v DESC, id) AS r FROM given) WHERE r <= 2;
        INSERT INTO pairs SELECT a.id, b.id FROM given AS a JOIN given AS b ON a.g = b.g AND a.v = b.v;
        INSERT INTO by_v SELECT v, id FROM given;
    END;"""
    publish, failed = PostgresCommitter.publish, []

    def fail_after_the_commit(self, batch, frame):
        done = publish(self, batch, frame)
        if batch.id in {1, 3} and batch.id not in failed:
            failed.append(batch.id)
            raise ExecutionError("after the commit")
        return done

    monkeypatch.setattr(PostgresCommitter, "publish", fail_after_the_commit)
    before_insertion_is_committed(monkeypatch, failures(1, lambda: DatabaseError("before the commit")))
    for told in ("before the commit", "after the commit", "after the commit"):
        with pytest.raises((DatabaseError, ExecutionError), match=told):
            run(sql)
    run(sql)
    assert failed == [1, 3]

    groups = {}
    for number, (g, v) in sorted(left.items()):
        groups.setdefault(g, []).append((-v, number))
    totals = [(g, len(each), -sum(v for v, _ in each)) for g, each in sorted(groups.items()) if len(each) > 1]
    assert db.rows("SELECT * FROM shop.totals ORDER BY g") == totals
    best = [(g, r, number) for g, each in groups.items() for r, (_, number) in enumerate(sorted(each)[:2], 1)]
    assert db.rows("SELECT g, r, id FROM best ORDER BY g, r") == sorted(best)
    pairs = [(a, b) for a, one in left.items() for b, other in left.items() if one == other]
    assert db.rows("SELECT a, b FROM pairs ORDER BY a, b") == sorted(pairs)
    by_v = db.rows("SELECT v, id FROM by_v ORDER BY v")
    assert [v for v, _ in by_v] == sorted({v for _, v in left.values()})
    assert all(left[number][1] == v for v, number in by_v)
    assert db.rows("SELECT job, batch_id FROM penstock_progress")[0][1] == 4
    assert db.staging() == []


@pytest.mark.slow
def test_null_in_a_key_stops_the_job_unless_such_rows_are_dropped(db, run):
    db.rows("CREATE TABLE t (g text PRIMARY KEY, id bigint)")
    sql = given([Row(1, "a", 1), Row(2, None, 2)], 10, "id BIGINT, g STRING, v BIGINT")
    sql += db.table("t", "g STRING, id BIGINT, PRIMARY KEY (g) NOT ENFORCED") + "INSERT INTO t SELECT g, id FROM given;"
    with pytest.raises(PenstockError, match=r"(?s)'g'.*NULL|NULL.*'g'"):
        run(sql)
    run("SET 'table.exec.sink.not-null-enforcer' = 'DROP';\n" + sql)
    assert db.rows("SELECT * FROM t") == [("a", 1)]


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
@pytest.mark.rule("source order is kept")
def test_the_last_change_of_a_key_wins_when_several_tasks_read_it(jobs, topics, topic, db, guarantee):
    """One partition of enough records is read by several tasks."""
    source, rounds, keys = topic(partitions=1), 300, 300
    topics.write(source, [{"id": key, "turn": turn} for turn in range(rounds) for key in range(keys)])
    db.rows("CREATE TABLE t (turn int, id bigint PRIMARY KEY)")
    sql = jobs.bounded("given", "id BIGINT, turn INT", source)
    sql += db.table("t", "turn INT, id BIGINT, PRIMARY KEY (id) NOT ENFORCED", sink_delivery__guarantee=guarantee)
    jobs.run(sql + "INSERT INTO t SELECT turn, id FROM given;")
    assert db.rows("SELECT turn, count(*) FROM t GROUP BY turn") == [(rounds - 1, keys)]


@pytest.mark.slow
@pytest.mark.rule("progress decides")
def test_change_data_and_upserts_of_topics_become_tables(jobs, topics, topic, db):
    """Without state; the last batch is replayed, because Spark did not log it, and changes nothing."""
    source, compacted = topic(partitions=1), topic(partitions=2)
    one, two, new = ({"id": number, "name": name} for number, name in ((1, "one"), (2, "two"), (1, "uno")))
    events = [("c", None, one), ("c", None, two), ("u", one, new), ("d", two, None)]
    topics.write(source, [{"op": op, "before": before, "after": after} for op, before, after in events])
    columns = "id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED"
    formats = {"connector": "upsert-kafka", "key_format": "json", "value_format": "json"}
    upserts = jobs.table("u", columns, compacted, **formats).replace("'format' = 'json', ", "")
    given_rows = [Row(7, "seven"), Row(8, "eight"), Row(8, None)]
    given_rows[2].set_row_kind(D)
    jobs.run(given(given_rows, 10, columns) + upserts + "INSERT INTO u SELECT * FROM given;", "make")
    sql = jobs.bounded("given", columns, source, format="debezium-json")
    sql += upserts.replace(") WITH (", ") WITH ('scan.bounded.mode' = 'latest-offset', ")
    for table in ("t", "copies"):
        db.rows(f"CREATE TABLE {table} (id bigint PRIMARY KEY, name text)")
        db.rows(f"INSERT INTO {table} VALUES (8, 'of before')")
        sql += db.table(table, columns)
    sql += "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT * FROM given; INSERT INTO copies SELECT * FROM u; END;"
    jobs.run(sql)
    assert db.rows("SELECT * FROM t ORDER BY id") == [(1, "uno"), (8, "of before")]
    assert db.rows("SELECT * FROM copies") == [(7, "seven")]
    assert not (jobs.checkpoint() / "state").exists()

    db.rows("UPDATE copies SET name = 'changed since'")
    forget_last_commit(jobs)
    assert jobs.run(sql).progress.records_out == 0
    assert db.rows("SELECT * FROM copies") == [(7, "changed since")]
