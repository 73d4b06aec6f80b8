"""The options of inference from JSON, which only pipelines have."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import SchemaError
from penstock.options import BOOLEAN, COMMA_LIST, Codec, OptionSet, opt
from penstock.types import RowType, parse_columns

_NONE = RowType((), nullable=False)


def _parse_fields(text: str) -> RowType:
    try:
        return parse_columns(text) if text.strip() else _NONE
    except SchemaError as error:
        raise ValueError(f"expected columns such as 'id BIGINT, name VARCHAR(10)': {error}") from None


COLUMNS = Codec("Columns", _parse_fields, lambda row: ", ".join(map(str, row.fields)))


@dataclass(frozen=True, kw_only=True)
class InferenceOptions(OptionSet):
    """How the columns of tables are inferred."""

    as_string: bool = opt(
        "infer-schema.primitive-as-string",
        BOOLEAN,
        default=False,
        doc="Give new columns the type STRING, whatever their values are.",
        example="true",
    )


@dataclass(frozen=True, kw_only=True)
class JsonInferenceOptions(InferenceOptions):
    """How the columns and the names of tables are inferred from ``json``."""

    flatten: bool = opt(
        "infer-schema.flatten-nested-columns.enable",
        BOOLEAN,
        default=False,
        doc="Make a column of each field of nested objects, with a dotted name such as address.city. Otherwise an "
        "object is one STRING column with its JSON text. Arrays always are. A field that has objects and other values "
        "is one STRING column too.",
        example="true",
    )
    fixed: RowType = opt(
        "infer-schema.fixed-types",
        COLUMNS,
        default=_NONE,
        doc="The types of these columns in all tables, which never change. 'scan.max.pre.fetch.records' has to be 0.",
        example="id BIGINT, name VARCHAR(10)",
    )
    table_fields: tuple[str, ...] = opt(
        "decode.parser-table-id.fields",
        COMMA_LIST,
        default=(),
        doc="The fields of a message that name its table, such as 'db,table' for tables db.orders and db.items. By "
        "default a table is named after its topic.",
        example="database,table",
    )
