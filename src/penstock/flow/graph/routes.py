"""Where the rows of a job are computed."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.flow.graph.dataflow import Dataflow, have_one_output
from penstock.flow.graph.planner import plan_sinks
from penstock.flow.kernels.session import Session
from penstock.plan.nodes import Job, Scan, scans
from penstock.plan.walk import keeps_state
from penstock.spi import Output


def plan_reading(job: Job, read: Sequence[Scan], session: Session) -> Dataflow | None:
    """The dataflow of a job whose reading tasks compute and write all rows of a batch at once. None for a job that has
    state or finds its tables, measures event time, reads several sources or one of them for an output in several ways;
    or that has to drop state, which its first batch does in the commit of its rows. ``read`` are the scans of the job.

    Raises UnsupportedError for a job that cannot be computed.
    """
    if keeps_state(*job.sinks) or (job.settings.reset_state and not job.settings.batch):
        return None
    planner = plan_sinks(job.sinks, read, session, job.settings)
    if planner.vertices or planner.generators or len(read) > 1 or have_one_output(planner.branches):
        return None
    if any(each.tables is not None for each in planner.branches):
        return None
    return Dataflow(tuple(planner.branches), (), outputs_of(job))


def outputs_of(job: Job) -> tuple[Output, ...]:
    """The outputs of the job's sinks."""
    return tuple(Output(at, sink.table, sink.spec, sink.schema) for at, sink in enumerate(job.sinks))


def describe_route(job: Job) -> str:
    """Where the job's rows are computed, as a human-readable line. Raises UnsupportedError for a job that cannot be
    computed."""
    session = Session(job.settings.session_time_zone or "UTC", strict=job.settings.strict)
    where = "rows are computed where they are read"
    planner = plan_sinks(job.sinks, scans(*job.sinks), session, job.settings)
    return f"{where}, and where their state is kept" if planner.vertices else where
