"""Runs plans on Spark."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.engine.prometheus import MetricsServer
    from penstock.engine.runs import JobProgress, JobResult, RunningJob, StepProgress, run, start

__all__ = ["JobProgress", "JobResult", "MetricsServer", "RunningJob", "StepProgress", "run", "start"]


def __getattr__(name: str) -> Any:
    """Names are imported when they are asked for, so that the JVM can start before."""
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{'prometheus' if name == 'MetricsServer' else 'runs'}"), name)
