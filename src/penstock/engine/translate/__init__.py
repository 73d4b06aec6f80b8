"""The plan in Spark's terms: the only place with Spark SQL text."""

from penstock.engine.translate.expressions import millis, spark_sql
from penstock.engine.translate.frames import build, computed, direct

__all__ = ["build", "computed", "direct", "millis", "spark_sql"]
