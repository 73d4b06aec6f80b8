"""The types of columns that hold what a survey has found."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.formats.json import survey_kernel as kernel
from penstock.formats.json.survey import FieldSurvey
from penstock.loops.type_roots import TIME_DIGITS
from penstock.schemas import widen_type
from penstock.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    NULL,
    STRING,
    DataType,
    DecimalType,
    RowType,
    TimestampType,
    TimeType,
)
from penstock.types.logical import MAX_PRECISION

#: The most digits after the second that a TIMESTAMP keeps.
_TIMESTAMP_DIGITS = 6

_PLAIN = {
    kernel.NULL: NULL,
    kernel.BOOLEAN: BOOLEAN,
    kernel.INTEGER: BIGINT,
    kernel.HUGE: STRING,
    kernel.FRACTION: DOUBLE,
    kernel.TEXT: STRING,
    kernel.DATE: DATE,
    kernel.OBJECT: STRING,
    kernel.ARRAY: STRING,
}
_NONE = RowType(())


@dataclass(frozen=True)
class InferenceRules:
    """How types are inferred (seed 003, ``json.infer-schema.*``). Columns in ``fixed`` have the types that they have
    there. With ``as_string`` all others are STRING."""

    as_string: bool = False
    fixed: RowType = _NONE

    def infer_type(self, survey: FieldSurvey, current: DataType = NULL) -> DataType:
        """The narrowest type that holds all values of a field without loss, and those of its ``current`` type: the type
        of NULL if there is no other value. Integers are BIGINT, larger ones DECIMAL, and STRING beyond 38 digits; other
        numbers are DOUBLE, or DECIMAL in a DECIMAL column, which loses scale beyond 38 digits, and STRING for a
        value that this one does not hold; dates and times as they look, in steps of three digits; objects and arrays
        are their JSON text."""
        fixed = self.fixed.field(survey.name)
        if fixed is not None:
            return fixed.type
        kinds = sorted(survey.kinds)
        if self.as_string and set(kinds) - {kernel.NULL}:
            return widen_type(current, STRING)
        found = current
        for kind in kinds:
            found = widen_type(found, _find_type(kind, survey, current))
        return found


def _find_type(kind: int, survey: FieldSurvey, current: DataType) -> DataType:
    if isinstance(current, DecimalType) and kind in (kernel.INTEGER, kernel.LARGE, kernel.FRACTION):
        before, behind = survey.digits, survey.fraction
        whole = max(1, before, current.precision - current.scale)
        scale = min(max(behind, current.scale), MAX_PRECISION - whole)
        return DecimalType(whole + scale, scale) if behind <= scale else STRING
    digits = -(-survey.fraction // 3) * 3
    match kind:
        case kernel.LARGE:
            return DecimalType(survey.digits, 0)
        case kernel.TIME:
            return TimeType(digits) if digits <= TIME_DIGITS else STRING
        case kernel.TIMESTAMP | kernel.TIMESTAMP_LTZ:
            local = kind == kernel.TIMESTAMP_LTZ
            return TimestampType(digits, local) if digits <= _TIMESTAMP_DIGITS else STRING
    return _PLAIN[kind]
