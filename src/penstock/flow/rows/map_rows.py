"""Functions of rows in Python as a work on the rows of a path."""

from __future__ import annotations

from penstock.flow.rows.calls import FunctionCall, FunctionStage
from penstock.flow.rows.row_works import PathFacts, RowWork
from penstock.plan.nodes import MapRows


def _work(node: MapRows, facts: PathFacts) -> FunctionCall:
    return FunctionCall(facts.call_number(), FunctionStage.from_node(node))


MAP_ROWS = RowWork(MapRows, _work)
