"""The process that runs Spark's own queries, in a Python of its own with PySpark and nothing of this project.

Its argument is the folder of the jars of Spark's connector for Kafka, which writes at least once. Tasks are
``{"how": "groupBy" | "transformWithState", "provider": "rocksdb" | "hdfs", "bootstrap", "source", "target", "columns",
"key", "per_batch", "folder"}``; the folder is for the checkpoint. Without state ``how`` is "read", "filter" (of JSON,
by the SQL condition ``key``) or "copy", and ``provider`` is empty.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PROVIDERS = {
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "hdfs": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}
_STATE = "spark.sql.streaming.stateStore"


def main(jars: str) -> None:
    """Run one job per line of the standard input."""
    sql: Any = importlib.import_module("pyspark.sql")
    builder = (
        sql.SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(sorted(map(str, Path(jars).glob("*.jar")))))
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config(f"{_STATE}.rocksdb.changelogCheckpointing.enabled", "true")
    )
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        try:
            answer: dict[str, object] = {"seconds": _run(spark, json.loads(line))}
        except Exception as error:  # noqa: BLE001 - the caller reports it
            answer = {"error": f"{type(error).__name__}: {error}"[:800]}
        print("GATE " + json.dumps(answer), flush=True)


def _run(spark: Any, task: dict[str, Any]) -> float:
    functions: Any = importlib.import_module("pyspark.sql.functions")
    if not task["provider"]:
        return _ran(_stateless(_source(spark, task), functions, task), task)
    spark.conf.set(f"{_STATE}.providerClass", _PROVIDERS[task["provider"]])
    rows = _parse_rows(_source(spark, task), functions, task)
    key = task["key"]
    if task["how"] == "groupBy":
        totals = rows.groupBy(key).agg(functions.count("*").alias("n"), functions.sum("amount").alias("s"))
    else:
        result = f"{key} BIGINT, n BIGINT, s DOUBLE"
        totals = rows.groupBy(key).transformWithState(_processor(key), result, "Update", "None")
    message = totals.select(functions.col(key).cast("string").alias("key"), functions.to_json(functions.struct("*")))
    return _ran(message.toDF("key", "value").writeStream.format("kafka").outputMode("update"), task)


def _source(spark: Any, task: dict[str, Any]) -> Any:
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", task["bootstrap"])
    read = read.option("subscribe", task["source"]).option("startingOffsets", "earliest")
    if task["per_batch"]:
        read = read.option("maxOffsetsPerTrigger", task["per_batch"])
    return read.load()


def _parse_rows(rows: Any, functions: Any, task: dict[str, Any]) -> Any:
    columns = task["columns"].replace("TIMESTAMP(3)", "TIMESTAMP")
    parsed = functions.from_json(functions.col("value").cast("string"), columns)
    return rows.select(parsed.alias("row")).select("row.*")


def _stateless(rows: Any, functions: Any, task: dict[str, Any]) -> Any:
    if task["how"] == "copy":
        return rows.select("value").writeStream.format("kafka")
    if task["how"] == "filter":
        rows = _parse_rows(rows, functions, task).where(task["key"])
    return rows.writeStream.format("noop")


def _ran(writer: Any, task: dict[str, Any]) -> float:
    """The seconds that a query takes."""
    begun = time.perf_counter()
    query = (
        writer.option("kafka.bootstrap.servers", task["bootstrap"])
        .option("kafka.linger.ms", "50")
        .option("kafka.batch.size", "1000000")
        .option("topic", task["target"])
        .option("checkpointLocation", task["folder"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return time.perf_counter() - begun


def _processor(key: str) -> Any:
    """COUNT and SUM by group, kept in one value."""
    streaming: Any = importlib.import_module("pyspark.sql.streaming")
    sql: Any = importlib.import_module("pyspark.sql")

    class Totals(streaming.StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self._totals = handle.getValueState("totals", "n BIGINT, s DOUBLE")

        def handleInputRows(self, group: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:
            count, total = self._totals.get() if self._totals.exists() else (0, 0.0)
            for row in rows:
                count, total = count + 1, total + row.amount
            self._totals.update((count, total))
            yield sql.Row(**{key: group[0], "n": count, "s": total})

        def close(self) -> None:
            pass

    return Totals()


if __name__ == "__main__":
    main(sys.argv[1])
