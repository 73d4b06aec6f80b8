"""Dead letters: records that cannot be decoded go to a sink of their own, beside the job's other sinks."""

from __future__ import annotations

from dataclasses import replace

from penstock.plan.nodes import DeadLetters, Job, Node, Scan, Sink
from penstock.plan.traits import traits
from penstock.plan.walk import base, scans


def with_dead_letters(job: Job) -> Job:
    """The job with a sink for the dead letters of each scan that keeps them (rule "dead letters join the transaction").

    The sink takes them from the same frame as the rows of one of the job's sinks, so that the scan is read once; where
    there are steps with state in between, from the scan itself.
    """
    specs = [sink.spec for sink in job.sinks]
    bases: dict[Scan, Node] = {}
    for sink in job.sinks:
        for scan in scans(sink):
            bases.setdefault(scan, scan if traits(sink).stateful else base(sink.input))
    added = []
    for scan, node in bases.items():
        spec = scan.spec.dead_letter_sink(specs)
        if spec is not None:
            added.append(Sink(spec.schema, DeadLetters(spec.schema, node), spec.table, scan.connector, spec))
    return replace(job, sinks=(*job.sinks, *added)) if added else job
