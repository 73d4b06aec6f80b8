"""The types that functions take, and those that they give.

Signatures are strings of one letter per argument: see :data:`FAMILIES`. A star means any number of arguments of the
letter before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.plan.expressions import Expression, coerce
from penstock.types import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    INT,
    STRING,
    ArrayType,
    DataType,
    DecimalType,
    IntervalType,
    MapType,
    NullType,
    TimestampType,
    TimeType,
)
from penstock.types.casts import is_assignable, is_integer, is_numeric, is_point
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


def describe_families(signature: str) -> str:
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

    def cast_arguments(self, args: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """The arguments, where each NULL has the type of another argument of its family, or else the family's own, if
        it has one."""
        pairs = list(zip(self._letters(len(args)), args, strict=True))
        types = {letter: arg.type for letter, arg in reversed(pairs) if not isinstance(arg.type, NullType)}
        return tuple(
            coerce(arg, types.get(letter, _OF_NULL.get(letter, arg.type))) if isinstance(arg.type, NullType) else arg
            for letter, arg in pairs
        )

    @property
    def text(self) -> str:
        """The arguments as errors show them: ``(STRING, INT)``."""
        return describe_families(self.signature)

    def _letters(self, count: int) -> str:
        """The signature's letters for this number of arguments."""
        if self.signature.endswith("*"):
            return self.signature[:-1].ljust(count, self.signature[-2])
        return self.signature

    def type_of(self, args: tuple[Expression, ...]) -> DataType:
        """The type of the value."""
        found = self.result(args) if callable(self.result) else self.result
        return found.with_nullability(self.nullable or any(arg.type.nullable for arg in args))


@dataclass(frozen=True)
class TypedOverload(Overload):
    """Arguments of these ``types``, to which others are cast where Flink does so implicitly; of any types and any
    number if there are none."""

    types: tuple[DataType, ...] | None = None

    def takes(self, args: tuple[Expression, ...]) -> bool:
        if self.types is None:
            return not any(isinstance(arg.type, IntervalType) for arg in args)
        return len(args) == len(self.types) and all(
            is_assignable(arg.type, type_) for arg, type_ in zip(args, self.types, strict=True)
        )

    def cast_arguments(self, args: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """The arguments in these types. A NULL of unknown type is a STRING."""
        types = self.types or [STRING if isinstance(arg.type, NullType) else arg.type for arg in args]
        return tuple(coerce(arg, type_) for arg, type_ in zip(args, types, strict=True))

    def type_of(self, args: tuple[Expression, ...]) -> DataType:
        return self.result(args) if callable(self.result) else self.result

    @property
    def text(self) -> str:
        return "(..)" if self.types is None else f"({', '.join(each.text() for each in self.types)})"


def overloads(result: Result, *signatures: str, nullable: bool = False) -> tuple[Overload, ...]:
    """Overloads that differ in their arguments only."""
    return tuple(Overload(each, result, nullable) for each in signatures)


def first_type(args: tuple[Expression, ...]) -> DataType:
    """The type of the first argument."""
    return args[0].type
