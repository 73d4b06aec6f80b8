"""Schemas that decode and encode messages, by PyFlink's names.

A format's schema names the format and its options and has no code, so builders and SQL decode alike. A user's schema is
a class with a method in Python, which is called for each message.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from penstock.common.execution_config import ExecutionConfig
from penstock.common.type_serializers import find_serializer
from penstock.common.typeinfo import TypeInformation, Types
from penstock.errors import OptionsError, Problem, RecordError
from penstock.java_gateway import without_java

__all__ = [
    "ByteArraySchema",
    "DeserializationSchema",
    "SerializationSchema",
    "SimpleStringSchema",
    "TypeInformationSerializationSchema",
]


class DeserializationSchema:
    """The root of schemas that read messages. Derive from it, and define ``deserialize`` and ``get_produced_type``, to
    read them in Python. Raises UnsupportedError when it is made of a Java object."""

    def __init__(self, j_deserialization_schema: Any = None) -> None:
        if j_deserialization_schema is not None:
            raise without_java("j_deserialization_schema", "derive from DeserializationSchema")

    def deserialize(self, message: bytes | None) -> Any:
        """The value of a message; None leaves it out."""
        raise NotImplementedError(f"{type(self).__name__} has no method 'deserialize'")

    def get_produced_type(self) -> TypeInformation:
        """The type of the values: by default values of any kind."""
        return Types.PICKLED_BYTE_ARRAY()

    def is_end_of_stream(self, next_element: Any) -> bool:
        """Whether the stream ends before a value. True fails the job: give the source an end instead."""
        return False


class SerializationSchema:
    """The root of schemas that write messages. Derive from it, and define ``serialize``, to write them in Python.
    Raises UnsupportedError when it is made of a Java object."""

    def __init__(self, j_serialization_schema: Any = None) -> None:
        if j_serialization_schema is not None:
            raise without_java("j_serialization_schema", "derive from SerializationSchema")

    def serialize(self, element: Any) -> bytes | None:
        """The message of a value."""
        raise NotImplementedError(f"{type(self).__name__} has no method 'serialize'")


@dataclass(frozen=True, kw_only=True)
class FormatDeserializationSchema(DeserializationSchema):
    """Reads messages with ``format``, whose options are ``options``, into values of ``type_info``. If the format reads
    another type, ``wire``, the function ``converts`` makes values of it."""

    format: str
    type_info: TypeInformation
    options: tuple[tuple[str, str], ...] = field(default=())
    wire: TypeInformation | None = None
    converts: Any = field(default=None, compare=False)

    def get_produced_type(self) -> TypeInformation:
        """The type of the values."""
        return self.type_info


@dataclass(frozen=True, kw_only=True)
class FormatSerializationSchema(SerializationSchema):
    """Writes values of ``type_info`` with ``format``, whose options are ``options``. If the format writes another type,
    ``wire``, the function ``converts`` makes it of values."""

    format: str
    type_info: TypeInformation
    options: tuple[tuple[str, str], ...] = field(default=())
    wire: TypeInformation | None = None
    converts: Any = field(default=None, compare=False)


class SimpleStringSchema(FormatDeserializationSchema, FormatSerializationSchema):
    """Messages that are one string: the format ``raw`` with one STRING column. Raises OptionsError for an unknown
    charset."""

    def __init__(self, charset: str = "UTF-8"):
        try:
            "".encode(charset)
        except (LookupError, ValueError):
            hint = "for example UTF-8, UTF-16 or ISO-8859-1"
            raise OptionsError((Problem(f"unknown charset '{charset}'", "SimpleStringSchema", hint=hint),)) from None
        plain = charset.upper().replace("_", "-") in {"UTF-8", "UTF8"}
        super().__init__(format="raw", type_info=Types.STRING(), options=() if plain else (("charset", charset),))


class ByteArraySchema(FormatDeserializationSchema, FormatSerializationSchema):
    """Messages as they are: the format ``raw`` with one BYTES column."""

    def __init__(self) -> None:
        super().__init__(format="raw", type_info=Types.PRIMITIVE_ARRAY(Types.BYTE()))


class TypeInformationSerializationSchema(DeserializationSchema, SerializationSchema):
    """Messages of values as Flink's serializers write them, so that jobs here and Flink's jobs can read each other's
    topics. Rows are Flink's rows, and arrays its lists. ``execution_config`` is not needed. Raises UnsupportedError for
    a type whose bytes only Java knows."""

    def __init__(self, type_info: TypeInformation, execution_config: ExecutionConfig | None = None):
        self._info = type_info
        self._serializer = find_serializer(type_info, type(self).__name__)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._info,)

    def deserialize(self, message: bytes | None) -> Any:
        """The value of a message; None for one without a value. Raises RecordError for bytes that cannot be read as the
        type."""
        if message is None:
            return None
        try:
            return self._serializer.read(message, 0)[0]
        except (struct.error, IndexError, UnicodeError) as error:
            reason = f"the message cannot be read as {self._info}: {error}"
            raise RecordError(reason, hint="give the type that it was written with") from error

    def serialize(self, element: Any) -> bytes:
        """The message of a value. Raises RecordError for a value of another type."""
        out = bytearray()
        try:
            self._serializer.write(element, out)
        except (struct.error, AttributeError, TypeError, ValueError, KeyError) as error:
            reason = f"a {type(element).__name__} is not a value of the type {self._info}: {error}"
            raise RecordError(reason, hint="return a value of the type, or give another type") from error
        return bytes(out)

    def get_produced_type(self) -> TypeInformation:
        """The type of the values."""
        return self._info
