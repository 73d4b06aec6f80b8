"""Scans whose rows need an event time, because they go to windows, or to steps in the order of time, as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.plan.nodes import Node, Scan, Sink
from penstock.plan.walk import rewrite
from penstock.spi import NeedsTimes


def with_times(sinks: tuple[Sink, ...]) -> tuple[Sink, ...]:
    """The sinks, above scans that treat a record without an event time as a bad one where it would fail the job later.
    A condition in between may leave such rows out, which the scan cannot know."""
    known: set[tuple[int, bool]] = set()
    found = {scan for sink in sinks for scan in _find_timed_scans(sink, known, needed=False)}

    def change(node: Node) -> Node:
        if isinstance(node, Scan) and isinstance(node.spec, NeedsTimes) and node in found:
            return replace(node, spec=node.spec.require_times())
        return node

    return rewrite(sinks, change) if found else sinks


def _find_timed_scans(node: Node, known: set[tuple[int, bool]], *, needed: bool) -> Iterator[Scan]:
    """The scans below ``node`` whose event time it, or a node above, needs; nothing for what is ``known``."""
    if (id(node), needed) in known:
        return
    known.add((id(node), needed))
    if isinstance(node, Scan):
        if needed:
            yield node
        return
    if node.needs_event_time:
        needed = True
    elif not node.passes_rows:
        needed = False
    for each in node.inputs:
        yield from _find_timed_scans(each, known, needed=needed)
