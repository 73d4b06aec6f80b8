"""Runs plans on Spark."""

from penstock.engine.query import JobProgress
from penstock.engine.supervisor import JobResult, RunningJob, run, start

__all__ = ["JobProgress", "JobResult", "RunningJob", "run", "start"]
