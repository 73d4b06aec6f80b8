"""The same programs under PyFlink and here: what PyFlink made of them is recorded."""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import sys

import pytest

from tests.streams.cases import CASES, PROGRAMS, RECORDED, by_key
from tests.streams.runs import run

ANSWERS = json.loads(RECORDED.read_text("utf-8"))["programs"]
#: Those of two seconds at most, of which each shows something else; the others are slow.
QUICK = {
    "keyed_records",
    "json_rows",
    "assigned_timestamps",
    "chosen_topics",
    "patterns",
    "explained",
    "like_typed_topics",
}
CHOSEN = [pytest.param(each, id=each.name, marks=[pytest.mark.slow] * (each.name not in QUICK)) for each in CASES]


@pytest.mark.filterwarnings("ignore::UserWarning")  # of what has no effect here
@pytest.mark.parametrize("case", CHOSEN)
def test_a_program_does_what_it_does_under_pyflink(case, kafka, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("BOOTSTRAP", kafka.bootstrap)
    monkeypatch.delitem(sys.modules, "tests.streams.ends", raising=False)

    def call(name, prefix):
        monkeypatch.setenv("TOPIC_PREFIX", prefix)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            runpy.run_path(str(PROGRAMS / f"{name}.py"), run_name="__main__")
        return printed.getvalue()

    found, wanted = run(case, kafka.bootstrap, call), ANSWERS[case.name]
    assert found["printed"] == wanted["printed"]
    for name in case.made:
        records = [by_key(each["records"][name], scattered=case.scattered) for each in (found, wanted)]
        assert records[0] == records[1], name
