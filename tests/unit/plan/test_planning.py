"""What becomes of a plan before it runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import SchemaError, UnsupportedError
from penstock.plan.dead_letter_sinks import with_dead_letters
from penstock.plan.explain import explain
from penstock.plan.nodes import (
    DeadLetters,
    GroupAggregate,
    Job,
    Join,
    Materialize,
    Node,
    Normalize,
    Project,
    Scan,
    Sink,
    Stateful,
)
from penstock.plan.planning import plan_job
from penstock.plan.scalar_functions import is_deterministic
from penstock.plan.walk import fold, rewrite
from penstock.settings import Settings
from penstock.sql import parse_script

_KAFKA = "'properties.bootstrap.servers' = 'localhost:9092'"
JSON = f"'connector' = 'kafka', 'topic' = 'o', {_KAFKA}, 'format' = 'json'"
UPSERTS = f"'connector' = 'upsert-kafka', 'topic' = 'u', {_KAFKA}, 'key.format' = 'json', 'value.format' = 'json'"
CHANGES = f"'connector' = 'kafka', 'topic' = 'c', {_KAFKA}, 'format' = 'debezium-json'"
TABLES = f"""
CREATE TABLE orders (id INT, customer BIGINT, amount DECIMAL(10, 2), note STRING) WITH ({JSON});
CREATE TABLE users (id BIGINT, name STRING, city STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ({UPSERTS});
CREATE TABLE kept (id BIGINT, text STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ({UPSERTS});
CREATE TABLE pairs (a BIGINT, b STRING, n BIGINT, PRIMARY KEY (a, b) NOT ENFORCED) WITH ({UPSERTS});
CREATE TABLE changes (id BIGINT, text STRING) WITH ({CHANGES});
CREATE TABLE rows_only (id BIGINT, text STRING) WITH ({JSON});
"""


def job(*queries: str) -> Job:
    text = queries[0] if len(queries) == 1 else f"EXECUTE STATEMENT SET BEGIN {'; '.join(queries)}; END"
    return parse_script(TABLES + text).jobs[0]


def nodes(*roots: Node) -> list[Node]:
    """The nodes, each once, inputs first."""
    found: list[Node] = []
    fold(roots, lambda node, _: found.append(node))
    return found


def steps(*roots: Node) -> list[Node]:
    """The steps with state and the scans, each once, inputs first."""
    return [each for each in nodes(*roots) if isinstance(each, Stateful | Scan)]


def names(*roots: Node) -> list[str]:
    return [type(each).__name__ for each in steps(*roots)]


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO kept SELECT id, name FROM users",
        "INSERT INTO kept SELECT id, UPPER(name) || city FROM users WHERE id > 5",
        "INSERT INTO rows_only SELECT id, note FROM orders WHERE id > 5",
    ],
)
def test_upserts_go_to_a_table_of_the_same_key_as_they_are(query):
    made = job(query)

    assert plan_job(made) == made


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO kept SELECT id, name FROM users WHERE city = 'Rome'",  # a user who moves away is deleted
        "INSERT INTO changes SELECT id, name FROM users",
        "INSERT INTO changes SELECT COUNT(*), name FROM users GROUP BY name",
    ],
)
def test_upserts_become_changes_where_something_else_needs_them(query):
    found = plan_job(job(query)).sinks
    normalize = next(each for each in steps(*found) if isinstance(each, Normalize))

    assert normalize.keys == ("id",)
    assert normalize.schema.names == ("id", "name", "city")[: 3 if "city" in query else 2]


def test_each_sink_decides_for_itself():
    found = plan_job(
        job("INSERT INTO kept SELECT id, name FROM users", "INSERT INTO changes SELECT id, name FROM users")
    )

    assert names(found.sinks[0]) == ["Scan"]
    assert names(found.sinks[1]) == ["Scan", "Normalize"]


def test_the_changes_of_a_table_are_kept_once():
    found = plan_job(job("INSERT INTO changes SELECT a.id, b.name FROM users a JOIN users b ON a.name = b.city"))

    assert names(*found.sinks) == ["Scan", "Normalize", "Join"]


def test_equal_groups_of_two_sinks_are_one_and_others_are_not():
    count = "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer"
    sums = "SELECT customer, COUNT(*) AS n FROM orders WHERE id > 3 GROUP BY customer"
    found = plan_job(
        job(*(f"INSERT INTO changes SELECT customer, CAST(n AS STRING) FROM ({each})" for each in (count, count, sums)))
    )

    assert names(*found.sinks).count("GroupAggregate") == 2


def test_groups_of_chance_stay_apart():
    query = "INSERT INTO rows_only SELECT DISTINCT id, UUID() FROM orders"
    found = plan_job(job(query, query))

    assert names(*found.sinks).count("GroupAggregate") == 2


def test_joins_get_the_columns_that_somebody_reads():
    found = plan_job(
        job(
            "INSERT INTO changes SELECT o.id, name FROM orders o JOIN users u ON o.customer + 1 = u.id WHERE note > 'b'"
        )
    )
    join = next(each for each in steps(*found.sinks) if isinstance(each, Join))

    assert join.left.schema.names == ("id", "$customer + 1")
    assert join.right.schema.names == ("id", "name")
    assert join.schema.names == ("id", "$customer + 1", "id0", "name")


def test_aggregates_that_nobody_reads_are_not_computed():
    found = plan_job(
        job(
            "INSERT INTO changes SELECT customer, note FROM "
            "(SELECT customer, MAX(note) AS note, SUM(amount), COUNT(*) FROM orders GROUP BY customer)"
        )
    )
    group = next(each for each in steps(*found.sinks) if isinstance(each, GroupAggregate))

    assert [each.function for each in group.calls] == ["MAX"]
    assert group.input.schema.names == ("customer", "note")


def test_a_constant_is_left_where_nobody_reads_a_column():
    found = plan_job(
        job("INSERT INTO changes SELECT COUNT(*), 'all' FROM orders, (SELECT SUM(id), MAX(id) FROM orders) t")
    )
    join = next(each for each in steps(*found.sinks) if isinstance(each, Join))

    assert [str(each) for each in join.left.schema.fields] == ["`id` BOOLEAN NOT NULL"]
    assert [len(each.schema.names) for each in join.inputs] == [1, 1]


def test_what_is_computed_is_computed_once():
    found = plan_job(
        job(
            "INSERT INTO changes SELECT MIN(a), MAX(b || b) FROM "
            "(SELECT id + 1 AS a, UPPER(note) AS b, LOWER(note) AS c FROM orders) WHERE a > 3"
        )
    )
    group = next(each for each in steps(*found.sinks) if isinstance(each, GroupAggregate))
    assert group.input.schema.names == ("a", "$CONCAT(b, b)")
    assert isinstance(group.input, Project)
    below = group.input.input.inputs[0]
    assert below.schema.names == ("a", "b")


def test_steps_have_names_that_other_sinks_do_not_change():
    query = (
        "INSERT INTO changes SELECT customer, MAX(name) FROM orders JOIN users ON customer = users.id GROUP BY customer"
    )
    other = "INSERT INTO rows_only SELECT DISTINCT id, note FROM orders"
    (alone,) = plan_job(job(query)).sinks
    _, beside = plan_job(job(other, query)).sinks

    assert [each.uid for each in steps(alone) if isinstance(each, Stateful)] == [
        "changes(users)",
        "changes: join(orders, users)",
        "changes: group(orders, users)",
    ]
    assert beside == alone


def test_several_steps_of_a_kind_are_numbered_from_the_sink():
    first, second = (f"(SELECT {each}(id) AS id, MAX(note) AS note FROM orders)" for each in ("MIN", "MAX"))
    query = f"SELECT a.id, b.note FROM {first} a JOIN {second} b ON a.id = b.id"
    (sink,) = plan_job(job(f"INSERT INTO changes {query}")).sinks

    assert sorted(each.uid for each in steps(sink) if isinstance(each, Stateful)) == [
        "changes: group(orders)",
        "changes: group(orders) 2",
        "changes: join(orders)",
    ]


def _with_uid(found: Job, uid: str) -> Job:
    def change(node: Node) -> Node:
        return replace(node, uid=uid) if isinstance(node, GroupAggregate) else node

    return replace(found, sinks=rewrite(found.sinks, change))


def test_the_users_uid_wins_and_must_be_the_only_one():
    once = "INSERT INTO changes SELECT customer, MAX(note) FROM orders GROUP BY customer"
    found = plan_job(_with_uid(job(once), "totals"))
    assert [each.uid for each in steps(*found.sinks)] == ["", "totals"]

    twice = _with_uid(job(once, "INSERT INTO rows_only SELECT DISTINCT id, note FROM orders"), "totals")
    with pytest.raises(SchemaError, match="two steps have the uid 'totals'"):
        plan_job(twice)


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO changes SELECT o.id, name FROM orders o LEFT JOIN users u ON o.customer = u.id AND o.id > 3",
        "INSERT INTO kept SELECT id, MAX(name) FROM users WHERE city > 'b' GROUP BY id",
        "INSERT INTO changes SELECT id, name FROM users UNION SELECT id, note FROM orders",
    ],
)
def test_planning_again_changes_nothing(query):
    found = plan_job(job(query))

    assert plan_job(found) == found


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            "INSERT INTO rows_only SELECT customer, MAX(note) FROM orders GROUP BY customer",
            r"table 'rows_only': takes insertions only, and the query's aggregate changes rows that were given before "
            r"\(write it in a format for changes such as 'debezium-json', or to an 'upsert-kafka' table\)",
        ),
        (
            "INSERT INTO rows_only SELECT o.id, p.note FROM orders o LEFT JOIN orders p ON o.id = p.id",
            "takes insertions only, and the query's join changes rows",
        ),
        ("INSERT INTO rows_only SELECT id, name FROM users", "takes insertions only, and table 'users' gives updates"),
    ],
)
def test_a_sink_of_insertions_takes_no_changes(query, reason):
    with pytest.raises(SchemaError, match=reason):
        plan_job(job(query))


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO kept SELECT COUNT(*), note FROM orders GROUP BY note",
        "INSERT INTO kept SELECT o.id, u.name FROM orders o LEFT JOIN users u ON o.customer = u.id",
    ],
)
def test_a_table_of_upserts_gets_the_last_row_of_each_key(query):
    made = plan_job(job(query))
    (sink,) = made.sinks

    assert isinstance(sink.input, Materialize)
    assert sink.input.uid == "kept: last rows(orders, users)" if "users" in query else "kept: last rows(orders)"
    assert plan_job(made) == made
    never = replace(job(query), settings=Settings(upsert_materialize="NONE"))
    assert not isinstance(plan_job(never).sinks[0].input, Materialize)


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO kept SELECT customer, MAX(note) FROM orders GROUP BY customer",
        "INSERT INTO kept SELECT COUNT(*), 'all' FROM orders",  # a table of one row
        "INSERT INTO pairs SELECT customer, note, COUNT(*) FROM orders GROUP BY customer, note",
        "INSERT INTO pairs SELECT customer, MAX(note), COUNT(*) FROM orders GROUP BY customer",
        "INSERT INTO kept SELECT u.id, n FROM users u LEFT JOIN "
        "(SELECT customer, MAX(note) AS n FROM orders GROUP BY customer) o ON u.id = o.customer",
        "INSERT INTO kept SELECT id, note FROM orders",  # nothing is taken back
    ],
)
def test_rows_with_the_key_of_their_table_are_taken(query):
    assert not isinstance(plan_job(job(query)).sinks[0].input, Materialize)
    always = replace(job(query), settings=Settings(upsert_materialize="FORCE"))
    assert isinstance(plan_job(always).sinks[0].input, Materialize)


def test_a_row_that_is_taken_back_has_the_same_values():
    query = "INSERT INTO changes SELECT MAX(id), k FROM (SELECT id, CAST(NOW() AS STRING) AS k FROM users) GROUP BY k"
    reason = (
        r"line 8, column 61: CAST\(CURRENT_TIMESTAMP\(\) AS STRING\) has another value when its row is retracted "
        r"\(compute it in the last SELECT"
    )
    with pytest.raises(UnsupportedError, match=reason):
        plan_job(job(query))

    plan_job(job(query.replace("users", "orders")))  # whose rows are never taken back
    plan_job(job(query.replace("CAST(NOW() AS STRING)", "UUID()")))  # which is kept
    plan_job(job("INSERT INTO changes SELECT MAX(id), UUID() FROM users"))


def test_dead_letters_of_a_job_with_state_come_from_the_scan():
    letters = "'format' = 'json', 'scan.dead-letter.topic' = 'bad'"
    text = TABLES.replace("'topic' = 'o', " + _KAFKA + ", 'format' = 'json'", f"'topic' = 'o', {_KAFKA}, {letters}", 1)
    text += "INSERT INTO changes SELECT o.id, name FROM orders o JOIN users ON customer = users.id"
    (_, dead) = with_dead_letters(plan_job(parse_script(text).jobs[0])).sinks

    assert isinstance(dead.input, DeadLetters)
    assert isinstance(dead.input.input, Scan)


def test_the_plan_says_what_is_kept_and_where_rows_go():
    pairs = "SELECT u.id, note FROM orders JOIN users u ON customer = u.id"
    query = f"INSERT INTO kept SELECT id, MAX(note) FROM ({pairs}) GROUP BY id"
    lines = [line.strip() for line in explain(plan_job(job(query))).splitlines()]

    start = lines.index("group by `id`")
    assert lines[start : start + 5] == [
        "group by `id`",
        "`$MAX(note)` = MAX(`note`)",
        "keeps each group, as 'kept: group(orders, users)'",
        "takes rows by the hash of `id`",
        "gives +I, -U, +U, -D",
    ]
    start = lines.index("inner join on `customer` = `id`")
    assert lines[start + 1 : start + 4] == [
        "keeps the rows of both tables, as 'kept: join(orders, users)'",
        "never forgets them",
        "takes rows by the hash of `customer` and of `id`",
    ]
    assert "keeps the last row of each key, as 'changes(users)'" in lines


def test_sinks_without_state_stay_what_they_are():
    made = job(
        "INSERT INTO rows_only SELECT id, note FROM (SELECT id, note, amount FROM orders WHERE amount > 3)",
        "INSERT INTO changes SELECT id, MAX(note) FROM orders GROUP BY id",
    )
    first, second = plan_job(made).sinks

    assert first is made.sinks[0]
    assert isinstance(second, Sink)
    assert steps(first, second)[0] == steps(first)[0]


@pytest.mark.parametrize(
    "rest",
    [
        "FROM (SELECT *, UUID() AS x FROM orders) AS o LEFT JOIN users AS u ON o.customer = u.id AND u.id > o.id",
        "FROM (SELECT *, UUID() AS x FROM orders) AS o FULL JOIN users AS u ON o.customer = u.id AND u.id > o.id",
        "FROM (SELECT *, UUID() AS x FROM orders) AS o WHERE EXISTS (SELECT 1 FROM users AS u WHERE u.id > o.id)",
        "FROM (SELECT *, UUID() AS x FROM orders) AS o WHERE customer NOT IN (SELECT id FROM users WHERE id > o.id)",
    ],
)
def test_a_column_with_other_values_each_time_is_refused_only_where_it_is_read(rest):
    (sink,) = plan_job(job(f"INSERT INTO changes SELECT o.id, o.note {rest}")).sinks
    assert not [each for node in nodes(sink) for each in node.expressions if not is_deterministic(each)]

    read = job(f"INSERT INTO changes SELECT o.id, o.x {rest}")
    with pytest.raises(UnsupportedError, match=r"line \d+, column \d+: .* \(do not select 'x'"):
        plan_job(read)
