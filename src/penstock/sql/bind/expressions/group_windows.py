"""Windows of GROUP BY TUMBLE(..), HOP(..) and SESSION(..), and their properties, as in TUMBLE_START(..)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.plan.expressions import Expression, offset_of, walk
from penstock.plan.windowing import WindowKind
from penstock.plan.windows import BOUND
from penstock.sql.bind.expressions.binding import ExpressionBinder
from penstock.sql.bind.expressions.lengths import read_length
from penstock.sql.parse.source import SourceText
from penstock.sql.parse.syntax import Unbound, UnboundCall
from penstock.types import TimestampType

#: The lengths that each window takes.
_LENGTHS = {"TUMBLE": ("SIZE",), "HOP": ("SLIDE", "SIZE"), "SESSION": ("GAP",)}
_PARTS = ("", "START", "END", "ROWTIME", "PROCTIME")
#: The names of all functions.
FUNCTIONS = frozenset(f"{name}_{part}".removesuffix("_") for name in _LENGTHS for part in _PARTS)


@dataclass(frozen=True)
class GroupWindow(Expression):
    """A window over ``time``, or a ``part`` of it. Exists while a query is bound; the plan has a node instead."""

    kind: WindowKind
    time: Expression
    size: int
    step: int
    part: str = ""

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.time,)

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        return replace(self, time=operands[0])

    @property
    def window(self) -> tuple[WindowKind, Expression, int, int]:
        """The window, without the part."""
        return self.kind, self.time, self.size, self.step


def bind_group_window(call: UnboundCall, scope: ExpressionBinder) -> GroupWindow:
    """The window of a call of one of the :data:`FUNCTIONS`. Raises SqlError for other arguments."""
    name, _, part = call.name.partition("_")
    expected = _LENGTHS[name]
    if len(call.args) != 1 + len(expected):
        reason = f"{call.name} takes a time attribute and {' and '.join(each.lower() for each in expected)}"
        raise scope.source.error(call.at, reason, "leave the time of day out" if len(call.args) > 1 else "name them")
    time = scope.bind(call.args[0])
    lengths = [read_length(arg, each, scope.source) for arg, each in zip(call.args[1:], expected, strict=True)]
    zoned = isinstance(time.type, TimestampType) and time.type.local_zone
    type_ = BOUND if part in ("", "START", "END") else TimestampType(3, local_zone=zoned, nullable=False)
    step = lengths[0] if name == "HOP" else 0
    place = scope.source.at(call.at)
    return GroupWindow(WindowKind[name], time, lengths[-1], step, part, type=type_, place=place)


def check_windows(values: Sequence[Expression], grouping: Sequence[Unbound] | None, source: SourceText) -> None:
    """Raises SqlError for properties of windows in a query without a window in GROUP BY."""
    if any(isinstance(each, UnboundCall) and each.name in _LENGTHS for each in grouping or ()):
        return
    for each in (part for value in values for part in walk(value) if isinstance(part, GroupWindow)):
        name = f"{each.kind.name}_{each.part}" if each.part else each.kind.name
        at = offset_of(each)
        raise source.error(at, f"{name} needs a window in GROUP BY", f"GROUP BY {each.kind.name}(..)")


def check_key(key: Expression, at: int, source: SourceText) -> None:
    """Raises UnsupportedError for an expression of GROUP BY, at this offset, that contains a window but is not one."""
    found = next((each for each in walk(key) if isinstance(each, GroupWindow)), None)
    if found is None or found is key:
        return
    name = found.kind.name
    hint = f"GROUP BY {name}(..), and compute with {name}_START(..) in SELECT"
    raise source.unsupported_feature(at, "a window inside another expression of GROUP BY is not supported", hint)
