"""Rows whose event time is NULL: they end the job with their position, or are late where the settings say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import RecordError
from penstock.types import RowKind
from tests.unit.flow.running import Running

_TUMBLE = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
#: Steps that go by event time, and the column in which a row has none.
QUERIES = {
    "windows": (f"SELECT k, CAST(SUM(n) AS STRING) FROM {_TUMBLE} GROUP BY k, window_start, window_end", "ts"),
    "windows of lists": (
        f"SELECT k, CAST(LISTAGG(k) AS STRING) FROM {_TUMBLE} GROUP BY k, window_start, window_end",
        "ts",
    ),
    "hopping windows": (
        "SELECT k, CAST(COUNT(*) AS STRING) FROM TABLE(HOP(TABLE {}, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL"
        " '10' SECOND)) GROUP BY k, window_start, window_end",
        "ts",
    ),
    "former windows": ("SELECT k, CAST(SUM(n) AS STRING) FROM {} GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)", "ts"),
    "sessions": (
        "SELECT k, CAST(SUM(n) AS STRING) FROM TABLE(SESSION(TABLE {} PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' "
        "SECOND)) GROUP BY k, window_start, window_end",
        "ts",
    ),
    "first rows of windows": (
        "SELECT k, CAST(n AS STRING) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, window_start, window_end ORDER"
        f" BY n) AS place FROM {_TUMBLE}) WHERE place = 1",
        "ts",
    ),
    "joins of windows": (
        f"SELECT CAST(a.k AS STRING), CAST(b.n AS STRING) FROM {_TUMBLE} AS a JOIN {_TUMBLE} AS b ON a.k = b.k"
        " AND a.window_start = b.window_start AND a.window_end = b.window_end",
        "ts",
    ),
    "first rows": (
        "SELECT k, CAST(n AS STRING) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS place FROM {})"
        " WHERE place = 1",
        "ts",
    ),
    "the order of time": ("SELECT k, CAST(n AS STRING) FROM {} ORDER BY ts", "ts"),
}
ROWS = [("a", 1, 1000), ("b", 2, None), ("a", 3, None), ("a", 4, 2000)]


def query(name: str, table: str = "s") -> str:
    return QUERIES[name][0].replace("{}", table)


@pytest.mark.parametrize("owners", [1, 3])
@pytest.mark.parametrize("name", QUERIES)
def test_a_row_without_an_event_time_ends_the_job_with_its_position(name: str, owners: int, tmp_path: Path) -> None:
    running = Running(query(name), str(tmp_path), lenient=False)
    with pytest.raises(RecordError, match=f"field '{QUERIES[name][1]}': the row has no event time") as caught:
        running.run([ROWS], owners)
    assert (caught.value.partition, caught.value.offset) == (0, 1)
    assert "WHERE ts IS NOT NULL" in caught.value.hint
    assert "'penstock.null-event-time' = 'late'" in caught.value.hint


@pytest.mark.parametrize("owners", [1, 3])
@pytest.mark.parametrize("name", QUERIES)
def test_where_the_settings_say_so_it_is_late(name: str, owners: int, tmp_path: Path) -> None:
    found, kept = Running(query(name), str(tmp_path / "all")), Running(query(name), str(tmp_path / "some"))
    for running, rows in ((found, ROWS), (kept, [row for row in ROWS if row[2] is not None])):
        running.run([rows], owners)
        running.run([[("c", 1, 90_000)]], owners)
    assert found.result == kept.result
    assert found.late == 2 * (1 + (name == "joins of windows"))  # by both sides
    assert kept.late == 0


@pytest.mark.parametrize("name", QUERIES)
def test_a_condition_below_leaves_it_out(name: str, tmp_path: Path) -> None:
    """As a view, since a window function takes a table."""
    running = Running(query(name, "timed"), str(tmp_path), lenient=False)
    running.run([ROWS])
    running.run([[("c", 1, 90_000)]])
    assert running.result
    assert running.late == 0


def test_windows_that_are_given_as_they_are_end_the_job_whatever_the_settings_say(tmp_path: Path) -> None:
    """Nobody would count such a row."""
    running = Running(f"SELECT k, CAST(window_end AS STRING) FROM {_TUMBLE.format('s')}", str(tmp_path))
    with pytest.raises(RecordError, match="field 'ts': the row has no event time"):
        running.run([ROWS])


def test_a_row_that_is_taken_back_needs_no_time(tmp_path: Path) -> None:
    running = Running(query("windows", "c"), str(tmp_path), lenient=False)
    running.run([[("a", 1, 1000), ("a", 2, None)]], kinds=[RowKind.INSERT, RowKind.DELETE])
    assert running.run([[("a", 1, 90_000)]])


def test_many_rows_are_counted_before_they_are_combined(tmp_path: Path) -> None:
    running = Running(query("windows"), str(tmp_path))
    running.run([[("a", 1, None if at % 100 == 0 else 1000) for at in range(5000)]], 2)
    running.run([[("a", 1, None if at % 100 == 0 else 2000) for at in range(5000)]], 2)
    assert running.late == 100
