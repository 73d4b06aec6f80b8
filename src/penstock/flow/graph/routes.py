"""Where the rows of a job are computed, and whether they go through Spark."""

from __future__ import annotations

from penstock.flow.graph.fused import Fused, fused
from penstock.flow.graph.planner import Planner
from penstock.flow.graph.scan_work import SinkBranch, scan_works
from penstock.flow.kernels.session import Session
from penstock.flow.rows.expressions import NoKernel
from penstock.plan.nodes import STATEFUL, Job, Node, Union, Unnest, WindowTable
from penstock.plan.walk import fold, scans


def stateful(job: Job) -> bool:
    """Whether the job is a dataflow: it keeps state, unites rows, or emits one several times; or it has to drop state,
    which its first batch does in the commit of its rows."""
    if job.settings.reset_state and not job.settings.batch:
        return True

    def visit(node: Node, below: tuple[bool, ...]) -> bool:
        return isinstance(node, STATEFUL | Union | Unnest | WindowTable) or any(below)

    found: tuple[bool, ...] = fold(job.sinks, visit)
    return any(found)


def route(job: Job) -> str:
    """Where the job's rows are computed, and what takes them through Spark, as a human-readable line. Raises
    UnsupportedError for a job that cannot be computed."""
    session = Session(job.settings.session_time_zone or "UTC", strict=job.settings.strict)
    if stateful(job):
        return _dataflow(job, session)
    found: Fused | NoKernel = fused(job.sinks, session)
    if isinstance(found, NoKernel):
        scan_works([SinkBranch(sink, f"sink_{number}") for number, sink in enumerate(job.sinks)], session)
    if len({(sink.connector, sink.spec.capabilities.commits_to) for sink in job.sinks}) > 1:
        found = NoKernel("several commits")
    if isinstance(found, NoKernel):
        return f"rows go through Spark, because of {found}"
    return "rows are computed where they are read"


def _dataflow(job: Job, session: Session) -> str:
    planner = Planner(scans(*job.sinks), session, job.settings.state_ttl, job.settings.batch)
    for number, sink in enumerate(job.sinks):
        planner.add(sink, number)
    planner.check()
    spark = [f"table '{planner.scans[number].table}', because of {why}" for number, (_, why) in planner.hops.items()]
    if spark:
        return f"rows go through Spark before they go to a step with state: {'; '.join(spark)}"
    return "rows are computed where they are read, and where their state is kept"
