"""Variances, held against Python's statistics."""

from __future__ import annotations

import statistics
from decimal import Decimal
from typing import Any

import pytest

from tests.programs import Way, outcome

#: A group, a DOUBLE, an INT and a DECIMAL; the last row is taken back.
ROWS: list[tuple[str, Any]] = [
    *(("+I", ("a", 1.5, 1, "1.10")), ("+I", ("a", -2.0, 7, "2.20")), ("+I", ("a", 8.25, 10, "4.00"))),
    *(("+I", ("a", None, None, None)), ("+I", ("b", 3.0, 4, "5.00")), ("+I", ("c", None, None, None))),
    *(("+I", ("a", 99.0, 99, "99.00")), ("-D", ("a", 99.0, 99, "99.00"))),
]
PYTHON = {
    "VAR_POP": statistics.pvariance,
    "VAR_SAMP": statistics.variance,
    "VARIANCE": statistics.variance,
    "STDDEV_POP": statistics.pstdev,
    "STDDEV_SAMP": statistics.stdev,
    "STDDEV": statistics.stdev,
}


@pytest.mark.parametrize("way", [Way(), Way(1, 3)], ids=["one batch", "many"])
def test_variances_are_those_of_statistics_in_the_type_of_an_average(way: Way, tmp_path):
    columns = ["g STRING", "d DOUBLE", "i INT", "p DECIMAL(10, 2)"]
    table = {"name": "t", "schema": columns, "primary_key": None, "changelog_mode": "I,D", "before": ROWS, "after": []}
    found = ["g STRING", *(f"d{n} DOUBLE" for n, _ in enumerate(PYTHON)), "i INT", "s INT", "p DECIMAL(38, 6)"]
    sink = {"name": "s", "schema": found, "primary_key": None, "options": {}}
    calls = ", ".join([*(f"{name}(d)" for name in PYTHON), "VAR_POP(i)", "STDDEV_SAMP(i)", "VAR_POP(p)"])
    program = {"name": "variances", "tables": [table], "sinks": [sink], "run": {"end_of_input": "none"}}
    rows = outcome(program | {"sql": [f"INSERT INTO s SELECT g, {calls} FROM t GROUP BY g"]}, way, str(tmp_path))["s"]
    by_group = {name: rest for name, *rest in (row[1:-1].split(", ") for row in rows)}

    values = [1.5, -2.0, 8.25]
    assert [float(each) for each in by_group["a"][:6]] == pytest.approx([of(values) for of in PYTHON.values()])
    # Sums of whole numbers are divided as whole numbers: (150 - 324 / 3) / 3, and the root of 42 / 2 cut off.
    assert by_group["a"][6:8] == ["14", "4"]
    assert Decimal(by_group["a"][8]) == statistics.pvariance(map(Decimal, ("1.10", "2.20", "4.00"))).quantize(
        Decimal("0.000001")
    )
    assert by_group["b"] == ["0.0", "null", "null", "0.0", "null", "null", "0", "null", "0.000000"]
    assert by_group["c"] == ["null"] * 9
