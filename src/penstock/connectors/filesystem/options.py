"""The options of the ``filesystem`` connector, under Flink's names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from penstock.errors import Problem
from penstock.options import TEXT, OptionSet, Rule, one_of, opt

PARQUET = "parquet"
#: Formats of text: each message is a line of a file.
LINES = ("csv", "json")


def _path(options: FilesystemOptions) -> Iterator[Problem]:
    if not options.path.strip():
        yield Problem("must not be empty", "path", hint="for example '/data/orders'")


@dataclass(frozen=True, kw_only=True)
class FilesystemOptions(OptionSet):
    """Where the files are, and what is in them."""

    rules: ClassVar[tuple[Rule, ...]] = (_path,)

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
        doc="What stands in the name of a folder for a column of PARTITIONED BY that is NULL or blank.",
    )
