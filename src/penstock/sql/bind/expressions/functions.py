"""The functions of Flink SQL that exist here, with the types of their arguments and results.

Signatures are strings of one letter per argument: see :data:`FAMILIES`. A star means any number of arguments of the
letter before it. Their kernels are in ``penstock.flow.kernels``, by the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.plan.expressions import Expression, Literal, coerce
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
    Field,
    IntervalType,
    MapType,
    NullType,
    RowType,
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
    "a": ("ARRAY", lambda given: isinstance(given, ArrayType)),
    "l": ("ARRAY<STRING>", lambda given: isinstance(given, ArrayType) and root(given.element) == "STRING"),
    "m": ("MAP", lambda given: isinstance(given, MapType)),
    "v": ("any value", lambda given: not isinstance(given, IntervalType)),
}


#: The type of NULL as a value of a family; other families have no type that all of their values have.
_OF_NULL: Mapping[str, DataType] = {
    "s": STRING,
    "y": BYTES,
    "i": INT,
    "e": INT,
    "n": DOUBLE,
    "b": BOOLEAN,
    "t": TimestampType(3),
    "d": TimestampType(3),
    "l": ArrayType(STRING),
    "v": STRING,
}


def families(signature: str) -> str:
    """A signature as errors show it: ``(STRING, INT)``."""
    shown = [".." if letter == "*" else FAMILIES[letter][0] for letter in signature]
    return f"({', '.join(shown)})"


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
        letters = self._letters(len(args))
        return len(args) == len(letters) and all(
            isinstance(arg.type, NullType) or FAMILIES[letter][1](arg.type)
            for letter, arg in zip(letters, args, strict=True)
        )

    def typed(self, args: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """The arguments, where each NULL has the type of another argument of its family, or else the family's own, if
        it has one."""
        pairs = list(zip(self._letters(len(args)), args, strict=True))
        types = {letter: arg.type for letter, arg in reversed(pairs) if not isinstance(arg.type, NullType)}
        return tuple(
            coerce(arg, types.get(letter, _OF_NULL.get(letter, arg.type))) if isinstance(arg.type, NullType) else arg
            for letter, arg in pairs
        )

    def _letters(self, count: int) -> str:
        """The signature's letters for this number of arguments."""
        if self.signature.endswith("*"):
            return self.signature[:-1].ljust(count, self.signature[-2])
        return self.signature

    def type_of(self, args: tuple[Expression, ...]) -> DataType:
        """The type of the value."""
        found = self.result(args) if callable(self.result) else self.result
        return found.with_nullability(self.nullable or any(arg.type.nullable for arg in args))


def _same(args: tuple[Expression, ...]) -> DataType:
    return args[0].type


def _whole(args: tuple[Expression, ...]) -> DataType:
    """CEIL and FLOOR: a decimal loses its scale, other types stay."""
    found = _same(args)
    return DecimalType(found.precision, 0) if isinstance(found, DecimalType) else found


def _remainder(args: tuple[Expression, ...]) -> DataType:
    """MOD: the type of the divisor, as in Calcite; for decimals that of the remainder."""
    left, right = args[0].type, args[1].type
    if not isinstance(left, DecimalType) and not isinstance(right, DecimalType):
        return right
    if is_integer(right) and isinstance(left, DecimalType) and not left.scale:
        return right
    a, b = as_decimal(left), as_decimal(right)
    scale = max(a.scale, b.scale)
    return DecimalType(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def _truncated(args: tuple[Expression, ...]) -> DataType:
    """TRUNCATE: a decimal loses the digits that are cut off, if their number is known."""
    found = _same(args)
    if not isinstance(found, DecimalType):
        return found
    given = args[1] if len(args) == 2 else None
    digits = given.value if isinstance(given, Literal) else 0 if given is None else None
    if not isinstance(digits, int) or digits >= found.scale:
        return found
    kept = max(digits, 0)
    return DecimalType(min(found.precision - found.scale + 1 + kept, 38), kept)


def _element(args: tuple[Expression, ...]) -> DataType:
    """An element of the array."""
    found = args[0].type
    return found.element if isinstance(found, ArrayType) else NullType()


def _keys(args: tuple[Expression, ...]) -> DataType:
    found = args[0].type
    return ArrayType(found.key) if isinstance(found, MapType) else NullType()


def _map_values(args: tuple[Expression, ...]) -> DataType:
    found = args[0].type
    return ArrayType(found.value) if isinstance(found, MapType) else NullType()


def _entries(args: tuple[Expression, ...]) -> DataType:
    found = args[0].type
    if not isinstance(found, MapType):
        return NullType()
    return ArrayType(RowType((Field("key", found.key), Field("value", found.value))))


def _map_of(args: tuple[Expression, ...]) -> DataType:
    keys, values = (arg.type for arg in args)
    if not isinstance(keys, ArrayType) or not isinstance(values, ArrayType):
        return NullType()
    return MapType(keys.element, values.element)


_STRINGS = ArrayType(STRING)
_LTZ = TimestampType(3, local_zone=True)
_LOCAL = TimestampType(3)


def _of(result: Result, *signatures: str, nullable: bool = False) -> tuple[Overload, ...]:
    return tuple(Overload(each, result, nullable) for each in signatures)


SIGNATURES: Mapping[str, tuple[Overload, ...]] = {
    # strings
    **dict.fromkeys(("UPPER", "LOWER", "INITCAP", "REVERSE", "JSON_QUOTE"), _of(STRING, "s")),
    **dict.fromkeys(("MD5", "SHA1", "SHA224", "SHA256", "SHA384", "SHA512"), _of(STRING, "s", "y")),
    "SHA2": _of(STRING, "si", nullable=True),
    "REPLACE": _of(STRING, "sss"),
    "TRANSLATE": _of(STRING, "sss", nullable=True),
    "SUBSTRING": _of(STRING, "si", "sii"),
    **dict.fromkeys(("LEFT", "RIGHT", "REPEAT"), _of(STRING, "si")),
    **dict.fromkeys(("LPAD", "RPAD"), _of(STRING, "sis")),
    "OVERLAY": _of(STRING, "ssi", "ssii"),
    **dict.fromkeys(("BTRIM", "LTRIM", "RTRIM"), _of(STRING, "s", "ss")),
    **dict.fromkeys(("CHAR_LENGTH", "ASCII"), _of(INT, "s")),
    "LOCATE": _of(INT, "ss", "ssi"),
    "INSTR": _of(INT, "ss", "ssi", "ssii"),
    **dict.fromkeys(("STARTSWITH", "ENDSWITH"), _of(BOOLEAN, "ss", "yy")),
    "SPLIT_INDEX": _of(STRING, "ssi", "sii", nullable=True),
    "SPLIT": _of(_STRINGS, "ss"),
    "ELT": (*_of(STRING, "is*", nullable=True), *_of(BYTES, "iy*", nullable=True)),
    "PRINTF": _of(STRING, "s", "sv*", nullable=True),
    "STR_TO_MAP": _of(MapType(STRING, STRING), "s", "sss"),
    **dict.fromkeys(("IS_ALPHA", "IS_DIGIT", "IS_DECIMAL"), _of(BOOLEAN, "v")),
    "UUID": _of(STRING, ""),
    # regular expressions
    "REGEXP": _of(BOOLEAN, "ss"),
    "REGEXP_REPLACE": _of(STRING, "sss", nullable=True),
    "REGEXP_EXTRACT": _of(STRING, "ss", "ssi", nullable=True),
    "REGEXP_EXTRACT_ALL": _of(_STRINGS, "ss", "ssi", nullable=True),
    **dict.fromkeys(("REGEXP_COUNT", "REGEXP_INSTR"), _of(INT, "ss", nullable=True)),
    "REGEXP_SUBSTR": _of(STRING, "ss", nullable=True),
    # encodings
    "ENCODE": _of(BYTES, "ss", nullable=True),
    "DECODE": _of(STRING, "ys", nullable=True),
    "TO_BASE64": _of(STRING, "s", "y"),
    "FROM_BASE64": _of(STRING, "s", "y"),
    "HEX": _of(STRING, "i", "s"),
    "UNHEX": _of(BYTES, "s", nullable=True),
    **dict.fromkeys(("BIN", "CHR"), _of(STRING, "i")),
    **dict.fromkeys(("URL_ENCODE", "URL_DECODE"), _of(STRING, "s", nullable=True)),
    "PARSE_URL": _of(STRING, "ss", "sss", nullable=True),
    "JSON_STRING": _of(STRING, "v"),
    "JSON_UNQUOTE": _of(STRING, "s", nullable=True),
    # numbers
    **dict.fromkeys(("ABS", "SIGN"), _of(_same, "n")),
    **dict.fromkeys(("CEIL", "FLOOR"), _of(_whole, "n")),
    "TRUNCATE": _of(_truncated, "n", "ni"),
    "MOD": _of(_remainder, "ee"),
    **dict.fromkeys(("POWER", "ATAN2"), _of(DOUBLE, "nn")),
    **dict.fromkeys(("SQRT", "EXP", "LN", "LOG10", "LOG2"), _of(DOUBLE, "n")),
    "LOG": _of(DOUBLE, "n", "nn"),
    **dict.fromkeys(("SIN", "COS", "TAN", "COT", "ASIN", "ACOS", "ATAN"), _of(DOUBLE, "n")),
    **dict.fromkeys(("SINH", "COSH", "TANH", "DEGREES", "RADIANS"), _of(DOUBLE, "n")),
    **dict.fromkeys(("PI", "E"), _of(DOUBLE, "")),
    "RAND": _of(DOUBLE, "", "i"),
    "RAND_INTEGER": _of(INT, "i", "ii"),
    # dates and times
    **dict.fromkeys(("CURRENT_TIMESTAMP", "PROCTIME"), _of(_LTZ, "")),
    "LOCALTIMESTAMP": _of(_LOCAL, ""),
    "CURRENT_DATE": _of(DATE, ""),
    "CURRENT_TIME": _of(TimeType(0), ""),
    "DATE_FORMAT": _of(STRING, "ds", "ss"),
    "TO_DATE": _of(DATE, "s", "ss", nullable=True),
    "TO_TIMESTAMP": _of(_LOCAL, "s", "ss", nullable=True),
    "TO_TIMESTAMP_LTZ": _of(_LTZ, "s", "ss", "sss", nullable=True),
    "UNIX_TIMESTAMP": _of(BIGINT, "", "s", "ss"),
    "FROM_UNIXTIME": _of(STRING, "i", "is"),
    "CONVERT_TZ": _of(STRING, "sss", nullable=True),
    # arrays and maps
    "CARDINALITY": _of(INT, "c"),
    "ELEMENT": _of(_element, "a", nullable=True),
    **dict.fromkeys(("ARRAY_DISTINCT", "ARRAY_REVERSE"), _of(_same, "a")),
    "ARRAY_SORT": _of(_same, "a", "ab", "abb"),
    "ARRAY_SLICE": _of(_same, "ai", "aii"),
    **dict.fromkeys(("ARRAY_MAX", "ARRAY_MIN"), _of(_element, "a", nullable=True)),
    "ARRAY_JOIN": _of(STRING, "ls", "lss"),
    "MAP_KEYS": _of(_keys, "m"),
    "MAP_VALUES": _of(_map_values, "m"),
    "MAP_ENTRIES": _of(_entries, "m"),
    "MAP_FROM_ARRAYS": _of(_map_of, "aa"),
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
