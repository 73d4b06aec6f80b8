"""Dead letters: records that cannot be decoded go to a sink of their own, beside the job's others."""

from __future__ import annotations

from dataclasses import replace

from penstock.plan.nodes import DeadLetters, Job, Node, Scan, Sink
from penstock.plan.walk import base, scans


def with_dead_letters(job: Job) -> Job:
    """The job with a sink for the dead letters of each scan that keeps them (rule 24 of exactly-once).

    They are taken beside the rows of one of the job's sinks, so that the scan is not read once more.
    """
    specs = [sink.spec for sink in job.sinks]
    places: dict[Scan, Node] = {}
    for sink in job.sinks:
        for scan in scans(sink):
            places.setdefault(scan, base(sink.input))
    added = []
    for scan, place in places.items():
        spec = scan.spec.dead_letter_sink(specs)
        if spec is not None:
            letters = DeadLetters(spec.schema, place)
            added.append(Sink(spec.schema, letters, spec.table, scan.connector, spec))
    return replace(job, sinks=(*job.sinks, *added)) if added else job
