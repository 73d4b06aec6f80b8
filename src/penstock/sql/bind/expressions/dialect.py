"""The dialects of expressions."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.types.logical import MAX_PRECISION


@dataclass(frozen=True)
class Dialect:
    """What expressions mean: those of ``transforms`` of a pipeline have the functions, casts and comparisons of Flink
    CDC, others those of Flink SQL. A DECIMAL that a transform computes has at most ``decimal_digits``."""

    transforms: bool = False
    decimal_digits: int = MAX_PRECISION


FLINK_SQL = Dialect()
