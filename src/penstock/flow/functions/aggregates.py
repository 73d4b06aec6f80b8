"""Functions of the rows of a group, which operators compute (``flow/operators/aggregate.py``), and functions of their
results."""

from __future__ import annotations

from penstock.flow.kernels.json import functions as json
from penstock.flow.kernels.numbers import percentiles
from penstock.plan.scalar_functions import Entry, Function, Missing

GROUP = "Aggregates"

FUNCTIONS = (
    Entry("COUNT", "COUNT(*), COUNT([DISTINCT] a, ..)"),
    Entry("SUM", "SUM([DISTINCT] a)", "overflow as in Flink, or an error: `penstock.overflow`"),
    Entry("AVG", "AVG([DISTINCT] a)"),
    Entry("MIN", "MIN(a)"),
    Entry("MAX", "MAX(a)"),
    Entry("STDDEV_POP", "STDDEV_POP([DISTINCT] a)"),
    Entry("STDDEV_SAMP", "STDDEV_SAMP([DISTINCT] a)"),
    Entry("STDDEV", "STDDEV([DISTINCT] a)"),
    Entry("VAR_POP", "VAR_POP([DISTINCT] a)"),
    Entry("VAR_SAMP", "VAR_SAMP([DISTINCT] a)"),
    Entry("VARIANCE", "VARIANCE([DISTINCT] a)"),
    Entry("COLLECT", "COLLECT([DISTINCT] a)"),
    Entry("ARRAY_AGG", "ARRAY_AGG([DISTINCT] a [RESPECT NULLS | IGNORE NULLS])"),
    Entry("LISTAGG", "LISTAGG([DISTINCT] a [, separator])"),
    Entry("FIRST_VALUE", "FIRST_VALUE(a)"),
    Entry("LAST_VALUE", "LAST_VALUE(a)"),
    Entry("SINGLE_VALUE", "SINGLE_VALUE(a)"),
    Function(
        "JSON_OBJECTAGG",
        "JSON_OBJECTAGG([KEY] key VALUE a [.. ON NULL])",
        "equal keys fail",
        kernel=json.object_of,
    ),
    Entry("JSON_ARRAYAGG", "JSON_ARRAYAGG(a [.. ON NULL])", "without ORDER BY"),
    Missing("APPROX_COUNT_DISTINCT", "APPROX_COUNT_DISTINCT(a)", reason="counts are exact; use COUNT(DISTINCT a)"),
    Function(
        "PERCENTILE",
        "PERCENTILE([DISTINCT] a, percentage [, frequency])",
        "of constant percentages",
        kernel=percentiles.percentile,
    ),
)
