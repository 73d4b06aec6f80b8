"""The owners that publish what writers have passed on."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.engine.runs.write_tasks import fit_owners
from penstock.flow.graph.exchange import EXCHANGE, EdgeKind


@pytest.mark.rule("the first commit binds the attempt")
@pytest.mark.parametrize(("before", "now"), [(8, 3), (8, 1), (7, 6), (3, 3), (3, 8)])
def test_owners_keep_the_order_of_tasks_when_a_later_run_has_fewer(before: int, now: int) -> None:
    """PostgreSQL takes the changes of a key in the order of owners."""
    rows = [{"kind": EdgeKind.ENCODED, "target": 0, "owner": each, "task": each} for each in range(before)]
    given = pa.Table.from_pylist(rows, schema=EXCHANGE)
    found = fit_owners(given, now)
    owners = found.column("owner").to_pylist()
    assert owners == sorted(owners)
    assert set(owners) <= set(range(now))
    assert found.drop_columns("owner") == given.drop_columns("owner")
    assert found.schema == EXCHANGE
    if now >= before:
        assert owners == list(range(before))
