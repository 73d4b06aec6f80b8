"""The cases of Flink CDC's own tests of transforms: a table of all types, its events, and how they are printed."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import compress
from typing import Any

import pyarrow as pa

from penstock.ingest.definition import TransformDef
from penstock.ingest.transforms import DecimalPrecisionMode, TableTransform, TransformBinder, split_table_options
from penstock.schemas import TableSchema
from penstock.spi import KIND
from penstock.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    RowKind,
    RowType,
    TimestampType,
    TimeType,
    arrow_schema,
    parse_columns,
)
from penstock.types.logical import root
from tests.corpora import cdc_specs

TABLE = "foo.bar.baz"
#: The columns of the table of the cases, but for those whose types no column here has.
COLUMNS = parse_columns(
    "id_ BIGINT NOT NULL, bool_ BOOLEAN, tinyint_ TINYINT, smallint_ SMALLINT, int_ INT, bigint_ BIGINT, float_ FLOAT,"
    "double_ DOUBLE, decimal_10_0_ DECIMAL(10, 0), decimal_20_2_ DECIMAL(20, 2), char_ CHAR(140),"
    "varchar_ VARCHAR(140), string_ STRING, binary_ BINARY(640), varbinary_ VARBINARY(640), bytes_ BYTES,"
    "timestamp_0_ TIMESTAMP(0), timestamp_6_ TIMESTAMP(6), timestamp_9_ TIMESTAMP(9),"
    "timestamp_ltz_0_ TIMESTAMP_LTZ(0), timestamp_ltz_6_ TIMESTAMP_LTZ(6), timestamp_ltz_9_ TIMESTAMP_LTZ(9),"
    "date_ DATE, time_0_ TIME(0), time_6_ TIME(6), time_9_ TIME(9), array_int_ ARRAY<INT>,"
    "array_string_ ARRAY<STRING>, map_int_string_ MAP<INT, STRING>,"
    "map_string_array_string_ MAP<STRING, ARRAY<STRING>>, complex_row_ ROW<name STRING, length INT>"
)
#: Types of columns that no column here has.
MISSING = re.compile(r"WITH TIME ZONE|VARIANT")
_OF_MISSING = re.compile(r"timestamp_tz_|variant_")
#: Digits of a second beyond microseconds, in a value or in a text.
NANOSECONDS = re.compile(r"(\d\d[:-]\d\d\.\d{6})\d{1,3}")


def moments(*micros: int) -> list[datetime]:
    return [datetime(1970, 1, 1) + timedelta(microseconds=each) for each in micros]


_FIRST = moments(123456789_123, 234567891_234, 345678912_345)
_SECOND = moments(723456789_723, 834567891_834, 945678912_945)
FIRST: list[Any] = [
    *(1, True, 2, 3, 4, 5, 7.7, 88.88, Decimal("1234567890"), Decimal("123456789012345678.90")),
    *("Alice", "Zorro", "From A to Z is Lie", b"Lorem ipsum", b"dolor sit amet", b"amet consectetuer"),
    *_FIRST,
    *_FIRST,
    *(date(2000, 12, 31), time(19, 43, 17), time(21, 45, 3), time(3, 59, 59)),
    *([1, 1, 2, 3, 5, 8, 13], ["one", "one", "two", "three", "five"], {1: "one", 2: "two", 3: "three"}),
    *({"two": [*"TWO"], "one": [*"ONE"], "three": [*"THREE"]}, {"name": "Alice", "length": 5}),
]
SECOND: list[Any] = [
    *(-1, False, -2, -3, -4, -5, -7.7, -88.88, Decimal("-9876543210"), Decimal("-987654321098765432.10")),
    *("爱丽丝", "疯帽子", "天地玄黄宇宙洪荒"),
    *("一二三四五".encode(), "六七八九十".encode(), "吾輩は猫である".encode()),
    *_SECOND,
    *_SECOND,
    *(date(2001, 1, 1), time(12, 34, 45), time(23, 45, 7), time(2, 30, 5)),
    *([2, 3, 5, 7, 11, 13, 17, 19], ["二", "san", "五", "qi", "十一"], {1: "yi", 2: "er", 3: "san"}),
    *({"二": [*"ER"], "三": [*"SAN"], "一": [*"YI"]}, {"name": "Derrida", "length": 7}),
]
THIRD: list[Any] = [0, *[None] * (len(FIRST) - 1)]
EVENTS = (
    (RowKind.INSERT, FIRST),
    (RowKind.UPDATE_BEFORE, FIRST),
    (RowKind.UPDATE_AFTER, SECOND),
    (RowKind.DELETE, SECOND),
    (RowKind.INSERT, THIRD),
    (RowKind.DELETE, THIRD),
)


def make_batch(*, nulls: bool) -> pa.RecordBatch:
    """The rows of the cases, as changes."""
    events = EVENTS if nulls else EVENTS[:4]
    schema = arrow_schema(COLUMNS)
    rows = [dict(zip(COLUMNS.names, row, strict=True)) for _, row in events]
    for row in rows:
        row.update({name: list(row[name].items()) for name in row if isinstance(row[name], dict) and "map" in name})
    made = pa.RecordBatch.from_pylist(rows, schema)
    return made.append_column(pa.field(KIND, pa.int8()), pa.array([int(kind) for kind, _ in events], pa.int8()))


# --- what Flink CDC prints -------------------------------------------------------------------------------------


def show(value: Any, data_type: DataType) -> str:
    """A value as events show it."""
    if value is None:
        return "null"
    match data_type:
        case ArrayType(element=element):
            return f"[{', '.join(show(each, element) for each in value)}]"
        case MapType(key=key, value=inner):
            return "{" + ", ".join(sorted(f"{show(a, key)} -> {show(b, inner)}" for a, b in value)) + "}"
        case RowType(fields=fields):
            parts = (f"{each.name}: {each.type} -> {show(value[each.name], each.type)}" for each in fields)
            return "{" + ", ".join(parts) + "}"
        case TimestampType():
            return show_moment(value.replace(tzinfo=None).isoformat())
        case TimeType():
            return show_moment(value.isoformat())
        case DecimalType():
            return f"{value:f}"
    match root(data_type):
        case "BOOLEAN":
            return str(value).lower()
        case "BYTES":
            return base64.b64encode(value).decode()
        case "FLOAT":
            return show_number(pa.scalar(value, pa.float32()).cast(pa.string()).as_py())
        case "DOUBLE":
            return show_number(str(value))
    return str(value)


def show_moment(text: str) -> str:
    """ISO's form without zeros at the end of milliseconds, and without seconds that are zero."""
    text = re.sub(r"(\.\d{3})000$", r"\1", text)
    return re.sub(r"T(\d\d:\d\d):00$", r"T\1", text)


def show_number(text: str) -> str:
    return text if "." in text else f"{text}.0"


def show_schema(schema: TableSchema) -> str:
    columns = ",".join(str(each) for each in schema.row.fields)
    partitions = f", partitionKeys={';'.join(schema.partition_keys)}" if schema.partition_keys else ""
    options = ", ".join(f"{key}={value}" for key, value in schema.options)
    options = f"({{{options}}})" if options else "()"
    return f"columns={{{columns}}}, primaryKeys={';'.join(schema.primary_key)}{partitions}, options={options}"


def show_events(transform: TableTransform, batch: pa.RecordBatch) -> Iterator[str]:
    before = "[]"
    rows = batch.to_pylist()
    for each in rows:
        shown = f"[{', '.join(show(each[column.name], column.type) for column in transform.schema.row.fields)}]"
        match RowKind(each[KIND] or 0):
            case RowKind.UPDATE_BEFORE:
                before = shown
            case RowKind.UPDATE_AFTER:
                yield f"before={before}, after={shown}, op=UPDATE"
            case RowKind.INSERT:
                yield f"before=[], after={shown}, op=INSERT"
            case RowKind.DELETE:
                yield f"before={shown}, after=[], op=DELETE"


def sort_maps(text: str) -> str:
    """Entries of maps in the order of their texts, innermost maps alone."""
    return re.sub(r"\{([^{}]* -> [^{}]*)\}", lambda found: "{" + _sorted(found[1]) + "}", text)


def _sorted(text: str) -> str:
    if ": " in text:  # a row
        return text
    return ", ".join(sorted(re.split(r", (?=\S+ -> )", text)))


# --- cases -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A rule, and what Flink CDC does with it."""

    name: str
    rule: TransformDef
    zone: str = "UTC"
    decimals: DecimalPrecisionMode = DecimalPrecisionMode.UP_TO_19
    nulls: bool = True
    ignored: bool = False
    error: str = ""
    schema: str = ""
    events: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def read(cls, given: dict[str, Any]) -> Case:
        lines = (given.get("expect") or "").splitlines()
        keys = {each: given.get(each, "") for each in ("primary-key", "partition-key")}
        lists = {key: tuple(each.strip() for each in text.split(",") if each.strip()) for key, text in keys.items()}
        rule = TransformDef(
            TABLE,
            projection=", ".join(given.get("projection", "").strip().split("\n")),
            filter=given.get("filter", ""),
            primary_keys=lists["primary-key"],
            partition_keys=lists["partition-key"],
            table_options=split_table_options(given.get("table-options", "")),
            converter_after_transform=given.get("converters", ""),
        )
        return cls(
            given["do"],
            rule,
            given.get("time-zone", "UTC"),
            DecimalPrecisionMode[given.get("decimal-precision-mode", "up_to_19").upper()],
            str(given.get("non-null", "false")) != "true",
            "ignore" in given,
            given.get("expect-error", ""),
            plain_schema(lines[0]) if lines else "",
            tuple(plain_event(each) for each in lines[1:]),
        )

    def leave_out_missing(self) -> Case:
        """The case without the columns that have, or are computed from, types that no column here has."""
        items = split_list(self.rule.projection)
        gone = {each.rpartition(" AS ")[2].strip() for each in items if _OF_MISSING.search(each)}
        head, _, tail = self.schema.removeprefix("columns={").partition("}, primaryKeys")
        columns = split_list(head)
        kept = [
            not MISSING.search(each) and re.match("`([^`]*)`", each)[1] not in gone  # type: ignore[index]
            for each in columns
        ]

        def select(row: str) -> str:
            return ", ".join(compress(split_list(row), kept)) if row else row

        def shorten(event: str) -> str:
            before, after, kind = re.fullmatch(r"before=\[(.*)\], after=\[(.*)\], op=(\w+)", event).groups()  # type: ignore[union-attr]
            return f"before=[{select(before)}], after=[{select(after)}], op={kind}"

        projection = ", ".join(each for each in items if not _OF_MISSING.search(each))
        schema = f"columns={{{','.join(compress(columns, kept))}}}, primaryKeys{tail}"
        rule = replace(self.rule, projection=projection)
        return replace(self, rule=rule, schema=schema, events=tuple(map(shorten, self.events)))

    def run(self) -> tuple[str, tuple[str, ...]]:
        """The schema and the events. Raises PenstockError."""
        binder = TransformBinder((self.rule,), zone=self.zone, decimals=self.decimals)
        transform = binder.bind(TABLE, TableSchema(COLUMNS))
        made = transform.apply(make_batch(nulls=self.nulls))
        return show_schema(transform.schema), tuple(plain_event(each) for each in show_events(transform, made))


def split_list(text: str) -> list[str]:
    """The parts of a list between commas that are in no brackets."""
    parts, depth = [""], 0
    for character in text.replace("->", "→"):
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [each.strip().replace("→", "->") for each in parts]


def plain_schema(line: str) -> str:
    """Without comments and defaults, which the schema of a table does not show here."""
    line = line.partition("schema=")[2].removesuffix("}")
    return re.sub(r"( NOT NULL|[A-Z)>])( '(?:[^']|'')*')+(?=[,}])", r"\1", line)


def plain_event(line: str) -> str:
    line = re.sub(r".*?(before=.*), meta=\(\)\}$", r"\1", line)
    return NANOSECONDS.sub(r"\1", sort_maps(line))


def read_cases() -> dict[str, Case]:
    """All cases by their names; none where the corpora are not present."""
    return {each.name: each for each in map(Case.read, cdc_specs())}
