"""Spark's processes and the session that jobs run in: the JVM, the fork server, and the launcher of Python workers."""

from penstock.engine.session.logs import report
from penstock.engine.session.spark import (
    close_idle_callbacks,
    is_alive,
    kernel_session,
    make_quick_starts,
    prepare,
    spark_session,
)

__all__ = [
    "close_idle_callbacks",
    "is_alive",
    "kernel_session",
    "make_quick_starts",
    "prepare",
    "report",
    "spark_session",
]
