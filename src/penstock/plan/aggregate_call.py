"""One aggregate of a group."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.plan.expressions import Literal, Place
from penstock.plan.flink_sql import flink_sql
from penstock.types import STRING, DataType, quote_name


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate of a group: ``function`` (``COUNT``, ``SUM``, ``AVG``, ``MIN``, ``MAX``, ``FIRST_VALUE``,
    ``LAST_VALUE``, ``LISTAGG``, ``ARRAY_AGG``, ``COLLECT``, ``SINGLE_VALUE``) of the input's column ``argument`` (None:
    the rows), as the column ``name`` of ``type``. With ``distinct`` equal values count once; rows in which the
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

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the input that it reads."""
        return tuple(each for each in (self.argument, self.filter) if each is not None)

    @property
    def rows_kept(self) -> int:
        """The number of last rows whose values it needs."""
        return 0

    @property
    def more_arguments(self) -> str:
        """What follows the argument in texts."""
        if self.function == "LISTAGG":
            return f", {flink_sql(Literal(self.separator, type=STRING))}"
        return " IGNORE NULLS" if self.function == "ARRAY_AGG" and not self.nulls else ""

    def describe(self) -> str:
        """The column and its call, as EXPLAIN shows them."""
        argument = "*" if self.argument is None else quote_name(self.argument)
        condition = "" if self.filter is None else f" FILTER (WHERE {quote_name(self.filter)})"
        call = f"{self.function}({self._distinct_prefix}{argument}{self.more_arguments})"
        return f"{quote_name(self.name)} = {call}{condition}"

    def flink_text(self) -> str:
        """The call and its column, as Flink's plans have them."""
        condition = f" FILTER {self.filter}" if self.filter else ""
        argument = f"{self.argument or '*'}{self.more_arguments}"
        return f"{self.function}({self._distinct_prefix}{argument}){condition} AS {self.name}"

    @property
    def _distinct_prefix(self) -> str:
        return "DISTINCT " if self.distinct else ""
