"""The functions that have kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.flow.kernels import nondeterministic, rowwise
from penstock.flow.kernels.by_value import by_value
from penstock.flow.kernels.collections import functions as collections
from penstock.flow.kernels.collections import parts as nested
from penstock.flow.kernels.conditions import comparison, constraints, greatest, logic
from penstock.flow.kernels.json import functions as json_functions
from penstock.flow.kernels.moments import datetimes as moments
from penstock.flow.kernels.moments import patterns, rounding, zones
from penstock.flow.kernels.numbers import arithmetic, division, percentiles
from penstock.flow.kernels.numbers.real_functions import OF_REALS
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.texts import encodings, java_format, java_regex, regex, strings, words
from penstock.flow.kernels.vectors import Kernel
from penstock.plan.expressions import Call

#: Makes the kernel of a call in a session; None if there is none for its types.
Maker = Callable[[Call, Session], Kernel | None]


def either(first: Maker, second: Maker) -> Maker:
    """Makes the kernel of ``first``, or of ``second`` if it has none."""
    return lambda call, session: first(call, session) or second(call, session)


_WORDS = "INITCAP TRANSLATE OVERLAY SPLIT ELT STR_TO_MAP INSTR STARTSWITH ENDSWITH IS_ALPHA IS_DIGIT IS_DECIMAL CHR"
_REGEXES = "REGEXP_EXTRACT_ALL REGEXP_COUNT REGEXP_INSTR REGEXP_SUBSTR SIMILAR"
_DIGESTS = "MD5 SHA1 SHA224 SHA256 SHA384 SHA512 ASCII"
_ENCODINGS = "ENCODE DECODE TO_BASE64 FROM_BASE64 HEX UNHEX BIN SHA2 URL_ENCODE URL_DECODE PARSE_URL"
_COLLECTIONS = """
ARRAY_APPEND ARRAY_PREPEND ARRAY_REMOVE ARRAY_CONTAINS ARRAY_POSITION ARRAY_CONCAT ARRAY_UNION ARRAY_INTERSECT
ARRAY_EXCEPT ARRAY_DISTINCT ARRAY_REVERSE ARRAY_SORT ARRAY_SLICE ARRAY_MAX ARRAY_MIN ARRAY_JOIN ELEMENT MAP_KEYS
MAP_VALUES MAP_ENTRIES MAP_UNION MAP_FROM_ARRAYS
"""
_CLOCKS = "CURRENT_TIMESTAMP PROCTIME LOCALTIMESTAMP CURRENT_DATE CURRENT_TIME"
#: By the function's name in the plan. Others are rewritten to these (``penstock.flow.kernels.rewrites``).
KERNELS: Mapping[str, Maker] = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), comparison.comparison),
    "IS DISTINCT FROM": comparison.distinct,
    "IN": comparison.member,
    "ORDERED": comparison.order,
    "AND": logic.conjunction,
    "OR": logic.disjunction,
    "NOT": logic.negation,
    "IS NULL": logic.is_null,
    "NOT NULL": constraints.not_null,
    "FITTED": constraints.fit_length,
    "IS TRUE": logic.is_true,
    "IS FALSE": logic.is_false,
    "CASE": logic.choice,
    "COALESCE": logic.first_known,
    **dict.fromkeys(("+", "-", "*"), arithmetic.arithmetic),
    "NEGATE": arithmetic.negation,
    "/": division.division,
    "MOD": division.remainder,
    "ABS": arithmetic.magnitude,
    "CEIL": arithmetic.ceiling,
    "FLOOR": arithmetic.floor,
    "ROUND": arithmetic.round_number,
    "SIGN": arithmetic.sign,
    "TRUNCATE": arithmetic.truncate,
    **dict.fromkeys(("GREATEST", "LEAST"), greatest.extreme),
    **dict.fromkeys(("PI", "E"), arithmetic.pi),
    **dict.fromkeys(OF_REALS, arithmetic.of_reals),
    "UPPER": strings.UPPER,
    "LOWER": strings.LOWER,
    "REVERSE": strings.REVERSE,
    "REPLACE": either(strings.REPLACE, rowwise.REPLACE),
    "CONCAT": strings.concatenation,
    "CONCAT_WS": strings.joining,
    "SUBSTRING": either(strings.SUBSTRING, rowwise.SUBSTRING),
    "LEFT": either(strings.LEFT, rowwise.LEFT),
    "RIGHT": either(strings.RIGHT, rowwise.RIGHT),
    "BTRIM": either(strings.BTRIM, rowwise.BTRIM),
    "LTRIM": either(strings.LTRIM, rowwise.LTRIM),
    "RTRIM": either(strings.RTRIM, rowwise.RTRIM),
    "LPAD": either(strings.LPAD, rowwise.LPAD),
    "RPAD": either(strings.RPAD, rowwise.RPAD),
    "REPEAT": either(strings.REPEAT, rowwise.REPEAT),
    "SPLIT_INDEX": either(strings.SPLIT_INDEX, words.SPLIT_INDEX),
    **{name: getattr(words, name) for name in _WORDS.split()},
    "CHAR_LENGTH": strings.length,
    "LOCATE": either(strings.place, rowwise.LOCATE),
    "REGEXP": either(regex.matching, java_regex.REGEXP),
    "REGEXP_EXTRACT": either(regex.extraction, java_regex.REGEXP_EXTRACT),
    "REGEXP_REPLACE": either(regex.replacement, java_regex.REGEXP_REPLACE),
    **{name: getattr(java_regex, name) for name in _REGEXES.split()},
    **{name: getattr(rowwise, name) for name in _DIGESTS.split()},
    **{name: getattr(encodings, name) for name in _ENCODINGS.split()},
    "LIKE": either(strings.like, java_regex.LIKE),
    "PRINTF": java_format.printf,
    "JSON": json_functions.document,
    "JSON_ARRAY": json_functions.array,
    "JSON_EXISTS": json_functions.exists,
    "JSON_OBJECT": json_functions.object_,
    "JSON_OBJECTAGG": json_functions.object_of,
    "PERCENTILE": percentiles.percentile,
    "JSON_QUERY": json_functions.query,
    "JSON_QUOTE": json_functions.JSON_QUOTE,
    "JSON_STRING": json_functions.string,
    "JSON_UNQUOTE": json_functions.JSON_UNQUOTE,
    "JSON_VALUE": json_functions.value,
    "IS JSON": json_functions.is_json,
    "EXTRACT": moments.extract,
    **dict.fromkeys(("FLOOR TO", "CEIL TO"), rounding.round_moment),
    "CONVERT_TZ": zones.CONVERT_TZ,
    "CURRENT_WATERMARK": moments.watermark,
    "UNIX_TIMESTAMP": either(by_value(patterns.unix_timestamp, 1), nondeterministic.present),
    "TIMESTAMPADD": moments.timestampadd,
    "TIMESTAMPDIFF": moments.timestampdiff,
    "TO_TIMESTAMP_LTZ": either(moments.to_timestamp_ltz, by_value(patterns.to_instant, 1, 2)),
    "DATE_FORMAT": by_value(patterns.date_format, 1),
    "FROM_UNIXTIME": by_value(patterns.from_unixtime, 1),
    **dict.fromkeys(("TO_TIMESTAMP", "TO_DATE"), by_value(patterns.to_moment, 1)),
    "ITEM": nested.item,
    "CARDINALITY": nested.cardinality,
    "ARRAY": nested.array,
    "ROW": nested.row,
    "MAP": nested.MAP,
    **{name: getattr(collections, name) for name in _COLLECTIONS.split()},
    "UUID": nondeterministic.uuids,
    **dict.fromkeys(("RAND", "RAND_INTEGER"), nondeterministic.random_numbers),
    **dict.fromkeys(_CLOCKS.split(), nondeterministic.present),
}
