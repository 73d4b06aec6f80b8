"""The plan in Spark's terms: frames whose rows kernels compute."""

from penstock.engine.translate.frames import build, computed, rows_of

__all__ = ["build", "computed", "rows_of"]
