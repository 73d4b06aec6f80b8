"""When Flink schedules a task of a batch job."""

from __future__ import annotations

import enum

__all__ = ["InputDependencyConstraint"]


class InputDependencyConstraint(enum.Enum):
    """PyFlink's constraints. Spark schedules tasks in its own way."""

    ANY = 0
    ALL = 1
