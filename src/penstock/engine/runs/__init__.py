"""Running jobs: queries and their batches, restarts, and the supervisor that starts both."""

from penstock.engine.runs.batch_positions import JobProgress, StepProgress
from penstock.engine.runs.supervisor import JobResult, RunningJob, run, start

__all__ = ["JobProgress", "JobResult", "RunningJob", "StepProgress", "run", "start"]
