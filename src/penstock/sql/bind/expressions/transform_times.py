"""Functions of dates and times in transforms of pipelines, as in Flink CDC: those of points in time are in UTC, but for
their parts and their texts, and text that cannot be read fails its row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.flow.kernels.moments.local import is_known_zone
from penstock.plan.expressions import Call, Expression, Literal, call, cast, coerce
from penstock.sql.bind.expressions.binding import ExpressionBinder
from penstock.sql.bind.expressions.transform_arguments import bind_first, check_count, make_text, refuse_type
from penstock.sql.bind.expressions.transform_casts import in_utc, limit_type, require, with_type
from penstock.sql.parse.syntax import UnboundCall, UnboundLiteral
from penstock.types import DATE, STRING, TimestampType, TimeType
from penstock.types.casts import is_integer
from penstock.types.logical import root

_FULL = TimestampType(6)
_DAY = "yyyy-MM-dd"
_SECOND = "yyyy-MM-dd HH:mm:ss"


def _format(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``DATE_FORMAT``, of TIME too."""
    given, moments = bind_first(scope, given)
    if len(given.args) != 2 or not isinstance(moments[0].type, TimeType):
        return scope.bind_flink_call(given)
    pattern = scope.string(given.args[1], given.name)
    return call("DATE_FORMAT", cast(moments[0], _FULL), pattern, type=STRING, place=scope.source.at(given.at))


def _format_in_zone(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``DATE_FORMAT_TZ(moment [, pattern], zone)``."""
    check_count(scope, given, 2, 3)
    moment = scope.bind(given.args[0])
    if not isinstance(moment.type, TimestampType):
        raise refuse_type(scope, given.args[0], given.name, "a TIMESTAMP", moment.type)
    *patterns, zone = (scope.string(each, given.name) for each in given.args[1:])
    if isinstance(zone, Literal) and isinstance(zone.value, str) and not is_known_zone(zone.value):
        reason = f"'{zone.value}' is not a time zone that is known here"
        raise scope.source.error(given.args[-1].at, reason, "write a name such as 'Asia/Shanghai', or 'UTC'")
    pattern = patterns[0] if patterns else make_text(_SECOND)
    place = scope.source.at(given.at)
    if not moment.type.local_zone:  # a local time is the same in each zone
        return call("DATE_FORMAT", moment, pattern, type=STRING, place=place)
    return Call("DATE_FORMAT_TZ", (moment, pattern, zone), type=STRING, place=place)


def _to_date(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """Of text by a pattern, and the date of a timestamp, which is in UTC for a TIMESTAMP_LTZ."""
    if len(given.args) != 1:
        return scope.bind_flink_call(given)
    given, (value,) = bind_first(scope, given)
    if isinstance(value.type, TimestampType):
        return cast(in_utc(value), DATE)
    pattern = UnboundLiteral(given.at, "STRING", _DAY)
    return scope.bind_flink_call(UnboundCall(given.at, given.name, (*given.args, pattern)))


def _to_instant(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``TO_TIMESTAMP_LTZ``: of text, the row fails where Flink SQL has NULL."""
    given, values = bind_first(scope, given)
    found = scope.bind_flink_call(given)
    return require(found, values[0]) if root(values[0].type) == "STRING" else found


def _to_timestamp(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """The row fails where Flink SQL has NULL."""
    pattern = (UnboundLiteral(given.at, "STRING", _SECOND),) if len(given.args) == 1 else ()
    given, texts = bind_first(scope, given)
    found = scope.bind_flink_call(UnboundCall(given.at, given.name, (*given.args, *pattern)))
    return require(found, texts[0])


def _add_time(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``TIMESTAMPADD``, in milliseconds and in UTC."""
    found = scope.bind_flink_call(given)
    if not isinstance(found.type, TimestampType) or not isinstance(found, Call):
        return found
    unit, count, moment = found.args
    target = limit_type(scope, moment.type).with_nullability(found.type.nullable)
    whole = TimestampType(3)
    local = cast(with_type(in_utc(moment), _FULL), whole)
    made = call("TIMESTAMPADD", unit, count, local, type=whole, place=found.place)
    return with_type(from_utc(made, replace(found.type, precision=3)), target)


def from_utc(local: Call, target: TimestampType) -> Expression:
    """What was computed in UTC, as a point in time if that is its type."""
    if not target.local_zone:
        return local
    local = replace(local, type=TimestampType(target.precision, nullable=target.nullable))
    return Call("FROM UTC", (local,), type=target, place=local.place)


def _subtract_times(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``TIMESTAMPDIFF``, and ``TIMESTAMP_DIFF`` with its unit in quotes."""
    if len(given.args) != 3:
        raise scope.source.error(given.at, f"{given.name} takes a unit and two timestamps", "such as ('DAY', a, b)")
    unit, *moments = given.args
    if not isinstance(unit, UnboundLiteral):
        raise scope.source.error(unit.at, f"{given.name} takes a unit in quotes here", "such as 'DAY'")
    word = UnboundLiteral(unit.at, "STRING", unit.text.upper())
    found = scope.bind_flink_call(UnboundCall(given.at, "TIMESTAMPDIFF", (word, *moments)))
    assert isinstance(found, Call)  # noqa: S101
    kinds = {root(each.type) for each in found.args[1:]}
    args = map(in_utc, found.args) if kinds == {"TIMESTAMP_LTZ"} else found.args
    return Call("TIMESTAMPDIFF", tuple(args), type=found.type, place=found.place)


def _add_days(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``DATE_ADD(a, days)``: the date as text."""
    check_count(scope, given, 2, 2)
    value, days = (scope.bind(each) for each in given.args)
    if not is_integer(days.type):
        raise refuse_type(scope, given.args[1], given.name, "INT", days.type)
    match root(value.type):
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            day: Expression = cast(value, DATE)
        case "DATE":
            day = value
        case "STRING" | "NULL":
            text = coerce(value, STRING)
            dated = Call("TO_DATE", (text, make_text(_DAY)), type=DATE, place=value.place)
            timed = Call("TO_TIMESTAMP", (text, make_text(_SECOND)), type=TimestampType(3), place=value.place)
            day = require(Call("COALESCE", (dated, cast(timed, DATE)), type=DATE, place=value.place), text)
        case _:
            raise refuse_type(scope, given.args[0], given.name, "a DATE, a TIMESTAMP or text", value.type)
    moved = call("TIMESTAMPADD", make_text("DAY"), days, day, type=DATE, place=scope.source.at(given.at))
    return cast(moved, STRING)


FORMS: Mapping[str, Callable[[ExpressionBinder, UnboundCall], Expression]] = {
    "DATE_FORMAT": _format,
    "DATE_FORMAT_TZ": _format_in_zone,
    "TO_DATE": _to_date,
    "TO_TIMESTAMP": _to_timestamp,
    "TO_TIMESTAMP_LTZ": _to_instant,
    "TIMESTAMPADD": _add_time,
    **dict.fromkeys(("TIMESTAMPDIFF", "TIMESTAMP_DIFF"), _subtract_times),
    "DATE_ADD": _add_days,
}
