"""The programs of Flink's tests about windows and the order of time, where they are present.

Some rows are late in Flink, where each row moves the watermark by itself: so here each row is a batch.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import SchemaError
from tests.corpora import flink_programs, needed, script
from tests.programs import Way
from tests.unit.flow.test_programs import check

OPERATORS = (
    *("window-aggregate", "window-tvf", "window-join", "window-deduplicate", "window-rank"),
    *("group-window-aggregate", "watermark", "temporal-sort"),
)
PROGRAMS = [each for each in flink_programs() if each["operator"] in OPERATORS]
ONE_RUN, RESTARTED = Way(1, 3), Way(1, restart=True)
#: Programs that are not run, or give other rows: the error, and what its message has.
LISTED: dict[str, tuple[type[Exception], str]] = {
    "window-table-function-tumble-tvf-union-all": (SchemaError, "HOP needs a time attribute"),
    # In Flink, the watermark is NULL again behind a restart.
    "watermark-assigner-pushdown-computed": (AssertionError, "sink_t: "),
}

#: Their results depend on when the rows come: they are only planned.
BY_THE_CLOCK = {each["name"] for each in PROGRAMS if each["name"].endswith("proc-time")} - LISTED.keys()

programs = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program["name"])


@needed()
@programs
def test_a_program_of_flink_gives_its_rows(program: dict[str, Any], tmp_path: Path):
    if program["name"] in BY_THE_CLOCK:
        assert script(program).jobs
        return
    if program["name"] not in LISTED:
        # In Flink the watermark begins again with a restart, and rows that were late before are not any more.
        afresh = "late-after-restore" in program["needs"]
        check(program, (ONE_RUN,) if afresh else (ONE_RUN, RESTARTED), tmp_path)
        return
    error, message = LISTED[program["name"]]
    with pytest.raises(error, match=re.escape(message)):
        check(program, (ONE_RUN,), tmp_path)
