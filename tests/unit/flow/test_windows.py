"""Windows of event time through dataflows: rows that are cut into batches, tasks, partitions and owners at random, and
watermarks that close windows."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.changelogs import SEEDS
from tests.corpora import parsed
from tests.plans import check_job
from tests.programs import Way, outcome
from tests.unit.flow.running import START, Row, Running, shown

TUMBLE = """SELECT k, CAST(window_start AS STRING), CAST(COUNT(*) AS STRING), CAST(SUM(n) AS STRING),
CAST(MAX(n) AS STRING), CAST(COUNT(DISTINCT n) AS STRING)
FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end"""
HOP = """SELECT k, CAST(window_start AS STRING), CAST(COUNT(*) AS STRING), CAST(SUM(n) AS STRING),
CAST(MAX(n) AS STRING) FROM TABLE(HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND))
GROUP BY k, window_start, window_end"""
CUMULATE = HOP.replace("HOP(", "CUMULATE(")
SESSION = """SELECT k, CAST(window_start AS STRING), CAST(COUNT(*) AS STRING), CAST(SUM(n) AS STRING),
CAST(window_end AS STRING) FROM TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), INTERVAL '4' SECOND))
GROUP BY k, window_start, window_end"""
GROUPED_SESSION = """SELECT k, CAST(SESSION_START(ts, INTERVAL '4' SECOND) AS STRING), CAST(COUNT(*) AS STRING),
CAST(SUM(n) AS STRING), CAST(SESSION_END(ts, INTERVAL '4' SECOND) AS STRING)
FROM s GROUP BY k, SESSION(ts, INTERVAL '4' SECOND)"""
HOP_DISTINCT = HOP.replace("MAX(n)", "COUNT(DISTINCT n)")


def windows_of(query: str, ms: int) -> list[tuple[int, int]]:
    """The windows of a moment: start and end."""
    if query is TUMBLE:
        start = ms // 10_000 * 10_000
        return [(start, start + 10_000)]
    if query is CUMULATE:
        start = ms // 15_000 * 15_000
        return [(start, end) for end in (start + 5000, start + 10_000, start + 15_000) if ms < end]
    first = ms // 5000 * 5000
    return [(start, start + 15_000) for start in (first - 10_000, first - 5000, first)]


def sessions(rows: Sequence[Row]) -> Counter[tuple[Any, ...]]:
    """The sessions of each key."""
    found: list[list[Any]] = []
    for k, n, ms in sorted((each for each in rows if each[2] is not None), key=lambda row: (row[0] or "", row[2])):
        if not found or found[-1][0] != k or ms > found[-1][2]:
            found.append([k, ms, ms + 4000, []])
        found[-1][2] = ms + 4000
        found[-1][3].append(n)
    return Counter(
        (k, shown(start), str(len(ns)), str(sum(known)) if (known := [n for n in ns if n is not None]) else None,
         shown(end))
        for k, start, end, ns in found
    )  # fmt: skip


def expected(query: str, rows: Sequence[Row]) -> Counter[tuple[Any, ...]]:
    """The result of a query over rows none of which is late."""
    if query in (SESSION, GROUPED_SESSION):
        return sessions(rows)
    groups: dict[tuple[str | None, int, int], list[int | None]] = defaultdict(list)
    for k, n, ms in rows:
        if ms is not None:
            for start, end in windows_of(query, ms):
                groups[k, start, end].append(n)
    found: Counter[tuple[Any, ...]] = Counter()
    for (k, start, _), values in groups.items():
        known = [each for each in values if each is not None]
        total, most, distinct = (str(sum(known)), str(max(known)), str(len(set(known)))) if known else (None, None, "0")
        row = [k, shown(start), str(len(values)), total, *((most, distinct) if query is TUMBLE else ())]
        found[*row, *({HOP: (most,), CUMULATE: (most,), HOP_DISTINCT: (distinct,)}.get(query, ()))] += 1
    return found


@pytest.mark.parametrize(
    "query",
    [TUMBLE, HOP, CUMULATE, HOP_DISTINCT, SESSION, GROUPED_SESSION],
    ids=["tumble", "hop", "cumulate", "distinct", "session", "grouped session"],
)
def test_a_window_counts_each_row_once_however_batches_are_cut(tmp_path, query):
    for seed in SEEDS[: max(3, len(SEEDS) // 10)]:
        rng = random.Random(seed)
        running = Running(query, str(tmp_path / str(seed)))
        rows: list[Row] = []
        at = 0
        while at < 60_000:  # out of order by less than the watermark's two seconds
            late = rng.randrange(1999)
            rows.append((rng.choice(["a", "b", None]), rng.choice([None, 1, 2, 3]), max(0, at - late)))
            at += rng.choice([0, 10, 400, 3000])
        rows.append(("a", 1, None))
        waiting = list(rows)
        while waiting:
            size = rng.choice([1, 2, 10, 1000])
            part, waiting = waiting[:size], waiting[size:]
            middle = rng.randrange(len(part) + 1)
            tasks = [part] if rng.random() < 0.5 else [part[:middle], part[middle:]]
            running.run(tasks, rng.choice([1, 3]), ended=not waiting)
            if rng.random() < 0.2:
                running.start()
        assert running.result == expected(query, rows)
        assert running.late == 1  # the row without a time
        assert running.stored == 0


def ms(text: str) -> int:
    """Milliseconds from the test's start to a moment."""
    return round((datetime.fromisoformat(text) - START).total_seconds() * 1000)


@pytest.mark.parametrize("owners", [1, 2])
def test_rows_see_the_watermark_of_the_batch_before(owners: int, tmp_path):
    query = (
        "SELECT k, CAST(COUNT(*) AS STRING), CAST(w AS STRING) FROM (SELECT k, CURRENT_WATERMARK(ts) AS w FROM s "
        "WHERE CURRENT_WATERMARK(ts) IS NULL OR ts > CURRENT_WATERMARK(ts)) GROUP BY k, w"
    )
    running = Running(query, str(tmp_path))
    running.run([[("a", 1, 5_000), ("a", 2, 9_000)]], owners)
    running.run([[("a", 3, 6_000), ("b", 4, 7_001), ("b", 5, 7_000)]], owners)
    running.start()
    running.run([[("b", 6, 30_000)]], owners)
    running.run([[("b", 7, 31_000)]], owners)

    assert sorted(running.result, key=str) == [
        ("a", "2", None),
        ("b", "1", shown(28_000)),
        ("b", "2", shown(7_000)),
    ]


def test_the_watermark_is_seen_above_the_last_rows_of_upserts(tmp_path):
    at = "2026-01-01T10:00:0{}".format
    plain = {"primary_key": ["k"], "options": {}}
    table = plain | {
        "name": "u",
        "schema": ["k INT", "ts TIMESTAMP(3)"],
        "watermark": "ts AS ts",
        "changelog_mode": "I,UA,D",
        "before": [("+U", (1, at(1))), ("+U", (2, at(2)))],
        "after": [("+U", (1, at(3))), ("+U", (3, at(4)))],
    }
    sink = plain | {"name": "seen", "schema": ["k INT", "w TIMESTAMP(3)"]}
    sql = ["INSERT INTO seen SELECT k, CURRENT_WATERMARK(ts) FROM u"]
    program = {"name": "u", "tables": [table], "sinks": [sink], "sql": sql, "run": {"end_of_input": "finite"}}

    found = outcome(program, Way(1, 2, restart=True), str(tmp_path))["seen"]
    assert sorted(found) == [f"[1, {at(2)}]", f"[2, {at(1)}]", f"[3, {at(3)}]"]


_SECONDS = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '1' SECOND))"
_EACH = ["[1, null]", "[2, 2026-01-01T10:00:01]", "[1, 2026-01-01T10:00:02]", "[3, 2026-01-01T10:00:03]"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, CURRENT_WATERMARK(ts) FROM (SELECT k, ts FROM u WHERE k < 9)",
        "SELECT k, CURRENT_WATERMARK(t) FROM (SELECT k, ts AS t FROM u) WHERE t > COALESCE(CURRENT_WATERMARK(t), t - "
        "INTERVAL '1' DAY)",
        "SELECT a.k, CURRENT_WATERMARK(b.ts) FROM u AS a JOIN v AS b ON a.k = b.k AND a.ts = b.ts",
        f"SELECT k, CURRENT_WATERMARK(ts) FROM {_SECONDS.format('u')}",
        f"SELECT k, CURRENT_WATERMARK(window_time) FROM {_SECONDS.format('u')}",
        "SELECT k, CURRENT_WATERMARK(ts) FROM (SELECT * FROM u UNION ALL SELECT * FROM v WHERE k > 9)",
        "SELECT e, CURRENT_WATERMARK(ts) FROM u CROSS JOIN UNNEST(ARRAY[k]) AS x(e)",
    ],
)
def test_the_watermark_is_seen_above_subqueries_joins_and_windows(query: str, tmp_path):
    assert sorted(_seen(query, tmp_path)) == sorted(_EACH)


def test_the_watermark_is_seen_above_windows_that_have_closed(tmp_path):
    counted = f"SELECT window_time, CAST(COUNT(*) AS INT) AS n FROM {_SECONDS.format('u')}"
    query = f"SELECT n, CURRENT_WATERMARK(window_time) FROM ({counted} GROUP BY window_start, window_end, window_time)"
    ends = [f"[1, 2026-01-01T10:00:0{second}]" for second in (1, 2, 3, 4)]
    assert sorted(_seen(query, tmp_path)) == ends


def _seen(query: str, path: Path) -> list[str]:
    at = "2026-01-01T10:00:0{}".format
    plain = {"primary_key": None, "options": {}}
    table = plain | {"schema": ["k INT", "ts TIMESTAMP(3)"], "watermark": "ts AS ts", "changelog_mode": "I"}
    table |= {"before": [("+I", (1, at(1))), ("+I", (2, at(2)))], "after": [("+I", (1, at(3))), ("+I", (3, at(4)))]}
    sink = plain | {"name": "seen", "schema": ["k INT", "w TIMESTAMP(3)"]}
    program = {
        "name": "u",
        "tables": [table | {"name": name} for name in "uv"],
        "sinks": [sink],
        "sql": [f"INSERT INTO seen {query}"],
        "run": {"end_of_input": "finite"},
    }
    return outcome(program, Way(1, 2, restart=True), str(path))["seen"]


def test_rows_are_late_by_the_watermark_of_the_batch_before(tmp_path):
    running = Running(TUMBLE, str(tmp_path))
    assert running.run([[("a", 1, 1000), ("a", 2, 12_000), ("a", 3, 2000)]]) == [
        ("a", shown(0), "2", "4", "3", "2")  # the last row came behind the watermark, in the same batch
    ]
    assert running.run([[("a", 4, 9999), ("a", 5, 13_000)]]) == []
    assert running.late == 1
    assert running.run([[]], ended=True) == [("a", shown(10_000), "2", "7", "5", "2")]
    assert running.stored == 0


def test_the_watermark_is_that_of_the_slowest_partition_that_is_not_idle(tmp_path):
    running = Running(TUMBLE, str(tmp_path))
    running.driver.partitions = (0, 1)
    assert running.run([[("a", 1, 1000), ("a", 2, 40_000)]], partitions=(0,)) == []
    running.start()
    running.driver.partitions = (0, 1)
    (closed,) = running.run([[("a", 1, 14_000)]], partitions=(1,))
    assert closed[1] == shown(0)
    running.driver.idle = (1,)
    (closed,) = running.run([[]])
    assert closed[1] == shown(10_000)
    running.driver.idle = ()  # a partition that comes back takes nothing away
    assert running.run([[("a", 1, 15_000)]], partitions=(1,)) == []
    assert running.late == 1


def test_a_day_is_as_long_as_the_clocks_of_the_zone_make_it(tmp_path):
    query = """SELECT CAST(window_start AS STRING), CAST(window_end AS STRING), CAST(COUNT(*) AS STRING)
    FROM TABLE(TUMBLE(TABLE z, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end"""
    for first, last, day in (
        ("2026-03-28 23:00", "2026-03-29 21:59:59.999", "2026-03-29"),
        ("2026-10-24 22:00", "2026-10-25 22:59:59.999", "2026-10-25"),
    ):
        running = Running(query, str(tmp_path / day), "Europe/Berlin")
        before = running.run([[("a", 1, ms(first) - 1), ("a", 1, ms(first))]])
        assert [row[0][:10] for row in before] == [str(datetime.fromisoformat(day) - timedelta(days=1))[:10]]
        (closed,) = running.run([[("a", 1, ms(last))]])
        assert (closed[0][:10], closed[2]) == (day, "2")


def test_a_window_with_an_offset_has_all_of_its_rows_although_each_moves_the_watermark(tmp_path):
    """Flink 2.2 gives other windows."""
    query = """SELECT k, CAST(window_start AS STRING), CAST(COUNT(*) AS STRING), CAST(SUM(n) AS STRING) FROM
    TABLE(TUMBLE(TABLE z, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '3' SECOND))
    GROUP BY k, window_start, window_end"""
    running = Running(query, str(tmp_path))
    found = [row for second in range(3, 24) for row in running.run([[("a", 1, 1000 * second)]])]
    assert found == [("a", shown(3000), "10", "10"), ("a", shown(13_000), "10", "10")]


def test_days_are_those_of_the_zone_in_all_years(tmp_path):
    query = """SELECT CAST(window_start AS STRING), CAST(window_end AS STRING), CAST(COUNT(*) AS STRING)
    FROM TABLE(TUMBLE(TABLE z, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end"""
    for year in (2036, 2038, 2262, 2263, 9999):
        running = Running(query, str(tmp_path / str(year)), "Europe/Berlin")
        start = ms(f"{year}-06-29 22:00")  # midnight in summer
        assert running.run([[("a", 1, start), ("a", 1, start + 86_399_998)]]) == []
        assert running.run([[("a", 1, start + 86_400_000)]]) == [
            (f"{year}-06-30 00:00:00.000", f"{year}-07-01 00:00:00.000", "2")
        ]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND)", [("a", shown(0), "3-1", "3", "3")]),
        (
            "HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
            [("a", shown(-5000), "1", "1", "1"), ("a", shown(0), "3-1", "3", "3")],
        ),
        (
            "SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), INTERVAL '8' SECOND)",
            [("a", shown(2000), "1-3", "1", "3")],
        ),
    ],
)
def test_values_in_windows_are_in_the_order_of_their_arrival_and_in_sessions_of_their_time(window, expected, tmp_path):
    query = f"""SELECT k, CAST(window_start AS STRING), LISTAGG(DISTINCT CAST(n AS STRING), '-'),
    CAST(FIRST_VALUE(n) AS STRING), CAST(LAST_VALUE(n) AS STRING) FROM TABLE({window})
    GROUP BY k, window_start, window_end"""
    running = Running(query, str(tmp_path))
    assert running.run([[("a", 3, 6000)], [("a", None, 5000)]]) == []
    found = [*running.run([[("a", 1, 2000)]]), *running.run([[("a", 3, 6500), ("z", 1, 17_900)]])]
    assert sorted(each for each in found if each[0] == "a")[: len(expected)] == expected


@pytest.mark.parametrize("owners", [1, 3])
def test_rows_of_a_session_are_given_when_it_closes(owners, tmp_path):
    query = """SELECT k, CAST(n AS STRING), CAST(window_start AS STRING), CAST(window_end AS STRING) FROM TABLE(
    SESSION(TABLE c PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' SECOND))"""
    running = Running(query, str(tmp_path))
    bounds = shown(0), shown(14_000)
    assert running.run([[("a", 1, 0), ("b", 7, 1000), ("a", 1, 4000), ("a", 1, 4000)]], owners=owners) == []
    assert running.run([[("b", 8, 10_500)]], owners=owners) == []
    running.start()
    found = running.run([[("c", 1, 16_000)]], owners=owners)
    assert sorted(found) == [("a", "1", *bounds)] * 3
    assert sorted(running.run([[("c", 1, 90_000)]], owners=owners))[0] == ("b", "7", shown(1000), shown(20_500))


@pytest.mark.parametrize(
    "query",
    [
        """SELECT k, CAST(window_start AS STRING), CAST(SUM(n) AS STRING) FROM TABLE(
        SESSION(TABLE p PARTITION BY k, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end""",
        """SELECT k, CAST(SESSION_START(at, INTERVAL '10' SECOND) AS STRING), CAST(SUM(n) AS STRING) FROM p
        GROUP BY k, SESSION(at, INTERVAL '10' SECOND)""",
    ],
)
def test_sessions_of_processing_time_close_when_no_row_came_for_long(query, tmp_path):
    running = Running(query, str(tmp_path))
    epoch = round((START - datetime(1970, 1, 1)).total_seconds() * 1000)

    def at(millis: int, rows: Sequence[Row] = (), **more: Any) -> list[tuple[Any, ...]]:
        running.driver.now_ms = epoch + millis
        return running.run([rows], **more)

    assert at(1000, [("a", 1, None), ("b", 5, None)]) == []
    assert at(9000, [("a", 2, None), ("a", 2, None)], owners=3) == []
    running.start()
    assert at(11_500, [("a", 3, None)], owners=2) == [("b", shown(1000), "5")]
    assert at(21_498) == []
    assert at(23_000, [("a", 7, None)]) == [("a", shown(1000), "8")]
    assert at(40_000, owners=2) == [("a", shown(23_000), "7")]
    assert running.stored == 0


def test_windows_of_processing_time_close_as_time_passes(tmp_path):
    query = """SELECT k, CAST(window_start AS STRING), CAST(COUNT(*) AS STRING) FROM TABLE(
    TUMBLE(TABLE p, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end"""
    running = Running(query, str(tmp_path))
    epoch = round((START - datetime(1970, 1, 1)).total_seconds() * 1000)

    def at(millis: int, rows: Sequence[Row] = (), **more: Any) -> list[tuple[Any, ...]]:
        running.driver.now_ms = epoch + millis
        return running.run([rows], **more)

    assert at(1000, [("a", 1, None), ("b", 1, None)]) == []
    assert at(9998, [("a", 2, None)], owners=3) == []
    running.start()
    assert at(9999) == []
    assert at(9999, [("c", 1, None)]) == []  # rows may still come in the last millisecond
    assert sorted(at(10_000, [("a", 3, None)])) == [("a", shown(0), "2"), ("b", shown(0), "1"), ("c", shown(0), "1")]
    assert running.driver.late == 0
    assert at(15_000, ended=True) == []  # the end of input closes no window of processing time
    assert at(30_000, owners=2) == [("a", shown(10_000), "1")]
    assert running.stored == 0


def test_windows_of_processing_time_need_no_column_of_the_table(tmp_path):
    epoch = round((START - datetime(1970, 1, 1)).total_seconds() * 1000)
    table = "FROM TABLE({}) GROUP BY window_start, window_end"
    older = "FROM p GROUP BY {}"
    size, step = "INTERVAL '10' SECOND", "INTERVAL '5' SECOND"
    tumbling, hopping, cumulating = [(0, 3)], [(-5000, 2), (0, 3), (5000, 1)], [(0, 2), (0, 3)]
    for source, windows in (
        (table.format(f"TUMBLE(TABLE p, DESCRIPTOR(at), {size})"), tumbling),
        (table.format(f"HOP(TABLE p, DESCRIPTOR(at), {step}, {size})"), hopping),
        (table.format(f"CUMULATE(TABLE p, DESCRIPTOR(at), {step}, {size})"), cumulating),
        (table.format(f"SESSION(TABLE p, DESCRIPTOR(at), {size})"), [(1000, 3)]),
        (older.format(f"TUMBLE(at, {size})"), tumbling),
        (older.format(f"HOP(at, {step}, {size})"), hopping),
        (older.format(f"SESSION(at, {size})"), [(1000, 3)]),
    ):
        kind, arguments = source.split("BY ", 1)[1].split("(", 1) if source.startswith("FROM p") else ("", "")
        start = f"{kind}_START({arguments}" if kind else "window_start"
        for columns, expected in (
            (f"CAST({start} AS STRING), CAST(COUNT(*) AS STRING)", [(shown(at), str(rows)) for at, rows in windows]),
            ("CAST('window' AS STRING)", [("window",)] * len(windows)),
        ):
            query = f"SELECT {columns} {source}"
            running = Running(query, str(tmp_path / str(len(list(tmp_path.iterdir())))))
            check_job(parsed(running.script).jobs[0])
            found = []
            for time, rows in ((1000, [("a", 1, None), ("b", 1, None)]), (6000, [("a", 1, None)]), (90_000, [])):
                running.driver.now_ms = epoch + time
                found += running.run([rows])
            assert sorted(found) == sorted(expected), query
            assert running.stored == 0
