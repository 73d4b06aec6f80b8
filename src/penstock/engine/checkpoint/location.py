"""The location of a checkpoint, and the file system that reads it."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from penstock.engine.checkpoint.arrow import ArrowFiles
from penstock.engine.checkpoint.documents import JobCheckpoint
from penstock.engine.checkpoint.local import LocalFiles
from penstock.errors import CheckpointError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_LOCAL_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def default_location(job: str) -> str:
    """The default checkpoint directory of a job: below the user's state directory, by the job's name."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return str(Path(state) / "penstock" / "checkpoints" / _folder(job))


def open_checkpoint(spark: SparkSession, location: str | None, job: str) -> JobCheckpoint:
    """The checkpoint of ``job`` under ``location`` (a directory or URI), or at the default location.

    Raises CheckpointError for a file system that cannot be used.
    """
    from penstock.engine.checkpoint.hadoop import HadoopFiles

    # A savepoint's state exists before the first batch, in the folder that Spark uses for its own.
    spark.conf.set("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart", "false")
    root = job_location(location, job)
    found = local_checkpoint(root)
    if found is not None:
        # Hadoop's default manager forks a process per file on a local disk; this one renames as atomically.
        spark.conf.set(_MANAGER, _LOCAL_MANAGER)
        return found
    spark.conf.unset(_MANAGER)
    try:
        return JobCheckpoint(root, HadoopFiles(spark, root))
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint '{root}' cannot be opened: {error}; check its address, and that Spark has the classes and "
            "rights for it"
        ) from error


def job_location(location: str | None, job: str) -> str:
    """Where the checkpoint of ``job`` is, under ``location`` or at the default one."""
    return f"{location.rstrip('/')}/{_folder(job)}" if location else default_location(job)


def read_location(root: str) -> JobCheckpoint:
    """The checkpoint or savepoint at ``root``, a directory or a URI that pyarrow opens, without Spark. Raises
    CheckpointError for an address that is not understood."""
    found = local_checkpoint(root)
    if found is not None:
        return found
    try:
        return JobCheckpoint(root.rstrip("/"), ArrowFiles(root))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise CheckpointError(
            f"'{root}' cannot be opened: {error}; use a path of this machine, s3://, gs:// or hdfs://"
        ) from error


def local_checkpoint(root: str) -> JobCheckpoint | None:
    """The files at ``root`` if they are on this machine."""
    parts = urlsplit(root)
    if parts.scheme not in ("", "file"):
        return None
    path = Path(unquote(parts.path) if parts.scheme else root).absolute()
    return JobCheckpoint(str(path), LocalFiles(path), path.as_uri())


def _folder(job: str) -> str:
    """The job's name as the name of a folder. Different names give different folders."""
    plain = re.sub(r"[^\w.-]+", "_", job, flags=re.ASCII)
    if plain == job and plain.strip("."):
        return plain
    return f"{plain}-{hashlib.sha256(job.encode()).hexdigest()[:8]}"
