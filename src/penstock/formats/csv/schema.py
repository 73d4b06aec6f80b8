"""The schemas that CSV can hold."""

from __future__ import annotations

from penstock.errors import Problem, SchemaError
from penstock.types import ArrayType, DataType, MapType, RowType, TimeType

NESTED = (ArrayType, MapType, RowType)


def check_schema(schema: RowType) -> None:
    """Raise SchemaError with every column whose type CSV cannot hold."""
    problems = tuple(
        Problem(reason, field.name)
        for field in schema.fields
        if (reason := _explain_unsupported(field.type)) is not None
    )
    if problems:
        raise SchemaError(problems)


def _explain_unsupported(data_type: DataType) -> str | None:
    match data_type:
        case MapType():
            return "csv does not support MAP; use the json format, or a STRING column"
        case TimeType(precision=precision) if precision > 3:
            return f"csv supports TIME with a precision of 0 to 3, not {precision}"
        case ArrayType(element=element):
            inner: tuple[DataType, ...] = (element,)
        case RowType(fields=fields):
            inner = tuple(field.type for field in fields)
        case _:
            return None
    if any(isinstance(each, NESTED) for each in inner):
        return "csv supports one level of nesting: the elements of an ARRAY or ROW must be single values"
    return next((found for each in inner if (found := _explain_unsupported(each)) is not None), None)
