"""Batch jobs beside plain PySpark: from files of Parquet to files of Parquet, the same queries on both sides.

Usage: ``python -m bench.batch [--rows N] [--rounds N]``. Each side is a process of its own that stays; the first round
warms up, and the number of rows that it gives is compared.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from bench.gate.sides import Side, penstock_side

_FILES = 8
QUERIES = {
    "GROUP BY, a million keys": "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM given GROUP BY k",
    "GROUP BY, 100 keys": "SELECT g AS k, COUNT(*) AS n, SUM(v) AS total FROM given GROUP BY g",
    "JOIN of a million keys": "SELECT given.k, v AS n, w AS total FROM given JOIN named ON given.k = named.k",
    "ORDER BY": "SELECT k, v AS n, v AS total FROM given ORDER BY v, k",
}
_COLUMNS = "k BIGINT, n BIGINT, total BIGINT"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.batch", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spark", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.spark:
        return _spark()
    sides = {"penstock": penstock_side(), "Spark": Side("Spark", [sys.executable, "-m", "bench.batch", "--spark"])}
    with tempfile.TemporaryDirectory(prefix="penstock-batch-") as folder:
        write_tables(Path(folder), given.rows)
        seconds: dict[str, dict[str, list[float]]] = {}
        for name, query in QUERIES.items():
            rows = {}
            for number in range(given.rounds + 1):
                for side, process in sides.items():
                    out = Path(folder, "out")
                    taken = process.run(
                        {"sql": batch_script(Path(folder), query), "query": query, "folder": folder}
                    ).seconds
                    rows[side] = ds.dataset(out, exclude_invalid_files=True).count_rows()
                    shutil.rmtree(out)
                    shutil.rmtree(Path(folder, "checkpoint"), ignore_errors=True)
                    if number:
                        seconds.setdefault(name, {}).setdefault(side, []).append(taken)
            assert len(set(rows.values())) == 1, rows
        for each in sides.values():
            each.close()
    print(f"{given.rows:,} rows, seconds (least to most)")
    for name, found in seconds.items():
        shown = ", ".join(
            f"{side} {statistics.median(s):.1f} ({min(s):.1f} to {max(s):.1f})" for side, s in found.items()
        )
        print(f"{name}: {shown}")
    return 0


def write_tables(folder: Path, rows: int) -> None:
    random = np.random.default_rng(1)
    (folder / "given").mkdir()
    (folder / "named").mkdir()
    for number in range(_FILES):
        count = rows // _FILES
        table = {
            "k": random.integers(0, 1_000_000, count),
            "g": random.integers(0, 100, count),
            "v": random.integers(0, 1 << 40, count),
        }
        pq.write_table(pa.table(table), folder / "given" / f"{number}.parquet")
    named = {"k": np.arange(1_000_000), "w": random.integers(0, 1 << 40, 1_000_000)}
    pq.write_table(pa.table(named), folder / "named" / "0.parquet")


def batch_script(folder: Path, query: str) -> str:
    def table(name: str, columns: str, path: str) -> str:
        where = f"'connector' = 'filesystem', 'path' = '{folder / path}', 'format' = 'parquet'"
        return f"CREATE TABLE {name} ({columns}) WITH ({where});"

    return "\n".join(
        [
            "SET 'execution.runtime-mode' = 'batch';",
            f"SET 'execution.checkpointing.dir' = '{folder / 'checkpoint'}';",
            table("given", "k BIGINT, g BIGINT, v BIGINT", "given"),
            table("named", "k BIGINT, w BIGINT", "named"),
            table("answer", _COLUMNS, "out"),
            f"INSERT INTO answer {query};",
        ]
    )


def _spark() -> int:
    """The process that runs Spark's own batches."""
    import time

    from pyspark.sql import SparkSession

    from bench.gate.sides import REPLY

    spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
    for line in sys.stdin:
        task = json.loads(line)
        begun = time.perf_counter()
        for name in ("given", "named"):
            spark.read.parquet(f"{task['folder']}/{name}").createOrReplaceTempView(name)
        spark.sql(task["query"]).write.parquet(f"{task['folder']}/out")
        print(REPLY + json.dumps({"seconds": time.perf_counter() - begun}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
