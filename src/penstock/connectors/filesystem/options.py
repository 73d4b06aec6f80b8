"""The options of the ``filesystem`` connector, under Flink's names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from penstock.errors import Problem
from penstock.options import BOOLEAN, DURATION, TEXT, Absent, OptionSet, Rule, number, one_of, opt, opt_without_effect

PARQUET = "parquet"
#: Formats of text: each message is a line of a file.
LINES = ("csv", "json")

_NOT_COMMITTED = (
    "partitions are not committed: the files of a batch appear together when it is complete",
    "leave it out",
)
#: Options of Flink's connector that would change what is read, or notify others of what is written.
ABSENT: Absent = {
    "partition.time-extractor.*": _NOT_COMMITTED,
    "sink.partition-commit.*": _NOT_COMMITTED,
    "source.monitor-interval": (
        "a folder is not watched: reading ends with the last of the files that are there when the job starts",
        "leave it out, and start a job for the files that come later",
    ),
    "source.path.regex-pattern": ("all files of a folder are read", "leave it out, and name a folder of these files"),
}
_BATCHES = "each batch writes its own files"
_MERGING = "files are not merged"


def _check_path(options: FilesystemOptions) -> Iterator[Problem]:
    if not options.path.strip():
        yield Problem("must not be empty", "path", hint="for example '/data/orders'")


@dataclass(frozen=True, kw_only=True)
class FilesystemOptions(OptionSet):
    """Where the files are, and what is in them."""

    rules: ClassVar[tuple[Rule, ...]] = (_check_path,)

    path: str = opt(
        "path",
        TEXT,
        doc="The folder of the files, or one file: a path, or a URI of a file system that PyArrow knows, such as "
        "`file:`, `s3:` or `hdfs:`.",
        example="data/orders",
    )
    format: str = opt(
        "format",
        one_of(PARQUET, *LINES, fold=str.lower),
        doc="What is in the files: `parquet`, or a message of the format `json` or `csv` on each line. The options of "
        "the format follow its name, as in `json.ignore-parse-errors`.",
        example="json",
    )
    default_partition: str = opt(
        "partition.default-name",
        TEXT,
        default="__DEFAULT_PARTITION__",
        doc="The value in the name of a folder for a column of PARTITIONED BY that is NULL or blank.",
    )
    rolling_size: str | None = opt_without_effect(
        "sink.rolling-policy.file-size", TEXT, f"{_BATCHES}, of any size", example="128 MB"
    )
    rollover_interval: timedelta | None = opt_without_effect(
        "sink.rolling-policy.rollover-interval", DURATION, _BATCHES, example="30 min"
    )
    inactivity_interval: timedelta | None = opt_without_effect(
        "sink.rolling-policy.inactivity-interval", DURATION, _BATCHES, example="30 min"
    )
    check_interval: timedelta | None = opt_without_effect(
        "sink.rolling-policy.check-interval", DURATION, _BATCHES, example="1 min"
    )
    shuffle_by_partition: bool | None = opt_without_effect(
        "sink.shuffle-by-partition.enable",
        BOOLEAN,
        "a task has a file open for each folder that it writes to",
        example="true",
    )
    sink_parallelism: int | None = opt_without_effect(
        "sink.parallelism", number(1), "'parallelism.default' is the number of tasks", example="4"
    )
    auto_compaction: bool | None = opt_without_effect("auto-compaction", BOOLEAN, _MERGING, example="true")
    compaction_size: str | None = opt_without_effect("compaction.file-size", TEXT, _MERGING, example="128 MB")
    compaction_parallelism: int | None = opt_without_effect("compaction.parallelism", number(1), _MERGING, example="4")
    statistics: str | None = opt_without_effect(
        "source.report-statistics",
        one_of("all", "none", fold=str.lower),
        "plans do not depend on statistics",
        example="all",
    )
