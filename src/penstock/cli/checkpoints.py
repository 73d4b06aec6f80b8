"""Checkpoints on the command line: a job's name, or a directory."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.engine.checkpoint import JobCheckpoint


def add_job(parser: argparse.ArgumentParser, *, also: str = "") -> None:
    """Adds the arguments that :func:`checkpoint_of` reads; a directory may be that of a checkpoint or ``also``."""
    parser.add_argument("job", metavar="JOB", help=f"the job's name, or the directory or URI of its checkpoint{also}")
    parser.add_argument(
        "--checkpoint-dir", metavar="DIR", help="directory or URI with the checkpoints of jobs, as for `penstock run`"
    )


def checkpoint_of(arguments: argparse.Namespace) -> JobCheckpoint:
    """The checkpoint that was named, opened without Spark. Raises CheckpointError for an address that is not
    understood."""
    from penstock.engine.checkpoint import job_location, read_location

    job: str = arguments.job
    if "/" in job:
        return read_location(job)
    return read_location(job_location(arguments.checkpoint_dir, job))
