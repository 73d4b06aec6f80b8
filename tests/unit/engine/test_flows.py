"""What a Spark session on a cluster must not do in a job with state; the output of several targets that is kept."""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.runs.flows import FlowRun, check_attempts, choose_output
from penstock.engine.runs.states import StateHistory
from penstock.errors import BatchError, CheckpointError, CheckpointUnavailableError, OptionsError
from penstock.flow.graph.exchange import EXCHANGE, EdgeId, EdgeKind
from penstock.flow.state.changed_queries import Fitting
from penstock.flow.state.manifest import Sinks
from penstock.flow.state.storage import Storage

STAGES, ADAPTIVE = "spark.stage.maxConsecutiveAttempts", "spark.sql.adaptive.enabled"


def session(master: str, conf: dict[str, str]) -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, getConf=lambda: conf), conf=conf)


@pytest.mark.rule("state commits with the output")
@pytest.mark.parametrize(
    ("conf", "keys"),
    [
        ({STAGES: "1", ADAPTIVE: "false"}, []),
        ({STAGES: "1", ADAPTIVE: "true"}, [ADAPTIVE]),
        ({}, [STAGES, ADAPTIVE]),
    ],
)
def test_no_part_of_a_stage_runs_again_on_a_cluster(conf: dict[str, str], keys: list[str]) -> None:
    check_attempts(session("local[2]", conf))
    found: list[str] = []
    try:
        check_attempts(session("spark://host:7077", conf))
    except OptionsError as error:
        found = [each.key for each in error.problems]
    assert found == keys


@pytest.mark.rule("the first commit binds the attempt")
def test_what_targets_need_to_commit_later_is_kept() -> None:
    """Of those that keep the state: encoded rows, and the results of writers that have written where the rows are. One
    that repeats batches has been written before."""
    committers: Any = [SimpleNamespace(keeps_state=keeps) for keeps in (True, False, True)]
    kinds = (EdgeKind.ENCODED, EdgeKind.RESULTS)
    edges = [EdgeId(EdgeKind.STATE), EdgeId(EdgeKind.REPORTS), *(EdgeId(*each) for each in product(kinds, range(3)))]
    rows = pa.Table.from_pylist([edge._asdict() for edge in edges], schema=EXCHANGE)
    kept = choose_output(rows, committers)
    assert list(zip(*(kept.column(name).to_pylist() for name in ("kind", "target")), strict=True)) == [
        *product(kinds, (0, 2))
    ]


@pytest.mark.parametrize("there", [True, False])
def test_output_that_only_other_machines_see_is_told_where_no_step_has_state(tmp_path: Path, there: bool) -> None:
    """Before it is published: the file would be taken for one that was lost."""
    if there:
        (tmp_path / "0-a.output-0-0-b.rows").touch()
    rows = pa.Table.from_pylist(
        [{"kind": EdgeKind.KEPT_FILES, "data": b'{"0-a.output-0-0-b.rows": "1"}'}], schema=EXCHANGE
    )
    run: Any = SimpleNamespace(
        job=SimpleNamespace(settings=SimpleNamespace(batch=False)),
        context=SimpleNamespace(job="j", checkpoint=SimpleNamespace(location="c")),
        keeps_rows=False,
        origin="",
        flow=SimpleNamespace(processing=False),
        _collect=lambda *_: ("0-a", rows),
        _batch_times=SimpleNamespace(next=lambda *_: 0),
        _local=False,
        _several=False,
        _sinks=Sinks(),
        _states=StateHistory(Storage.from_uri(str(tmp_path)), Fitting({}), "c"),
        _times=SimpleNamespace(progress_after=lambda *_: {}),
        _tables_schemas=None,
    )
    for name in ("_check_shared", "_count_tables", "_discarding", "_made"):
        setattr(run, name, partial(getattr(FlowRun, name), run))
    batch: Any = SimpleNamespace(id=0, tasks=1)
    if there:
        assert FlowRun.run(run, batch, None, "", "").rows == rows  # type: ignore[arg-type]
        return
    with pytest.raises(CheckpointError, match=r"'0-a\.output-0-0-b\.rows'.*is not the same on all machines"):
        FlowRun.run(run, batch, None, "", "")  # type: ignore[arg-type]


@pytest.mark.parametrize("several", [False, True])
def test_output_of_a_batch_that_has_failed_stays_for_other_targets_only(tmp_path: Path, several: bool) -> None:
    file = tmp_path / "0-a.output-0-0-b.rows"
    file.touch()

    def fail(_: object) -> None:
        raise BatchError("the batch fails")

    run: Any = SimpleNamespace(
        context=SimpleNamespace(spark=session("spark://host:7077", {})),
        committers=[],
        _kept=frozenset([file.name]),
        _several=several,
        _states=StateHistory(Storage.from_uri(str(tmp_path)), Fitting({}), "c"),
        _targets=[SimpleNamespace(keeps_state=True, commit_status=fail)],
    )
    run._drop_output = partial(FlowRun._drop_output, run)
    with pytest.raises(BatchError, match="the batch fails"):
        FlowRun.publish(run, None, None)  # type: ignore[arg-type]
    assert file.exists() is several
    assert run._kept == frozenset()


def test_files_of_an_attempt_whose_manifest_cannot_be_written_are_deleted(tmp_path: Path) -> None:
    for name in ("0-a.output-0-0-x.rows", "0-b.output-0-0-x.rows"):
        (tmp_path / name).touch()
    run: Any = SimpleNamespace(_states=StateHistory(Storage.from_uri(str(tmp_path)), Fitting({}), "c"))
    with pytest.raises(CheckpointUnavailableError), FlowRun._discarding(run, "0-a"):
        raise CheckpointUnavailableError("no space left on the device")
    assert [each.name for each in tmp_path.iterdir()] == ["0-b.output-0-0-x.rows"]
