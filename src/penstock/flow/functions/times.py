"""Functions of dates, times and timestamps."""

from __future__ import annotations

from penstock.flow.kernels import nondeterministic, rewrites
from penstock.flow.kernels.by_value import by_value
from penstock.flow.kernels.makers import either
from penstock.flow.kernels.moments import datetimes, patterns, rounding, zones
from penstock.plan.overloads import overloads
from penstock.plan.scalar_functions import Entry, Function, Missing, Varies
from penstock.types import BIGINT, DATE, STRING, TimestampType, TimeType

GROUP = "Dates and times"
_LTZ = TimestampType(3, local_zone=True)
_LOCAL = TimestampType(3)
_EXACTLY = "a pattern must match the whole text"
_OF_BATCH = "the present time is the batch's"

FUNCTIONS = (
    Entry("DATE", "DATE '..', TIME '..', TIMESTAMP '..', INTERVAL '..' unit"),
    Function(
        "CURRENT_DATE",
        "CURRENT_DATE",
        _OF_BATCH,
        kernel=nondeterministic.present,
        overloads=overloads(DATE, ""),
        varies=Varies.BY_BATCH,
    ),
    Function(
        "CURRENT_TIME",
        "CURRENT_TIME, LOCALTIME",
        _OF_BATCH,
        kernel=nondeterministic.present,
        overloads=overloads(TimeType(0), ""),
        varies=Varies.BY_BATCH,
        aliases=("LOCALTIME",),
    ),
    Function(
        "CURRENT_TIMESTAMP",
        "CURRENT_TIMESTAMP, NOW(), CURRENT_ROW_TIMESTAMP()",
        _OF_BATCH,
        kernel=nondeterministic.present,
        overloads=overloads(_LTZ, ""),
        varies=Varies.BY_BATCH,
        aliases=("NOW", "CURRENT_ROW_TIMESTAMP"),
    ),
    Function(
        "LOCALTIMESTAMP",
        "LOCALTIMESTAMP",
        _OF_BATCH,
        kernel=nondeterministic.present,
        overloads=overloads(_LOCAL, ""),
        varies=Varies.BY_BATCH,
    ),
    Function(
        "PROCTIME",
        "PROCTIME()",
        kernel=nondeterministic.present,
        overloads=overloads(_LTZ, ""),
        varies=Varies.BY_BATCH,
    ),
    Function(
        "EXTRACT",
        "EXTRACT(unit FROM a), YEAR(a), QUARTER(a), MONTH(a), WEEK(a), DAYOFYEAR(a), ..",
        "before 1970 and between two seconds, the parts of the earlier one; of a DATE, minutes are 0",
        kernel=datetimes.extract,
    ),
    Function(
        "FLOOR TO",
        "FLOOR(a TO unit), CEIL(a TO unit)",
        "of a TIME to hours, minutes and seconds",
        kernel=rounding.round_moment,
    ),
    Function("CEIL TO", kernel=rounding.round_moment),
    Entry("OVERLAPS", "(a, b) OVERLAPS (c, d)"),
    Function(
        "DATE_FORMAT",
        "DATE_FORMAT(a, pattern)",
        kernel=by_value(patterns.date_format, 1),
        overloads=overloads(STRING, "ds", "ss"),
    ),
    Function("TIMESTAMPADD", "TIMESTAMPADD(unit, count, a)", kernel=datetimes.timestampadd),
    Function(
        "TIMESTAMPDIFF",
        "TIMESTAMPDIFF(unit, a, b)",
        kernel=datetimes.timestampdiff,
        rewrite=rewrites.to_instants,
    ),
    Function(
        "FROM_UNIXTIME",
        "FROM_UNIXTIME(a [, pattern])",
        kernel=by_value(patterns.from_unixtime, 1),
        overloads=overloads(STRING, "i", "is"),
    ),
    Function(
        "TO_TIMESTAMP",
        "TO_TIMESTAMP(a [, pattern])",
        kernel=by_value(patterns.to_moment, 1),
        rewrite=rewrites.try_cast,
        overloads=overloads(_LOCAL, "s", "ss", nullable=True),
    ),
    Function(
        "TO_TIMESTAMP_LTZ",
        "TO_TIMESTAMP_LTZ(a [, precision | pattern [, zone]])",
        kernel=either(datetimes.to_timestamp_ltz, by_value(patterns.to_instant, 1, 2)),
        rewrite=rewrites.read_instant,
        overloads=overloads(_LTZ, "s", "ss", "sss", nullable=True),
    ),
    Function(
        "CURRENT_WATERMARK",
        "CURRENT_WATERMARK(rowtime)",
        kernel=datetimes.watermark,
        rewrite=rewrites.read_watermark,
        varies=Varies.BY_WATERMARK,
    ),
    Function(
        "TO_DATE",
        "TO_DATE(a [, pattern])",
        _EXACTLY,
        kernel=by_value(patterns.to_moment, 1),
        rewrite=rewrites.try_cast,
        overloads=overloads(DATE, "s", "ss", nullable=True),
    ),
    Function(
        "CONVERT_TZ",
        "CONVERT_TZ(a, from, to)",
        "NULL for text that does not begin as `yyyy-MM-dd HH:mm:ss`",
        kernel=zones.CONVERT_TZ,
        overloads=overloads(STRING, "sss", nullable=True),
    ),
    Function(
        "UNIX_TIMESTAMP",
        "UNIX_TIMESTAMP([a [, pattern]])",
        _EXACTLY,
        kernel=either(by_value(patterns.unix_timestamp, 1), nondeterministic.present),
        overloads=overloads(BIGINT, "", "s", "ss"),
        varies=Varies.BY_BATCH,
    ),
    Missing("SOURCE_WATERMARK", "SOURCE_WATERMARK()", reason="no connector here has its own watermarks"),
)
