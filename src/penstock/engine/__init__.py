"""Runs plans on Spark."""

from penstock.engine.prometheus import MetricsServer
from penstock.engine.query import JobProgress
from penstock.engine.supervisor import JobResult, RunningJob, run, start

__all__ = ["JobProgress", "JobResult", "MetricsServer", "RunningJob", "run", "start"]
