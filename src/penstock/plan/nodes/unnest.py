"""Rows of the elements of a collection."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.nodes.node import Step


@dataclass(frozen=True)
class Unnest(Step):
    """Gives each row once for each element of its column ``collection``, which is dropped: of an ARRAY, a MAP or a
    MULTISET; with ``outer`` once without an element if there is none. ``schema`` has the other columns of the input,
    then ``columns``: the element or, of a row, its fields, or the key and the value, and with ``numbered`` its number,
    counted from 1."""

    collection: str
    columns: tuple[str, ...]
    outer: bool = False
    numbered: bool = False
