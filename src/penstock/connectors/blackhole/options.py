"""The options of the ``blackhole`` connector: none of its own."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.options import OptionSet


@dataclass(frozen=True, kw_only=True)
class BlackholeOptions(OptionSet):
    """Nothing can be said about writing to nowhere."""
