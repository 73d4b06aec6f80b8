"""A node is one thing: two files, of which the planner, EXPLAIN and checkpoints learn all."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.plan.nodes import Stateful, Step

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "design" / "adding.md"
PROGRAM = """
import json, sys
from dataclasses import replace
from types import SimpleNamespace

import penstock.flow.operators
import penstock.plan.nodes
nodes, operators, state, root = sys.argv[1:]
penstock.plan.nodes.__path__.append(nodes)
penstock.flow.operators.__path__.append(operators)
sys.path.insert(0, root)

from penstock.flow.graph.planner import Planner
from penstock.plan.explain import explain
from penstock.plan.flink_plan import flink_explain
from penstock.plan.nodes.sample import Sample
from penstock.plan.planning import plan_job
from tests.corpora import parsed
from tests.unit.flow import running

def sampled(text):
    (job,) = parsed(text).jobs
    (sink,) = job.sinks
    node = Sample(sink.input.schema, sink.input, ("k",), 2)
    return SimpleNamespace(jobs=(replace(job, sinks=(replace(sink, input=node),)),))

running.parsed = sampled
query = running.Running("SELECT k, CAST(n AS STRING) FROM s", state)
first = query.run([[("a", 1, 0), ("a", 2, 0), ("b", 3, 0)]])
query.start()
second = query.run([[("a", 4, 0), ("b", 5, 0), ("a", 6, 0)]])
(job,) = sampled(query.script).jobs
planned = plan_job(job)
planner = Planner(query.scans)
planner.add(planned.sinks[0], 0)
print(json.dumps({
    "first": sorted(first),
    "second": sorted(second),
    "explain": explain(planned),
    "flink": flink_explain(job.sinks, planned.sinks),
    "identities": planner.fitting().identities,
}))
"""


def test_a_node_is_added_as_the_guide_says(tmp_path: Path) -> None:
    """Two files. The job goes on after a restart."""
    section = GUIDE.read_text("utf-8").partition("## A node\n")[2].partition("\n## ")[0]
    folders = [tmp_path / "nodes", tmp_path / "operators"]
    for folder, code in zip(folders, re.findall(r"```python\n(.*?)```", section, re.DOTALL), strict=True):
        folder.mkdir()
        (folder / "sample.py").write_text(code)
    given = [*map(str, folders), str(tmp_path / "state"), str(ROOT)]

    done = subprocess.run([sys.executable, "-c", PROGRAM, *given], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["first"], found["second"]) == ([["a", "1"], ["b", "3"]], [["a", "4"]])
    for line in ("one of 2 rows of each `k`", "keeps how many rows each key had, as 't: sample(s)'"):
        assert line in found["explain"]
    assert "Exchange(distribution=[hash[k]])" in found["flink"]
    assert found["identities"]["t: sample(s)"]["facts"] == {"size of a sample": ["2", "2"]}


def test_a_forgotten_part_of_a_node_is_an_error() -> None:
    @dataclass(frozen=True)
    class Forgetful(Stateful, Step):
        """Says nothing of itself."""

    with pytest.raises(TypeError) as error:
        Forgetful(None, None)  # type: ignore[abstract, arg-type]
    for part in ("own_traits", "explain_step", "find_origin", "shuffle_keys", "identify_state", "arrange_keys"):
        assert part in str(error.value)
