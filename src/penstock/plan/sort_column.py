"""Columns that rows are ordered by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SortColumn:
    """A column that rows are ordered by."""

    name: str
    descending: bool = False
    nulls_first: bool = True
