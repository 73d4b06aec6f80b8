"""Every built-in function of Flink SQL: those that exist here, and why others do not.

What is here is bound by :data:`penstock.sql.bind.expressions.functions.SIGNATURES` or in its own form, aggregates by
:mod:`penstock.sql.bind.expressions.aggregates`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Builtin:
    """A function as Flink writes it. ``name`` is what the parser calls it; ``refused`` says why it is not here, and
    what to do instead; ``note`` how it differs from Flink."""

    name: str
    syntax: str
    refused: str = ""
    note: str = ""


def _all(texts: str) -> tuple[Builtin, ...]:
    """Functions that are written as usual, one per line."""
    lines = [each.strip() for each in texts.strip().splitlines()]
    return tuple(Builtin(each.partition("(")[0], each) for each in lines)


_DOCUMENTS = "types for JSON documents are not supported; use STRING with JSON_VALUE and JSON_QUERY"
_OBJECTS = "structured types of Java classes are not supported; use ROW(..)"
_IN_BATCHES = "in batch mode"
_EXACTLY = "a pattern must match the whole text"
_PATHS = "paths with filters, such as `[?(@.a > 1)]`, or functions, such as `.length()`, are refused"

#: By the groups of Flink's documentation.
CATALOGUE: Mapping[str, tuple[Builtin, ...]] = {
    "Comparison": (
        Builtin(
            "=", "a = b, a <> b, a < b, a <= b, a > b, a >= b", note="keys of joins have no maps, other conditions may"
        ),
        Builtin("IS NULL", "a IS [NOT] NULL"),
        Builtin("IS DISTINCT FROM", "a IS [NOT] DISTINCT FROM b"),
        Builtin("BETWEEN", "a [NOT] BETWEEN [ASYMMETRIC | SYMMETRIC] b AND c"),
        Builtin("LIKE", "a [NOT] LIKE b [ESCAPE c]"),
        Builtin("SIMILAR", "a [NOT] SIMILAR TO b [ESCAPE c]"),
        Builtin("IN", "a [NOT] IN (b, ..)"),
        Builtin(
            "EXISTS", "EXISTS (query), a [NOT] IN (query)", note="in SELECT, WHERE, HAVING and ON of an INNER JOIN"
        ),
    ),
    "Logic": (
        Builtin("OR", "a OR b"),
        Builtin("AND", "a AND b"),
        Builtin("NOT", "NOT a"),
        Builtin("IS TRUE", "a IS [NOT] TRUE, a IS [NOT] FALSE, a IS [NOT] UNKNOWN"),
    ),
    "Arithmetic": (
        Builtin(
            "+",
            "+ a, - a, a + b, a - b, a * b, a / b, a % b",
            note="overflow as in Flink, or an error: `penstock.overflow`",
        ),
        *_all("""
        MOD(a, b)
        POWER(a, b)
        ABS(a)
        SQRT(a)
        LN(a)
        LOG10(a)
        LOG2(a)
        LOG([base,] a)
        EXP(a)
        CEIL(a)
        CEILING(a)
        FLOOR(a)
        SIN(a)
        SINH(a)
        COS(a)
        COSH(a)
        TAN(a)
        TANH(a)
        COT(a)
        ASIN(a)
        ACOS(a)
        ATAN(a)
        ATAN2(a, b)
        DEGREES(a)
        RADIANS(a)
        SIGN(a)
        ROUND(a [, digits])
        TRUNCATE(a [, digits])
        PI()
        E()
        UUID()
        BIN(a)
        HEX(a)
        UNHEX(a)
        """),
        Builtin("RAND", "RAND([seed])", note="numbers of another generator than Java's"),
        Builtin("RAND_INTEGER", "RAND_INTEGER([seed,] bound)", note="numbers of another generator than Java's"),
    ),
    "Strings": (
        Builtin("||", "a || b"),
        *_all("""
        CHAR_LENGTH(a)
        CHARACTER_LENGTH(a)
        UPPER(a)
        LOWER(a)
        """),
        Builtin("LOCATE", "POSITION(a IN b), LOCATE(a, b [, start])"),
        Builtin("BTRIM", "TRIM([BOTH | LEADING | TRAILING] [a FROM] b), BTRIM(a [, b])"),
        *_all("""
        LTRIM(a [, b])
        RTRIM(a [, b])
        REPEAT(a, count)
        REGEXP(a, regex)
        REGEXP_COUNT(a, regex)
        REGEXP_EXTRACT(a, regex [, group])
        REGEXP_EXTRACT_ALL(a, regex [, group])
        REGEXP_INSTR(a, regex)
        REGEXP_REPLACE(a, regex, b)
        REGEXP_SUBSTR(a, regex)
        TRANSLATE(a, from, to)
        OVERLAY(a PLACING b FROM start [FOR length])
        """),
        Builtin("SUBSTRING", "SUBSTRING(a FROM start [FOR length]), SUBSTRING(a, start [, length]), SUBSTR(..)"),
        *_all("""
        REPLACE(a, b, c)
        INITCAP(a)
        CONCAT(a, ..)
        CONCAT_WS(separator, a, ..)
        LPAD(a, length, b)
        RPAD(a, length, b)
        FROM_BASE64(a)
        TO_BASE64(a)
        ASCII(a)
        CHR(a)
        DECODE(a, charset)
        ENCODE(a, charset)
        INSTR(a, b [, start [, nth]])
        LEFT(a, length)
        RIGHT(a, length)
        PARSE_URL(a, part [, key])
        REVERSE(a)
        SPLIT(a, separator)
        SPLIT_INDEX(a, separator, index)
        STARTSWITH(a, b)
        ENDSWITH(a, b)
        STR_TO_MAP(a [, pairs, parts])
        URL_DECODE(a)
        URL_ENCODE(a)
        PRINTF(format, a, ..)
        ELT(index, a, ..)
        """),
    ),
    "Dates and times": (
        Builtin("DATE", "DATE '..', TIME '..', TIMESTAMP '..', INTERVAL '..' unit"),
        Builtin("CURRENT_DATE", "CURRENT_DATE", note="the present time is the batch's"),
        Builtin("CURRENT_TIME", "CURRENT_TIME, LOCALTIME", note="the present time is the batch's"),
        Builtin("CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP, NOW()", note="the present time is the batch's"),
        Builtin("LOCALTIMESTAMP", "LOCALTIMESTAMP", note="the present time is the batch's"),
        Builtin("CURRENT_ROW_TIMESTAMP", "CURRENT_ROW_TIMESTAMP()", note="the present time is the batch's"),
        Builtin("PROCTIME", "PROCTIME()"),
        Builtin(
            "EXTRACT",
            "EXTRACT(unit FROM a), YEAR(a), QUARTER(a), MONTH(a), WEEK(a), DAYOFYEAR(a), ..",
            note="before 1970 and between two seconds, the parts of the earlier one; of a DATE, minutes are 0",
        ),
        Builtin("FLOOR TO", "FLOOR(a TO unit), CEIL(a TO unit)", note="of a TIME to hours, minutes and seconds"),
        Builtin("OVERLAPS", "(a, b) OVERLAPS (c, d)"),
        *_all("""
        DATE_FORMAT(a, pattern)
        TIMESTAMPADD(unit, count, a)
        TIMESTAMPDIFF(unit, a, b)
        FROM_UNIXTIME(a [, pattern])
        TO_TIMESTAMP(a [, pattern])
        TO_TIMESTAMP_LTZ(a [, precision | pattern [, zone]])
        CURRENT_WATERMARK(rowtime)
        """),
        Builtin("TO_DATE", "TO_DATE(a [, pattern])", note=_EXACTLY),
        Builtin(
            "CONVERT_TZ", "CONVERT_TZ(a, from, to)", note="NULL for text that does not begin as `yyyy-MM-dd HH:mm:ss`"
        ),
        Builtin("UNIX_TIMESTAMP", "UNIX_TIMESTAMP([a [, pattern]])", note=_EXACTLY),
        Builtin("SOURCE_WATERMARK", "SOURCE_WATERMARK()", "no connector here has its own watermarks"),
    ),
    "Conditions": (
        Builtin("CASE", "CASE a WHEN b THEN c .. [ELSE d] END, CASE WHEN a THEN b .. [ELSE c] END"),
        *_all("""
        NULLIF(a, b)
        COALESCE(a, ..)
        IF(condition, a, b)
        IFNULL(a, b)
        IS_ALPHA(a)
        IS_DECIMAL(a)
        IS_DIGIT(a)
        GREATEST(a, ..)
        LEAST(a, ..)
        """),
    ),
    "Conversion": (
        Builtin("CAST", "CAST(a AS type)", note="overflow as in Flink, or an error: `penstock.overflow`"),
        Builtin("TRY_CAST", "TRY_CAST(a AS type)"),
        Builtin("TYPEOF", "TYPEOF(a)"),
    ),
    "Collections": (
        Builtin("CARDINALITY", "CARDINALITY(array), CARDINALITY(map)"),
        Builtin("[]", "array[index], map[key]"),
        *_all("""
        ELEMENT(array)
        ARRAY_APPEND(array, a)
        ARRAY_CONCAT(array, ..)
        ARRAY_CONTAINS(array, a)
        ARRAY_DISTINCT(array)
        ARRAY_EXCEPT(array, array)
        ARRAY_INTERSECT(array, array)
        ARRAY_JOIN(array, separator [, null])
        ARRAY_MAX(array)
        ARRAY_MIN(array)
        ARRAY_POSITION(array, a)
        ARRAY_PREPEND(array, a)
        ARRAY_REMOVE(array, a)
        ARRAY_REVERSE(array)
        ARRAY_SLICE(array, start [, end])
        ARRAY_SORT(array [, ascending [, nulls first]])
        ARRAY_UNION(array, array)
        MAP_ENTRIES(map)
        MAP_FROM_ARRAYS(keys, values)
        MAP_KEYS(map)
        MAP_UNION(map, ..)
        MAP_VALUES(map)
        """),
    ),
    "JSON": (
        Builtin("IS JSON", "a IS [NOT] JSON [VALUE | SCALAR | ARRAY | OBJECT]"),
        Builtin("JSON_EXISTS", "JSON_EXISTS(a, path [.. ON ERROR])", note=_PATHS),
        Builtin("JSON_VALUE", "JSON_VALUE(a, path [RETURNING type] [.. ON EMPTY] [.. ON ERROR])", note=_PATHS),
        Builtin(
            "JSON_QUERY", "JSON_QUERY(a, path [RETURNING type] [.. WRAPPER] [.. ON EMPTY] [.. ON ERROR])", note=_PATHS
        ),
        Builtin("JSON_STRING", "JSON_STRING(a)"),
        Builtin("JSON_OBJECT", "JSON_OBJECT([KEY] key VALUE a, .. [.. ON NULL])"),
        Builtin("JSON_ARRAY", "JSON_ARRAY(a, .. [.. ON NULL])"),
        Builtin("JSON_QUOTE", "JSON_QUOTE(a)"),
        Builtin("JSON_UNQUOTE", "JSON_UNQUOTE(a)"),
        Builtin("JSON", "JSON(a)", note="as a value of JSON_OBJECT or JSON_ARRAY"),
        Builtin("PARSE_JSON", "PARSE_JSON(a)", _DOCUMENTS),
        Builtin("TRY_PARSE_JSON", "TRY_PARSE_JSON(a)", _DOCUMENTS),
    ),
    "Values": (
        Builtin("ROW", "ROW(a, ..), (a, b, ..)"),
        Builtin("ARRAY[]", "ARRAY[a, ..]"),
        Builtin("MAP[]", "MAP[key, a, ..]", note="a key that is null fails the row"),
        Builtin(
            "OBJECT_OF",
            "OBJECT_OF(class, key, a, ..)",
            _OBJECTS,
        ),
        Builtin(
            "OBJECT_UPDATE",
            "OBJECT_UPDATE(a, key, b, ..)",
            _OBJECTS,
        ),
    ),
    "Digests": _all("""
        MD5(a)
        SHA1(a)
        SHA224(a)
        SHA256(a)
        SHA384(a)
        SHA512(a)
        SHA2(a, bits)
        """),
    "The session": (Builtin("CURRENT_DATABASE", "CURRENT_DATABASE()", note="in queries"),),
    "Aggregates": (
        Builtin("COUNT", "COUNT(*), COUNT([DISTINCT] a, ..)"),
        Builtin("SUM", "SUM([DISTINCT] a)", note="overflow as in Flink, or an error: `penstock.overflow`"),
        *_all("""
        AVG([DISTINCT] a)
        MIN(a)
        MAX(a)
        STDDEV_POP([DISTINCT] a)
        STDDEV_SAMP([DISTINCT] a)
        STDDEV([DISTINCT] a)
        VAR_POP([DISTINCT] a)
        VAR_SAMP([DISTINCT] a)
        VARIANCE([DISTINCT] a)
        COLLECT([DISTINCT] a)
        ARRAY_AGG([DISTINCT] a [RESPECT NULLS | IGNORE NULLS])
        LISTAGG([DISTINCT] a [, separator])
        FIRST_VALUE(a)
        LAST_VALUE(a)
        SINGLE_VALUE(a)
        """),
        Builtin("JSON_OBJECTAGG", "JSON_OBJECTAGG([KEY] key VALUE a [.. ON NULL])", note="equal keys fail"),
        Builtin("JSON_ARRAYAGG", "JSON_ARRAYAGG(a [.. ON NULL])", note="without ORDER BY"),
        Builtin("APPROX_COUNT_DISTINCT", "APPROX_COUNT_DISTINCT(a)", "counts are exact; use COUNT(DISTINCT a)"),
        Builtin("PERCENTILE", "PERCENTILE([DISTINCT] a, percentage [, frequency])", note="of constant percentages"),
    ),
    "Rows around a row": (
        Builtin("ROW_NUMBER", "ROW_NUMBER() OVER (..)"),
        Builtin("RANK", "RANK() OVER (..)", note="where a condition keeps the first numbers, in batch mode"),
        Builtin(
            "DENSE_RANK", "DENSE_RANK() OVER (..)", note="where a condition keeps the first numbers, in batch mode"
        ),
        Builtin("PERCENT_RANK", "PERCENT_RANK() OVER (..)", note=_IN_BATCHES),
        Builtin("CUME_DIST", "CUME_DIST() OVER (..)", note=_IN_BATCHES),
        Builtin("NTILE", "NTILE(n) OVER (..)", note=_IN_BATCHES),
        Builtin("LAG", "LAG(a [, offset [, default]]) OVER (..)"),
        Builtin("LEAD", "LEAD(a [, offset [, default]]) OVER (..)", note=_IN_BATCHES),
    ),
    "Groups": (
        Builtin("GROUPING", "GROUPING(a, ..)"),
        Builtin("GROUPING_ID", "GROUPING_ID(a, ..)"),
        Builtin("GROUP_ID", "GROUP_ID()", note="how many equal GROUPING SETS precede the row's"),
    ),
}

#: By name: why a function of Flink is not here.
REFUSED: Mapping[str, str] = {each.name: each.refused for group in CATALOGUE.values() for each in group if each.refused}
