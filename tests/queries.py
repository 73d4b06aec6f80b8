"""Random queries: :data:`QUERIES` in the SQL that Flink and SQLite have in common, :func:`random_query` in
more of Flink's, :data:`MORE_QUERIES` in more still. All have the columns k, v and n."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import strategies as st

#: The tables that they read, and two that take their rows.
TABLES = """
CREATE TABLE a (k INT, v STRING, n BIGINT NOT NULL, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('mode' = 'I', 'connector' = 'any');
CREATE TABLE b (k BIGINT, v STRING, n INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('mode' = 'I,UA,D', 'connector' = 'any');
CREATE TABLE c (k INT, v STRING, n BIGINT NOT NULL) WITH ('mode' = 'I,UB,UA,D', 'connector' = 'any');
CREATE TABLE bag (k BIGINT, v STRING, n BIGINT) WITH ('mode' = '', 'connector' = 'any');
CREATE TABLE keyed (k BIGINT, v STRING, n BIGINT, PRIMARY KEY (k, v) NOT ENFORCED)
  WITH ('mode' = '', 'connector' = 'any');
"""
_LEAVES = [
    "SELECT k, v, n FROM a",
    "SELECT * FROM b",
    "SELECT * FROM c",
    "SELECT 1 AS k, 'x' AS v, 2 AS n UNION ALL SELECT 3, CAST(NULL AS STRING), 4",
    "SELECT k, v, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS i FROM a) AS q WHERE i = 1",
    "SELECT k, v, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY v, n ORDER BY ts) AS i FROM a) AS q WHERE i <= 1",
    "SELECT i AS k, v, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY v ORDER BY n, k, ts) AS i FROM a) AS q "
    "WHERE i <= 2",
]
_ON = [
    *("x.k = y.k", "x.k = y.n AND x.v = y.v", "x.k = y.k + 1 AND x.n > 1 AND y.v <> 'b'", "TRUE"),
    *("x.k = y.k AND x.n > y.n", "x.n = y.n AND x.k > 1 AND y.k > 1", "x.k = 1"),
]
_WHERE = [
    *(
        "k > 1",
        "v IS NULL AND n < 3",
        "UPPER(v) = 'A' OR k = n",
        "k IN (SELECT n FROM c)",
        "n NOT IN (SELECT k FROM a)",
    ),
    *("EXISTS (SELECT 1 FROM b WHERE b.v = x.v AND x.k > 1) AND k > 0", "k NOT IN (SELECT n FROM c WHERE c.v = x.v)"),
    "NOT EXISTS (SELECT 1 FROM c WHERE c.k = x.k AND c.n > 1)",
    "EXISTS (SELECT 1 FROM c WHERE c.k = x.k AND c.n < x.n)",
    "NOT EXISTS (SELECT 1 FROM b WHERE b.n > x.n AND b.k > 1)",
    "EXISTS (SELECT MAX(k) FROM b GROUP BY v) AND k NOT IN (SELECT COUNT(*) FROM c GROUP BY v)",
    "n < (SELECT MAX(n) FROM b) OR k IN (SELECT n FROM c)",
    "CASE WHEN k NOT IN (SELECT k FROM b WHERE k > 1) THEN EXISTS (SELECT 1 FROM c WHERE n > 2) ELSE v = 'a' END",
]
#: A condition whose NULLs Flink takes for values.
_WHERE_OF_PENSTOCK = "k NOT IN (SELECT n FROM c WHERE c.v = x.v OR c.n = x.k)"
_SELECT = [
    *("k AS k, v AS v, n AS n", "k + 1 AS k, UPPER(v) AS v, n * 2 AS n", "n AS k, v || v AS v, k AS n"),
    *("k AS k, v AS v, CASE WHEN k > 1 THEN n END AS n", "k AS k, 'v' AS v, 1 AS n"),
    "k AS k, v AS v, n + (SELECT COUNT(*) FROM c) AS n",
]
_GROUPED = [
    "k AS k, MAX(v) AS v, COUNT(*) AS n FROM {} AS x GROUP BY k",
    "n + 1 AS k, v AS v, SUM(k) AS n FROM {} AS x GROUP BY v, n + 1",
    "MAX(k) AS k, MIN(v) AS v, COUNT(DISTINCT v) FILTER (WHERE k > 1) AS n FROM {} AS x",
    "k AS k, v AS v, MIN(n) + SUM(DISTINCT k) AS n FROM {} AS x GROUP BY k, v HAVING COUNT(v) > 1 AND k <> 3",
    "SUM(n) AS k, v AS v, COUNT(k) FILTER (WHERE n > 1) AS n FROM {} AS x GROUP BY v",
    "k AS k, v AS v, SUM(n + (SELECT MAX(n) FROM c)) AS n FROM {} AS x GROUP BY k, v "
    "HAVING COUNT(*) < (SELECT MAX(n) FROM b)",
]
_RANKED = [
    "k, v, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v, n) AS i FROM {} AS x) AS q WHERE i <= 2",
    "i AS k, v, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY v ORDER BY n DESC, k) AS i FROM {} AS x) AS q "
    "WHERE i < 3 AND n > 0",
    "k, v, i AS n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY k DESC, v, n) AS i FROM {} AS x) AS q "
    "WHERE i BETWEEN 2 AND 4",
]
_OF_FLINK = [
    "CARDINALITY(ARRAY_AGG(n)) AS k, v AS v, CHAR_LENGTH(LISTAGG(v, '--')) AS n FROM {} AS x GROUP BY v",
    "k AS k, LAST_VALUE(v) AS v, COUNT(v) FILTER (WHERE k > 0) AS n FROM {} AS x GROUP BY k, v",
    "VAR_POP(n) AS k, v AS v, AVG(k) AS n FROM {} AS x GROUP BY v",
    "STDDEV_SAMP(n) AS k, MIN(v) AS v, COUNT(DISTINCT k) AS n FROM {} AS x",
    "CARDINALITY(ARRAY_AGG(DISTINCT v)) AS k, CAST(k AS STRING) AS v, n AS n FROM {} AS x GROUP BY k, n",
    "e AS k, v AS v, n AS n FROM {} AS x CROSS JOIN UNNEST(ARRAY[k, n, 7]) AS u (e) WHERE e > 1",
    "n AS k, e AS v, k AS n FROM {} AS x LEFT JOIN UNNEST(CASE WHEN k > 1 THEN ARRAY[v, 'x'] END) AS u (e) ON TRUE",
]
#: What Flink refuses, or, WITH ORDINALITY behind LEFT JOIN, takes for NOT NULL.
_OF_PENSTOCK = [
    "n AS k, e AS v, o AS n FROM {} AS x LEFT JOIN UNNEST(CASE WHEN k > 1 THEN ARRAY[v, 'x'] END) WITH ORDINALITY "
    "AS u (e, o) ON TRUE WHERE e = 'x' OR o IS NULL",
    "CARDINALITY(COLLECT(n)) AS k, v AS v, COUNT(v, n) FILTER (WHERE k > 0) AS n FROM {} AS x GROUP BY v",
    "STDDEV_SAMP(n) AS k, MIN(v) AS v, COUNT(DISTINCT k, v) AS n FROM {} AS x",
]
#: Windows of event time, and sets that SQLite does not know.
_WINDOWS = [
    f"SELECT k, MAX(v) AS v, COUNT(*) AS n FROM TABLE({window}) GROUP BY k, window_start, window_end"
    for window in (
        "TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '5' SECOND)",
        "HOP(TABLE a, DESCRIPTOR(ts), INTERVAL '3' SECOND, INTERVAL '6' SECOND)",
        "CUMULATE(TABLE a, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND)",
        "SESSION(TABLE a PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' SECOND)",
    )
]
#: Functions with OVER: in the order of event time, and of other columns of any rows.
_OVER_TIME = [
    f"SELECT {items} FROM a WINDOW w AS ({keys}ORDER BY ts {frame})"
    for keys in ("PARTITION BY k ", "PARTITION BY v ", "")
    for frame in (
        *("", "ROWS UNBOUNDED PRECEDING", "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"),
        "RANGE BETWEEN INTERVAL '7' SECOND PRECEDING AND CURRENT ROW",
    )
    for items in (
        "SUM(k) OVER w AS k, MAX(v) OVER w AS v, COUNT(*) OVER w AS n",
        "COUNT(DISTINCT n) OVER w AS k, FIRST_VALUE(v) OVER w AS v, SUM(DISTINCT n) OVER w AS n",
        "k AS k, LAST_VALUE(v) OVER w AS v, AVG(n) OVER w AS n",
        "MIN(n) OVER w AS k, LISTAGG(v) OVER w AS v, n + MAX(k) OVER w AS n",
    )
] + [
    f"SELECT LAG(k, 2) OVER w AS k, LAG(v) OVER w AS v, SUM(n) OVER w AS n FROM a WINDOW w AS ({keys}ORDER BY ts)"
    for keys in ("PARTITION BY k ", "")
]
_OVER_COLUMNS = [
    "k AS k, v AS v, SUM(n) OVER (PARTITION BY v ORDER BY k) AS n FROM {} AS x",
    "SUM(k) OVER w AS k, MIN(v) OVER w AS v, COUNT(n) OVER w AS n FROM {} AS x WINDOW w AS (ORDER BY n)",
    "MAX(n) OVER w AS k, v AS v, COUNT(*) OVER w AS n FROM {} AS x WINDOW w AS (PARTITION BY k, v ORDER BY n)",
]
_SETS_OF_FLINK = [f"SELECT * FROM {{0}} AS x {kind} ALL SELECT * FROM {{1}} AS y" for kind in ("INTERSECT", "EXCEPT")]
_KINDS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]
#: Queries of the rows of others: {0} and, in some, {1}. Each list has those of one form.
_FORMS = [
    [f"SELECT {items} FROM {{0}} AS x WHERE {condition}" for items in _SELECT for condition in _WHERE],
    [f"SELECT {rest.format('{0}')}" for rest in _GROUPED],
    ["SELECT DISTINCT k, v, n FROM {0} AS x"],
    [f"SELECT {rest.format('{0}')}" for rest in _RANKED],
    [
        f"SELECT x.k AS k, {values} FROM {{0}} AS x {kind} {{1}} AS y ON {condition}{where}"
        for values, where in (
            ("y.v AS v, x.n AS n", ""),
            ("x.v AS v, y.n AS n", " WHERE y.k > 0 OR x.v IS NULL"),
        )
        for kind in _KINDS
        for condition in _ON
    ],
    [f"SELECT k, v, x.n AS n FROM {{0}} AS x {kind} {{1}} AS y USING (k, v)" for kind in _KINDS],
    ["SELECT x.k AS k, y.v AS v, x.n AS n FROM {0} AS x, {1} AS y WHERE x.k = y.k AND y.n > x.n AND x.v = 'a'"],
    [
        f"SELECT * FROM {{0}} AS x {kind} SELECT * FROM {{1}} AS y"
        for kind in ("UNION", "UNION ALL", "INTERSECT", "EXCEPT")
    ],
]
_SELECTED = [f"SELECT {items} FROM {{0}} AS x WHERE {_WHERE_OF_PENSTOCK}" for items in _SELECT]
#: The same with queries that SQLite does not know.
_FORMS_OF_FLINK = [*_FORMS, [f"SELECT {rest.format('{0}')}" for rest in (*_OF_FLINK, *_OVER_COLUMNS)]]
_MORE_FORMS = [*_FORMS, _SELECTED, [f"SELECT {rest.format('{0}')}" for rest in (*_OF_FLINK, *_OF_PENSTOCK)]]


def _grown(forms: Sequence[Sequence[str]], inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A query of the rows of others."""
    query = inner.map("({})".format)
    return st.one_of(
        *(st.builds(str.format, st.sampled_from(form), *[query] * _inputs(form)) for form in forms),
    )


def _inputs(form: Sequence[str]) -> int:
    return 2 if "{1}" in form[0] else 1


QUERIES = st.recursive(st.sampled_from(_LEAVES), lambda inner: _grown([*_FORMS, _SELECTED], inner), max_leaves=6)
MORE_QUERIES = st.recursive(st.sampled_from(_LEAVES), lambda inner: _grown(_MORE_FORMS, inner), max_leaves=6)


def random_query(rng: random.Random, steps: int, *, inner: bool = False) -> str:
    """A query of so many steps over the tables. INTERSECT ALL and EXCEPT ALL are the last step only: in an ``inner``
    query, Flink compares no columns that the outer query does not read."""
    if not steps:
        return rng.choice(rng.choice([[*_LEAVES, *_WINDOWS], _OVER_TIME]))
    form = rng.choice(_FORMS_OF_FLINK if inner else [*_FORMS_OF_FLINK, _SETS_OF_FLINK])
    left = rng.randrange(steps) if _inputs(form) > 1 else steps - 1
    return rng.choice(form).format(*(f"({random_query(rng, each, inner=True)})" for each in (left, steps - 1 - left)))
