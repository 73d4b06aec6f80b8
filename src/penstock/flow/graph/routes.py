"""Where the rows of a job are computed."""

from __future__ import annotations

from penstock.flow.graph.fused import fused
from penstock.flow.graph.planner import Planner
from penstock.flow.kernels.session import Session
from penstock.flow.rows.expressions import NoKernel
from penstock.plan.nodes import Job, Node, scans
from penstock.plan.walk import fold


def stateful(job: Job) -> bool:
    """Whether the job is a dataflow: it keeps state, unites rows, or emits one several times; or it has to drop state,
    which its first batch does in the commit of its rows."""
    if job.settings.reset_state and not job.settings.batch:
        return True

    def visit(node: Node, below: tuple[bool, ...]) -> bool:
        return node.needs_dataflow or any(below)

    found: tuple[bool, ...] = fold(job.sinks, visit)
    return any(found)


def route(job: Job) -> str:
    """Where the job's rows are computed, as a human-readable line. Raises
    UnsupportedError for a job that cannot be computed."""
    session = Session(job.settings.session_time_zone or "UTC", strict=job.settings.strict)
    if stateful(job):
        return _dataflow(job, session)
    if isinstance(fused(job.sinks, session), NoKernel):
        return _dataflow(job, session)
    return "rows are computed where they are read"


def _dataflow(job: Job, session: Session) -> str:
    planner = Planner(scans(*job.sinks), session, job.settings.state_ttl, job.settings.batch)
    for number, sink in enumerate(job.sinks):
        planner.add(sink, number)
    where = "where they are read"
    return (
        f"rows are computed {where}, and where their state is kept"
        if planner.vertices
        else f"rows are computed {where}"
    )
