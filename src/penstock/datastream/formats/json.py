"""Rows as JSON objects: the format ``json``, under PyFlink's names."""

from __future__ import annotations

from penstock.common import TypeInformation
from penstock.common.serialization import FormatDeserializationSchema, FormatSerializationSchema
from penstock.common.typeinfo import expect_type
from penstock.datastream.formats.json_times import ReadTimes, WriteTimes, with_texts
from penstock.errors import OptionsError, Problem, UnsupportedError


class JsonRowDeserializationSchema(FormatDeserializationSchema):
    """Reads JSON objects into rows. Times are read by RFC 3339, with a Z."""

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Begin a schema."""
        return JsonRowDeserializationSchema.Builder()

    class Builder:
        """Builds the schema. Required: the type."""

        def __init__(self) -> None:
            self._type: TypeInformation | None = None
            self._options: dict[str, str] = {}

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """The type of the rows."""
            self._type = type_info
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """Raises UnsupportedError: types are not derived from a JSON schema."""
            hint = "name the columns by type_info(Types.ROW_NAMED(...))"
            raise UnsupportedError((Problem("is not supported", "json_schema", hint=hint),))

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """Refuse a message that lacks a column, which is otherwise null."""
            self._options["fail-on-missing-field"] = "true"
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """Skip a message that cannot be read, which is otherwise an error."""
            self._options["ignore-parse-errors"] = "true"
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """The schema. Raises OptionsError without a type."""
            type_info = row_type(self._type, "type_info")
            wire = with_texts(type_info)
            return JsonRowDeserializationSchema(
                format="json",
                type_info=type_info,
                options=tuple(sorted(self._options.items())),
                wire=wire,
                converts=wire and ReadTimes(type_info),
            )


class JsonRowSerializationSchema(FormatSerializationSchema):
    """Writes rows as JSON objects. Times are written by RFC 3339, with a Z."""

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Begin a schema."""
        return JsonRowSerializationSchema.Builder()

    class Builder:
        """Builds the schema. Required: the type."""

        def __init__(self) -> None:
            self._type: TypeInformation | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """The type of the rows; its names are the keys of the objects."""
            self._type = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            """The schema. Raises OptionsError without a type."""
            type_info = row_type(self._type, "with_type_info")
            wire = with_texts(type_info)
            return JsonRowSerializationSchema(
                format="json", type_info=type_info, wire=wire, converts=wire and WriteTimes(type_info)
            )


def row_type(given: TypeInformation | None, method: str) -> TypeInformation:
    """``given``, which must be the type of rows. Raises OptionsError otherwise."""
    expect_type(given, method)
    if given is None or given.single:
        hint = "for example Types.ROW_NAMED(['id', 'name'], [Types.LONG(), Types.STRING()])"
        raise OptionsError((Problem("a row type is required", method, hint=hint),))
    return given
