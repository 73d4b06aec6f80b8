"""The plan that every front end lowers to."""

from penstock.plan.changes import check_changes
from penstock.plan.deadletters import with_dead_letters
from penstock.plan.guarantees import Guarantee, check_guarantees
from penstock.plan.kerberos import KerberosSettings
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
    Settings,
    Sink,
    Step,
    items_of,
    project,
)
from penstock.plan.restart import ExponentialDelay, FailureRate, FixedDelay, RestartStrategy
from penstock.plan.settings import check_settings
from penstock.plan.walk import base, calculations, fold, rewrite, scans

__all__ = [
    "AssignWatermarks",
    "DeadLetters",
    "ExponentialDelay",
    "FailureRate",
    "Filter",
    "FixedDelay",
    "Guarantee",
    "Item",
    "Job",
    "KerberosSettings",
    "MapRows",
    "Node",
    "Project",
    "RestartStrategy",
    "Scan",
    "Settings",
    "Sink",
    "Step",
    "base",
    "calculations",
    "check_changes",
    "check_guarantees",
    "check_settings",
    "fold",
    "items_of",
    "project",
    "rewrite",
    "scans",
    "with_dead_letters",
]
