"""Records that cannot be decoded."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.nodes.node import Step


@dataclass(frozen=True)
class DeadLetters(Step):
    """The records that the scan below could not decode, instead of its rows."""
