"""Type information, by PyFlink's names, over logical types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from penstock import types
from penstock.common.arguments import expect
from penstock.types import ArrayType, DataType, Field, MapType, RowType

#: The column of a stream of single values.
SINGLE = "f0"


@dataclass(frozen=True)
class TypeInformation:
    """The type of a stream's values."""

    logical: DataType

    @property
    def row(self) -> RowType:
        """The columns of the stream: those of the row, or the one column ``f0``."""
        if isinstance(self.logical, RowType):
            return replace(self.logical, nullable=False)
        return RowType((Field(SINGLE, self.logical),), nullable=False)

    @property
    def single(self) -> bool:
        """Whether the values are not rows."""
        return not isinstance(self.logical, RowType)

    def __str__(self) -> str:
        return str(self.logical)


@dataclass(frozen=True)
class PickledBytesTypeInfo(TypeInformation):
    """The type of Python values of any kind, which are pickled where they leave Python."""

    logical: DataType = types.BYTES

    def __str__(self) -> str:
        return "pickled values"


@dataclass(frozen=True, init=False)
class RowTypeInfo(TypeInformation):
    """The type of rows: of columns with these types and names (``f0``, ``f1``, ... by default), or of a row type.
    Raises TypeError for another number of names."""

    def __init__(self, field_types: Sequence[TypeInformation] | RowType, field_names: Sequence[str] | None = None):
        if isinstance(field_types, RowType):
            logical = field_types
        else:
            names = [f"f{index}" for index in range(len(field_types))] if field_names is None else field_names
            if len(names) != len(field_types):
                raise TypeError(f"{len(names)} names for {len(field_types)} types")
            columns = zip(names, field_types, strict=True)
            logical = RowType(tuple(Field(name, _find_logical(info)) for name, info in columns))
        object.__setattr__(self, "logical", logical)

    def get_field_names(self) -> list[str]:
        """The names, in order."""
        return list(self.row.names)

    def get_field_index(self, field_name: str) -> int:
        """The position of a name. Raises ValueError for an unknown one."""
        return self.row.names.index(field_name)

    def get_field_types(self) -> list[TypeInformation]:
        """The types, in order."""
        return [from_logical(field.type) for field in self.row.fields]


def expect_type(info: TypeInformation | None, call: str) -> TypeInformation | None:
    """``info``, the type that a ``call`` is given, if it is given one. Raises ArgumentError for anything else."""
    return None if info is None else expect(info, TypeInformation, call, "for example Types.STRING()")


def _find_logical(info: TypeInformation) -> DataType:
    return expect(info, TypeInformation, "Types", "for example Types.STRING()").logical


def from_logical(logical: DataType) -> TypeInformation:
    """The type information of a logical type."""
    return RowTypeInfo(logical) if isinstance(logical, RowType) else TypeInformation(logical)


def _type(logical: DataType) -> Callable[[], TypeInformation]:
    return lambda: from_logical(logical)


class Types:
    """Makes type information: ``Types.STRING()``, ``Types.LIST(Types.INT())``."""

    STRING = staticmethod(_type(types.STRING))
    BYTE = staticmethod(_type(types.TINYINT))
    BOOLEAN = staticmethod(_type(types.BOOLEAN))
    SHORT = staticmethod(_type(types.SMALLINT))
    INT = staticmethod(_type(types.INT))
    LONG = staticmethod(_type(types.BIGINT))
    FLOAT = staticmethod(_type(types.FLOAT))
    DOUBLE = staticmethod(_type(types.DOUBLE))
    CHAR = staticmethod(_type(types.StringType(1, True)))
    BIG_INT = staticmethod(
        _type(types.DecimalType(38, 0))
    )  # the largest precision, as Python's and Java's integers have no bound
    BIG_DEC = staticmethod(_type(types.DecimalType(38, 18)))  # as in Flink
    INSTANT = staticmethod(_type(types.TimestampType(6, True)))
    SQL_DATE = staticmethod(_type(types.DATE))
    SQL_TIME = staticmethod(_type(types.TimeType(0)))
    SQL_TIMESTAMP = staticmethod(_type(types.TimestampType(6)))

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Python values of any kind."""
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """A row of columns ``f0``, ``f1``, ..."""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """A row of named columns."""
        return RowTypeInfo(field_types, field_names)

    TUPLE = ROW

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> TypeInformation:
        """A map."""
        return from_logical(MapType(_find_logical(key_type_info), _find_logical(value_type_info)))

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> TypeInformation:
        """An array."""
        return from_logical(ArrayType(_find_logical(element_type_info)))

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """An array without nulls; of bytes it is BYTES."""
        if _find_logical(element_type) == types.TINYINT:
            return from_logical(types.BYTES)
        return from_logical(ArrayType(_find_logical(element_type).with_nullability(False)))

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """An array."""
        return Types.LIST(element_type)

    OBJECT_ARRAY = BASIC_ARRAY
