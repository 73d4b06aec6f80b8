"""One aggregate of a group."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.plan.expressions import Place
from penstock.types import DataType


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate of a group: ``function`` (``COUNT``, ``SUM``, ``AVG``, ``MIN``, ``MAX``, ``FIRST_VALUE``,
    ``LAST_VALUE``, ``LISTAGG``, ``ARRAY_AGG``, ``COLLECT``, ``SINGLE_VALUE``) of the input's column ``argument`` (None:
    of the rows), as the column ``name`` of ``type``. With ``distinct`` equal values count once; rows in which the
    BOOLEAN column ``filter`` is not true do not count, and values that are null count with ``nulls`` only. LISTAGG puts
    the ``separator`` between the values. ``place`` is that of the text, for errors."""

    name: str
    function: str
    type: DataType
    argument: str | None = None
    distinct: bool = False
    filter: str | None = None
    nulls: bool = False
    separator: str = ""
    place: Place | None = field(default=None, compare=False, repr=False)
