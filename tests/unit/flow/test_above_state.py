"""Expressions above operators with state, and beside UNNEST."""

from __future__ import annotations

import pytest

from penstock.flow.kernels.session import Session
from penstock.flow.planner import Planner
from penstock.plan.planning import planned
from penstock.plan.walk import scans
from tests.corpora import parsed

TABLES = """
CREATE TABLE o (id INT, k STRING, amount DECIMAL(10, 2), price DECIMAL(20, 4), v DOUBLE, at TIMESTAMP_LTZ(3))
  WITH ('connector' = 'any', 'mode' = 'I');
CREATE TABLE r (id INT, rate DECIMAL(12, 6)) WITH ('connector' = 'any', 'mode' = 'I');
"""


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT k, SUM(price) * 1.19 FROM o GROUP BY k", "k STRING, c DECIMAL(38, 6)"),
        ("SELECT k, SUM(amount) / 1000 FROM o GROUP BY k", "k STRING, c DECIMAL(38, 6)"),
        ("SELECT k, SUM(amount) / SUM(price) FROM o GROUP BY k", "k STRING, c DECIMAL(38, 6)"),
        ("SELECT k, amount / rate FROM o JOIN r ON o.id = r.id", "k STRING, c DECIMAL(38, 6)"),
        ("SELECT k, ROUND(AVG(v), 2) FROM o GROUP BY k", "k STRING, c DOUBLE"),
        ("SELECT k, CAST(STDDEV_SAMP(v) AS DECIMAL(20, 6)) FROM o GROUP BY k", "k STRING, c DECIMAL(20, 6)"),
        ("SELECT k, MAX(at) + INTERVAL '1' DAY FROM o GROUP BY k", "k STRING, c TIMESTAMP_LTZ(3)"),
        ("SELECT k, CAST(AVG(v) AS STRING) FROM o GROUP BY k HAVING POWER(AVG(v), 2) > 1", "k STRING, c STRING"),
    ],
)
def test_reports_compute_with_what_groups_and_joins_give(query: str, columns: str):
    script = f"{TABLES} CREATE TABLE t ({columns}) WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D');"
    (job,) = parsed(f"{script} INSERT INTO t {query}").jobs
    planner = Planner(scans(*job.sinks), Session("America/New_York"))
    for number, sink in enumerate(planned(job).sinks):
        planner.add(sink, number)
    assert planner.hops == {}
