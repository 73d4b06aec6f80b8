"""Dead letters: records that cannot be decoded go to a separate sink, beside the job's other sinks."""

from __future__ import annotations

from dataclasses import replace

from penstock.plan.nodes import DeadLetters, Job, Node, Scan, Sink, Stateful, scans
from penstock.plan.walk import base


def with_dead_letters(job: Job) -> Job:
    """The job with a sink for the dead letters of each scan that keeps them (rule "dead letters join the transaction").

    The sink takes them from the same frame as the rows of one of the job's sinks, so that the scan is read once, or
    from the scan itself where steps with state, or several paths, are in between.
    """
    specs = [sink.spec for sink in job.sinks]
    bases: dict[Scan, Node] = {}
    for sink in job.sinks:
        for scan in scans(sink):
            bases.setdefault(scan, base(sink.input) if _is_direct(sink) else scan)
    added = []
    for scan, node in bases.items():
        spec = scan.spec.dead_letter_sink(specs)
        if spec is not None:
            added.append(Sink(spec.schema, DeadLetters(spec.schema, node), spec.table, scan.connector, spec))
    return replace(job, sinks=(*job.sinks, *added)) if added else job


def _is_direct(node: Node) -> bool:
    """Whether a single path without state, and without a step that makes rows of many tables, leads to ``node`` from
    its only scan."""
    while len(node.inputs) == 1 and not isinstance(node, Stateful) and node.tables_work is None:
        (node,) = node.inputs
    return isinstance(node, Scan)
