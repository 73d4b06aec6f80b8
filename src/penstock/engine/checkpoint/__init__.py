"""A job's checkpoint: Spark's own logs, and penstock's documents beside them."""

from penstock.engine.checkpoint.documents import JobCheckpoint
from penstock.engine.checkpoint.location import (
    default_location,
    job_location,
    local_checkpoint,
    open_checkpoint,
    read_location,
)

__all__ = [
    "JobCheckpoint",
    "default_location",
    "job_location",
    "local_checkpoint",
    "open_checkpoint",
    "read_location",
]
