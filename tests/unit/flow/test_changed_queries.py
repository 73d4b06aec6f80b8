"""A changed query over the state of the former one: what is kept, and what stops the start."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import CheckpointError
from penstock.flow.graph.dataflow import Dataflow
from penstock.flow.graph.planner import Planner
from penstock.flow.kernels.session import Session
from penstock.flow.operators.node_operators import node_operators
from penstock.flow.state.changed_queries import Fitting, Verdict, known_identities
from penstock.flow.state.inspection import read_rows, read_spec
from penstock.flow.state.manifest import Manifest
from penstock.flow.state.storage import Storage
from penstock.plan.arranging import arrange_keys
from penstock.plan.nodes import (
    AggregateCall,
    Deduplicate,
    Frame,
    GroupAggregate,
    InWindows,
    Job,
    Join,
    Materialize,
    Normalize,
    OverAggregate,
    OverCall,
    Rank,
    Scan,
    SessionTable,
    SetOperation,
    Sort,
    TemporalSort,
    WindowAggregate,
    scans,
)
from penstock.plan.planning import plan_job
from penstock.plan.step_identity import VERSION, Comparison, StepIdentity, compare_identities
from penstock.plan.walk import fold
from penstock.plan.windowing import Windowing
from penstock.spi import HIDDEN, KIND, Output
from penstock.types import RowKind, arrow_schema
from tests.changed_queries import CHANGES, KEPT, REFUSED, WITHOUT, WITHOUT_STATE, Change
from tests.corpora import parsed
from tests.unit.flow.driver import Driver

CASES = {f"{step}: {each.text}": each for step, changes in CHANGES.items() for each in changes}


NOTHING = Manifest()


class Running:
    """A job and its dataflow."""

    def __init__(self, script: str, folder: str, reset: tuple[str, ...] = (), before: Manifest = NOTHING):
        (job,) = parsed(script).jobs
        self.job: Job = plan_job(job)
        self.job = replace(self.job, sinks=arrange_keys(self.job.sinks, known_identities(before)))
        settings = self.job.settings
        self.planner = Planner(scans(*self.job.sinks), Session(settings.session_time_zone or "UTC"), settings.state_ttl)
        outputs = []
        for number, sink in enumerate(self.job.sinks):
            self.planner.add(sink, number)
            outputs.append(Output(number, sink.table, sink.spec, sink.schema))
        self.flow = Dataflow(
            tuple(self.planner.branches),
            self.planner.ordered(),
            tuple(outputs),
            folder,
            generators=tuple(self.planner.generators),
        )
        self.fitting: Fitting = self.planner.fitting(reset)

    def verdicts(self, manifest: Manifest) -> dict[str, Verdict]:
        return {each.uid: each for each in self.fitting.verdicts(manifest, Storage.from_uri(self.flow.storage))}

    def run(self, manifest: Manifest, kind: RowKind = RowKind.INSERT, only: str = "") -> Manifest:
        """The state after a batch of two rows, which begins with that of the manifest."""
        before = self.fitting.fit(manifest, Storage.from_uri(self.flow.storage), "the checkpoint")
        driver = Driver(
            self.flow, manifest=before, batch=manifest.batch + 1, now_ms=1000, names=self.fitting.names(before)
        )
        given = [
            (n, [rows_of(scan, kind)])
            for n, scan in enumerate(self.planner.scans)
            if scan.table in (only or scan.table)
        ]
        driver.run(given, 2)
        return driver.manifest

    def stored(self, manifest: Manifest) -> int:
        """How many rows the state has."""
        storage, found = Storage.from_uri(self.flow.storage), 0
        for uid, tables in manifest.operators.items():
            for name, refs in tables.items():
                spec = read_spec(storage, refs, name, uid)
                found += sum(map(len, read_rows(storage, refs, spec, uid))) if spec is not None else 0
        return found


def rows_of(scan: Scan, kind: RowKind) -> pa.RecordBatch:
    """Two rows, with values that keys and conditions meet."""
    schema = arrow_schema(scan.schema)
    arrays = [_values(each.type) for each in schema]
    hidden = [pa.array([0, 0], pa.int32()), pa.array([0, 1], pa.int64())]
    marks = pa.array([int(kind)] * 2, pa.int8())
    return pa.RecordBatch.from_arrays([*arrays, *hidden, marks], names=[*schema.names, *HIDDEN.names, KIND])


def _values(kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(kind):
        return pa.array(["a", "b"])
    if pa.types.is_timestamp(kind):
        return pa.array([60_000_000, 90_000_000], pa.int64()).view(kind)
    return pa.array([2, 3]).cast(kind)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.rule("look before taking over")
def test_what_becomes_of_the_state_of_a_changed_query(name: str, tmp_path) -> None:
    case = CASES[name]
    before = Running(case.scripts[0], str(tmp_path))
    manifest = before.run(Manifest())
    after = Running(case.scripts[1], str(tmp_path), before=manifest)
    assert any(map(any, (tables.values() for tables in manifest.operators.values()))), "the step keeps rows"
    assert "kept" in {each.fate for each in before.verdicts(manifest).values()} <= {"kept", "new"}
    found = after.verdicts(manifest)
    said = "; ".join(clause for each in found.values() for clause in each.changes)
    assert case.says in said
    if case.outcome == KEPT:
        assert "kept" in {each.fate for each in found.values()} <= {"kept", "new"}, said
        again = after.run(manifest)
        assert "kept" in {each.fate for each in after.verdicts(again).values()} <= {"kept", "new"}
        return
    fate = {REFUSED: "refused", WITHOUT: "unclaimed"}[case.outcome]
    assert fate in {each.fate for each in found.values()}
    with pytest.raises(CheckpointError, match=r"Undo the change; or .* --reset-state '") as failure:
        after.run(manifest)
    assert all(clause in str(failure.value) for each in found.values() if each.fate == fate for clause in each.changes)
    before.run(manifest)  # undone
    names = tuple(each.uid for each in found.values())
    reset = Running(case.scripts[1], str(tmp_path), names)
    again = reset.run(manifest)
    assert {each.fate for each in reset.verdicts(again).values()} <= {"kept", "new"}


#: The kinds of nodes with state.
STATEFUL = set(node_operators())


def test_every_node_with_state_has_changes() -> None:
    """A new node needs rows in the table, unless it keeps nothing."""
    with_rows = {node for changes in CHANGES.values() for each in changes for node in each.nodes}
    assert with_rows | set(WITHOUT_STATE) == STATEFUL


#: What nodes with state have, as far as their identities know it.
FIELDS = {
    GroupAggregate: {"keys", "calls", "ttl"},
    WindowAggregate: {"keys", "calls", "windowing", "columns"},
    SessionTable: {"windowing", "columns"},
    InWindows: {"inner", "windows"},
    Join: {"kind", "left_keys", "right_keys", "condition", "left_ttl", "right_ttl"},
    SetOperation: {"kind"},
    Normalize: {"keys"},
    Deduplicate: {"keys", "order", "last"},
    OverAggregate: {"keys", "order", "calls", "frame", "time", "processing"},
    Rank: {"keys", "order", "first", "last", "number", "latest", "ranking"},
    TemporalSort: {"time", "order"},
    Sort: {"order"},
    Materialize: {"keys", "decided"},
    AggregateCall: {"name", "function", "type", "argument", "distinct", "filter", "nulls", "separator", "place"},
    Frame: {"rows", "start", "end"},
    OverCall: {
        *("name", "function", "type", "argument", "distinct", "filter", "nulls", "separator", "place"),
        *("number", "default"),
    },
    Windowing: {"kind", "time", "size", "step", "offset", "zoned", "processing", "keys", "grouped", "place"},
}


def test_every_field_of_a_node_is_known() -> None:
    """A new one may change what state means: it needs a fact in the node, and a change in the table."""
    common = {"schema", "uid", "input", "left", "right"}
    assert set(FIELDS) >= STATEFUL
    for node, known in FIELDS.items():
        assert {each.name for each in fields(node)} - common == known, node.__name__


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_that_of_its_step(name: str, tmp_path) -> None:
    case = CASES[name]
    found: set[type] = set()
    job = Running(case.scripts[0], str(tmp_path)).job
    fold(job.sinks, lambda node, _: found.add(type(node)))
    assert found & set(case.nodes)


RENAMED = {
    "GROUP BY in another order": (
        "SELECT k, v, COUNT(*), MIN(n) FROM c GROUP BY k, v",
        "SELECT k, v, COUNT(*), MIN(n) FROM c GROUP BY v, k",
    ),
    "DISTINCT in another order": ("SELECT DISTINCT k, n, v FROM c", "SELECT DISTINCT v, k, n FROM c"),
    "join in another order": (
        "SELECT x.k, y.v, y.n FROM c AS x JOIN c AS y ON x.k = y.k AND x.n = y.n",
        "SELECT x.k, y.v, y.n FROM c AS x JOIN c AS y ON x.n = y.n AND x.k = y.k",
    ),
    "set in another order": (
        "SELECT k, n FROM c INTERSECT ALL SELECT v, n FROM c",
        "SELECT n, k FROM c INTERSECT ALL SELECT n, v FROM c",
    ),
    "GROUP BY": (
        "SELECT k, COUNT(*), MIN(n), COUNT(DISTINCT n) FROM c GROUP BY k",
        "SELECT a, COUNT(*), MIN(b), COUNT(DISTINCT b) FROM (SELECT v AS x, n AS b, k AS a FROM c) GROUP BY a",
    ),
    "join": (
        "SELECT x.k, x.n, x.v, y.n FROM c AS x JOIN c AS y ON x.k = y.k",
        "SELECT x.k, x.v, x.n, y.n FROM (SELECT k, n AS v, v AS n FROM c) AS x JOIN c AS y ON x.k = y.k",
    ),
    "Top-N": (
        "SELECT k, n, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n) AS i FROM c) WHERE i < 9",
        "SELECT a, b, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) AS i FROM "
        "(SELECT v, n AS b, k AS a FROM c)) WHERE i < 9",
    ),
    "set": (
        "SELECT k, n FROM c INTERSECT ALL SELECT k, n FROM c",
        "SELECT k AS n, n AS k FROM c INTERSECT ALL SELECT * FROM (SELECT k, n FROM c)",
    ),
}


@pytest.mark.parametrize("step", RENAMED)
def test_columns_with_other_names_find_their_state(step: str, tmp_path) -> None:
    """The rows of before are taken back under other names, which two columns may have exchanged."""
    scripts = [Change((), "", query, query, KEPT).scripts[0] for query in RENAMED[step]]
    before = Running(scripts[0], str(tmp_path))
    first = before.run(Manifest())
    after = Running(scripts[1], str(tmp_path), before=first)
    assert before.stored(first) > 0
    second = after.run(first)
    assert after.stored(second) >= after.stored(first)
    third = after.run(after.run(second, RowKind.DELETE), RowKind.DELETE)
    assert after.stored(third) == 0
    again = after.run(before.run(first), RowKind.DELETE)
    assert after.stored(before.run(again, RowKind.DELETE)) == 0


def test_a_step_that_has_kept_nothing_so_far_is_not_new(tmp_path) -> None:
    """No customer has come: the join goes on, although their step has no state."""
    query = "SELECT s.k, u.n FROM s JOIN u ON s.k = u.k"
    job = Running(Change((), "", query, query, KEPT).scripts[0], str(tmp_path))
    manifest = job.run(Manifest(), only="s")
    for known in (manifest, replace(manifest, identities={}, measures={})):
        assert {uid: each.fate for uid, each in job.verdicts(known).items()} == {
            "changes(u)": "new",
            "t: join(s, u)": "kept",
        }


@pytest.mark.parametrize("name", CASES)
def test_state_of_a_former_version_is_known_by_its_columns(name: str, tmp_path) -> None:
    """Its manifest says nothing of identities. The next one does."""
    case = CASES[name]
    before, after = (Running(script, str(tmp_path)) for script in case.scripts)
    former = replace(before.run(Manifest()), identities={}, measures={})
    assert {each.fate for each in before.verdicts(former).values()} <= {"kept", "new"}
    assert before.run(former).identities == before.fitting.identities
    found = {each.fate for each in after.verdicts(former).values()}
    if case.text in ("function of an aggregate", "columns of GROUP BY", "kind of join", "type of a column"):
        assert "refused" in found


@pytest.mark.parametrize(
    ("window", "refused"),
    [
        ("TUMBLE(ts, INTERVAL '1' MINUTE)", False),
        ("TUMBLE(ts, INTERVAL '3' MINUTE)", True),
        ("HOP(ts, INTERVAL '50' SECOND, INTERVAL '100' SECOND)", True),
    ],
)
def test_windows_of_a_former_version_are_known_by_their_ends(window: str, refused: bool, tmp_path) -> None:
    query = "SELECT k, COUNT(*) FROM s GROUP BY k, {}"
    before, after = (
        Running(Change((), "", query.format(each), "", KEPT).scripts[0], str(tmp_path))
        for each in ("TUMBLE(ts, INTERVAL '1' MINUTE)", window)
    )
    former = replace(before.run(Manifest()), identities={}, measures={})
    (verdict,) = after.verdicts(former).values()
    assert (verdict.fate == "refused") is refused


def test_identities_are_those_that_checkpoints_have(tmp_path) -> None:
    """The first query of each step. A form or a text that changes must leave the former one readable: jobs that did not
    change would be refused after an update of penstock."""
    found = {
        step: Running(changes[0].scripts[0], str(tmp_path)).fitting.identities for step, changes in CHANGES.items()
    }
    known = json.loads((Path(__file__).parent / "identities.json").read_text("utf-8"))
    assert found == known
    for each in found.values():
        for document in each.values():
            identity = StepIdentity.from_json(document)
            assert identity is not None
            assert identity.to_json() == document
            assert StepIdentity.from_json({**document, "version": VERSION + 1}) is None


def test_a_long_query_has_a_short_identity(tmp_path) -> None:
    """Two conditions that differ behind what is kept of them are told apart."""
    numbers = [", ".join(map(str, range(2000, last))) for last in (5000, 5001)]
    query = "SELECT k, SUM(CASE WHEN n IN ({0}) THEN n END) FROM s WHERE n IN ({0}) GROUP BY k"
    first, other = (
        Running(Change((), "", query.format(each), "", KEPT).scripts[0], str(tmp_path)).fitting for each in numbers
    )
    assert len(json.dumps(first.identities)) < 4000
    (before,), (now,) = ([each.identity for each in found.steps.values()] for found in (first, other))
    assert compare_identities(before, before) == Comparison((), ())
    assert len(compare_identities(before, now).refused) == len(compare_identities(before, now).noted) == 1
