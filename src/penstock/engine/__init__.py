"""Runs plans on Spark."""

from penstock.engine.query import JobProgress, JobResult, RunningJob, run, start

__all__ = ["JobProgress", "JobResult", "RunningJob", "run", "start"]
