"""The identities of the steps of a job: what the meaning of their state depends on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

from penstock.options import DURATION
from penstock.plan.kept_state import KeptState
from penstock.plan.lineage import Lineage
from penstock.plan.node import Calculation, Node, Stateful
from penstock.plan.origins import display_text, meaning
from penstock.plan.state_identifier import StateIdentifier, join_facts
from penstock.plan.step_identity import SIDES, TIME_ZONE, Fact, StepIdentity
from penstock.plan.walk import fold


def identify_step(
    node: Stateful, kept: KeptState, lineage: Lineage, zone: str, lives: Sequence[timedelta | None]
) -> StepIdentity:
    """The identity of a step, whose operator says what is ``kept``. ``zone`` is the time zone of the job's session,
    empty if it is not known; ``lives`` are the times to live of the rows of each input, None for rows that are kept
    forever."""
    identifier = StateIdentifier(lineage)
    found = node.identify_state(identifier, kept)
    facts = {**found.facts, **dict(_note_lifetimes(node, kept, lives))}
    if identifier.zoned:
        facts[TIME_ZONE] = Fact.from_text(zone)
    return replace(found, facts=facts, notes=dict(_note_changes(node, lineage, lives)))


def _note_lifetimes(node: Stateful, kept: KeptState, lives: Sequence[timedelta | None]) -> Iterator[tuple[str, Fact]]:
    """Whether tables with several rows per key have a time to live: it cannot be added or removed later."""
    for number, life in enumerate(lives):
        if number in kept.several and not node.forgets_by_watermark:
            of = f" of the {SIDES[number]} side" if len(lives) > 1 else ""
            yield f"time to live{of}", Fact.from_text("set" if life else "")


def _note_changes(node: Stateful, lineage: Lineage, lives: Sequence[timedelta | None]) -> Iterator[tuple[str, Fact]]:
    """What may change beside the state."""
    several = len(node.inputs) > 1
    for number, below in enumerate(node.inputs):
        of = f" of the {SIDES[number]} side" if several else ""
        conditions = below.conditions(lineage)
        if conditions:
            texts = [" AND ".join(map(text, conditions)) for text in (meaning, display_text)]
            yield f"condition of WHERE{of}", Fact(*texts)
    yield from node.state_notes(lineage)
    for number, life in enumerate(lives):
        if life is not None:
            of = f" of the {SIDES[number]} side" if several else ""
            yield f"time after which it forgets{of}", Fact.from_text(DURATION.show(life))
    watermarks = _find_watermarks(node, lineage) if node.forgets_by_watermark else {}
    if watermarks:
        yield "watermark", join_facts(watermarks.values())


def _find_watermarks(root: Node, lineage: Lineage) -> dict[str, Fact]:
    """The watermarks that a node depends on, by their meaning."""

    def visit(node: Node, below: tuple[dict[str, Fact], ...]) -> dict[str, Fact]:
        found = {name: fact for each in below for name, fact in each.items()}
        if not isinstance(node, Calculation) or node.assigned_watermark is None:
            return found
        value = lineage.expression(node.input, node.assigned_watermark)
        return {**found, meaning(value): Fact(meaning(value), display_text(value))}

    return fold((root,), visit)[0]
