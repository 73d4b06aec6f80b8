"""Changes of a query over every step with state, and what becomes of the state: the table of docs/changed-queries.md.

Each has a query before and after it, over the tables of :data:`TABLES`. Settings and tables may change too.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.nodes import (
    Deduplicate,
    GroupAggregate,
    InWindows,
    Join,
    Materialize,
    Node,
    Normalize,
    OverAggregate,
    Rank,
    SessionTable,
    SetOperation,
    Sort,
    TemporalSort,
    WindowAggregate,
)

TABLES = """
CREATE TABLE s (k STRING, city STRING, n INT, m INT, ts TIMESTAMP(3), at AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector' = 'any', 'mode' = 'I');
CREATE TABLE r (k STRING, n INT, v STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'any', 'mode' = 'I');
CREATE TABLE z (k STRING, n INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'any', 'mode' = 'I');
CREATE TABLE c (k STRING, n INT, v STRING) WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D');
CREATE TABLE d (k STRING, n INT, v STRING, PRIMARY KEY (k) NOT ENFORCED)
  WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D');
CREATE TABLE u (k STRING, n INT, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'any', 'mode' = 'I,UA,D');
CREATE TABLE bag (k STRING, a BIGINT) WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D');
CREATE TABLE keyed (k STRING, n INT, v STRING, PRIMARY KEY (k) NOT ENFORCED)
  WITH ('connector' = 'any', 'mode' = 'I,UA,D');
"""

KEPT, REFUSED, WITHOUT = "kept", "refused", "refused: no step has it"


@dataclass(frozen=True)
class Change:
    """A change of the step that ``nodes`` are planned for: its text in the table, the query before and after it, what
    becomes of the state, and a part of what is said. ``tables`` and ``settings`` are those before and after, where they
    differ."""

    nodes: tuple[type[Node], ...]
    text: str
    before: str
    after: str
    outcome: str
    says: str = ""
    tables: tuple[tuple[str, str], ...] = ()
    settings: tuple[str, str] = ("", "")

    @property
    def scripts(self) -> tuple[str, str]:
        """The scripts before and after."""
        changed = TABLES
        for old, new in self.tables:
            assert old in TABLES
            changed = changed.replace(old, new)
        given = zip((TABLES, changed), self.settings, (self.before, self.after), strict=True)
        first, second = (f"{settings}{tables}{_written(query)}" for tables, settings, query in given)
        return first, second


def _written(query: str) -> str:
    """A query as a statement that writes its rows."""
    if query.startswith(("INSERT", "CREATE", "EXECUTE")):
        return query
    return f"CREATE TABLE t WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D') AS {query}"


def _changes(
    nodes: type[Node] | tuple[type[Node], ...], before: str, *rows: tuple[str, str, str, str] | Change
) -> tuple[Change, ...]:
    """Changes of one query: of each its text, the query after it, the outcome and what is said."""
    kinds = nodes if isinstance(nodes, tuple) else (nodes,)
    return tuple(row if isinstance(row, Change) else Change(kinds, row[0], before, *row[1:]) for row in rows)


_TTL = "SET 'table.exec.state.ttl' = '{}';"
_GROUP = "SELECT k, COUNT(*) AS a, SUM(n) AS b FROM s GROUP BY k"
_GROUPS = _changes(
    GroupAggregate,
    _GROUP,
    (
        "order and names of its columns",
        "SELECT SUM(n) AS total, k AS c, COUNT(*) AS orders FROM s GROUP BY k",
        KEPT,
        "",
    ),
    ("HAVING", f"{_GROUP} HAVING COUNT(*) > 1", KEPT, ""),
    (
        "WHERE below it: groups keep what they have",
        "SELECT k, COUNT(*) AS a, SUM(n) AS b FROM s WHERE n > 1 GROUP BY k",
        KEPT,
        "the condition of WHERE was not set, and is n > 1",
    ),
    (
        "names in a query in FROM, or a view",
        "SELECT c, COUNT(*) AS a, SUM(x) AS b FROM (SELECT n AS x, k AS c FROM s) GROUP BY c",
        KEPT,
        "",
    ),
    (
        "columns of GROUP BY",
        "SELECT k, city, COUNT(*) AS a, SUM(n) AS b FROM s GROUP BY k, city",
        REFUSED,
        "the key was k, and is k, city",
    ),
    Change(
        (GroupAggregate,),
        "order of the columns of GROUP BY and DISTINCT",
        "SELECT k, city, COUNT(*) AS a FROM s GROUP BY k, city",
        "SELECT k, city, COUNT(*) AS a FROM s GROUP BY city, k",
        KEPT,
    ),
    (
        "expression in GROUP BY",
        "SELECT UPPER(k), COUNT(*) AS a, SUM(n) AS b FROM s GROUP BY UPPER(k)",
        REFUSED,
        "the key was k, and is UPPER(k)",
    ),
    (
        "function of an aggregate",
        "SELECT k, COUNT(*) AS a, MAX(n) AS b FROM s GROUP BY k",
        REFUSED,
        "the aggregates were COUNT(*), SUM(n), and are COUNT(*), MAX(n)",
    ),
    (
        "argument of an aggregate",
        "SELECT k, COUNT(*) AS a, SUM(n * 2) AS b FROM s GROUP BY k",
        REFUSED,
        "the aggregates were COUNT(*), SUM(n), and are COUNT(*), SUM(n * 2)",
    ),
    (
        "FILTER of an aggregate",
        "SELECT k, COUNT(*) AS a, SUM(n) FILTER (WHERE m > 1) AS b FROM s GROUP BY k",
        REFUSED,
        "and are COUNT(*), SUM(n) FILTER (WHERE m > 1)",
    ),
    (
        "DISTINCT of an aggregate",
        "SELECT k, COUNT(*) AS a, SUM(DISTINCT n) AS b FROM s GROUP BY k",
        REFUSED,
        "and are COUNT(*), SUM(DISTINCT n)",
    ),
    (
        "another aggregate",
        "SELECT k, COUNT(*) AS a, SUM(n) AS b, MAX(m) AS d FROM s GROUP BY k",
        REFUSED,
        "and are COUNT(*), SUM(n), MAX(m)",
    ),
    (
        "another aggregate that follows from what is kept, as AVG from SUM",
        "SELECT k, COUNT(*) AS a, SUM(n) AS b, AVG(n) AS d FROM s GROUP BY k",
        KEPT,
        "",
    ),
    ("an aggregate is gone", "SELECT k, COUNT(*) AS a FROM s GROUP BY k", KEPT, ""),
    Change(
        (GroupAggregate,),
        "separator of LISTAGG",
        "SELECT k, LISTAGG(city) FROM s GROUP BY k",
        "SELECT k, LISTAGG(city, '; ') FROM s GROUP BY k",
        KEPT,
    ),
    Change(
        (GroupAggregate,),
        "type of a column that is aggregated",
        _GROUP,
        _GROUP,
        REFUSED,
        "n, which is aggregated, was INT, and is BIGINT",
        tables=(("city STRING, n INT", "city STRING, n BIGINT"),),
    ),
    Change(
        (GroupAggregate,),
        "type of a key",
        _GROUP,
        _GROUP,
        REFUSED,
        "the key k was STRING, and is INT",
        tables=(("s (k STRING", "s (k INT"),),
    ),
    Change(
        (GroupAggregate,),
        "length of a CHAR or VARCHAR, digits of a second, NOT NULL",
        _GROUP,
        _GROUP,
        KEPT,
        tables=(("s (k STRING", "s (k VARCHAR(10) NOT NULL"),),
    ),
    Change(
        (GroupAggregate,),
        "rows that were only added may be taken back now, beside MIN, MAX, DISTINCT or the order of arrival",
        "SELECT k, MIN(n) AS a FROM s GROUP BY k",
        "SELECT k, MIN(n) AS a FROM s GROUP BY k",
        REFUSED,
        "the kind of rows that it takes was rows that are only added, and is rows that may be taken back",
        tables=(
            (
                "WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector' = 'any', 'mode' = 'I')",
                "WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D')",
            ),
        ),
    ),
    Change(
        (GroupAggregate,),
        "time to live: added, gone or another",
        _GROUP,
        _GROUP,
        KEPT,
        "the time after which it forgets was 12 h, and is 36 h",
        settings=(_TTL.format("12 h"), _TTL.format("36 h")),
    ),
    Change(
        (GroupAggregate,),
        "time to live, added or gone, of MIN and MAX over rows that change",
        "SELECT k, MIN(n) AS a FROM c GROUP BY k",
        "SELECT k, MIN(n) AS a FROM c GROUP BY k",
        REFUSED,
        "the time to live was not set, and is set",
        settings=("", _TTL.format("1 d")),
    ),
)
_TUMBLE = "SELECT k, COUNT(*) AS a, SUM(n) AS b FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' MINUTE)"
_TVF = "SELECT k, COUNT(*) AS a FROM TABLE({}) GROUP BY k, window_start, window_end"
_HOP = _TVF.format("HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)")
_CUMULATE = _TVF.format("CUMULATE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)")
_SESSION = "SELECT k, SUM(n) AS a FROM s GROUP BY k, SESSION(ts, INTERVAL '1' MINUTE)"
_ZONED = "SELECT k, COUNT(*) AS a FROM z GROUP BY k, TUMBLE(ts, INTERVAL '1' DAY)"
_ZONE = "SET 'table.local-time-zone' = '{}';"
_TWICE = (
    "SELECT window_start, window_end, MAX(a) AS a FROM (SELECT window_start, window_end, k, COUNT(*) AS a FROM "
    "TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '{}' MINUTE)) GROUP BY k, window_start, window_end) "
    "GROUP BY window_start, window_end"
)
_WINDOWS = _changes(
    WindowAggregate,
    _TUMBLE,
    (
        "length of a window",
        _TUMBLE.replace("'1'", "'2'"),
        REFUSED,
        "the window was TUMBLE(ts, 1 min), and is TUMBLE(ts, 2 min)",
    ),
    (
        "kind of window",
        _TUMBLE.replace("TUMBLE(ts", "HOP(ts, INTERVAL '30' SECOND"),
        REFUSED,
        "the window was TUMBLE(ts, 1 min), and is HOP(ts, 30 s, 1 min)",
    ),
    (
        "offset of a window",
        "SELECT k, COUNT(*) AS a, SUM(n) AS b FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE, "
        "INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end",
        REFUSED,
        "and is TUMBLE(ts, 1 min, offset 10 s)",
    ),
    (
        "the same window, by a function of FROM instead of GROUP BY",
        "SELECT k, COUNT(*) AS a, SUM(n) AS b FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
        "GROUP BY k, window_start, window_end",
        KEPT,
        "",
    ),
    (
        "event time or processing time",
        _TUMBLE.replace("TUMBLE(ts", "TUMBLE(at"),
        REFUSED,
        "the window was TUMBLE(ts, 1 min), and is TUMBLE(processing time, 1 min)",
    ),
    (
        "columns of GROUP BY",
        _TUMBLE.replace("GROUP BY k,", "GROUP BY k, city,"),
        REFUSED,
        "the key was k, and is k, city",
    ),
    (
        "function, argument or FILTER of an aggregate, or another one",
        _TUMBLE.replace("SUM(n)", "MAX(n)"),
        REFUSED,
        "the aggregates were COUNT(*), SUM(n), and are COUNT(*), MAX(n)",
    ),
    ("an aggregate is gone", _TUMBLE.replace(", SUM(n) AS b", ""), KEPT, ""),
    Change(
        (WindowAggregate,),
        "what the time of its rows is",
        _TUMBLE,
        _TUMBLE,
        REFUSED,
        "the window was TUMBLE(ts, 1 min), and is TUMBLE(ts0 + INTERVAL '1' HOUR, 1 min)",
        tables=(
            (
                "m INT, ts TIMESTAMP(3), at",
                "m INT, ts0 TIMESTAMP(3) METADATA FROM 'ts', ts AS ts0 + INTERVAL '1' HOUR, at",
            ),
        ),
    ),
    Change(
        (WindowAggregate,),
        "delay of the watermark",
        _TUMBLE,
        _TUMBLE,
        KEPT,
        "the watermark was ts - INTERVAL '2' SECOND, and is ts - INTERVAL '5' SECOND",
        tables=(("ts - INTERVAL '2' SECOND", "ts - INTERVAL '5' SECOND"),),
    ),
    Change(
        (WindowAggregate,),
        "idle timeout",
        _TUMBLE,
        _TUMBLE,
        KEPT,
        settings=("", "SET 'table.exec.source.idle-timeout' = '10 s';"),
    ),
    Change(
        (WindowAggregate,),
        "time zone, in windows of TIMESTAMP_LTZ and in expressions that depend on it",
        _ZONED,
        _ZONED,
        REFUSED,
        "the time zone was UTC, and is Asia/Tokyo",
        settings=(_ZONE.format("UTC"), _ZONE.format("Asia/Tokyo")),
    ),
    Change(
        (WindowAggregate,),
        "time zone, elsewhere",
        _TUMBLE,
        _TUMBLE,
        KEPT,
        settings=(_ZONE.format("UTC"), _ZONE.format("Asia/Tokyo")),
    ),
    Change(
        (WindowAggregate,),
        "slide of HOP",
        _HOP,
        _HOP.replace("'1'", "'2'"),
        REFUSED,
        "the window was HOP(ts, 1 min, 2 min), and is HOP(ts, 2 min, 2 min)",
    ),
    Change(
        (WindowAggregate,),
        "LISTAGG or others by arrival, added to or gone from HOP and CUMULATE",
        _HOP.replace("COUNT(*)", "LISTAGG(city)"),
        _HOP,
        REFUSED,
        "",
    ),
    Change(
        (WindowAggregate,),
        "step of CUMULATE",
        _CUMULATE,
        _CUMULATE.replace("'1' MINUTE", "'30' SECOND"),
        REFUSED,
        "the window was CUMULATE(ts, 1 min, 2 min), and is CUMULATE(ts, 30 s, 2 min)",
    ),
    Change(
        (WindowAggregate,),
        "gap of SESSION",
        _SESSION,
        _SESSION.replace("'1'", "'2'"),
        REFUSED,
        "the window was SESSION(ts, 1 min) of each k, and is SESSION(ts, 2 min) of each k",
    ),
    Change(
        (WindowAggregate,),
        "aggregates of SESSION, of columns that its rows have",
        _SESSION,
        _SESSION.replace("SUM(n) AS a", "MAX(n) AS a, COUNT(n) AS b"),
        KEPT,
    ),
    Change(
        (WindowAggregate,),
        "LISTAGG or others by arrival, the first added to or the last gone from SESSION",
        _SESSION,
        _SESSION.replace("SUM(n) AS a", "SUM(n) AS a, LAST_VALUE(n) AS b"),
        REFUSED,
        "the order of its rows was not set, and is that of arrival",
    ),
    Change(
        (WindowAggregate,),
        "aggregates of SESSION, of other columns",
        _SESSION,
        _SESSION.replace("SUM(n)", "SUM(n + m)"),
        REFUSED,
        "is new, and the kept rows do not have it",
    ),
    Change(
        (WindowAggregate,),
        "window of the rows that are grouped by the window that they have",
        _TWICE.format(1),
        _TWICE.format(2),
        REFUSED,
        "the window was TUMBLE(ts, 1 min), and is TUMBLE(ts, 2 min)",
    ),
)
_SESSIONS = "SELECT k, n, window_start FROM TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
_SESSION_TABLES = _changes(
    SessionTable,
    _SESSIONS,
    ("gap", _SESSIONS.replace("'1'", "'2'"), REFUSED, "of each k, and is SESSION(ts, 2 min) of each k"),
    (
        "PARTITION BY",
        _SESSIONS.replace("BY k", "BY city"),
        REFUSED,
        "the window was SESSION(ts, 1 min) of each k, and is SESSION(ts, 1 min) of each city",
    ),
    ("another column", _SESSIONS.replace("n,", "n, m,"), KEPT, "the column 'm' is new, and NULL in earlier rows"),
    ("a column is gone", _SESSIONS.replace("n,", ""), REFUSED, "the column 'n' is gone"),
)
_OF_S = "TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '{0}' MINUTE))"
_OF_R = "TABLE(TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '{0}' MINUTE))"
_WINDOW_JOIN = (
    f"SELECT x.k, x.n, y.v FROM {_OF_S} AS x JOIN {_OF_R} AS y ON x.k = y.k AND x.window_start = y.window_start "
    "AND x.window_end = y.window_end"
)
_TOP_OF_WINDOW = (
    "SELECT k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC) AS i "
    f"FROM {_OF_S}) WHERE i <= 3"
)
_OUTER_JOIN = _WINDOW_JOIN.format(1).replace("JOIN", "LEFT JOIN")
_LAST_OF_WINDOW = _TOP_OF_WINDOW.replace("window_end ORDER BY n DESC", "window_end, k ORDER BY ts DESC").replace(
    "i <= 3", "i = 1"
)
_IN_WINDOWS = _changes(
    InWindows,
    _WINDOW_JOIN.format(1),
    (
        "window of a join",
        _WINDOW_JOIN.format(2),
        REFUSED,
        "the window was TUMBLE(ts, 1 min), and is TUMBLE(ts, 2 min)",
    ),
    (
        "kind of a join",
        _WINDOW_JOIN.format(1).replace("JOIN", "LEFT JOIN"),
        REFUSED,
        "the kind of join was inner, and is left",
    ),
    (
        "keys of a join",
        _WINDOW_JOIN.format(1).replace("x.k = y.k", "x.city = y.k"),
        REFUSED,
        "of the left side was",
    ),
    (
        "another column of a join",
        _WINDOW_JOIN.format(1).replace("x.n,", "x.n, x.m,"),
        KEPT,
        "the column 'm' of the left side is new, and NULL in earlier rows",
    ),
    Change(
        (InWindows,),
        "condition of an outer join beside its keys",
        _OUTER_JOIN + " AND x.n > y.n",
        _OUTER_JOIN + " AND x.n < y.n",
        KEPT,
        "the condition beside the keys was `s`.`n` > `r`.`n`, and is `s`.`n` < `r`.`n`",
    ),
    Change(
        (InWindows,),
        "window of the last row of each key",
        _LAST_OF_WINDOW.format(1),
        _LAST_OF_WINDOW.format(2),
        REFUSED,
        "the window was TUMBLE(ts, 1 min), and is TUMBLE(ts, 2 min)",
    ),
    Change(
        (InWindows,),
        "window of Top-N",
        _TOP_OF_WINDOW.format(1),
        _TOP_OF_WINDOW.format(2),
        REFUSED,
        "the window was TUMBLE(ts, 1 min), and is TUMBLE(ts, 2 min)",
    ),
    Change(
        (InWindows,),
        "order or number of Top-N",
        _TOP_OF_WINDOW.format(1),
        _TOP_OF_WINDOW.format(1).replace("n DESC", "n"),
        REFUSED,
        "the order was n DESC, and is n",
    ),
)
_JOIN = "SELECT s.k, s.n, r.v FROM s JOIN r ON s.k = r.k"
_CHANGING_JOIN = "SELECT s.k, c.n FROM s JOIN c ON s.k = c.k"
_TWO_KEYS = "SELECT s.k FROM s JOIN r ON s.k = r.k AND s.n = r.n"
_JOINS = _changes(
    Join,
    _JOIN,
    ("order and names of its columns", "SELECT r.v AS a, s.k AS b, s.n AS d FROM s JOIN r ON s.k = r.k", KEPT, ""),
    ("conditions of an inner join beside its keys", f"{_JOIN} AND s.n > 1 WHERE r.v <> 'x'", KEPT, ""),
    Change(
        (Join,),
        "order of its keys",
        _TWO_KEYS,
        _TWO_KEYS.replace("s.k = r.k AND s.n = r.n", "s.n = r.n AND s.k = r.k"),
        KEPT,
    ),
    ("kind of join", _JOIN.replace("JOIN", "LEFT JOIN"), REFUSED, "the kind of join was inner, and is left"),
    (
        "keys of the condition",
        _JOIN.replace("s.k = r.k", "s.city = r.k"),
        REFUSED,
        "the key of the left side was k, and is city",
    ),
    (
        "another column of a side whose rows are only added",
        _JOIN.replace("s.n,", "s.n, s.m,"),
        KEPT,
        "the column 'm' of the left side is new, and NULL in earlier rows",
    ),
    ("a column is gone", _JOIN.replace("s.n,", ""), REFUSED, "the column 'n' of the left side is gone"),
    (
        "expression of a column that it keeps",
        "SELECT x.k, x.n, r.v FROM (SELECT k, CASE WHEN n > 1 THEN n END AS n FROM s) AS x JOIN r ON x.k = r.k",
        REFUSED,
        "the column 'n' of the left side was n, and is CASE WHEN n > 1 THEN n END",
    ),
    Change(
        (Join,),
        "another column of a side whose rows change",
        _CHANGING_JOIN,
        _CHANGING_JOIN.replace("c.n", "c.n, c.v"),
        REFUSED,
        "the column 'v' of the right side is new, and the kept rows do not have it",
    ),
    Change(
        (Join,),
        "type of a column",
        _JOIN,
        _JOIN,
        REFUSED,
        "the column 'n' of the left side was INT, and is BIGINT",
        tables=(("city STRING, n INT", "city STRING, n BIGINT"),),
    ),
    Change(
        (Join,),
        "time to live, added or gone",
        _JOIN,
        _JOIN.replace("SELECT", "SELECT /*+ STATE_TTL('s' = '1 d') */"),
        REFUSED,
        "the time to live of the left side was not set, and is set",
    ),
    Change(
        (Join,),
        "another time to live",
        _JOIN,
        _JOIN,
        KEPT,
        "the time after which it forgets of the left side was 12 h, and is 36 h",
        settings=(_TTL.format("12 h"), _TTL.format("36 h")),
    ),
)
_SETS = "SELECT k, n FROM s INTERSECT SELECT k, n FROM r"
_IN = "SELECT k, n FROM s WHERE k IN (SELECT k FROM r)"
_COMPARISONS = _changes(
    SetOperation,
    _SETS,
    ("INTERSECT, EXCEPT, ALL", _SETS.replace("INTERSECT", "EXCEPT"), REFUSED, "was intersect, and is except"),
    ("columns", "SELECT k, m FROM s INTERSECT SELECT k, n FROM r", REFUSED, "the key of the left side was k, n"),
    Change((SetOperation, Join), "IN and EXISTS, or NOT", _IN, _IN.replace("IN", "NOT IN"), REFUSED, ""),
)
_FIRST = "SELECT k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {}) AS i FROM s) WHERE i = 1"
_DEDUPLICATED = _changes(
    Deduplicate,
    _FIRST.format("ts DESC"),
    (
        "first or last row",
        _FIRST.format("ts"),
        REFUSED,
        "the row that stays was the last by ts, and is the first by ts",
    ),
    (
        "order of time, or of arrival",
        _FIRST.format("at DESC"),
        REFUSED,
        "the row that stays was the last by ts, and is the last by",
    ),
    ("PARTITION BY", _FIRST.format("ts DESC").replace("BY k", "BY city"), REFUSED, "the key was k, and is city"),
    (
        "another column",
        _FIRST.format("ts DESC").replace("k, n", "k, n, m"),
        KEPT,
        "the column 'm' is new, and NULL in earlier rows",
    ),
    ("a column is gone", _FIRST.format("ts DESC").replace("k, n", "k"), REFUSED, "the column 'n' is gone"),
)
_TOP = "SELECT k, n, m FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC) AS i FROM s) WHERE i <= 3"
_TOP_OF_CHANGES = _TOP.replace("FROM s", "FROM c").replace("k, n, m", "k, n")
_RANKED = _changes(
    Rank,
    _TOP,
    ("number of rows", _TOP.replace("<= 3", "<= 5"), REFUSED, "the range of numbers was 1 to 3, and is 1 to 5"),
    ("ORDER BY", _TOP.replace("n DESC", "m DESC"), REFUSED, "the order was n DESC, and is m DESC"),
    ("ASC, DESC, NULLS FIRST", _TOP.replace("n DESC", "n"), REFUSED, "the order was n DESC, and is n"),
    ("PARTITION BY", _TOP.replace("BY k", "BY city"), REFUSED, "the key was k, and is city"),
    ("whether the number is shown", _TOP.replace("k, n, m", "k, n, m, i"), KEPT, ""),
    (
        "another column, where rows are only added",
        _TOP.replace("k, n, m", "k, n, m, city"),
        KEPT,
        "the column 'city' is new, and NULL in earlier rows",
    ),
    ("a column is gone", _TOP.replace("k, n, m", "k, n"), REFUSED, "the column 'm' is gone"),
    Change(
        (Rank,),
        "another column, where rows change",
        _TOP_OF_CHANGES,
        _TOP_OF_CHANGES.replace("k, n", "k, n, v", 1),
        REFUSED,
        "the column 'v' is new, and the kept rows do not have it",
    ),
    Change(
        (Rank,),
        "time to live, added or gone",
        _TOP,
        _TOP,
        REFUSED,
        "the time to live was not set, and is set",
        settings=("", _TTL.format("1 d")),
    ),
)
_SORTED = "SELECT ts, n FROM s ORDER BY ts, n"
_ORDERED = _changes(
    TemporalSort,
    _SORTED,
    ("columns of ORDER BY behind the time", "SELECT ts, n FROM s ORDER BY ts, n DESC", REFUSED, "the order was ts, n"),
    (
        "another column",
        "SELECT ts, n, m FROM s ORDER BY ts, n",
        KEPT,
        "the column 'm' is new, and NULL in earlier rows",
    ),
)
_OVER = "SELECT k, SUM(n) OVER (PARTITION BY k ORDER BY ts) AS a FROM s"
_LIMITED = _OVER.replace("ts)", "ts ROWS 5 PRECEDING)")
_IN_ANY_ORDER = "SELECT k, SUM(n) OVER (PARTITION BY k ORDER BY n) AS a FROM s"
_OVERS = _changes(
    OverAggregate,
    _OVER,
    ("a function that follows from what is kept, as AVG from SUM", _OVER.replace("SUM", "AVG"), KEPT, ""),
    ("another column", _OVER.replace("k, SUM", "k, m, SUM"), KEPT, "the column 'm' is new, and NULL in earlier rows"),
    ("PARTITION BY", _OVER.replace("BY k", "BY city"), REFUSED, "the key was k, and is city"),
    (
        "event time or processing time",
        _OVER.replace("BY ts", "BY at"),
        REFUSED,
        "the order was ts, and is processing time",
    ),
    (
        "ROWS or RANGE, and how far they go back",
        _LIMITED,
        REFUSED,
        "was RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW, and is ROWS BETWEEN 5 PRECEDING AND CURRENT ROW",
    ),
    (
        "another function, of all rows before a row",
        _OVER.replace("SUM", "MAX"),
        REFUSED,
        "the aggregates were SUM(n), and are MAX(n)",
    ),
    (
        "LAG of more rows",
        "SELECT k, LAG(n, 2) OVER (PARTITION BY k ORDER BY ts) AS a FROM s",
        REFUSED,
        "the aggregates were SUM(n), and are LAG(n, 2)",
    ),
    Change(
        (OverAggregate,),
        "another function, of rows in a limited frame",
        _LIMITED,
        _LIMITED.replace("SUM", "MAX"),
        KEPT,
        "",
    ),
    Change(
        (OverAggregate,),
        "time to live, added or gone, where rows are kept",
        _LIMITED,
        _LIMITED,
        KEPT,
        "the time after which it forgets was not set, and is 24 h",
        settings=("", _TTL.format("1 d")),
    ),
    Change(
        (OverAggregate,),
        "time to live, where frames have all rows before a row",
        _OVER,
        _OVER,
        KEPT,
        "",
        settings=("", _TTL.format("1 d")),
    ),
    Change(
        (OverAggregate,),
        "order by another column than a time",
        _IN_ANY_ORDER,
        _IN_ANY_ORDER.replace("BY n", "BY m"),
        REFUSED,
        "the order was n, and is m",
    ),
    Change(
        (OverAggregate,),
        "another function, in the order of another column than a time",
        _IN_ANY_ORDER,
        _IN_ANY_ORDER.replace("SUM", "MAX"),
        KEPT,
        "",
    ),
)
_UPSERTS = "SELECT k, n FROM u"
_TABLE_OF_UPSERTS = _changes(
    Normalize,
    _UPSERTS,
    ("another column", "SELECT k, n, v FROM u", KEPT, "the column 'v' is new, and NULL in earlier rows"),
    ("a column is gone", "SELECT k FROM u", REFUSED, "the column 'n' is gone"),
    Change(
        (Normalize,),
        "PRIMARY KEY",
        "SELECT k, n, v FROM u",
        "SELECT k, n, v FROM u",
        REFUSED,
        "the key was k, and is v",
        tables=(
            (
                "u (k STRING, n INT, v STRING, PRIMARY KEY (k)",
                "u (k STRING, n INT, v STRING NOT NULL, PRIMARY KEY (v)",
            ),
        ),
    ),
    Change(
        (Normalize,),
        "type of a column",
        _UPSERTS,
        _UPSERTS,
        REFUSED,
        "the column 'n' was INT, and is BIGINT",
        tables=(("u (k STRING, n INT", "u (k STRING, n BIGINT"),),
    ),
)
_LAST = "INSERT INTO keyed SELECT k, n, v FROM c WHERE k IS NOT NULL"
_LAST_ROWS = _changes(
    Materialize,
    _LAST,
    (
        "expression of a column",
        _LAST.replace("n, v", "n, UPPER(v)"),
        REFUSED,
        "",
    ),
    Change(
        (Materialize,),
        "PRIMARY KEY of the table",
        _LAST.replace("k IS", "v IS"),
        _LAST.replace("k IS", "v IS"),
        REFUSED,
        "the key was k, and is v",
        tables=(
            (
                "keyed (k STRING, n INT, v STRING, PRIMARY KEY (k)",
                "keyed (k STRING, n INT, v STRING NOT NULL, PRIMARY KEY (v)",
            ),
        ),
    ),
)

_COUNTED = "INSERT INTO bag SELECT k, COUNT(*) FROM {0} GROUP BY k"
_SUMMED = "INSERT INTO bag SELECT k, SUM(n) FROM {0} GROUP BY k"
_SET = "EXECUTE STATEMENT SET BEGIN {}; {}; END"
_BOTH = _SET.format(_COUNTED, _SUMMED).format("s")
_ANY = _changes(
    GroupAggregate,
    _COUNTED.format("s"),
    (
        "a new step",
        _SET.format(_COUNTED, _COUNTED.replace("k,", "city AS k,").replace("BY k", "BY city")).format("s"),
        KEPT,
        "",
    ),
    ("a step is gone", "INSERT INTO bag SELECT k, n FROM s", WITHOUT, ""),
    Change((GroupAggregate,), "one of several steps is gone", _BOTH, _SUMMED.format("s"), WITHOUT),
    ("the table that it reads or writes has another name", _COUNTED.format("r"), WITHOUT, ""),
    (
        "a step with state above it or below it",
        "INSERT INTO bag SELECT DISTINCT k, a FROM (SELECT k, COUNT(*) AS a FROM s GROUP BY k)",
        KEPT,
        "it was called 'bag: group(s)'",
    ),
    (
        "a view in place of the table",
        "CREATE VIEW w AS SELECT * FROM s; " + _COUNTED.format("w"),
        KEPT,
        "",
    ),
    Change(
        (GroupAggregate,),
        "order of the INSERTs of a statement set",
        _BOTH,
        _SET.format(_SUMMED, _COUNTED).format("s"),
        KEPT,
        "it was called 'bag: group(s) 2'",
    ),
    Change(
        (GroupAggregate,),
        "a new step below it that takes rows which may be taken back: it does not know those of before",
        _COUNTED.format("d"),
        _COUNTED.format("d"),
        REFUSED,
        "it has state of rows from 'changes(d)', which starts empty",
        settings=("", "SET 'table.exec.source.cdc-events-duplicate' = 'true';"),
    ),
    Change(
        (GroupAggregate,),
        "settings of parallelism, batches and mini-batches",
        _COUNTED.format("s"),
        _COUNTED.format("s"),
        KEPT,
        settings=("", "SET 'parallelism.default' = '3'; SET 'execution.checkpointing.interval' = '7 s';"),
    ),
)

#: By what users call the step.
CHANGES = {
    "any": _ANY,
    "GROUP BY, DISTINCT": _GROUPS,
    "GROUP BY of windows": _WINDOWS,
    "rows of sessions": _SESSION_TABLES,
    "join": _JOINS,
    "join, Top-N and last rows in windows": _IN_WINDOWS,
    "INTERSECT, EXCEPT, IN, EXISTS": _COMPARISONS,
    "Top-N": _RANKED,
    "first or last row of a key": _DEDUPLICATED,
    "functions with OVER": _OVERS,
    "ORDER BY a time": _ORDERED,
    "table of upserts": _TABLE_OF_UPSERTS,
    "last rows before a table with another key": _LAST_ROWS,
}
#: The nodes that keep nothing between batches.
WITHOUT_STATE = (Sort,)


def table() -> str:
    """The table of docs/changed-queries.md."""
    lines = ["| step | change | its state |", "| --- | --- | --- |"]
    for step, changes in CHANGES.items():
        for outcome in (KEPT, REFUSED, WITHOUT):
            lines += [f"| {step} | {each.text} | {outcome} |" for each in changes if each.outcome == outcome]
    return "\n".join(lines) + "\n"
