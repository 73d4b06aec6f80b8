"""The functions that only transforms of pipelines have, beside those of SQL. Plans alone have their names: the binder
knows what each is written as."""

from __future__ import annotations

from penstock.flow.kernels import transforms
from penstock.flow.kernels.by_value import by_value
from penstock.plan.scalar_functions import Function

FUNCTIONS = (
    Function("AS TYPE", kernel=transforms.as_type),
    Function("IN UTC", kernel=transforms.in_utc),
    Function("FROM UTC", kernel=transforms.from_utc),
    Function("READABLE", kernel=transforms.readable),
    Function("ISO TEXT", kernel=transforms.iso_text),
    Function("ISO TIMESTAMP", kernel=transforms.iso_timestamp),
    Function("DATE_FORMAT_TZ", kernel=by_value(transforms.format_in_zone, 1, 2)),
    Function("FROM_BASE64_BINARY", kernel=transforms.FROM_BASE64_BINARY),
    Function("OVERLAY OF BYTES", kernel=transforms.OVERLAY_OF_BYTES),
    Function("POSITION OF BYTES", kernel=transforms.POSITION_OF_BYTES),
)
