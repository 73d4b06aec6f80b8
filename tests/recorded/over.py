"""Functions with OVER over a few rows, and what Flink gives, in ``over.json``.

    python -m tests.recorded.over PYTHON

``PYTHON`` has PyFlink 2.2. All results are cast to STRING.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.gate.sides import flink

_RECORDED = Path(__file__).with_name("over.json")
COLUMNS = [
    *("k STRING", "n INT", "d DOUBLE", "m DECIMAL(10, 2)", "v STRING", "ts TIMESTAMP(3)", "i INT"),
]
WATERMARK = "ts AS ts - INTERVAL '2' SECOND"
_NUMBERS = ("SUM(n)", "COUNT(n)", "AVG(n)", "AVG(m)", "SUM(m)", "MIN(d)", "AVG(d)", "MAX(v)", "STDDEV_POP(d)")
_VALUES = ("FIRST_VALUE(n)", "LAST_VALUE(n)", "FIRST_VALUE(v)", "LAST_VALUE(v)", "LISTAGG(v)", "VAR_SAMP(n)")
_DISTINCT = ("COUNT(DISTINCT n)", "SUM(DISTINCT n)", "COUNT(DISTINCT v)", "SUM(DISTINCT m)")
#: Windows in the order of time, and what is computed over them, in a stream.
STREAM: dict[str, Sequence[str]] = {
    "PARTITION BY k ORDER BY ts": (*_NUMBERS, *_VALUES, *_DISTINCT, "LAG(n)", "LAG(v, 3)", "LAG(n, 0)"),
    "ORDER BY ts": (*_NUMBERS[:3], "LAG(v, 2)", *_DISTINCT),
    "PARTITION BY k ORDER BY ts ROWS UNBOUNDED PRECEDING": (*_NUMBERS, *_VALUES, *_DISTINCT),
    "PARTITION BY k ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW": (*_NUMBERS, *_VALUES, *_DISTINCT),
    "PARTITION BY v ORDER BY ts RANGE BETWEEN INTERVAL '4' SECOND PRECEDING AND CURRENT ROW": (
        *_NUMBERS,
        *_VALUES,
        *_DISTINCT,
    ),
    "PARTITION BY k, v ORDER BY ts ROWS BETWEEN 0 PRECEDING AND CURRENT ROW": _NUMBERS,
}
#: The same in batch mode, where the order is total unless rows that are equal give one result.
BATCH: dict[str, Sequence[str]] = {
    "PARTITION BY k ORDER BY ts, i ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING": (*_NUMBERS, *_VALUES),
    "PARTITION BY k ORDER BY n RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING": _NUMBERS,
    "PARTITION BY k ORDER BY n DESC RANGE BETWEEN 1 PRECEDING AND CURRENT ROW": _NUMBERS,
    "PARTITION BY k ORDER BY d RANGE BETWEEN 0.5 PRECEDING AND CURRENT ROW": _NUMBERS[:5],
    "PARTITION BY k ORDER BY m RANGE BETWEEN 1 PRECEDING AND CURRENT ROW": _NUMBERS[:5],
    "PARTITION BY k ORDER BY i ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING": (*_NUMBERS, *_VALUES),
    "PARTITION BY k ORDER BY i ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING": (*_NUMBERS, *_VALUES),
    "ORDER BY i ROWS BETWEEN 2 FOLLOWING AND 1 FOLLOWING": ("SUM(n)", "COUNT(n)", "MAX(v)"),
    "PARTITION BY k": _NUMBERS,
    "": ("SUM(n)", "COUNT(*)", "MIN(v)"),
    "PARTITION BY k ORDER BY i": (
        *("LAG(n)", "LAG(v, 2)", "LEAD(v)", "LEAD(n, 2)", "NTILE(3)", "ROW_NUMBER()", "RANK()", "DENSE_RANK()"),
        *("PERCENT_RANK()", "CUME_DIST()", *_NUMBERS),
    ),
    "ORDER BY i DESC": ("NTILE(7)", "ROW_NUMBER()", "LEAD(n, 3)"),
    "PARTITION BY k ORDER BY n DESC": ("RANK()", "DENSE_RANK()", "PERCENT_RANK()", "SUM(n)"),
}


def recorded() -> dict[str, Any]:
    """The ``rows``, and of each ``stream`` and ``batch`` query the SQL and its rows."""
    found: dict[str, Any] = json.loads(_RECORDED.read_text("utf-8"))
    return found


def query(window: str, functions: Sequence[str]) -> str:
    """The number of a row, and its results."""
    results = ", ".join(f"CAST({each} OVER w AS STRING)" for each in functions)
    return f"SELECT CAST(i AS STRING), {results} FROM s WINDOW w AS ({window})"


def sink(functions: int) -> list[str]:
    """The columns of the results of so many functions."""
    return [f"c{number} STRING" for number in range(functions + 1)]


def record(python: str) -> None:
    """Ask Flink for all rows."""
    rows = _rows(random.Random(7))
    document: dict[str, Any] = {"flink": "2.2.0", "rows": rows}
    side = flink(python)
    try:
        with tempfile.TemporaryDirectory(prefix="over-") as name:
            folder = Path(name)
            names = [each.split()[0] for each in COLUMNS]
            lines = (json.dumps(dict(zip(names, row, strict=True))) for row in rows)
            (folder / "s").write_text("".join(f"{line}\n" for line in lines), "utf-8")
            for mode, windows in (("stream", STREAM), ("batch", BATCH)):
                settings = {"parallelism.default": "1", "table.local-time-zone": "UTC"}
                settings |= {"execution.runtime-mode": "batch" if mode == "batch" else "streaming"}
                settings |= {"pipeline.auto-watermark-interval": "1 d"} if mode == "stream" else {}
                statements = [_created("s", [*COLUMNS, f"WATERMARK FOR {WATERMARK}"], folder / "s")]
                inserts = []
                for at, (window, functions) in enumerate(windows.items()):
                    statements.append(_created(f"t{at}", sink(len(functions)), folder / mode / str(at)))
                    inserts.append(f"INSERT INTO t{at} {query(window, functions)}")
                side.run(
                    {
                        "settings": settings,
                        "statements": [*statements, f"EXECUTE STATEMENT SET BEGIN {'; '.join(inserts)}; END"],
                    }
                )
                document[mode] = [
                    {"window": window, "functions": list(functions), "rows": _written(folder / mode / str(at))}
                    for at, (window, functions) in enumerate(windows.items())
                ]
    finally:
        side.close()
    _RECORDED.write_text(_text(document), "utf-8")


def _rows(rng: random.Random) -> list[list[Any]]:
    rows, at = [], 10
    for number in range(40):
        at += rng.choice([0, 0, 1, 1, 2, 5])
        values = [rng.choice(["a", "b", None]), rng.choice([None, 0, 1, 2, 3, 5]), rng.choice([None, 1.5, 2.0, -1.0])]
        more = [rng.choice([None, "1.10", "2.25", "-3.00"]), rng.choice(["x", "y", "z", None])]
        rows.append([*values, *more, f"2024-01-01 00:{at // 60:02}:{at % 60:02}", number])
    return rows


def _created(name: str, columns: Sequence[str], path: Path) -> str:
    options = f"'connector' = 'filesystem', 'path' = '{path.as_uri()}', 'format' = 'json'"
    return f"CREATE TABLE {name} ({', '.join(columns)}) WITH ({options})"


def _written(folder: Path) -> list[list[Any]]:
    lines = [line for path in folder.rglob("part-*") for line in path.read_text("utf-8").splitlines()]
    return sorted((list(json.loads(line).values()) for line in lines), key=lambda row: int(row[0]))


def _text(document: dict[str, Any]) -> str:
    """One line for each query."""
    parts = [
        f'"{mode}": [\n' + ",\n".join(json.dumps(each, separators=(",", ":")) for each in document[mode]) + "\n]"
        for mode in ("stream", "batch")
    ]
    return f'{{"flink": "2.2.0", "rows": {json.dumps(document["rows"])},\n' + ",\n".join(parts) + "}\n"


if __name__ == "__main__":
    record(sys.argv[1])
