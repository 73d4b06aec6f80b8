"""Columns of a user that are named like penstock's own are columns like any other."""

from __future__ import annotations

import random
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import SchemaError
from penstock.flow.rows import envelope
from penstock.plan.planning import plan_job
from penstock.spi import DEAD_LETTER, HIDDEN, KIND, REPORT, WATERMARK, is_own_name
from tests.corpora import parsed
from tests.programs import Way, written

#: What penstock's own columns were called, and are in its state.
NAMES = (
    *("__partition", "__offset", "__kind", "__weight", "__hash", "__arrived", "__arrival", "__time", "__matches"),
    *("__value", "__start", "__end", "__next", "__slice", "__seen", "__row", "__present", "__dead_letter", "__report"),
    "__watermark",
)
SINK = "CREATE TABLE t (a INT) WITH ('connector' = 'any', 'mode' = 'I');"
#: Queries over the columns {a}, {b} and so on of the tables s of rows with event time, c of changes and u of upserts.
QUERIES = {
    "last values": "SELECT k, LAST_VALUE({}) FROM s GROUP BY k",
    "keys": "SELECT k, {} FROM s GROUP BY k, {}",
    "extremes": "SELECT k, MIN({}) FROM c GROUP BY k",
    "distinct sums": "SELECT k, SUM(DISTINCT {}) FROM c GROUP BY k",
    "frames": "SELECT k, SUM({}) OVER w FROM s WINDOW w AS (PARTITION BY k ORDER BY ts ROWS 2 PRECEDING)",
    "lengths": "SELECT k, SUM({}) OVER w FROM s WINDOW w AS (PARTITION BY k ORDER BY ts "
    "RANGE INTERVAL '4' SECOND PRECEDING)",
    "running": "SELECT k, SUM({}) OVER w FROM s WINDOW w AS (PARTITION BY k, `__time` ORDER BY ts)",
    "rows": "SELECT k, SUM({}) OVER w FROM c WINDOW w AS (PARTITION BY k ORDER BY `__arrival`)",
    "join": "SELECT s.k, s.{} + c.{} FROM s JOIN c ON s.k = c.k",
    "outer join": "SELECT s.k, c.{} FROM s LEFT JOIN c ON s.k = c.k AND s.`__matches` < c.`__matches`",
    "windows": "SELECT k, SUM({}) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '5' SECOND)) "
    "GROUP BY k, window_start, window_end",
    "sessions": "SELECT k, LAST_VALUE({}) FROM TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), "
    "INTERVAL '3' SECOND)) GROUP BY k, window_start, window_end",
    "session rows": "SELECT k, {} FROM TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECOND))",
    "last row": "SELECT k, {} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS i FROM s) "
    "WHERE i = 1",
    "first rows": "SELECT k, {} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY `__value`) AS i FROM s) "
    "WHERE i <= 2",
    "order": "SELECT k, {} FROM s ORDER BY ts",
    "difference": "SELECT k, {} FROM s EXCEPT SELECT k, {} FROM c",
    "upserts": "SELECT k, {} FROM u",
    "random": "SELECT k, {} FROM (SELECT *, RAND() AS r FROM s) WHERE r < 2 AND r > -1",
}
WAYS = (Way(), Way(2, 3, restart=True))
_START = datetime(2026, 1, 1)


def _query(text: str) -> str:
    """A query with what is said of ``{}`` said of each column."""
    parts = re.split(r"((?:\w+\()?(?:DISTINCT )?(?:\w\.)?\{\}(?:[^,]*?\{\})?\)?(?: OVER w)?)", text)
    each_of = [", ".join(part.replace("{}", f"`{name}`") for name in NAMES) if "{}" in part else part for part in parts]
    return "".join(each_of)


def _program(text: str) -> dict[str, Any]:
    """A program with one query."""
    rng = random.Random(text)
    columns = ["k STRING", *(f"`{each}` BIGINT" for each in NAMES)]
    rows = [[rng.choice("ab"), *(rng.randrange(5) for _ in NAMES)] for _ in range(12)]
    times = [f"{_START + timedelta(seconds=2 * at)}" for at in range(12)]
    upserts = [["+U", row] for row in rows]
    given = {
        "s": ([*columns, "ts TIMESTAMP(3)"], "I", [["+I", [*row, ts]] for row, ts in zip(rows, times, strict=True)]),
        "c": (columns, "I,UB,UA,D", [["+I", row] for row in rows] + [["-D", row] for row in rows[::3]]),
        "u": (columns, "I,UA,D", upserts),
    }
    tables = [
        {
            "name": name,
            "schema": schema,
            "primary_key": ["k"] if name == "u" else None,
            "watermark": "ts AS ts" if name == "s" else None,
            "changelog_mode": mode,
            "before": changes[: len(changes) // 2],
            "after": changes[len(changes) // 2 :],
        }
        for name, (schema, mode, changes) in given.items()
    ]
    sink = {
        "name": "t",
        "schema": columns,
        "primary_key": None,
        "options": {"sink-changelog-mode-enforced": "I,UB,UA,D"},
    }
    sql = [f"INSERT INTO t {_query(text)}"]
    return {"name": "own", "tables": tables, "sinks": [sink], "sql": sql, "run": {"end_of_input": "finite"}}


def _renamed(value: Any) -> Any:
    """A program in which no column begins with an underscore."""
    if isinstance(value, dict):
        return {_renamed(key): _renamed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_renamed(each) for each in value]
    return value.replace("`__", "`my_") if isinstance(value, str) else value


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("name", QUERIES)
def test_a_query_of_columns_with_these_names_gives_what_it_gives_with_others(name: str, way: Way, tmp_path: Path):
    program = _program(QUERIES[name])
    found, others = (
        written(each, way, str(tmp_path / str(number)))["t"].rows
        for number, each in enumerate((program, _renamed(program)))
    )
    assert found == others
    assert found


def test_a_name_that_only_own_columns_have_is_refused():
    columns = f"`{KIND}` INT"
    text = f"CREATE TABLE s ({columns}) WITH ('connector' = 'any', 'mode' = 'I'); {SINK} INSERT INTO t SELECT * FROM s"
    (job,) = parsed(text).jobs
    with pytest.raises(SchemaError, match=r"column '\\x1fkind': the name of a column cannot begin with the control"):
        plan_job(job)


def test_own_columns_are_named_in_two_modules():
    of_sources = [*HIDDEN.names, KIND, DEAD_LETTER, REPORT, WATERMARK]
    of_operators = [each for each in vars(envelope).values() if isinstance(each, str) and is_own_name(each)]
    assert len({*of_sources, *of_operators}) == len(of_sources) + len(of_operators)
    source = Path(penstock.__file__).parent
    naming = {path.name for path in source.rglob("*.py") if re.search(r'own_name\("', path.read_text("utf-8"))}
    assert naming == {"envelope.py"}
