"""Upserts as changes."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.nodes.node import Step


@dataclass(frozen=True)
class Normalize(Step):
    """Makes a full changelog of upserts and deletions by the primary key ``keys``, or of a changelog with repeated
    changes. The schema is the input's."""

    keys: tuple[str, ...]
