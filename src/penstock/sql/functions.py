"""The functions of Flink SQL that exist here, as data: what they take, their text in Spark SQL, what they give.

Signatures are strings of one letter per argument: see :data:`FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.sql.coercion import NullType, as_decimal, is_integer, is_numeric, is_point, root
from penstock.sql.rendering import Expression
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
    TimestampType,
    TimeType,
    spark_type,
)

__all__ = ["FAMILIES", "FUNCTIONS", "Overload", "families", "fits"]

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


def fits(letter: str, given: DataType) -> bool:
    """Whether an argument belongs to a family. NULL belongs to all."""
    return isinstance(given, NullType) or FAMILIES[letter][1](given)


def families(signature: str) -> str:
    """A signature for people: ``(STRING, INT)``."""
    return f"({', '.join(FAMILIES[letter][0] for letter in signature)})"


Result = DataType | Callable[[tuple[Expression, ...]], DataType]


@dataclass(frozen=True)
class Overload:
    """One way of calling a function.

    ``text`` is the Spark SQL with ``{0}``, ``{1}`` for the arguments. The value is null when an argument is;
    ``nullable`` says that it may be null besides. ``cast`` brings Spark's result to the declared type.
    """

    signature: str
    text: str
    result: Result
    nullable: bool = False
    cast: bool = False

    def takes(self, args: tuple[Expression, ...]) -> bool:
        """Whether the arguments fit."""
        return len(args) == len(self.signature) and all(
            fits(letter, arg.type) for letter, arg in zip(self.signature, args, strict=True)
        )

    def apply(self, args: tuple[Expression, ...]) -> Expression:
        """The call."""
        result = self.result(args) if callable(self.result) else self.result
        text = self.text.format(*(arg.text for arg in args))
        if self.cast:
            text = f"CAST({text} AS {spark_type(result)})"
        return Expression(text, result.with_nullability(self.nullable or any(arg.type.nullable for arg in args)))


def _same(args: tuple[Expression, ...]) -> DataType:
    found = args[0].type
    return DOUBLE if isinstance(found, NullType) else found


def _whole(args: tuple[Expression, ...]) -> DataType:
    """CEIL and FLOOR: a decimal loses its scale, other types stay."""
    found = _same(args)
    return DecimalType(found.precision, 0) if isinstance(found, DecimalType) else found


def _second(args: tuple[Expression, ...]) -> DataType:
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
_PARSED = "CASE WHEN try_to_timestamp({0}, {1}) IS NOT NULL THEN to_timestamp_ntz({0}, {1}) END"
_MATCHED = "CASE WHEN {0} RLIKE {1} THEN regexp_extract({0}, {1}, {2}) END"


def _text(name: str, *signatures: str) -> tuple[Overload, ...]:
    """A function of the same name in Spark that gives a string."""
    return tuple(
        Overload(each, f"{name}({', '.join(f'{{{index}}}' for index in range(len(each)))})", STRING)
        for each in signatures
    )


def _real(text: str) -> tuple[Overload, ...]:
    return (Overload("n", text, DOUBLE),)


FUNCTIONS: dict[str, tuple[Overload, ...]] = {
    # strings
    "UPPER": _text("upper", "s"),
    "LOWER": _text("lower", "s"),
    "INITCAP": _text("initcap", "s"),
    "REVERSE": _text("reverse", "s"),
    "REPLACE": _text("replace", "sss"),
    "SUBSTRING": _text("substring", "si", "sii"),
    "LEFT": _text("left", "si"),
    "RIGHT": _text("right", "si"),
    "LPAD": _text("lpad", "sis"),
    "RPAD": _text("rpad", "sis"),
    "REPEAT": _text("repeat", "si"),
    "REGEXP_REPLACE": _text("regexp_replace", "sss"),
    "MD5": _text("md5", "s"),
    "SHA1": _text("sha1", "s"),
    "SHA256": (Overload("s", "sha2({0}, 256)", STRING),),
    "BTRIM": (Overload("s", "trim({0})", STRING), Overload("ss", "trim(BOTH {1} FROM {0})", STRING)),
    "LTRIM": (Overload("s", "ltrim({0})", STRING), Overload("ss", "trim(LEADING {1} FROM {0})", STRING)),
    "RTRIM": (Overload("s", "rtrim({0})", STRING), Overload("ss", "trim(TRAILING {1} FROM {0})", STRING)),
    "CHAR_LENGTH": (Overload("s", "char_length({0})", INT),),
    "CHARACTER_LENGTH": (Overload("s", "char_length({0})", INT),),
    "LOCATE": (Overload("ss", "locate({0}, {1})", INT), Overload("ssi", "locate({0}, {1}, {2})", INT)),
    "ASCII": (Overload("s", "ascii({0})", INT),),
    "REGEXP": (Overload("ss", "rlike({0}, {1})", BOOLEAN),),
    "REGEXP_EXTRACT": (
        Overload("ss", _MATCHED.replace("{2}", "0"), STRING, nullable=True),
        Overload("ssi", _MATCHED, STRING, nullable=True),
    ),
    "SPLIT_INDEX": (Overload("ssi", "get(split({0}, concat('\\\\Q', {1}, '\\\\E')), {2})", STRING, nullable=True),),
    "UUID": (Overload("", "uuid()", STRING),),
    # numbers
    "ABS": (Overload("n", "abs({0})", _same),),
    "CEIL": (Overload("n", "ceil({0})", _whole, cast=True),),
    "CEILING": (Overload("n", "ceil({0})", _whole, cast=True),),
    "FLOOR": (Overload("n", "floor({0})", _whole, cast=True),),
    "MOD": (Overload("ee", "mod({0}, {1})", _second, cast=True),),
    "POWER": (Overload("nn", "power({0}, {1})", DOUBLE),),
    "SQRT": _real("sqrt({0})"),
    "EXP": _real("exp({0})"),
    "LN": _real("ln({0})"),
    "LOG10": _real("log10({0})"),
    "SIN": _real("sin({0})"),
    "COS": _real("cos({0})"),
    "TAN": _real("tan({0})"),
    "ATAN2": (Overload("nn", "atan2({0}, {1})", DOUBLE),),
    "PI": (Overload("", "pi()", DOUBLE),),
    "SIGN": (Overload("n", "sign({0})", _same, cast=True),),
    # dates and times
    "CURRENT_TIMESTAMP": (Overload("", "current_timestamp()", _LTZ),),
    "NOW": (Overload("", "current_timestamp()", _LTZ),),
    "CURRENT_ROW_TIMESTAMP": (Overload("", "current_timestamp()", _LTZ),),
    "PROCTIME": (Overload("", "current_timestamp()", _LTZ),),
    "LOCALTIMESTAMP": (Overload("", "localtimestamp()", _LOCAL),),
    "CURRENT_DATE": (Overload("", "current_date()", DATE),),
    "CURRENT_TIME": (Overload("", "current_time(0)", TimeType(0)),),
    "LOCALTIME": (Overload("", "current_time(0)", TimeType(0)),),
    "DATE_FORMAT": (
        Overload("ds", "date_format({0}, {1})", STRING),
        Overload("ss", "date_format(CAST({0} AS TIMESTAMP_NTZ), {1})", STRING),
    ),
    "TO_DATE": (
        Overload("s", "try_cast({0} AS DATE)", DATE, nullable=True),
        Overload("ss", "try_to_date({0}, {1})", DATE, nullable=True),
    ),
    "TO_TIMESTAMP": (
        Overload("s", "try_cast({0} AS TIMESTAMP_NTZ)", _LOCAL, nullable=True),
        Overload("ss", _PARSED, _LOCAL, nullable=True),
    ),
    "TO_TIMESTAMP_LTZ": (
        Overload("s", "try_cast({0} AS TIMESTAMP)", _LTZ, nullable=True),
        Overload("ss", "try_to_timestamp({0}, {1})", _LTZ, nullable=True),
    ),
    "UNIX_TIMESTAMP": (
        Overload("", "unix_timestamp()", BIGINT),
        Overload("s", "unix_timestamp(CAST({0} AS TIMESTAMP))", BIGINT),
        Overload("ss", "unix_timestamp({0}, {1})", BIGINT),
    ),
    "FROM_UNIXTIME": (Overload("i", "from_unixtime({0})", STRING), Overload("is", "from_unixtime({0}, {1})", STRING)),
    # bytes, arrays and maps
    "ENCODE": (Overload("ss", "encode({0}, {1})", BYTES),),
    "DECODE": (Overload("ys", "decode({0}, {1})", STRING),),
    "CARDINALITY": (Overload("c", "cardinality({0})", INT),),
}
