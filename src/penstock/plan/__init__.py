"""The plan that every front end lowers to."""

from penstock.plan.guarantees import Guarantee, check_guarantees
from penstock.plan.kerberos import KerberosSettings
from penstock.plan.nodes import (
    AssignWatermarks,
    Filter,
    Item,
    Job,
    MapRows,
    Node,
    Project,
    Scan,
    Settings,
    Sink,
    column_text,
    project,
)
from penstock.plan.restart import ExponentialDelay, FailureRate, FixedDelay, RestartStrategy

__all__ = [
    "AssignWatermarks",
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
    "check_guarantees",
    "column_text",
    "project",
]
