"""The SQL samples of the manual, from messages to the rows of a query: the cases of tests/specs/sql/samples.yaml.

They need neither a broker nor Spark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml

from penstock.connectors.kafka.source.decoding import RowReader
from penstock.connectors.kafka.source.positions import Split
from penstock.errors import DefinitionError
from penstock.flow.graph.dataflow import Dataflow
from penstock.flow.graph.planner import Planner
from penstock.flow.kernels.session import Session
from penstock.kafka.record_batches import encode, scan
from penstock.plan.nodes import Job, Scan, Sink, scans
from penstock.plan.planning import plan_job
from penstock.spi import KIND, Output
from penstock.sql import parse_script
from tests.programs import Table
from tests.unit.flow.driver import Driver

SPEC = yaml.safe_load((Path(__file__).parents[2] / "specs/sql/samples.yaml").read_text("utf-8"))
FIRST_OFFSET = 100


def test_no_case_is_lost():
    assert len(SPEC["accepted"]) + len(SPEC["refused"]) == SPEC["count"]


@pytest.mark.parametrize("case", SPEC["accepted"], ids=lambda case: case["about"])
def test_a_sample_gives_its_rows(case: dict[str, Any], tmp_path: Path):
    (job,) = parse_script(_text(case), file="f.sql").jobs
    (sink,) = job.sinks
    if "values" in case:
        assert _rows(plan_job(job), case, str(tmp_path)) == sorted(case["gives"])
    else:
        assert sink.table == "kafka_sink"


@pytest.mark.parametrize("case", SPEC["refused"], ids=lambda case: case["about"])
def test_what_does_not_run_as_it_is_printed_says_why(case: dict[str, Any]):
    with pytest.raises(DefinitionError) as caught:
        parse_script(case["sql"], file="f.sql")
    assert [str(problem) for problem in caught.value.problems] == [f"f.sql, {each}" for each in case["problems"]]


def _text(case: dict[str, Any]) -> str:
    """The sample, whose query is written to a table of its columns."""
    if "query" not in case:
        return str(case["sql"])
    created = f"CREATE TABLE result ({case['into']}) WITH ('connector' = 'print');\n"
    return f"{case['sql']}{created}INSERT INTO result {case['query']};"


def _rows(job: Job, case: dict[str, Any], folder: str) -> list[str]:
    """The rows of the job's only output, from one batch that ends its table."""
    sink: Sink = job.sinks[0]
    planner = Planner(scans(sink), Session("UTC"))
    planner.add(sink, 0)
    output = Output(0, sink.table, sink.spec, sink.schema)
    flow = Dataflow(tuple(planner.branches), planner.ordered(), (output,), folder, generators=tuple(planner.generators))
    (given,) = planner.scans
    table = Table()
    for batch in Driver(flow).run([(0, [_read(given, case)])], 1):
        table.apply(batch.select(list(output.schema.names)), batch.column(KIND).to_pylist(), output.schema)
    return sorted(table.rows.elements())


def _read(given: Scan, case: dict[str, Any]) -> pa.RecordBatch:
    """The messages as a scan gives them: they are in partition 3 from offset 100 on, at the time 1000."""
    values = [each.encode() for each in case["values"]]
    keys = [each.encode() for each in case.get("keys", ())] or [None] * len(values)
    (batch,) = encode(
        keys=pa.array(keys, pa.binary()),
        values=pa.array(values, pa.binary()),
        timestamps=np.full(len(values), 1000, np.int64),
        partitions=np.zeros(len(values), np.int32),
    )
    batch.data[:8] = FIRST_OFFSET.to_bytes(8, "big")
    records = scan(batch.data, start_offset=FIRST_OFFSET, end_offset=FIRST_OFFSET + len(values), headers=True)
    spec: Any = given.spec
    return RowReader(spec).rows(records, Split(0, spec.options.topic[0], "", 3, FIRST_OFFSET, 1 << 40))
