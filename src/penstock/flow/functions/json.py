"""JSON documents in text."""

from __future__ import annotations

from penstock.flow.kernels.json import functions as json
from penstock.plan.overloads import overloads
from penstock.plan.scalar_functions import Function, Missing
from penstock.types import STRING

GROUP = "JSON"
_DOCUMENTS = "types for JSON documents are not supported; use STRING with JSON_VALUE and JSON_QUERY"
_PATHS = "paths with filters, such as `[?(@.a > 1)]`, or functions, such as `.length()`, are refused"

FUNCTIONS = (
    Function("IS JSON", "a IS [NOT] JSON [VALUE | SCALAR | ARRAY | OBJECT]", kernel=json.is_json),
    Function("JSON_EXISTS", "JSON_EXISTS(a, path [.. ON ERROR])", _PATHS, kernel=json.exists),
    Function(
        "JSON_VALUE",
        "JSON_VALUE(a, path [RETURNING type] [.. ON EMPTY] [.. ON ERROR])",
        _PATHS,
        kernel=json.value,
    ),
    Function(
        "JSON_QUERY",
        "JSON_QUERY(a, path [RETURNING type] [.. WRAPPER] [.. ON EMPTY] [.. ON ERROR])",
        _PATHS,
        kernel=json.query,
    ),
    Function("JSON_STRING", "JSON_STRING(a)", kernel=json.string, overloads=overloads(STRING, "v")),
    Function("JSON_OBJECT", "JSON_OBJECT([KEY] key VALUE a, .. [.. ON NULL])", kernel=json.object_),
    Function("JSON_ARRAY", "JSON_ARRAY(a, .. [.. ON NULL])", kernel=json.array),
    Function("JSON_QUOTE", "JSON_QUOTE(a)", kernel=json.JSON_QUOTE, overloads=overloads(STRING, "s")),
    Function(
        "JSON_UNQUOTE",
        "JSON_UNQUOTE(a)",
        kernel=json.JSON_UNQUOTE,
        overloads=overloads(STRING, "s", nullable=True),
    ),
    Function("JSON", "JSON(a)", "as a value of JSON_OBJECT or JSON_ARRAY", kernel=json.document),
    Missing("PARSE_JSON", "PARSE_JSON(a)", reason=_DOCUMENTS),
    Missing("TRY_PARSE_JSON", "TRY_PARSE_JSON(a)", reason=_DOCUMENTS),
)
