"""Functions of text."""

from __future__ import annotations

from penstock.flow.kernels import rowwise
from penstock.flow.kernels.makers import either
from penstock.flow.kernels.texts import encodings, java_format, java_regex, regex, strings, words
from penstock.plan.overloads import overloads
from penstock.plan.scalar_functions import Entry, Function
from penstock.types import BOOLEAN, BYTES, INT, STRING, ArrayType, MapType

GROUP = "Strings"
_STRINGS = ArrayType(STRING)
_TEXT = overloads(STRING, "s")
_SIZED = overloads(STRING, "si")
_PADDED = overloads(STRING, "sis")
_TRIMMED = overloads(STRING, "s", "ss")
_TEXT_OR_NULL = overloads(STRING, "s", nullable=True)
_COUNTED = overloads(INT, "ss", nullable=True)

FUNCTIONS = (
    Entry("||", "a || b"),
    Function(
        "CHAR_LENGTH",
        "CHAR_LENGTH(a), CHARACTER_LENGTH(a)",
        kernel=strings.length,
        overloads=overloads(INT, "s"),
        aliases=("CHARACTER_LENGTH",),
    ),
    Function("UPPER", "UPPER(a)", kernel=strings.UPPER, overloads=_TEXT),
    Function("LOWER", "LOWER(a)", kernel=strings.LOWER, overloads=_TEXT),
    Function(
        "LOCATE",
        "POSITION(a IN b), LOCATE(a, b [, start])",
        kernel=either(strings.place, rowwise.LOCATE),
        overloads=overloads(INT, "ss", "ssi"),
    ),
    Function(
        "BTRIM",
        "TRIM([BOTH | LEADING | TRAILING] [a FROM] b), BTRIM(a [, b])",
        kernel=either(strings.BTRIM, rowwise.BTRIM),
        overloads=_TRIMMED,
    ),
    Function("LTRIM", "LTRIM(a [, b])", kernel=either(strings.LTRIM, rowwise.LTRIM), overloads=_TRIMMED),
    Function("RTRIM", "RTRIM(a [, b])", kernel=either(strings.RTRIM, rowwise.RTRIM), overloads=_TRIMMED),
    Function("REPEAT", "REPEAT(a, count)", kernel=either(strings.REPEAT, rowwise.REPEAT), overloads=_SIZED),
    Function(
        "REGEXP",
        "REGEXP(a, regex)",
        kernel=either(regex.matching, java_regex.REGEXP),
        overloads=overloads(BOOLEAN, "ss"),
    ),
    Function("REGEXP_COUNT", "REGEXP_COUNT(a, regex)", kernel=java_regex.REGEXP_COUNT, overloads=_COUNTED),
    Function(
        "REGEXP_EXTRACT",
        "REGEXP_EXTRACT(a, regex [, group])",
        kernel=either(regex.extraction, java_regex.REGEXP_EXTRACT),
        overloads=overloads(STRING, "ss", "ssi", nullable=True),
    ),
    Function(
        "REGEXP_EXTRACT_ALL",
        "REGEXP_EXTRACT_ALL(a, regex [, group])",
        kernel=java_regex.REGEXP_EXTRACT_ALL,
        overloads=overloads(_STRINGS, "ss", "ssi", nullable=True),
    ),
    Function("REGEXP_INSTR", "REGEXP_INSTR(a, regex)", kernel=java_regex.REGEXP_INSTR, overloads=_COUNTED),
    Function(
        "REGEXP_REPLACE",
        "REGEXP_REPLACE(a, regex, b)",
        kernel=either(regex.replacement, java_regex.REGEXP_REPLACE),
        overloads=overloads(STRING, "sss", nullable=True),
    ),
    Function(
        "REGEXP_SUBSTR",
        "REGEXP_SUBSTR(a, regex)",
        kernel=java_regex.REGEXP_SUBSTR,
        overloads=overloads(STRING, "ss", nullable=True),
    ),
    Function(
        "TRANSLATE",
        "TRANSLATE(a, from, to)",
        kernel=words.TRANSLATE,
        overloads=overloads(STRING, "sss", nullable=True),
    ),
    Function(
        "OVERLAY",
        "OVERLAY(a PLACING b FROM start [FOR length])",
        kernel=words.OVERLAY,
        overloads=overloads(STRING, "ssi", "ssii"),
    ),
    Function(
        "SUBSTRING",
        "SUBSTRING(a FROM start [FOR length]), SUBSTRING(a, start [, length]), SUBSTR(..)",
        kernel=either(strings.SUBSTRING, rowwise.SUBSTRING),
        overloads=overloads(STRING, "si", "sii"),
    ),
    Function(
        "REPLACE",
        "REPLACE(a, b, c)",
        kernel=either(strings.REPLACE, rowwise.REPLACE),
        overloads=overloads(STRING, "sss"),
    ),
    Function("INITCAP", "INITCAP(a)", kernel=words.INITCAP, overloads=_TEXT),
    Function("CONCAT", "CONCAT(a, ..)", kernel=strings.concatenation),
    Function("CONCAT_WS", "CONCAT_WS(separator, a, ..)", kernel=strings.joining),
    Function("LPAD", "LPAD(a, length, b)", kernel=either(strings.LPAD, rowwise.LPAD), overloads=_PADDED),
    Function("RPAD", "RPAD(a, length, b)", kernel=either(strings.RPAD, rowwise.RPAD), overloads=_PADDED),
    Function("FROM_BASE64", "FROM_BASE64(a)", kernel=encodings.FROM_BASE64, overloads=overloads(STRING, "s", "y")),
    Function("TO_BASE64", "TO_BASE64(a)", kernel=encodings.TO_BASE64, overloads=overloads(STRING, "s", "y")),
    Function("ASCII", "ASCII(a)", kernel=rowwise.ASCII, overloads=overloads(INT, "s")),
    Function("CHR", "CHR(a)", kernel=words.CHR, overloads=overloads(STRING, "i")),
    Function("DECODE", "DECODE(a, charset)", kernel=encodings.DECODE, overloads=overloads(STRING, "ys", nullable=True)),
    Function("ENCODE", "ENCODE(a, charset)", kernel=encodings.ENCODE, overloads=overloads(BYTES, "ss", nullable=True)),
    Function(
        "INSTR",
        "INSTR(a, b [, start [, nth]])",
        kernel=words.INSTR,
        overloads=overloads(INT, "ss", "ssi", "ssii"),
    ),
    Function("LEFT", "LEFT(a, length)", kernel=either(strings.LEFT, rowwise.LEFT), overloads=_SIZED),
    Function("RIGHT", "RIGHT(a, length)", kernel=either(strings.RIGHT, rowwise.RIGHT), overloads=_SIZED),
    Function(
        "PARSE_URL",
        "PARSE_URL(a, part [, key])",
        kernel=encodings.PARSE_URL,
        overloads=overloads(STRING, "ss", "sss", nullable=True),
    ),
    Function("REVERSE", "REVERSE(a)", kernel=strings.REVERSE, overloads=_TEXT),
    Function("SPLIT", "SPLIT(a, separator)", kernel=words.SPLIT, overloads=overloads(_STRINGS, "ss")),
    Function(
        "SPLIT_INDEX",
        "SPLIT_INDEX(a, separator, index)",
        kernel=either(strings.SPLIT_INDEX, words.SPLIT_INDEX),
        overloads=overloads(STRING, "ssi", "sii", nullable=True),
    ),
    Function("STARTSWITH", "STARTSWITH(a, b)", kernel=words.STARTSWITH, overloads=overloads(BOOLEAN, "ss", "yy")),
    Function("ENDSWITH", "ENDSWITH(a, b)", kernel=words.ENDSWITH, overloads=overloads(BOOLEAN, "ss", "yy")),
    Function(
        "STR_TO_MAP",
        "STR_TO_MAP(a [, pairs, parts])",
        kernel=words.STR_TO_MAP,
        overloads=overloads(MapType(STRING, STRING), "s", "sss"),
    ),
    Function("URL_DECODE", "URL_DECODE(a)", kernel=encodings.URL_DECODE, overloads=_TEXT_OR_NULL),
    Function("URL_ENCODE", "URL_ENCODE(a)", kernel=encodings.URL_ENCODE, overloads=_TEXT_OR_NULL),
    Function(
        "PRINTF",
        "PRINTF(format, a, ..)",
        kernel=java_format.printf,
        overloads=overloads(STRING, "s", "sv*", nullable=True),
    ),
    Function(
        "ELT",
        "ELT(index, a, ..)",
        kernel=words.ELT,
        overloads=(*overloads(STRING, "is*", nullable=True), *overloads(BYTES, "iy*", nullable=True)),
    ),
)
