"""INSERT OVERWRITE: where it is refused before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import OptionsError, UnsupportedError
from penstock.plan.checks import check_settings
from penstock.plan.planning import plan_job
from penstock.sql import parse_script

BATCH = "SET 'execution.runtime-mode' = 'BATCH';"


def script(read: str, written: str, statement: str) -> str:
    table = "CREATE TABLE {} (a INT) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{}');"
    return table.format("before", read) + table.format("after", written) + statement


@pytest.mark.parametrize("written", ["sold", "sold/monday", "../shop/sold", "file"])
def test_files_that_a_job_reads_are_not_overwritten_by_it(written: str, tmp_path: Path):
    folder = tmp_path / "shop"
    path = (folder / "sold").as_uri() if written == "file" else str(folder / written)
    text = BATCH + script(str(folder / "sold"), path, "INSERT OVERWRITE after SELECT a FROM before;")
    (job,) = parse_script(text).jobs

    with pytest.raises(UnsupportedError, match="files that the same job reads as table 'before' is not supported"):
        plan_job(job)


def test_other_files_are_overwritten(tmp_path: Path):
    text = BATCH + script(
        str(tmp_path / "sold"), str(tmp_path / "sold2"), "INSERT OVERWRITE after SELECT a FROM before;"
    )
    (job,) = parse_script(text).jobs

    (sink,) = plan_job(job).sinks
    assert sink.spec.capabilities.overwrites == str(tmp_path / "sold2")


def test_a_stream_overwrites_nothing(tmp_path: Path):
    text = script(str(tmp_path / "sold"), str(tmp_path / "total"), "INSERT OVERWRITE after SELECT a FROM before;")
    (job,) = parse_script(text).jobs

    with pytest.raises(OptionsError, match="INSERT OVERWRITE needs batch mode"):
        check_settings(job)
