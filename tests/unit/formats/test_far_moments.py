"""Dates and timestamps far away: what each format writes it reads again, or refuses by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import RecordError
from penstock.flow.kernels.moments.calendar import DAY_MICROS, days_of
from penstock.spi import ChangeFormat, formats
from penstock.types import arrow_schema, parse_columns

#: Around the limits of 64-bit nanoseconds and of four digits; then those that need more digits or a sign.
YEARS = [0, 1, 1582, 1677, 1678, 1969, 2038, 2262, 2263, 9999]
BEYOND = [-290_000, -10_000, -1, 10_000, 290_000]
KINDS = ["DATE", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(9)"]
OF_TEXT = [
    *(("json", {}), ("json", {"timestamp-format.standard": "ISO-8601"}), ("csv", {}), ("debezium-json", {})),
    *(("canal-json", {}), ("maxwell-json", {}), ("ogg-json", {})),
]


def moments(years: list[int], kind: str) -> pa.RecordBatch:
    """The last moment of each year that the type holds."""
    days = days_of(np.array(years), np.full(len(years), 12), 31)
    schema = arrow_schema(parse_columns(f"c {kind}"))
    if kind == "DATE":
        return pa.record_batch([pa.array(days, pa.int32()).view(pa.date32())], schema=schema)
    unit = {"0": 1_000_000, "3": 1000}.get(kind[-2], 1)
    return pa.record_batch([pa.array((days + 1) * DAY_MICROS - unit).view(schema.field(0).type)], schema=schema)


def numbers(rows: pa.RecordBatch) -> list[Any]:
    return rows.column(0).cast(pa.int32() if pa.types.is_date32(rows.column(0).type) else pa.int64()).to_pylist()


def read_again(name: str, options: dict[str, str], kind: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    fmt, schema = formats.get(name), parse_columns(f"c {kind}")
    bound = fmt.options.from_text(options)
    written = fmt.encoder(schema, bound).encode(rows).cast(pa.binary())
    decoder = fmt.decoder(schema, bound, ()) if isinstance(fmt, ChangeFormat) else fmt.decoder(schema, bound)
    decoded = decoder.decode(written)
    assert decoded.bad == ()
    return decoded.rows


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "options"), OF_TEXT)
def test_what_is_written_as_text_is_read_again(name, options, kind):
    years = YEARS if (name, kind) == ("csv", "DATE") else [*YEARS, *BEYOND]  # java.sql.Date reads four digits
    rows = moments(years, kind)
    assert numbers(read_again(name, options, kind, rows)) == numbers(rows)


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)"])
def test_what_is_written_as_avro_is_read_again(kind):
    rows = moments([*YEARS, *BEYOND], kind)
    assert numbers(read_again("avro", {"timestamp_mapping.legacy": "false"}, kind, rows)) == numbers(rows)


@pytest.mark.parametrize("kind", ["TIMESTAMP(9)", "TIMESTAMP_LTZ(9)"])
def test_nanoseconds_of_avro_have_64_bits(kind):
    options = {"timestamp_mapping.legacy": "false"}
    rows = moments([1678, 1969, 2038, 2261], kind)
    assert numbers(read_again("avro", options, kind, rows)) == numbers(rows)
    for year in (0, 1676, 2262, 9999):
        with pytest.raises(RecordError, match="field 'c': out of the range of the Avro type"):
            read_again("avro", options, kind, moments([year], kind))
