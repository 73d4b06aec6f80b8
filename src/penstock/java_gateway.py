"""PyFlink's gateway to its JVM; penstock has none."""

from __future__ import annotations

from typing import NoReturn

from penstock.errors import Problem, UnsupportedError

__all__ = ["get_gateway"]


def get_gateway() -> NoReturn:
    """Raises UnsupportedError: no class of Flink's Java is there to be called."""
    raise without_java("get_gateway")


def without_java(name: str, hint: str = "leave it out") -> UnsupportedError:
    """The error of a call, or of an argument, that is about objects of Flink's JVM."""
    return UnsupportedError((Problem("penstock has no Java classes of Flink's", name, hint=hint),))
