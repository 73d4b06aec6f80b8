"""The plan that every front end lowers to."""

from penstock.plan.nodes import (
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

__all__ = [
    "Filter",
    "Item",
    "Job",
    "MapRows",
    "Node",
    "Project",
    "Scan",
    "Settings",
    "Sink",
    "column_text",
    "project",
]
