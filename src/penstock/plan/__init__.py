"""The plan that every front end lowers to."""

from penstock.plan.changes import check_changes
from penstock.plan.deadletters import with_dead_letters
from penstock.plan.guarantees import check_guarantees
from penstock.plan.nodes import (
    AssignWatermarks,
    DeadLetters,
    Filter,
    Item,
    Job,
    MapRows,
    Node,
    Project,
    Scan,
    Sink,
    Step,
    items_of,
    project,
)
from penstock.plan.settings import check_settings
from penstock.plan.traits import Traits, traits
from penstock.plan.walk import base, calculations, fold, path, rewrite, scans

__all__ = [
    "AssignWatermarks",
    "DeadLetters",
    "Filter",
    "Item",
    "Job",
    "MapRows",
    "Node",
    "Project",
    "Scan",
    "Sink",
    "Step",
    "Traits",
    "base",
    "calculations",
    "check_changes",
    "check_guarantees",
    "check_settings",
    "fold",
    "items_of",
    "path",
    "project",
    "rewrite",
    "scans",
    "traits",
    "with_dead_letters",
]
