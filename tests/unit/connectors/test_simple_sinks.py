"""The print and blackhole connectors."""

from __future__ import annotations

import pickle
from datetime import date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.connectors.print.texts import format_values
from penstock.errors import OptionsError
from penstock.spi import Column, Guarantee, TableDefinition, connectors
from penstock.types import BIGINT, arrow_type, parse_columns, parse_type

COLUMNS = (Column("id", BIGINT),)


def test_print_takes_its_options():
    options = {"connector": "print", "print-identifier": "orders", "standard-error": "true"}
    found = connectors.get("print").sink(TableDefinition("t", COLUMNS, options))

    assert (found.options.identifier, found.options.standard_error) == ("orders", True)
    assert found.schema.names == ("id",)
    assert pickle.loads(pickle.dumps(found)) == found


def test_blackhole_takes_nothing():
    found = connectors.get("blackhole").sink(TableDefinition("t", COLUMNS, {"connector": "blackhole"}))

    assert found.schema.names == ("id",)
    assert "'t'" in found.describe()


def test_every_problem_of_print_is_reported():
    options = {"connector": "print", "standard-error": "perhaps", "colour": "red"}

    with pytest.raises(OptionsError) as error:
        connectors.get("print").sink(TableDefinition("t", COLUMNS, options))
    assert len(error.value.problems) == 2


@pytest.mark.rule("targets commit independently")
def test_print_says_whether_it_may_repeat():
    def sink(**options):
        return connectors.get("print").sink(TableDefinition("t", COLUMNS, {"connector": "print", **options}))

    assert sink().capabilities.guarantee is None
    assert sink(**{"sink.delivery-guarantee": "at-least-once"}).capabilities.guarantee is Guarantee.AT_LEAST_ONCE
    with pytest.raises(OptionsError, match="cannot tell what it has printed"):
        sink(**{"sink.delivery-guarantee": "exactly-once"})


def test_values_are_printed_as_by_flink():
    """What Flink 2.2 printed of one row of all types."""
    kinds = parse_columns(
        "a BOOLEAN, b BYTES, c DOUBLE, d DECIMAL(5, 2), e DATE, f TIMESTAMP(3), g TIME(0), h TIMESTAMP_LTZ(3), "
        "i ARRAY<STRING>, j MAP<STRING, INT>, k ROW<m STRING, n BOOLEAN>, l FLOAT, m INT, n STRING, o ARRAY<BOOLEAN>, "
        "p ARRAY<ROW<m STRING, n BOOLEAN>>, q TIMESTAMP(0)"
    )
    at = datetime(2026, 1, 31, 10, 20, 30, 500_000)
    inner = {"m": "z", "n": None}
    values = [True, b"\x03\x04", 1.5, Decimal("1.50"), date(2026, 1, 31), at, time(10, 20, 30), at, ["x", None]]
    values += [[("k", 1)], inner, 1.5, None, "a'b", [True, False], [{"m": "q", "n": True}], at.replace(microsecond=0)]
    found = [
        format_values(pa.array([None, value], arrow_type(field.type)).slice(row), field.type)
        for value, field in zip(values, kinds.fields, strict=True)
        for row in (0, 1)
    ]
    assert [each[0] for each in found[::2]] == ["null"] * len(values)
    assert f"+I[{', '.join(each[0] for each in found[1::2])}]" == (
        "+I[true, [3, 4], 1.5, 1.50, 2026-01-31, 2026-01-31T10:20:30.500, 10:20:30, 2026-01-31T10:20:30.500Z, "
        "[x, null], {k=1}, +I[z, null], 1.5, null, a'b, [true, false], [+I[q, true]], 2026-01-31T10:20:30]"
    )


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        *(("DOUBLE", 1e10, "1.0E10"), ("DOUBLE", 1e-5, "1.0E-5"), ("DOUBLE", 123456.789, "123456.789")),
        *(("DOUBLE", -0.0, "-0.0"), ("DOUBLE", float("nan"), "NaN"), ("DOUBLE", -1e300, "-1.0E300")),
        *(
            ("FLOAT", 1e7, "1.0E7"),
            ("FLOAT", 9_999_999.0, "9999999.0"),
            ("FLOAT", 0.1, "0.1"),
            ("DOUBLE", 0.001, "0.001"),
        ),
        *(("BYTES", b"\x80\xff", "[-128, -1]"), ("BYTES", b"", "[]")),
        *(("TIMESTAMP(3)", 0, "1970-01-01T00:00"), ("TIMESTAMP_LTZ(3)", 0, "1970-01-01T00:00:00Z")),
        ("TIMESTAMP(6)", 253_402_300_800_000_001, "+10000-01-01T00:00:00.000001"),
        *(("DATE", -719_528, "0000-01-01"), ("DATE", -719_529, "-0001-12-31"), ("DATE", 2_932_896, "9999-12-31")),
        *(("TIME(0)", 0, "00:00"), ("DATE", 11_016, "2000-02-29"), ("DATE", 11_017, "2000-03-01")),
    ],
)
def test_numbers_and_moments_are_printed_as_by_java(kind, value, text):
    data_type = parse_type(kind)
    assert format_values(pa.array([value], arrow_type(data_type)), data_type) == [text]
