"""The plan: frozen nodes that SQL, YAML and Python lower to, and the only input of the engine.

The same job written in all three gives equal plans.
"""

from __future__ import annotations

from penstock.plan.aggregate_call import AggregateCall
from penstock.plan.node import Calculation, Node, Stateful, Step, TwoInputs
from penstock.plan.nodes.assign_watermarks import AssignWatermarks
from penstock.plan.nodes.dead_letters import DeadLetters
from penstock.plan.nodes.deduplicate import Deduplicate
from penstock.plan.nodes.filter import Filter
from penstock.plan.nodes.group_aggregate import GroupAggregate
from penstock.plan.nodes.in_windows import InWindows
from penstock.plan.nodes.ingest import Ingest
from penstock.plan.nodes.job import Job
from penstock.plan.nodes.join import Join, JoinKind
from penstock.plan.nodes.map_rows import MapRows
from penstock.plan.nodes.materialize import Materialize
from penstock.plan.nodes.normalize import Normalize
from penstock.plan.nodes.over_aggregate import Frame, OverAggregate, OverCall
from penstock.plan.nodes.project import Item, Project, compute_columns, items_of, project, row_of
from penstock.plan.nodes.rank import Rank, Ranking
from penstock.plan.nodes.scan import Scan, scans
from penstock.plan.nodes.set_operation import SetKind, SetOperation
from penstock.plan.nodes.sink import Sink
from penstock.plan.nodes.sort import Sort, TemporalSort
from penstock.plan.nodes.union import Union
from penstock.plan.nodes.unnest import Unnest
from penstock.plan.nodes.window_aggregate import WindowAggregate
from penstock.plan.nodes.window_table import SessionTable, WindowTable
from penstock.plan.sort_column import SortColumn

__all__ = [
    "AggregateCall",
    "AssignWatermarks",
    "Calculation",
    "DeadLetters",
    "Deduplicate",
    "Filter",
    "Frame",
    "GroupAggregate",
    "InWindows",
    "Ingest",
    "Item",
    "Job",
    "Join",
    "JoinKind",
    "MapRows",
    "Materialize",
    "Node",
    "Normalize",
    "OverAggregate",
    "OverCall",
    "Project",
    "Rank",
    "Ranking",
    "Scan",
    "SessionTable",
    "SetKind",
    "SetOperation",
    "Sink",
    "Sort",
    "SortColumn",
    "Stateful",
    "Step",
    "TemporalSort",
    "TwoInputs",
    "Union",
    "Unnest",
    "WindowAggregate",
    "WindowTable",
    "compute_columns",
    "items_of",
    "project",
    "row_of",
    "scans",
]
