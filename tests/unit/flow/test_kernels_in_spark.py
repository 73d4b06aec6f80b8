"""Every kernel against Spark: the same expressions on the same rows of nulls, limits and odd values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from penstock.engine.translate import spark_sql
from penstock.engine.translate.expressions import has_spark_sql
from penstock.flow.expressions import Evaluator, compile_expression
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import failed_rows
from penstock.types import spark_ddl
from tests.unit.flow.grid import ROWS, SCHEMA, bound, expressions, table, times

pytestmark = pytest.mark.spark

#: More at once take Spark's compiler too long.
AT_ONCE = 60
#: All take minutes; the tests that are not slow take each so many-th.
SOME = 23


@dataclass(frozen=True)
class Computed:
    """An expression, its Spark SQL, and the values of a kernel; rows that failed are not ``good``."""

    sql: str
    spark_sql: str
    values: pa.Array
    good: NDArray[np.bool_]


@pytest.fixture(scope="module")
def spark() -> Any:
    from penstock.engine.session import spark_session
    from penstock.settings import Settings

    spark = spark_session(Settings(), "kernels").newSession()
    spark.conf.set("spark.sql.caseSensitive", "true")
    spark.conf.set("spark.sql.timeType.enabled", "true")
    rule = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"  # else nothing is compiled
    spark.conf.set("spark.sql.optimizer.excludedRules", rule)
    return spark


@pytest.fixture(
    params=[
        pytest.param(("America/New_York", SOME), id="some"),
        pytest.param(("America/New_York", 1), id="America/New_York", marks=pytest.mark.slow),
        pytest.param(("UTC", 1), id="UTC", marks=pytest.mark.slow),
    ]
)
def computed(request: Any, spark: Any) -> list[Computed]:
    """What kernels compute in a session of this time zone: all, or each so many-th expression."""
    from penstock.engine.session import kernel_session

    zone, step = request.param
    spark.conf.set("spark.sql.session.timeZone", zone)
    return list(by_kernels(table(), kernel_session(spark), zone, step))


def by_kernels(rows: pa.RecordBatch, session: Session, zone: str, step: int) -> Iterator[Computed]:
    """The results of the expressions that have kernels; in UTC of those that may depend on it."""
    for sql, each in islice(bound(times if zone == "UTC" else expressions), 0, None, step):
        found = compile_expression(each, rows.schema, session)
        if isinstance(found, Evaluator) and has_spark_sql(each):
            (vector,) = found.vectors(rows)
            values = vector.spread(ROWS)
            values.validate(full=True)
            yield Computed(sql, spark_sql(each), values, ~failed_rows(vector.failures, ROWS))


def frame(spark: Any, flags: Sequence[NDArray[np.bool_]] = ()) -> Any:
    """The rows in Spark, numbered, with BOOLEAN columns ``flag_0`` and so on."""
    rows = table()
    names = [f"flag_{number}" for number in range(len(flags))]
    arrays = [*rows.columns, pa.array(range(ROWS)), *map(pa.array, flags)]
    given = pa.Table.from_arrays(arrays, names=[*rows.schema.names, "row_number", *names])
    return spark.createDataFrame(
        given, ", ".join([spark_ddl(SCHEMA), "row_number BIGINT", *(f"{n} BOOLEAN" for n in names)])
    )


def test_kernels_compute_what_spark_does(spark, computed):
    wrong = []
    for start in range(0, len(computed), AT_ONCE):
        part = computed[start : start + AT_ONCE]
        texts = [f"CASE WHEN flag_{number} THEN {each.spark_sql} END AS c_{number}" for number, each in enumerate(part)]
        given = frame(spark, [each.good for each in part])
        try:
            answers = given.selectExpr(*texts).toArrow().columns
        except Exception:  # noqa: BLE001 - one of them fails
            wrong += [text for each, sql in zip(part, texts, strict=True) for text in failure(each, given, sql)]
        else:
            wrong += [text for each, answer in zip(part, answers, strict=True) for text in differences(each, answer)]
    assert not wrong, "\n".join(wrong)


def failure(each: Computed, given: Any, text: str) -> Iterator[str]:
    """Why Spark does not compute an expression where a kernel does."""
    try:
        given.selectExpr(text).collect()
    except Exception as error:  # noqa: BLE001
        yield f"{each.sql}: {str(error).splitlines()[0][:200]}"


def differences(each: Computed, answer: pa.ChunkedArray) -> Iterator[str]:
    """The first value that is not Spark's, where NaN is NaN and zero has a sign."""
    if answer.type != each.values.type:
        yield f"{each.sql}: {each.values.type}, not {answer.type}"
    for row, (found, wanted) in enumerate(zip(listed(each.values), listed(answer), strict=True)):
        if each.good[row] and repr(found) != repr(wanted):
            yield f"{each.sql}: {found!r}, not {wanted!r}, of {str(table().slice(row, 1).to_pylist()[0])[:600]}"
            return


def listed(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values in Python; dates and timestamps as numbers of their unit, as Python has no year after 9999."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    elif pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    found: list[Any] = values.to_pylist()
    return found


def test_what_fails_in_a_kernel_fails_in_spark(spark, computed):
    rows, lenient = frame(spark).cache(), []
    for each in computed:
        for row in np.flatnonzero(~each.good)[:1]:
            try:
                found = rows.where(f"row_number = {row}").selectExpr(each.spark_sql).collect()
            except Exception:  # noqa: BLE001
                continue
            lenient.append(f"{each.sql} is {found} of {str(table().slice(int(row), 1).to_pylist()[0])[:600]}")
    assert not lenient, "\n".join(lenient)
