"""The plan in Spark's terms: the only place with Spark SQL text."""

from penstock.engine.translate.expressions import millis, spark_sql
from penstock.engine.translate.frames import build, computed, rows_of

__all__ = ["build", "computed", "millis", "rows_of", "spark_sql"]
