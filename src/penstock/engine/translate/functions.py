"""Functions of Flink SQL in Spark SQL, where Spark has the same function with the same result for every value.

Others are computed by kernels (``penstock.engine.translate.kernels``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from penstock.flow.kernels.constraints import not_null_reason
from penstock.flow.kernels.java_regex import compiled
from penstock.plan.expressions import Call, Literal, Value
from penstock.types import DecimalType, MapType, StringType, spark_type
from penstock.types.logical import root

#: Renders a call whose arguments are rendered already; None for arguments that Spark takes in another way.
Rendering = Callable[[Call, Sequence[str]], str | None]


def _as(*templates: str) -> Rendering:
    """``{0}``, ``{1}`` are the arguments, ``{type}`` is the type of the value. Of several templates the one with as
    many arguments applies."""
    by_count = {len(set(re.findall(r"\{(\d)\}", each))): each for each in templates}
    return lambda call, args: by_count[len(args)].format(*args, type=spark_type(call.type))


def _same(name: str) -> Rendering:
    """A function of the same arguments."""
    return lambda _, args: f"{name}({', '.join(args)})"


def _unit_first(template: str) -> Rendering:
    """A function whose first argument is a unit, which is a word in Spark SQL."""

    def render(call: Call, args: Sequence[str]) -> str:
        unit = call.args[0]
        assert isinstance(unit, Literal)  # noqa: S101 - so it was bound
        return template.format(unit.value, *args[1:])

    return render


def _timestampadd(call: Call, args: Sequence[str]) -> str | None:
    """Spark adds to timestamps only, and makes one of a date."""
    added = _unit_first("timestampadd({0}, {1}, {2})")(call, args)
    return f"CAST({added} AS DATE)" if added is not None and root(call.type) == "DATE" else added


def _date_format(call: Call, args: Sequence[str]) -> str | None:
    return None if isinstance(call.args[0].type, StringType) else f"date_format({args[0]}, {args[1]})"


def _timestampdiff(call: Call, args: Sequence[str]) -> str | None:
    """Flink counts months by days, and then looks at the time. Of small units there may be more than INT holds."""
    if _constant(call, 0) in ("MONTH", "QUARTER", "YEAR", "HOUR", "MINUTE", "SECOND"):
        return None
    return _unit_first("CAST(timestampdiff({0}, {1}, {2}) AS INT)")(call, args)


def _exact(template: str) -> Rendering:
    """A function of integers and decimals. Those of Spark make whole numbers of floating-point numbers."""
    render = _as(template)
    return lambda call, args: None if root(call.type) in ("FLOAT", "DOUBLE") else render(call, args)


def _round(call: Call, args: Sequence[str]) -> str | None:
    """Floating-point numbers are rounded by their text, which depends on the Java that runs Spark."""
    if root(call.type) in ("FLOAT", "DOUBLE") or (len(args) == 2 and not isinstance(call.args[1], Literal)):
        return None
    digits = args[1:] if len(args) == 2 and args[1] != "0" else ()
    text = f"round({', '.join((args[0], *digits))})"
    return f"CAST({text} AS {spark_type(call.type)})" if isinstance(call.type, DecimalType) else text


def _constant(call: Call, index: int) -> Value:
    """An argument that is a constant; None for others."""
    given = call.args[index] if index < len(call.args) else None
    return given.value if isinstance(given, Literal) else None


def _substring(call: Call, args: Sequence[str]) -> str | None:
    """A place before the first character makes an empty text in Flink, and a negative length NULL."""
    start, length = _constant(call, 1), 0 if len(call.args) == 2 else _constant(call, 2)
    known = isinstance(start, int) and isinstance(length, int) and start >= 0 and length >= 0
    return f"substring({', '.join(args)})" if known else None


def _replace(call: Call, args: Sequence[str]) -> str | None:
    """An empty text is between all characters in Flink, and nowhere in Spark."""
    return f"replace({', '.join(args)})" if _constant(call, 1) else None


def _regexp_replace(call: Call, args: Sequence[str]) -> str | None:
    """Flink takes the replacement as it is, Spark reads references to groups in it."""
    text = _constant(call, 2)
    plain = isinstance(text, str) and "$" not in text and "\\" not in text
    return f"regexp_replace({', '.join(args)})" if plain else None


def _item(call: Call, args: Sequence[str]) -> str:
    """Spark counts negative places from the end, and fails for 0; Flink has nothing there."""
    found = f"try_element_at({', '.join(args)})"
    index = _constant(call, 1)
    if isinstance(call.args[0].type, MapType) or (isinstance(index, int) and index > 0):
        return found
    return f"CASE WHEN {args[1]} > 0 THEN {found} END"


def _regexp(call: Call, args: Sequence[str]) -> str | None:
    """What is no regular expression, and an empty one, match nothing in Flink."""
    pattern = _constant(call, 1)
    return f"rlike({', '.join(args)})" if isinstance(pattern, str) and pattern and compiled(pattern) else None


_MATCHED = "CASE WHEN {0} RLIKE {1} THEN regexp_extract({0}, {1}, 0) END"


def _regexp_extract(call: Call, args: Sequence[str]) -> str | None:
    """A group that has no part in the match is empty in Spark, and NULL in Flink."""
    whole = len(call.args) == 2 or _constant(call, 2) == 0
    return _MATCHED.format(*args) if whole else None


def _not_null(call: Call, args: Sequence[str]) -> str:
    """The same error as that of the kernel."""
    text = "'" + not_null_reason(call).replace("\\", "\\\\").replace("'", "\\'") + "'"
    return f"coalesce({args[0]}, raise_error({text}))"


_CAST = "CAST({}({}) AS {{type}})"
#: Spark finds nothing from a place below 1, nor '' behind the end, and gives 0 for a place that is NULL.
_LOCATE_FROM = (
    "CASE WHEN {2} IS NULL THEN NULL WHEN {0} = '' AND {1} IS NOT NULL THEN 1 "
    "ELSE locate({0}, {1}, greatest({2}, 1)) END"
)

#: Functions of the same arguments, and of the same name in lower case.
_SAME = """
UPPER LOWER REVERSE LEFT RIGHT REPEAT MD5 SHA1 CHAR_LENGTH UUID CONCAT CONCAT_WS
ABS PI
LOCALTIMESTAMP CURRENT_DATE
COALESCE NULLIF IF
ARRAY MAP CARDINALITY
"""

#: By the function's name in the plan. Operators and predicates are in ``penstock.plan.flink_sql``.
RENDERINGS: dict[str, Rendering] = {
    **{name: _same(name.lower()) for name in _SAME.split()},
    # strings
    "SHA256": _as("sha2({0}, 256)"),
    "BTRIM": _as("trim({0})", "trim(BOTH {1} FROM {0})"),
    "LTRIM": _as("ltrim({0})", "trim(LEADING {1} FROM {0})"),
    "RTRIM": _as("rtrim({0})", "trim(TRAILING {1} FROM {0})"),
    "REGEXP": _regexp,
    "REGEXP_EXTRACT": _regexp_extract,
    "REPLACE": _replace,
    "SUBSTRING": _substring,
    "REGEXP_REPLACE": _regexp_replace,
    "LOCATE": _as("locate({0}, {1})", _LOCATE_FROM),
    # numbers
    **{name: _exact(_CAST.format(name.lower(), "{0}")) for name in ("CEIL", "FLOOR")},
    "SIGN": _as(_CAST.format("sign", "{0}")),
    "MOD": _as(_CAST.format("mod", "{0}, {1}")),
    "ROUND": _round,
    # dates and times
    **dict.fromkeys(("CURRENT_TIMESTAMP", "PROCTIME"), _same("current_timestamp")),
    "CURRENT_TIME": _as("current_time(0)"),
    "DATE_FORMAT": _date_format,
    "UNIX_TIMESTAMP": lambda call, args: None if args else "unix_timestamp()",
    "EXTRACT": _unit_first("CAST(extract({0} FROM {1}) AS BIGINT)"),
    "TIMESTAMPADD": _timestampadd,
    "TIMESTAMPDIFF": _timestampdiff,
    # arrays and maps
    "ITEM": _item,
    # columns of sinks
    "NOT NULL": _not_null,
}
