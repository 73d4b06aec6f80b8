"""Jobs with state whose tables are in several systems: which of them get which attempt at a batch."""

from __future__ import annotations

import json
import shutil

import pytest

from penstock.engine.checkpoint import read_location
from penstock.engine.checkpoint.committed import read_state
from penstock.errors import CheckpointError, DatabaseError, PossibleDataLossError
from tests.spark.failpoints import before_commit, before_insertion_is_committed, failures

ORDERS = "id BIGINT, customer STRING, amount BIGINT"
TOTALS = "customer STRING, n BIGINT, s BIGINT, PRIMARY KEY (customer) NOT ENFORCED"
#: Rows that are only added: each order with its note.
NOTED = "INSERT INTO noted SELECT o.id, n.note FROM orders AS o JOIN notes AS n ON o.id = n.id;\n"
COUNTED = "INSERT INTO totals SELECT customer, COUNT(*), SUM(amount) FROM orders GROUP BY customer;\n"
COUNT = 240

pytestmark = pytest.mark.slow  # a broker, a PostgreSQL and Spark, each job started several times


@pytest.fixture
def db(db):
    """A new database with the table of noted orders."""
    db.rows("CREATE TABLE noted (id bigint, note text)")
    return db


def order(number):
    return {"id": number, "customer": f"c{number % 7}", "amount": number % 11}


@pytest.fixture
def sources(jobs, topics, topic):
    """The tables of orders and notes, a quarter of which a batch reads."""
    orders, notes = topic(), topic()
    topics.write(orders, [order(number) for number in range(COUNT)])
    topics.write(notes, [{"id": number, "note": f"n{number}"} for number in range(0, COUNT, 2)])
    limit = {"scan_max__records__per__trigger": str(COUNT // 4)}
    return jobs.bounded("orders", ORDERS, orders, **limit) + jobs.bounded("notes", "id BIGINT, note STRING", notes)


def totals_table(jobs, target):
    options = {
        "connector": "upsert-kafka",
        "topic": target,
        "properties.bootstrap.servers": jobs.bootstrap,
        "key.format": "json",
        "value.format": "json",
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": "totals",
    }
    clause = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return f"CREATE TABLE totals ({TOTALS}) WITH ({clause});\n"


def totals(topics, target):
    found = {json.loads(each.key)["customer"]: each.json for each in topics.read(target)}
    return {name: (row["n"], row["s"]) for name, row in found.items()}


def expected(count=COUNT):
    of = [[order(number) for number in range(count) if number % 7 == rest] for rest in range(7)]
    return {f"c{rest}": (len(mine), sum(each["amount"] for each in mine)) for rest, mine in enumerate(of)}


def noted(db):
    return db.rows("SELECT id, note FROM noted ORDER BY id")


@pytest.mark.rule("the first commit binds the attempt")
def test_a_batch_that_only_postgres_has_is_finished_with_the_output_that_was_kept(
    jobs, topics, topic, sources, db, monkeypatch
):
    target = topic(partitions=2)
    sql = sources + totals_table(jobs, target)
    sql += db.table("noted", "id BIGINT, note STRING", sink_delivery__guarantee="exactly-once")
    sql += f"EXECUTE STATEMENT SET BEGIN\n{COUNTED}{NOTED}END;\n"
    # Kafka comes last, with the offsets of the group.
    before_commit(monkeypatch, failures(1, lambda: DatabaseError("stopped before the commit")))
    with pytest.raises(DatabaseError, match="before the commit"):
        jobs.run(sql)
    first = noted(db)
    assert first, "PostgreSQL has the first batch"
    assert topics.read(target) == []
    state = jobs.checkpoint() / "state"
    (output,) = state.glob("000000000-*.output")

    shutil.move(output, jobs.folder / "away")
    with pytest.raises(CheckpointError, match=rf"'{output.name}'.*is missing"):
        jobs.run(sql)
    assert noted(db) == first
    assert topics.read(target) == []
    shutil.move(jobs.folder / "away", output)

    repeating = sql.replace("exactly-once', 'sink.transactional-id-prefix' = 'totals", "at-least-once")
    assert repeating != sql
    with pytest.raises(
        CheckpointError, match=r"upsert-kafka 'totals' .*may lack it.*Start the job once with its former"
    ):
        jobs.run(repeating)
    assert topics.read(target) == []

    jobs.run(sql)
    assert totals(topics, target) == expected()
    assert noted(db) == [(number, f"n{number}") for number in range(0, COUNT, 2)]
    assert len(list(state.glob("*.output"))) == 0
    ((last,),) = db.rows("SELECT state FROM penstock_progress")
    assert (state / last.partition("#")[0]).exists()


@pytest.mark.rule("state commits with the output")
def test_a_batch_that_postgres_rolls_back_changes_no_state(jobs, sources, db, monkeypatch):
    sql = sources + db.table("noted", "id BIGINT, note STRING", sink_delivery__guarantee="exactly-once") + NOTED
    before_insertion_is_committed(monkeypatch, failures(1, lambda: DatabaseError("the database says no")))
    with pytest.raises(DatabaseError, match="says no"):
        jobs.run(sql)
    assert noted(db) == []
    jobs.run(sql)
    assert noted(db) == [(number, f"n{number}") for number in range(0, COUNT, 2)]


@pytest.mark.rule("the first commit binds the attempt")
def test_tables_that_repeat_rows_miss_none_beside_one_that_is_exactly_once(
    jobs, topics, topic, sources, db, monkeypatch
):
    target = topic()
    sql = sources + totals_table(jobs, target)
    sql += db.table("noted", "id BIGINT, note STRING", sink_delivery__guarantee="at-least-once")
    sql += f"EXECUTE STATEMENT SET BEGIN\n{COUNTED}{NOTED}END;\n"
    before_commit(monkeypatch, failures(1, lambda: DatabaseError("stopped before the commit")))
    with pytest.raises(DatabaseError, match="before the commit"):
        jobs.run(sql)
    first = noted(db)
    assert first, "it comes before the first commit"
    jobs.run(sql)
    assert totals(topics, target) == expected()
    rows = noted(db)
    assert sorted(set(rows)) == [(number, f"n{number}") for number in range(0, COUNT, 2)]
    assert len(rows) == COUNT // 2 + len(first), "the batch that was not committed is repeated"


@pytest.mark.rule("the first commit binds the attempt")
def test_the_checkpoint_refers_to_the_attempt_that_a_target_has_committed(jobs, topics, topic, db):
    """A batch is written at least once, and once more when the table is exactly-once, before Spark logs it as done."""
    source = topic()
    sql = "SET 'penstock.available-now' = 'true';\n"
    sql += jobs.table("orders", ORDERS, source, scan_startup_mode="earliest-offset")
    once, repeating = (
        sql
        + db.table("noted", "id BIGINT, note STRING", sink_delivery__guarantee=guarantee)
        + "INSERT INTO noted SELECT DISTINCT id, customer FROM orders;"
        for guarantee in ("exactly-once", "at-least-once")
    )
    topics.write(source, [order(number) for number in range(20)])
    jobs.run(once)
    topics.write(source, [order(number) for number in range(20, 40)])
    jobs.run(repeating)
    (jobs.checkpoint() / "commits" / "1").unlink()
    place = read_location(str(jobs.checkpoint()))
    before = read_state(place)
    jobs.run(once)
    assert noted(db) == sorted((number, f"c{number % 7}") for number in (*range(20), *range(20, 40), *range(20, 40)))
    after = read_state(place)
    assert db.rows("SELECT state FROM penstock_progress") == [(after["state"],)]
    assert (before["batch"], after["batch"]) == (1, 1)
    assert before["state"] != after["state"]


@pytest.mark.rule("state commits with the output")
def test_a_table_that_was_left_out_for_a_while_comes_back_when_progress_is_adopted(jobs, topics, topic, db):
    source, target = topic(), topic(partitions=2)
    limits = {"scan_startup_mode": "earliest-offset", "scan_max__records__per__trigger": "20"}
    sql = "SET 'penstock.available-now' = 'true';\n" + jobs.table("orders", ORDERS, source, **limits)
    alone = sql + totals_table(jobs, target) + COUNTED
    both = sql + totals_table(jobs, target)
    both += db.table("noted", "id BIGINT, note STRING", sink_delivery__guarantee="exactly-once")
    both += f"EXECUTE STATEMENT SET BEGIN\n{COUNTED}INSERT INTO noted SELECT id, customer FROM orders;\nEND;\n"

    def run(definition, numbers):
        topics.write(source, [order(number) for number in numbers])
        jobs.run(definition)

    run(both, range(20))
    run(alone, range(20, 100))
    ((old,),) = db.rows("SELECT state FROM penstock_progress")
    assert not (jobs.checkpoint() / "state" / old.partition("#")[0]).exists()
    with pytest.raises(PossibleDataLossError, match=r"ran without this sink.*--adopt-progress"):
        run(both, range(100, 120))
    run("SET 'penstock.adopt-progress' = 'true';\n" + both, [])
    assert totals(topics, target) == expected(120)
    assert noted(db) == [(number, f"c{number % 7}") for number in (*range(20), *range(100, 120))]


def test_a_job_whose_only_step_kept_nothing_may_go_on_without_it(jobs, topics, topic, db):
    source, target = topic(), topic()
    sql = "SET 'penstock.available-now' = 'true';\n"
    sql += jobs.table("orders", ORDERS, source, scan_startup_mode="earliest-offset")
    exactly_once = {"sink_delivery__guarantee": "exactly-once"}
    sql += jobs.table("copies", "id BIGINT, note STRING", target, sink_transactional__id__prefix="p", **exactly_once)
    sql += db.table("noted", "id BIGINT, note STRING", **exactly_once)
    unnested = "SELECT id, t.note FROM orders CROSS JOIN UNNEST(ARRAY['a', 'b']) AS t (note)"
    for number, query in enumerate([unnested, "SELECT id, 'c' FROM orders", unnested]):
        topics.write(source, [order(number)])
        jobs.run(f"{sql}EXECUTE STATEMENT SET BEGIN INSERT INTO copies {query}; INSERT INTO noted {query}; END;")
    assert noted(db) == [(0, "a"), (0, "b"), (1, "c"), (2, "a"), (2, "b")]
    assert sorted((each.json["id"], each.json["note"]) for each in topics.read(target)) == noted(db)
