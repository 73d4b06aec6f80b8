"""Which types of arguments functions and operators take, held against Flink's own answers
(``tests/recorded/signatures.json``)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from penstock.errors import DefinitionError
from penstock.flow.kernels.session import Session
from penstock.flow.rows.expressions import NoKernel, compile_expressions
from penstock.plan.expressions import Literal
from penstock.sql import parse_expression
from penstock.types import arrow_schema, parse_columns
from tests.corpora import parsed
from tests.recorded.signatures import COLUMNS, FORMS, MORE, expression_of

ANSWERS: dict[str, dict[str, str]] = json.loads(
    (Path(__file__).parents[2] / "recorded" / "signatures.json").read_text("utf-8")
)
SCHEMA = parse_columns(COLUMNS)
BATCHES = arrow_schema(SCHEMA)
_AGGREGATE = re.compile(
    r"(COUNT|SUM|AVG|MIN|MAX|STDDEV_|VAR_|COLLECT|ARRAY_AGG|LISTAGG|FIRST_|LAST_|SINGLE_|PERCENTILE|JSON_\w+AGG)"
)
_TIME = r"(.*, )?TIME(, .*)?"
#: Why a call that Flink's planner takes is refused here, by the form and the types of the arguments.
REFUSED = {
    "Flink does not compute this of an interval when it makes the job": (
        r"(ABS|DAYOFWEEK|DAYOFYEAR|WEEK|JSON_\w+)\(.* of (.*, )?(YEAR|DAY)|\{0\} [*/] \{1\} of (.*, )?(YEAR|DAY)(, .*)?"
        r"|EXTRACT\((DECADE|WEEK|DOW|ISODOW|DOY|ISOYEAR|MICROSECOND|NANOSECOND|EPOCH) FROM .*\) of (YEAR|DAY)"
        r"|(TRY_)?CAST\(\{0\} AS INTERVAL .*"
    ),
    "in Flink, an interval becomes a number of months or milliseconds by mistake": (
        r"(COALESCE|IFNULL|ARRAY_\w+|PRINTF)\(.* of (.*, )?(YEAR|DAY)(, .*)?"
    ),
    "in Flink, no text equals an interval": r".* of ((CHAR|STRING), (YEAR|DAY)|(YEAR|DAY), (CHAR|STRING))",
    "Flink finds no unit of such a value when it makes the job": (
        r"(DAYOFMONTH|DAYOFWEEK|DAYOFYEAR|MONTH|QUARTER|WEEK|YEAR)\(\{0\}\) of TIME"
        r"|EXTRACT\(\w+ FROM \{0\}\) of (TIME|DATE)"
    ),
    "in Flink, a TIME has days and months by mistake": (
        rf"(FLOOR|CEIL)\(\{{0\}} TO \w+\) of TIME|TIMESTAMPDIFF\(.* of {_TIME}"
    ),
    "Flink's code for a TIME beside a TIMESTAMP does not compile": (
        r"(GREATEST|LEAST)\(.* of (TIME, TIMESTAMP|TIMESTAMP, TIME)"
    ),
    "Flink has no order of such values when it makes the job": (
        r"(GREATEST|LEAST)\(.* of (ARRAY<INT>|ARRAY<STRING>|MAP|ROW)(, .*)?"
        r"|\{0\} (<|>=) \{1\} of (ARRAY<INT>|ARRAY<STRING>|MAP|ROW), .*"
        r"|(MIN|MAX)\((DISTINCT )?\{0\}\) of (BINARY|BYTES|ARRAY<INT>|ARRAY<STRING>|MAP|ROW)"
    ),
    "Flink has no '=' of a number and a text when it makes the job": (
        r"(NULLIF\(|\{0\} (=|<>|IS DISTINCT FROM) |CASE \{0\} WHEN ).* of .*(CHAR|STRING).*"
    ),
    "in Flink, no text equals a BOOLEAN, be it 'true' or 'TRUE'": (
        r"(NULLIF\(|\{0\} (=|<>|IS DISTINCT FROM) ).* of (BOOLEAN, (CHAR|STRING)|(CHAR|STRING), BOOLEAN)"
    ),
    "in Flink, no text equals a number in an array": (
        r"(NULLIF\(|\{0\} (=|<>|IS DISTINCT FROM) ).* of (ARRAY<INT>, ARRAY<STRING>|ARRAY<STRING>, ARRAY<INT>)"
    ),
    "Flink's code for bytes does not compile": (
        r"SHA2\(.* of (BINARY|BYTES), .*|POSITION\(.* of (BINARY|BYTES), .*|OVERLAY\(.* of (BINARY|BYTES), .*"
    ),
    "Flink joins no bytes and no arrays when it makes the job": r"\{0\} \|\| \{1\} of .*",
    "Flink has no such cast when it makes the job": (
        r"(TRY_)?CAST\(\{0\} AS (TINYINT|INT|BIGINT|FLOAT|DOUBLE|DECIMAL\(10, 2\))\) of TIMESTAMP(_LTZ)?"
        r"|(TRY_)?CAST\(\{0\} AS (DATE|TIME\(0\)|TIMESTAMP\(3\)|TIMESTAMP_LTZ\(3\))\) of .*"
        r"|(TRY_)?CAST\(\{0\} AS ARRAY<(INT|STRING)>\) of (CHAR|STRING)"
        r"|CASE WHEN .* of BOOLEAN, (INT, (DATE|TIME|TIMESTAMP|TIMESTAMP_LTZ)|(DATE|TIME|TIMESTAMP|TIMESTAMP_LTZ), INT)"
    ),
    "Flink computes nothing of a document that is no text, or NULL": r"JSON_(VALUE|QUERY|EXISTS)\(.*",
    "PRINTF shows Java's names of objects": r"PRINTF\(.* of .*(BINARY|BYTES|DATE|TIME|ARRAY|MAP|ROW).*",
    "Flink has no numbers by chance of such seeds and bounds when it makes the job": (
        r"RAND(_INTEGER)?\(.* of .*(FLOAT|DOUBLE|DECIMAL|BIGINT).*"
    ),
    "a seed is a constant": r"RAND(_INTEGER)?\(.*",
}


#: Why the type of a value is another one here, by the form and the types of the arguments.
MEANT = {
    "a value that is never NULL does not always say so": r"IS_(ALPHA|DIGIT|DECIMAL)\(\{0\}\) of .*",
    "Flink does not compute the least and the greatest of these": (
        r"(GREATEST|LEAST)\(.* of (DECIMAL, FLOAT|DATE, TIMESTAMP|TIMESTAMP, DATE)"
    ),
    "a text that a function gives has no length: in Flink, UPPER of a CHAR(3) may be longer": (
        r"((INITCAP|LOWER|UPPER|[LR]?TRIM|LEFT|RIGHT|SUBSTR|SUBSTRING)\(|\{0\} \|\| \{1\} of CHAR, CHAR).*"
        r"|(MD5|SHA\d+|ELT|JSON_\w+AGG)\(.*"
    ),
    "where there are no rows, ARRAY_AGG is NULL": r"ARRAY_AGG\((DISTINCT )?\{0\}\) of (YEAR|DAY)",
}


def bound_type(form: str, types: str) -> str:
    """The type of the value of a call that is accepted."""
    sql = expression_of(form, types.split(", "))
    if "INTERVAL" in ANSWERS[form][types] and not _AGGREGATE.match(form):
        named = parse_expression(f"TYPEOF({sql})", SCHEMA)
        assert isinstance(named, Literal)
        return str(named.value)
    if not _AGGREGATE.match(form):
        return str(parse_expression(sql, SCHEMA).type)
    created = f"CREATE TABLE given ({COLUMNS}) WITH ('connector' = 'any', 'mode' = 'I')"
    shown = parsed(f"{created}; CREATE VIEW v AS SELECT {sql} AS c FROM given; DESCRIBE v").printed[-1]
    _, _, name, nullable, *_ = (each.strip() for each in shown.splitlines()[3].split("|"))
    return name if nullable == "TRUE" else f"{name} NOT NULL"


def refusal(form: str, types: str) -> str | None:
    """Why a call is refused; None if it is not."""
    sql = expression_of(form, types.split(", "))
    if "INTERVAL" in ANSWERS[form][types]:
        sql = f"({sql}) IS NULL"  # an interval is a value within a query only
    try:
        if _AGGREGATE.match(form):
            created = f"CREATE TABLE given ({COLUMNS}) WITH ('connector' = 'any', 'mode' = 'I')"
            into = "CREATE TABLE taken (there BOOLEAN) WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D')"
            parsed(f"{created}; {into}; INSERT INTO taken SELECT {sql} IS NULL FROM given")
            return None
        found = compile_expressions((parse_expression(sql, SCHEMA),), BATCHES, Session("UTC"))
    except DefinitionError as error:
        return str(error)
    return f"{found.function} has no kernel" if isinstance(found, NoKernel) else None


def test_every_form_has_an_answer():
    assert ANSWERS.keys() == {*FORMS, *MORE}


@pytest.mark.parametrize("aggregates", [False, True], ids=["functions", "aggregates"])
def test_calls_that_flink_plans_are_planned_or_listed(aggregates: bool):
    wrong, unused = {}, set(REFUSED)
    for form, taken in ANSWERS.items():
        if bool(_AGGREGATE.match(form)) is not aggregates:
            continue
        for types in taken:
            call = f"{form} of {types}"
            reasons = {reason for reason, known in REFUSED.items() if re.fullmatch(known, call)}
            found = refusal(form, types)
            if found is not None:
                unused -= reasons
                if not reasons:
                    wrong[call] = found
    assert wrong == {}
    assert aggregates or unused == set()


@pytest.mark.parametrize("aggregates", [False, True], ids=["functions", "aggregates"])
def test_values_have_the_types_that_flink_gives_them_or_others_that_are_meant(aggregates: bool):
    wrong, unused = {}, set(MEANT)
    for form, taken in ANSWERS.items():
        if bool(_AGGREGATE.match(form)) is not aggregates:
            continue
        for types, wanted in taken.items():
            call = f"{form} of {types}"
            if refusal(form, types) is not None:
                continue
            found = bound_type(form, types)
            if found.replace("`", "") != wanted.replace("`", ""):
                reasons = {reason for reason, known in MEANT.items() if re.fullmatch(known, call)}
                unused -= reasons
                if not reasons:
                    wrong[call] = f"{found}, not {wanted}"
    assert wrong == {}
    assert aggregates or unused == {"where there are no rows, ARRAY_AGG is NULL"}
