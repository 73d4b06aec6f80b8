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
    base,
    items_of,
    project,
    scan_of,
)
from penstock.plan.restart import ExponentialDelay, FailureRate, FixedDelay, RestartStrategy
from penstock.plan.settings import check_settings

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
    "base",
    "check_changes",
    "check_guarantees",
    "check_settings",
    "items_of",
    "project",
    "scan_of",
    "with_dead_letters",
]
