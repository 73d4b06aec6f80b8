"""Checkpoints on the command line: a job's name, or a directory."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import DefinitionError, Problem, nearest

if TYPE_CHECKING:
    from penstock.engine.checkpoint import JobCheckpoint


def add_job(parser: argparse.ArgumentParser, *, also: str = "") -> None:
    """Adds the arguments that :func:`open_checkpoint` reads; ``also`` names what else the directory may hold, for the
    help text."""
    parser.add_argument("job", metavar="JOB", help=f"the job's name, or the directory or URI of its checkpoint{also}")
    parser.add_argument(
        "--checkpoint-dir", metavar="DIR", help="directory or URI with the checkpoints of jobs, as for `penstock run`"
    )


def open_checkpoint(arguments: argparse.Namespace) -> JobCheckpoint:
    """The checkpoint that was named, opened without Spark. Raises CheckpointError for an address that is not
    understood."""
    from penstock.engine.checkpoint import job_location, read_location

    job: str = arguments.job
    if "/" in job:
        return read_location(job)
    found = read_location(job_location(arguments.checkpoint_dir, job))
    if found.read("job") is None:
        jobs = _find_other_jobs(found)
        hint = nearest(job, jobs) or (f"there are {', '.join(jobs)}" if jobs else "")
        advice = "name the directory that `penstock run` had as --checkpoint-dir, if that is another one"
        reason = f"there is no checkpoint of a job '{job}' at '{found.location}'"
        raise DefinitionError((Problem(reason, where="JOB", hint="; ".join(filter(None, (hint, advice)))),))
    return found


def _find_other_jobs(checkpoint: JobCheckpoint) -> list[str]:
    """The jobs whose checkpoints are in the same folder of this machine, sorted."""
    from penstock.engine.checkpoint import local_checkpoint

    if local_checkpoint(checkpoint.location) is None:
        return []
    beside = (local_checkpoint(str(each)) for each in Path(checkpoint.location).parent.glob("*/"))
    known = (each.read("job") for each in beside if each is not None)
    return sorted(str(each["job"]) for each in known if each is not None and "job" in each)
