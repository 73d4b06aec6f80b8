"""The time from a SQL file to the plans of its jobs, which a start needs before Spark: ``python -m bench.compile``.

The file has 50 statements: tables of Kafka, views, and queries with joins, groups, windows, first rows and functions.
Each round is a process of its own, so that imports count as they do at a start.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

_ROUND = "--round"
_SERVERS = "'properties.bootstrap.servers' = 'localhost:9092'"
_ORDERS = """CREATE TABLE orders_{n} (
  id BIGINT, customer BIGINT, amount DECIMAL(10, 2), note STRING, body STRING, ts TIMESTAMP_LTZ(3),
  `offset` BIGINT METADATA VIRTUAL, day AS CAST(ts AS DATE), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (
  'connector' = 'kafka', 'topic' = 'orders_{n}', {servers}, 'scan.startup.mode' = 'earliest-offset', 'format' = 'json'
)"""
_CUSTOMERS = """CREATE TABLE customers_{n} (id BIGINT, name STRING, city STRING, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'customers_{n}', {servers}, 'key.format' = 'json', 'value.format' = 'json'
)"""
_TOTALS = """CREATE TABLE totals_{n} (
  city STRING, n BIGINT, total DECIMAL(38, 2), PRIMARY KEY (city) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'totals_{n}', {servers}, 'key.format' = 'json', 'value.format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'totals-{n}'
)"""
_WINDOWS = """CREATE TABLE windows_{n} (note STRING, opened TIMESTAMP(3), n BIGINT, total DECIMAL(38, 2)) WITH (
  'connector' = 'kafka', 'topic' = 'windows_{n}', {servers}, 'format' = 'debezium-json'
)"""
_LARGE = """CREATE VIEW large_{n} AS
SELECT *, UPPER(JSON_VALUE(body, '$.kind')) AS kind FROM orders_{n} WHERE amount > 10 AND note NOT LIKE 'test%'"""
_JOIN = """INSERT INTO totals_{n}
SELECT city, COUNT(*), SUM(amount) FROM large_{n} JOIN customers_{n} AS c ON customer = c.id
GROUP BY city HAVING COUNT(*) > 1"""
_WINDOW = """INSERT INTO windows_{n}
SELECT COALESCE(note, kind), window_start, COUNT(DISTINCT customer), SUM(amount) FILTER (WHERE amount < 1000)
FROM TABLE(TUMBLE(TABLE large_{n}, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY COALESCE(note, kind), window_start, window_end"""
_FIRST = """INSERT INTO windows_{n}
SELECT note, CAST(ts AS TIMESTAMP(3)), id, amount FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ts) AS place FROM large_{n}
) WHERE place = 1 AND EXISTS (SELECT * FROM customers_{n} AS c WHERE c.id = customer)"""
_STATEMENTS = (_ORDERS, _CUSTOMERS, _TOTALS, _WINDOWS, _LARGE, _JOIN, _WINDOW, _FIRST)


def script() -> str:
    """A file of 50 statements."""
    groups = [each.format(n=n, servers=_SERVERS) for n in range(6) for each in _STATEMENTS]
    return ";\n".join(["SET 'pipeline.name' = 'all'", "SET 'table.local-time-zone' = 'UTC'", *groups]) + ";\n"


def measure() -> dict[str, float]:
    """Seconds of CPU of one process. ``again``: of the statements, when all that they need is imported."""
    begin = time.process_time()
    from penstock.plan.planning import plan_job
    from penstock.sql import parse_script

    imported = time.process_time()
    jobs = parse_script(script(), file="bench.sql").jobs
    read = time.process_time()
    for job in jobs:
        plan_job(job)
    done = time.process_time()
    parse_script(script(), file="bench.sql")
    again = time.process_time() - done
    first = {"imports": imported - begin, "statements": read - imported, "plans": done - read, "all": done - begin}
    return {**first, "again": again}


def main() -> None:
    """Measure, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(_ROUND, action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.round:
        print(json.dumps(measure()))
        return
    command = [sys.executable, "-m", "bench.compile", _ROUND]
    rounds = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(given.rounds)]
    for part in rounds[0]:
        values = sorted(each[part] for each in rounds)
        print(f"{part:<12} {statistics.median(values):.2f} s of CPU ({values[0]:.2f} to {values[-1]:.2f})")


if __name__ == "__main__":
    main()
