"""Queries in expressions that read columns of the outer query, and IN with rows, from SQL to rows: however the
changes of the tables are cut into batches, SQLite gives the same rows for the tables that they end with."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from typing import Any

import pytest

from tests.programs import Way, outcome

COLUMNS = ["k INT", "v STRING", "n BIGINT NOT NULL"]
_IS_IN = "CASE WHEN {0} THEN 1 WHEN NOT ({0}) THEN 2 ELSE 3 END"
#: Each gives columns k and n.
QUERIES = [
    # rows of values
    "SELECT k, n FROM t WHERE (k, v) IN (SELECT k, v FROM o)",
    "SELECT k, n FROM t WHERE (k, v) NOT IN (SELECT k, v FROM o WHERE n > 1)",
    "SELECT k, n FROM t WHERE (n, v) NOT IN (SELECT n, v FROM u)",
    "SELECT k, n FROM t WHERE (k, n, v) NOT IN (SELECT k, n, v FROM o WHERE o.n = t.n)",
    f"SELECT k, {_IS_IN.format('(k, v) IN (SELECT k, v FROM o WHERE o.n > t.n)')} AS n FROM t",
    f"SELECT k, {_IS_IN.format('(n, k) NOT IN (SELECT n, k FROM u)')} AS n FROM t",
    # a query in a query
    "SELECT k, n FROM t WHERE k IN (SELECT k FROM o WHERE n IN (SELECT n FROM u) AND o.v = t.v)",
    "SELECT k, n FROM t WHERE EXISTS (SELECT 1 FROM o WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = o.k) AND n < t.n)",
    "SELECT k, n FROM t WHERE k IN (SELECT k FROM o WHERE n >= (SELECT SUM(n) FROM u WHERE u.k = o.k) AND o.v = t.v)",
    "SELECT k, n FROM t WHERE k IN (SELECT k FROM o WHERE n IN (SELECT n FROM u WHERE u.v = t.v) AND o.n <> t.n)",
    "SELECT k, n FROM t WHERE EXISTS (SELECT 1 FROM o WHERE k = t.k AND NOT EXISTS (SELECT 1 FROM u WHERE u.n > t.n))",
    "SELECT k, n FROM t WHERE k IN (SELECT k FROM o WHERE n < (SELECT SUM(n) FROM u WHERE u.k = o.k AND u.v <> t.v))",
    "SELECT k, n FROM t WHERE k IN (SELECT k FROM o WHERE t.n NOT IN (SELECT n FROM u WHERE u.k = o.k))",
    "SELECT k, (SELECT COUNT(*) FROM o WHERE o.v = t.v AND EXISTS (SELECT 1 FROM u WHERE u.n = t.n)) AS n FROM t",
    # groups
    "SELECT k, n FROM t WHERE n IN (SELECT MAX(n) FROM o WHERE o.v = t.v GROUP BY o.v)",
    "SELECT k, n FROM t WHERE (SELECT MAX(n) > 1 FROM o WHERE o.k = t.k GROUP BY o.k)",
    "SELECT k, n FROM t WHERE NOT (SELECT MAX(n) > t.n FROM o WHERE o.k = t.k GROUP BY o.k) AND k > 0",
    "SELECT k, n FROM t WHERE (SELECT MAX(n) > 2 FROM o)",
    "SELECT k, n FROM t WHERE k IN (SELECT k FROM o WHERE o.v = t.v ORDER BY n)",
    "SELECT k, n FROM t WHERE n IN (SELECT COUNT(*) FROM o WHERE o.v = t.v GROUP BY o.k HAVING COUNT(*) > 1)",
    "SELECT k, n FROM t WHERE n IN (SELECT COUNT(*) FROM o WHERE o.k = t.k)",
    "SELECT k, n FROM t WHERE n NOT IN (SELECT MAX(n) FROM o WHERE o.k = t.k)",
    "SELECT k, n FROM t WHERE EXISTS (SELECT MAX(n) FROM o WHERE o.k = t.k) AND n > 1",
    "SELECT k, n FROM t WHERE NOT EXISTS (SELECT DISTINCT v FROM o WHERE o.n > t.n + 1)",
    "SELECT k, n FROM t WHERE k IN (SELECT DISTINCT k FROM o WHERE o.v = t.v)",
    # FROM and WITH
    "SELECT k, n FROM t WHERE EXISTS (SELECT 1 FROM (SELECT k, n + 1 AS m FROM o WHERE o.v = t.v) AS q WHERE m > 2)",
    "SELECT k, n FROM t WHERE k IN (WITH q AS (SELECT * FROM o) SELECT k FROM q WHERE q.v = t.v)",
    "SELECT k, n FROM t WHERE k IN (SELECT x.k FROM u AS x LEFT JOIN o AS y ON x.n = y.n WHERE y.v = t.v OR x.n = t.n)",
    "SELECT k, n FROM t WHERE k NOT IN (SELECT x.k FROM u AS x, (SELECT n FROM o WHERE v = t.v) AS y WHERE x.n = y.n)",
    # in any expression
    "SELECT k, n FROM t WHERE k IN (SELECT k FROM o WHERE o.v = t.v) OR n IN (SELECT n FROM u WHERE u.k = t.k)",
    "SELECT k, n FROM t WHERE NOT (EXISTS (SELECT 1 FROM o WHERE o.n > t.n) OR v = 'a')",
    f"SELECT k, {_IS_IN.format('k IN (SELECT k FROM o WHERE o.v = t.v)')} AS n FROM t",
    f"SELECT k, {_IS_IN.format('k IN (SELECT n FROM o WHERE o.n <> t.n)')} AS n FROM t",
    f"SELECT k, {_IS_IN.format('n IN (SELECT t.n FROM o WHERE o.v = t.v)')} AS n FROM t",
    # values
    "SELECT k, (SELECT COUNT(*) FROM o WHERE o.k = t.k) AS n FROM t",
    "SELECT k, (SELECT COALESCE(SUM(n), -1) + COUNT(v) FROM o WHERE o.k = t.k AND o.v = t.v) AS n FROM t",
    "SELECT k, n FROM t WHERE 2 * n > (SELECT SUM(n) FROM o WHERE o.k = t.k)",
    "SELECT k, n FROM t WHERE n = (SELECT DISTINCT u.n FROM u WHERE u.n = t.n AND t.v = 'a')",
    "SELECT k, SUM(n + (SELECT COUNT(*) FROM o WHERE o.v = t.v)) AS n FROM t GROUP BY k",
    "SELECT k, (SELECT COUNT(*) FROM o WHERE o.n > t.n) AS n FROM t",
    "SELECT k, (SELECT SUM(o.n) FROM o WHERE o.v = t.v AND o.n >= t.n) AS n FROM t",
    "SELECT k, (SELECT MAX(o.n + t.k) FROM o WHERE o.v = t.v) AS n FROM t",
    "SELECT k, (SELECT COUNT(*) FROM o WHERE o.k = t.k OR o.v IS NULL AND t.v IS NULL) AS n FROM t",
    "SELECT k, (SELECT DISTINCT u.n + t.n FROM u WHERE u.n = t.n AND u.n < t.k + 3) AS n FROM t",
    "SELECT k, (SELECT DISTINCT COALESCE(t.k, 9) FROM u WHERE u.n = t.n) AS n FROM t",
    "SELECT k, n FROM t WHERE n IN (SELECT MAX(n) FROM o WHERE o.n < t.n + 1 GROUP BY o.v)",
    "SELECT k, n FROM t WHERE n NOT IN (SELECT COUNT(*) FROM o WHERE o.v <> t.v) AND v IS NOT NULL",
    "SELECT k, n FROM t WHERE EXISTS (SELECT o.v FROM o WHERE o.n > t.n GROUP BY o.v HAVING COUNT(*) > 1)",
    "SELECT k, SUM(n) AS n FROM t GROUP BY k HAVING SUM(n) >= (SELECT MIN(n) FROM o WHERE o.k < t.k)",
    "SELECT k, SUM(n) AS n FROM t GROUP BY k HAVING SUM(n) > (SELECT MAX(n) FROM o WHERE o.k = t.k)",
    "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING EXISTS (SELECT 1 FROM o WHERE o.n > t.k)",
    # the first rows
    "SELECT k, (SELECT n FROM o WHERE o.k = t.k ORDER BY n DESC LIMIT 1) AS n FROM t",
    "SELECT k, (SELECT n FROM o WHERE o.n >= t.n ORDER BY n LIMIT 1 OFFSET 1) AS n FROM t",
    "SELECT k, n FROM t WHERE k IN (SELECT k FROM o WHERE o.v = t.v ORDER BY n, k LIMIT 2)",
    "SELECT k, n FROM t WHERE EXISTS (SELECT 1 FROM o WHERE o.k = t.k LIMIT 1 OFFSET 1)",
    "SELECT k, n FROM t WHERE NOT EXISTS (SELECT 1 FROM o WHERE o.k = t.k LIMIT 2)",
    "SELECT k, (SELECT MAX(n) FROM o WHERE o.k = t.k LIMIT 1) AS n FROM t",
    "SELECT k, (SELECT SUM(n) FROM (SELECT n FROM o WHERE o.k = t.k ORDER BY n LIMIT 2) AS q) AS n FROM t",
    # HAVING of all rows
    "SELECT k, (SELECT COUNT(*) FROM o WHERE o.k = t.k HAVING COUNT(*) > 1) AS n FROM t",
    "SELECT k, (SELECT COUNT(*) FROM o WHERE o.k = t.k HAVING COUNT(*) = 0) AS n FROM t",
    "SELECT k, n FROM t WHERE EXISTS (SELECT MAX(n) FROM o WHERE o.n > t.n HAVING COUNT(*) < 2)",
    "SELECT k, n FROM t WHERE n NOT IN (SELECT MAX(n) FROM o WHERE o.v = t.v HAVING COUNT(*) > 1)",
    "SELECT k, (SELECT MAX(n) + t.n FROM o WHERE o.k = t.k HAVING MIN(n) < 3) AS n FROM t",
    # an aggregate of all rows beside an outer column, and in FROM
    "SELECT k, (SELECT COUNT(*) + t.n FROM o WHERE o.k = t.k) AS n FROM t",
    "SELECT k, (SELECT m + 1 FROM (SELECT MAX(n) AS m FROM o WHERE o.k = t.k) AS q) AS n FROM t",
    "SELECT k, (SELECT m + 1 FROM (SELECT COUNT(*) AS m FROM o WHERE o.v = t.v AND o.n > t.n) AS q) AS n FROM t",
    "SELECT k, n FROM t WHERE EXISTS (SELECT 1 FROM (SELECT COUNT(*) AS m FROM o WHERE o.k = t.k) AS q WHERE m = 0)",
    "SELECT k, n FROM t WHERE n > (SELECT AVG(m) FROM (SELECT MIN(n) AS m FROM o WHERE o.k = t.k) AS q, u "
    "WHERE u.v = t.v)",
    "SELECT k, n FROM t WHERE n IN (SELECT m FROM (SELECT COUNT(*) AS m FROM o WHERE o.k = t.k) AS q WHERE m <> t.k)",
    # the optional side of a join
    "SELECT k, (SELECT COUNT(y.n) FROM u AS x LEFT JOIN (SELECT k, n FROM o WHERE o.v = t.v) AS y ON x.k = y.k) AS n "
    "FROM t",
    "SELECT k, (SELECT COUNT(*) - COUNT(y.n) FROM u AS x LEFT JOIN (SELECT n FROM o WHERE o.k = t.k) AS y "
    "ON x.n = y.n) AS n FROM t",
    "SELECT k, n FROM t WHERE k IN (SELECT y.k FROM (SELECT k, n FROM o WHERE o.v = t.v) AS x RIGHT JOIN u AS y "
    "ON x.n = y.n WHERE x.k IS NULL)",
    "SELECT k, (SELECT COUNT(*) FROM (SELECT n FROM o WHERE o.k = t.k) AS x FULL JOIN (SELECT n FROM u "
    "WHERE u.v = t.v) AS y ON x.n = y.n) AS n FROM t",
    # beside a column that changes with each reading, which nobody reads
    "SELECT k, n FROM (SELECT k, n, RAND() AS r FROM t) AS t WHERE n <= (SELECT MAX(n) FROM o WHERE o.k > t.k)",
]  # fmt: skip


#: Queries that SQLite does not take, and others that give the same rows.
OTHERS = {
    "SELECT k, (SELECT MAX(n) FROM o WHERE o.k = t.k GROUP BY t.v) AS n FROM t": (
        "SELECT k, (SELECT MAX(n) FROM o WHERE o.k = t.k) AS n FROM t"
    ),
    "SELECT k, (SELECT COUNT(*) FROM o GROUP BY t.k HAVING COUNT(*) > 1) AS n FROM t": (
        "SELECT k, (SELECT COUNT(*) FROM o) AS n FROM t"
    ),
    "SELECT k, (SELECT COUNT(*) FROM o WHERE o.k = t.k GROUP BY t.n) AS n FROM t": (
        "SELECT k, (SELECT COUNT(*) FROM o WHERE o.k = t.k HAVING COUNT(*) > 0) AS n FROM t"
    ),
    "SELECT k, n FROM t WHERE n IN (SELECT COUNT(*) FROM o WHERE o.v = t.v GROUP BY o.k + t.k)": (
        "SELECT k, n FROM t WHERE n IN (SELECT COUNT(*) FROM (SELECT o.k + t.k AS s FROM o WHERE o.v = t.v) GROUP BY s)"
    ),
    "SELECT k, n FROM t WHERE EXISTS (SELECT MAX(n) FROM o WHERE o.n > t.n GROUP BY t.k, o.v HAVING COUNT(*) > 1)": (
        "SELECT k, n FROM t WHERE EXISTS (SELECT 1 FROM o WHERE o.n > t.n GROUP BY o.v HAVING COUNT(*) > 1)"
    ),
    "SELECT t.k, l.n FROM t, LATERAL (SELECT n FROM o WHERE o.k = t.k) AS l": (
        "SELECT t.k, o.n FROM t JOIN o ON o.k = t.k"
    ),
    "SELECT t.k, l.n FROM t LEFT JOIN LATERAL (SELECT n FROM o WHERE o.k = t.k AND o.n > t.n) AS l ON TRUE": (
        "SELECT t.k, o.n FROM t LEFT JOIN o ON o.k = t.k AND o.n > t.n"
    ),
    "SELECT t.k, l.n FROM t LEFT JOIN LATERAL (SELECT n, v FROM o WHERE o.k = t.k) AS l ON l.v = t.v": (
        "SELECT t.k, o.n FROM t LEFT JOIN o ON o.k = t.k AND o.v = t.v"
    ),
    "SELECT t.k, l.n FROM t CROSS JOIN LATERAL (SELECT COUNT(*) AS n FROM o WHERE o.k = t.k) AS l": (
        "SELECT t.k, (SELECT COUNT(*) FROM o WHERE o.k = t.k) FROM t"
    ),
    "SELECT t.k, l.n FROM t LEFT JOIN LATERAL (SELECT SUM(n) AS n FROM o WHERE o.n > t.n) AS l ON l.n > 3": (
        "SELECT t.k, (SELECT SUM(n) FROM o WHERE o.n > t.n HAVING SUM(n) > 3) FROM t"
    ),
    "SELECT t.k, l.n FROM t, LATERAL (SELECT n FROM o WHERE o.k = t.k ORDER BY n DESC LIMIT 1) AS l": (
        "SELECT t.k, MAX(o.n) FROM (SELECT ROW_NUMBER() OVER () AS r, k FROM t) AS t JOIN o ON o.k = t.k GROUP BY t.r"
    ),
    "SELECT t.k, l.n FROM t, LATERAL (SELECT t.n + o.n AS n FROM o WHERE o.k > t.k) AS l": (
        "SELECT t.k, t.n + o.n FROM t JOIN o ON o.k > t.k"
    ),
    "SELECT t.k, l.n FROM t, LATERAL (SELECT t.n + 1 AS n) AS l WHERE l.n > 2": "SELECT k, n + 1 FROM t WHERE n > 1",
    "SELECT t.k, m.n FROM t, LATERAL (SELECT n FROM o WHERE o.k = t.k) AS l, LATERAL (SELECT u.n FROM u "
    "WHERE u.n > l.n AND u.v = t.v) AS m": (
        "SELECT t.k, u.n FROM t JOIN o ON o.k = t.k JOIN u ON u.n > o.n AND u.v = t.v"
    ),
    "SELECT t.k, l.n FROM t, LATERAL (SELECT n FROM o WHERE o.k = t.k AND EXISTS (SELECT 1 FROM u WHERE u.n = o.n AND "
    "u.v = t.v)) AS l": (
        "SELECT t.k, o.n FROM t JOIN o ON o.k = t.k WHERE EXISTS (SELECT 1 FROM u WHERE u.n = o.n AND u.v = t.v)"
    ),
    "SELECT t.k, l.n FROM t, LATERAL (SELECT DISTINCT n FROM o WHERE o.k = t.k) AS l": (
        "SELECT t.k, o.n FROM t JOIN (SELECT DISTINCT k, n FROM o) AS o ON o.k = t.k"
    ),
    "SELECT k, n FROM t WHERE n IN (SELECT l.n FROM u, LATERAL (SELECT n FROM o WHERE o.k = u.k) AS l "
    "WHERE u.v = t.v)": ("SELECT k, n FROM t WHERE n IN (SELECT o.n FROM u JOIN o ON o.k = u.k WHERE u.v = t.v)"),
    "SELECT t.k, l.n FROM t JOIN LATERAL (SELECT n FROM o) AS l ON l.n = t.n": (
        "SELECT t.k, o.n FROM t JOIN o ON o.n = t.n"
    ),
}


@pytest.mark.parametrize(
    "way",
    [Way(20, 2, restart=True), pytest.param(Way(3, 3, restart=True), marks=pytest.mark.slow)],
    ids=["two", "many"],
)
def test_a_query_reads_columns_of_the_query_around_it(way: Way, tmp_path):
    rng = random.Random(68)
    changes = {name: _changes(rng) for name in ("t", "o", "u")}
    plain: dict[str, Any] = {"primary_key": None, "options": {}}
    tables = [
        plain | {"name": name, "schema": COLUMNS, "changelog_mode": "I,D", "before": every[:20], "after": every[20:]}
        for name, every in changes.items()
    ]
    queries = {query: query for query in QUERIES} | OTHERS
    sinks = [plain | {"name": f"s{at}", "schema": ["k INT", "n BIGINT"]} for at in range(len(queries))]
    inserts = "; ".join(f"INSERT INTO s{at} {query}" for at, query in enumerate(queries))
    program = {"name": "correlated", "tables": tables, "sinks": sinks, "run": {"end_of_input": "none"}}
    found = outcome(program | {"sql": [f"EXECUTE STATEMENT SET BEGIN {inserts}; END"]}, way, str(tmp_path))

    database = _database(changes)
    for at, (query, same) in enumerate(queries.items()):
        rows = Counter(str(list(row)).replace("None", "null") for row in database.execute(same))
        assert found[f"s{at}"] == rows, query
        assert rows, query


def _changes(rng: random.Random) -> list[tuple[str, tuple[Any, ...]]]:
    """Additions of rows, and deletions of some of them."""
    live: list[tuple[Any, ...]] = []
    found: list[tuple[str, tuple[Any, ...]]] = []
    for _ in range(40):
        if live and rng.random() < 0.4:
            found.append(("-D", live.pop(rng.randrange(len(live)))))
        else:
            live.append((rng.choice([None, 0, 1, 2, 3, 4]), rng.choice([None, "a", "b", "c"]), rng.randrange(5)))
            found.append(("+I", live[-1]))
    return found


def _database(changes: dict[str, list[tuple[str, tuple[Any, ...]]]]) -> sqlite3.Connection:
    """The tables that the changes end with."""
    database = sqlite3.connect(":memory:")
    database.create_function("RAND", 0, lambda: 0.5)
    for name, every in changes.items():
        database.execute(f"CREATE TABLE {name} (k, v, n)")
        for kind, row in every:
            if kind == "+I":
                database.execute(f"INSERT INTO {name} VALUES (?, ?, ?)", row)
            else:
                gone = f"SELECT rowid FROM {name} WHERE k IS ? AND v IS ? AND n IS ? LIMIT 1"
                database.execute(f"DELETE FROM {name} WHERE rowid IN ({gone})", row)
    return database
