"""Dates and timestamps far away, written and read again by each format: the same ones, or an error that names them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.flow.kernels.calendar import DAY_MICROS, days_of
from penstock.spi import ChangeFormat, formats
from penstock.types import arrow_schema, parse_columns

YEARS = np.array([0, 1, 1582, 1677, 1678, 1969, 2038, 2262, 2263, 9999])
BEYOND = np.array([-290_000, -10_000, -1, 10_000, 290_000])
FORMATS = [
    ("json", {}),
    ("json", {"json.timestamp-format.standard": "ISO-8601"}),
    ("csv", {}),
    ("avro", {}),
    ("avro", {"timestamp_mapping.legacy": "false"}),
    ("debezium-json", {}),
    ("canal-json", {}),
    ("maxwell-json", {}),
    ("ogg-json", {}),
]


def moments(years: np.ndarray, kind: str) -> pa.RecordBatch:
    """The last moment of each year that the type holds."""
    days = days_of(years, np.full(len(years), 12), 31)
    schema = parse_columns(f"c {kind}")
    if kind == "DATE":
        return pa.record_batch([pa.array(days, pa.int32()).view(pa.date32())], schema=arrow_schema(schema))
    digits = {"0": 10**6, "3": 1000}.get(kind[-2], 1)
    micros = (days + 1) * DAY_MICROS - digits
    return pa.record_batch([pa.array(micros).view(arrow_schema(schema).field(0).type)], schema=arrow_schema(schema))


def again(name: str, options: dict[str, str], kind: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    fmt, schema = formats.get(name), parse_columns(f"c {kind}")
    given = {key.removeprefix(f"{name}."): value for key, value in options.items()}
    bound = fmt.options.from_text(given)
    written = fmt.encoder(schema, bound).encode(rows)
    decoder = fmt.decoder(schema, bound, ()) if isinstance(fmt, ChangeFormat) else fmt.decoder(schema, bound)
    read = decoder.decode(written.cast(pa.binary()))
    assert not read.bad, read.bad
    return read.rows


@pytest.mark.parametrize(
    "kind", ["DATE", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(9)"]
)
@pytest.mark.parametrize(("name", "options"), FORMATS)
def test_it(name, options, kind):
    rows = moments(YEARS, kind)
    assert (
        again(name, options, kind, rows).column(0).view(pa.int32() if kind == "DATE" else pa.int64()).to_pylist()
        == rows.column(0).view(pa.int32() if kind == "DATE" else pa.int64()).to_pylist()
    )


@pytest.mark.parametrize(
    "kind", ["DATE", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(9)"]
)
@pytest.mark.parametrize(("name", "options"), FORMATS)
def test_it2(name, options, kind):
    rows = moments(BEYOND, kind)
    assert (
        again(name, options, kind, rows).column(0).view(pa.int32() if kind == "DATE" else pa.int64()).to_pylist()
        == rows.column(0).view(pa.int32() if kind == "DATE" else pa.int64()).to_pylist()
    )
