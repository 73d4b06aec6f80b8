"""Everything that one ``execute`` starts."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.plan.nodes.sink import Sink
from penstock.settings import Settings


@dataclass(frozen=True)
class Job:
    """Everything that one ``execute`` starts: one Spark query with any number of sinks."""

    name: str
    sinks: tuple[Sink, ...]
    settings: Settings = field(default_factory=Settings)
