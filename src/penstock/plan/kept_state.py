"""What operators declare of their state, beside their node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.plan.aggregate_call import AggregateCall


@dataclass(frozen=True)
class KeptValue:
    """What is kept of the values that a group aggregates, as the column or the table ``name``: their ``function``, such
    as COUNT or VALUES, of the input's ``column`` (None: of rows), of different values only if ``distinct``, in rows in
    which ``filter`` is true."""

    name: str
    function: str
    column: str | None = None
    distinct: bool = False
    filter: str | None = None


@dataclass(frozen=True)
class KeptGroups:
    """What is kept of each group: ``columns`` of its state, and ``tables`` of values. ``retracts`` says whether rows
    may be taken back; None where that does not matter to what is kept. ``last`` has the calls of functions that only
    OVER has, by the name of the column with what they keep of the last rows."""

    columns: tuple[KeptValue, ...] = ()
    tables: tuple[KeptValue, ...] = ()
    retracts: bool | None = None
    last: Mapping[str, AggregateCall] = field(default_factory=dict)


@dataclass(frozen=True)
class KeptState:
    """The state of an operator: the ``groups`` that it keeps, if it keeps groups and not rows; whether their rows are
    kept in parts that windows share (``shared``); whether the result depends on the order of arrival (``ordered``); and
    the inputs of which it keeps several rows of a key (``several``), by their numbers."""

    groups: KeptGroups | None = None
    shared: bool = False
    ordered: bool = False
    several: frozenset[int] = frozenset()
