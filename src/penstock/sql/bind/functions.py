"""The functions of Flink SQL that exist here, with the types of their arguments and results.

Signatures are strings of one letter per argument: see :data:`FAMILIES`. Their Spark SQL is in
``penstock.engine.translate.functions``, by the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.plan.expressions import Expression
from penstock.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    STRING,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    NullType,
    TimestampType,
    TimeType,
)
from penstock.types.casts import as_decimal, is_integer, is_numeric, is_point
from penstock.types.logical import root

#: Letter to the name of a family of types, and whether a type belongs to it.
FAMILIES: dict[str, tuple[str, Callable[[DataType], bool]]] = {
    "s": ("STRING", lambda given: root(given) == "STRING"),
    "y": ("BYTES", lambda given: root(given) == "BYTES"),
    "i": ("INT", is_integer),
    "e": ("INT or DECIMAL", lambda given: is_integer(given) or isinstance(given, DecimalType)),
    "n": ("a number", is_numeric),
    "b": ("BOOLEAN", lambda given: root(given) == "BOOLEAN"),
    "t": ("TIMESTAMP", lambda given: isinstance(given, TimestampType)),
    "d": ("DATE or TIMESTAMP", lambda given: is_point(given) and not isinstance(given, TimeType)),
    "c": ("ARRAY or MAP", lambda given: isinstance(given, ArrayType | MapType)),
}


def families(signature: str) -> str:
    """A signature as errors show it: ``(STRING, INT)``."""
    return f"({', '.join(FAMILIES[letter][0] for letter in signature)})"


Result = DataType | Callable[[tuple[Expression, ...]], DataType]


@dataclass(frozen=True)
class Overload:
    """One way of calling a function. The value is null if an argument is; if ``nullable``, also for other
    arguments."""

    signature: str
    result: Result
    nullable: bool = False

    def takes(self, args: tuple[Expression, ...]) -> bool:
        """Whether the arguments belong to the families of the signature. NULL belongs to all."""
        return len(args) == len(self.signature) and all(
            isinstance(arg.type, NullType) or FAMILIES[letter][1](arg.type)
            for letter, arg in zip(self.signature, args, strict=True)
        )

    def type_of(self, args: tuple[Expression, ...]) -> DataType:
        """The type of the value."""
        found = self.result(args) if callable(self.result) else self.result
        return found.with_nullability(self.nullable or any(arg.type.nullable for arg in args))


def _same(args: tuple[Expression, ...]) -> DataType:
    found = args[0].type
    return DOUBLE if isinstance(found, NullType) else found


def _whole(args: tuple[Expression, ...]) -> DataType:
    """CEIL and FLOOR: a decimal loses its scale, other types stay."""
    found = _same(args)
    return DecimalType(found.precision, 0) if isinstance(found, DecimalType) else found


def _remainder(args: tuple[Expression, ...]) -> DataType:
    """MOD: the type of the divisor, as in Calcite; for decimals that of the remainder."""
    left, right = args[0].type, args[1].type
    if not isinstance(left, DecimalType) and not isinstance(right, DecimalType):
        return INT if isinstance(right, NullType) else right
    a, b = (
        as_decimal(right if isinstance(left, NullType) else left),
        as_decimal(left if isinstance(right, NullType) else right),
    )
    scale = max(a.scale, b.scale)
    return DecimalType(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


_LTZ = TimestampType(3, local_zone=True)
_LOCAL = TimestampType(3)


def _of(result: Result, *signatures: str, nullable: bool = False) -> tuple[Overload, ...]:
    return tuple(Overload(each, result, nullable) for each in signatures)


SIGNATURES: Mapping[str, tuple[Overload, ...]] = {
    # strings
    **dict.fromkeys(("UPPER", "LOWER", "INITCAP", "REVERSE", "MD5", "SHA1", "SHA256"), _of(STRING, "s")),
    "REPLACE": _of(STRING, "sss"),
    "SUBSTRING": _of(STRING, "si", "sii"),
    **dict.fromkeys(("LEFT", "RIGHT", "REPEAT"), _of(STRING, "si")),
    **dict.fromkeys(("LPAD", "RPAD"), _of(STRING, "sis")),
    "REGEXP_REPLACE": _of(STRING, "sss"),
    **dict.fromkeys(("BTRIM", "LTRIM", "RTRIM"), _of(STRING, "s", "ss")),
    **dict.fromkeys(("CHAR_LENGTH", "ASCII"), _of(INT, "s")),
    "LOCATE": _of(INT, "ss", "ssi"),
    "REGEXP": _of(BOOLEAN, "ss"),
    "REGEXP_EXTRACT": _of(STRING, "ss", "ssi", nullable=True),
    "SPLIT_INDEX": _of(STRING, "ssi", nullable=True),
    "UUID": _of(STRING, ""),
    # numbers
    **dict.fromkeys(("ABS", "SIGN"), _of(_same, "n")),
    **dict.fromkeys(("CEIL", "FLOOR"), _of(_whole, "n")),
    "MOD": _of(_remainder, "ee"),
    **dict.fromkeys(("POWER", "ATAN2"), _of(DOUBLE, "nn")),
    **dict.fromkeys(("SQRT", "EXP", "LN", "LOG10", "SIN", "COS", "TAN"), _of(DOUBLE, "n")),
    "PI": _of(DOUBLE, ""),
    # dates and times
    **dict.fromkeys(("CURRENT_TIMESTAMP", "PROCTIME"), _of(_LTZ, "")),
    "LOCALTIMESTAMP": _of(_LOCAL, ""),
    "CURRENT_DATE": _of(DATE, ""),
    "CURRENT_TIME": _of(TimeType(0), ""),
    "DATE_FORMAT": _of(STRING, "ds", "ss"),
    "TO_DATE": _of(DATE, "s", "ss", nullable=True),
    "TO_TIMESTAMP": _of(_LOCAL, "s", "ss", nullable=True),
    "TO_TIMESTAMP_LTZ": _of(_LTZ, "s", "ss", nullable=True),
    "UNIX_TIMESTAMP": _of(BIGINT, "", "s", "ss"),
    "FROM_UNIXTIME": _of(STRING, "i", "is"),
    # bytes, arrays and maps
    "ENCODE": _of(BYTES, "ss"),
    "DECODE": _of(STRING, "ys"),
    "CARDINALITY": _of(INT, "c"),
}

#: Other names of functions.
ALIASES: Mapping[str, str] = {
    "CEILING": "CEIL",
    "CHARACTER_LENGTH": "CHAR_LENGTH",
    "CURRENT_ROW_TIMESTAMP": "CURRENT_TIMESTAMP",
    "IFNULL": "COALESCE",
    "LOCALTIME": "CURRENT_TIME",
    "NOW": "CURRENT_TIMESTAMP",
}
