"""What its type cannot hold: Flink's value by default, and an error with ``penstock.overflow`` = ``fail``."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import RecordError
from penstock.flow.graph.planner import Planner
from penstock.flow.graph.routes import describe_route
from penstock.flow.kernels.session import Session
from penstock.flow.operators.aggregate import GroupAggregateOperator
from penstock.flow.rows.expressions import Evaluator, compile_expression
from penstock.flow.windows.sessions import SessionOperator
from penstock.flow.windows.window_aggregate import WindowAggregateOperator
from penstock.plan.nodes import AggregateCall, GroupAggregate, scans
from penstock.plan.planning import plan_job
from penstock.sql import parse_expression
from penstock.types import BIGINT, INT, DecimalType, Field, RowType, arrow_schema, arrow_type, parse_columns
from tests.changelogs import Change, Runner
from tests.corpora import parsed
from tests.recorded import grid
from tests.tables import given_rows
from tests.unit.flow.test_functions_of_flink import ANSWERS, SCHEMA, read, text

COLUMNS = "t TINYINT, s SMALLINT, i INT, b BIGINT, d DOUBLE, p DECIMAL(10, 2), w DECIMAL(38, 10)"
LARGEST = {
    "t": 127,
    "s": 32767,
    "i": 2**31 - 1,
    "b": 2**63 - 1,
    "d": 1e300,
    "p": Decimal("99999999.99"),
    "w": Decimal("9" * 28 + "." + "9" * 10),
}
LEAST = {
    "t": -128,
    "s": -32768,
    "i": -(2**31),
    "b": -(2**63),
    "d": -1e300,
    "p": LARGEST["p"].copy_negate(),
    "w": LARGEST["w"].copy_negate(),
}


def computed(sql: str, row: dict[str, object], *, strict: bool) -> tuple[object, str]:
    """The value of an expression of one row, and why it fails."""
    schema = parse_columns(COLUMNS)
    columns = [pa.array([row[field.name]], arrow_type(field.type)) for field in schema.fields]
    rows = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema))
    found = compile_expression(parse_expression(sql, schema), rows.schema, Session("UTC", strict=strict))
    assert isinstance(found, Evaluator), found
    (vector,) = found.vectors(rows)
    reasons = [each.reason(0) for each in vector.failures if each.rows[0]]
    return vector.spread(1)[0].as_py(), reasons[0] if reasons else ""


@pytest.mark.parametrize(
    ("sql", "row", "value"),
    [
        *(("t + t", LARGEST, -2), ("s * s", LARGEST, 1), ("i - 1", LEAST, 2**31 - 1), ("b + 1", LARGEST, -(2**63))),
        *(("-t", LEAST, -128), ("ABS(i)", LEAST, -(2**31)), ("b / -1", LEAST, -(2**63)), ("b * b", LARGEST, 1)),
        *(
            ("ROUND(i, -1)", LARGEST, -2_147_483_646),
            ("CAST(b AS INT)", LARGEST, -1),
            ("CAST(d AS INT)", LARGEST, 2**31 - 1),
        ),
        *(
            ("CAST(d AS TINYINT)", LEAST, 0),
            ("CAST(w AS INT)", LARGEST, 268_435_455),
            ("CAST(p AS TINYINT)", LARGEST, -1),
        ),
        *(("w * w", LARGEST, None), ("w * w * w", LARGEST, None), ("CAST(p AS DECIMAL(5, 2))", LARGEST, None)),
        *(("CAST(b AS DECIMAL(5, 2))", LARGEST, None), ("CAST(d AS DECIMAL(20, 4))", LARGEST, None)),
        ("w / 0.0000000001", LARGEST, None),
        (
            "TIMESTAMPDIFF(SECOND, TIMESTAMP '0001-01-01 00:00:00', TIMESTAMP '9999-12-31 00:00:00')",
            LARGEST,
            2_005_198_592,
        ),
    ],
)
def test_flink_s_value_is_the_default_and_an_error_may_be_chosen(sql, row, value):
    assert computed(sql, row, strict=False) == (value, "")
    reason = computed(sql, row, strict=True)[1]
    assert reason.startswith(("[ARITHMETIC_OVERFLOW]", "[CAST_OVERFLOW]", "[NUMERIC_VALUE_OUT_OF_RANGE]", "[DATETIME_"))


@pytest.mark.parametrize(
    "sql", ["CAST('128' AS TINYINT)", "CAST('99999' AS DECIMAL(5, 2))", "i / 0", "p / 0", "MOD(b, 0)"]
)
@pytest.mark.parametrize("strict", [False, True])
def test_text_that_is_no_value_and_division_by_zero_fail_in_either_way(sql, strict):
    assert computed(sql, LARGEST, strict=strict)[1]


@pytest.mark.parametrize("strict", [False, True])
def test_floating_point_numbers_become_infinite_in_either_way(strict):
    for sql in ("d * d", "POWER(d, 2)", "d / 0", "EXP(d)"):
        assert computed(sql, LARGEST, strict=strict) == (float("inf"), "")


def test_a_strict_session_gives_what_flink_gives_or_fails():
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([read(field.type, row[field.name]) for row in grid.rows()], arrow_type(field.type))
            for field in SCHEMA.fields
        ],
        schema=arrow_schema(SCHEMA),
    )
    failed = 0
    for sql in grid.overflows():
        answer = ANSWERS[sql]
        bound = parse_expression(sql, SCHEMA)
        plain, strict = (compile_expression(bound, rows.schema, Session("UTC", strict=each)) for each in (False, True))
        assert isinstance(plain, Evaluator)
        assert isinstance(strict, Evaluator)
        if "values" not in answer or "TIMESTAMPADD" in sql or "INTERVAL" in sql or "TRY_CAST" in sql:
            continue
        (one,), (other,) = plain.vectors(rows), strict.vectors(rows)
        wrong = np.logical_or.reduce([each.rows for each in other.failures] or [np.zeros(len(rows), bool)])
        failed += int(wrong.sum())
        values = [[text(bound.type, each) for each in found.spread(len(rows)).to_pylist()] for found in (one, other)]
        assert all(bad or repr(a) == repr(b) for a, b, bad in zip(*values, wrong.tolist(), strict=True)), sql
    assert failed > 500


# --- sums ----------------------------------------------------------------------------------------------------

KIND = DecimalType(38, 0)
TABLE = RowType((Field("k", INT), Field("i", INT), Field("b", BIGINT), Field("w", KIND)))
MOST = {"i": 2**31 - 1, "b": 2**63 - 1, "w": Decimal(10**38 - 1)}


def summed(column: str, *, strict: bool, retracts: bool, function: str = "SUM") -> GroupAggregateOperator:
    kind = TABLE.field(column).type
    call = AggregateCall("c", function, kind, column)
    node = GroupAggregate(
        RowType((TABLE.fields[0], Field("c", kind))), given_rows(TABLE), ("k",), (call,), uid="groups"
    )
    return GroupAggregateOperator.from_node(node, retracts=retracts, strict=strict)


def rows_of(column: str, *values: object) -> list[Change]:
    return [((7, *(value if name == column else None for name in TABLE.names[1:])), 1) for value in values]


@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize(("column", "wrapped"), [("i", -2), ("b", -2), ("w", None)])
@pytest.mark.parametrize("batches", [1, 2])
def test_a_sum_wraps_or_becomes_null_or_fails_with_its_group(column, wrapped, batches, retracts):
    given = rows_of(column, MOST[column], MOST[column])
    parts = [given] if batches == 1 else [given[:1], given[1:]]
    lenient = Runner(summed(column, strict=False, retracts=retracts), random.Random(1))
    assert [lenient.run(part) for part in parts][-1][-1] == ((7, wrapped), 1)

    strict = Runner(summed(column, strict=True, retracts=retracts), random.Random(1))
    for part in parts[:-1]:
        strict.run(part)
    with pytest.raises(RecordError, match=r"ARITHMETIC_OVERFLOW.* of the group k = 7 exceeds the range of"):
        strict.run(parts[-1])


@pytest.mark.parametrize("retracts", [False, True])
def test_sums_at_the_limit_do_not_fail(retracts):
    for sign in (1, -1):
        runner = Runner(summed("b", strict=True, retracts=retracts), random.Random(1))
        given = [sign * each for each in (2**62, 2**62 - 1, -(2**63) + 1, 2**63 - 1)]
        assert runner.run(rows_of("b", *given)) == [((7, sign * (2**63 - 1)), 1)]


def test_an_average_whose_sum_is_too_large_fails_too():
    average = Runner(summed("b", strict=True, retracts=False, function="AVG"), random.Random(1))
    with pytest.raises(RecordError, match="ARITHMETIC_OVERFLOW"):
        average.run(rows_of("b", MOST["b"], MOST["b"]))


TABLES = """
CREATE TABLE s (k INT, b BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'any', 'mode' = 'I');
CREATE TABLE o (k INT, b BIGINT) WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D');
"""


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, SUM(b) FROM s GROUP BY k",
        "SELECT k, SUM(b) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' DAY)) "
        "GROUP BY k, window_start, window_end",
        "SELECT k, SUM(b) FROM TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' DAY)) "
        "GROUP BY k, window_start, window_end",
    ],
)
@pytest.mark.parametrize("value", ["wrap", "fail"])
def test_the_setting_reaches_expressions_and_sums(query, value):
    (job,) = parsed(f"{TABLES} SET 'penstock.overflow' = '{value}'; INSERT INTO o {query}").jobs
    assert job.settings.strict == (value == "fail")
    planner = Planner(scans(*plan_job(job).sinks), Session("UTC", strict=job.settings.strict))
    planner.add(plan_job(job).sinks[0], 0)
    operator = planner.ordered()[0].operator
    groups = operator.groups if isinstance(operator, WindowAggregateOperator | SessionOperator) else operator
    assert isinstance(groups, GroupAggregateOperator)
    assert groups.strict == (value == "fail")
    assert all(each.strict == groups.strict for each in groups.states.accumulators)
    assert describe_route(plan_job(job))
