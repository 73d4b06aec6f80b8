"""Local times of zones: in all years, and around the moments at which clocks are changed. The texts are what Flink 2.2
gives in the zone Europe/Berlin, unless a test says otherwise."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from penstock.exact.timestamps import format_timestamp
from penstock.flow.kernels.moments.far_times import LISTED_END, ahead_at, ahead_of_local, first_moment
from penstock.flow.kernels.session import Session
from penstock.flow.rows.expressions import Evaluator, compile_expression
from penstock.flow.time.zones import Zone
from penstock.sql import parse_expression
from penstock.types import TimestampType, parse_columns

ZONES = ["Europe/Berlin", "America/New_York", "Australia/Sydney", "Asia/Kolkata", "America/St_Johns"]
HOUR = 3_600_000_000


def value(sql: str, zone: str = "Europe/Berlin") -> object:
    """The value of an expression; a timestamp as text."""
    bound = parse_expression(sql, parse_columns("a INT"))
    found = compile_expression(bound, pa.schema([]), Session(zone))
    assert isinstance(found, Evaluator), found
    (vector,) = found.vectors(pa.record_batch([pa.array([1])], names=["a"]))
    assert not vector.failures
    made = vector.spread(1)
    if isinstance(bound.type, TimestampType):
        return format_timestamp(made.cast(pa.int64())[0].as_py(), zone=bound.type.local_zone)
    return made[0].as_py()


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("CAST(TO_TIMESTAMP_LTZ(9223372036855, 3) AS STRING)", "2262-04-12 01:47:16.855"),
        ("CAST(TO_TIMESTAMP_LTZ(4118000000000, 3) AS STRING)", "2100-06-30 02:53:20.000"),
        ("CAST(TO_TIMESTAMP_LTZ(253402297199000, 3) AS STRING)", "9999-12-31 23:59:59.000"),
        ("CAST(TO_TIMESTAMP_LTZ(-62135596800000, 3) AS STRING)", "0001-01-01 00:53:28.000"),
        ("CAST(TIMESTAMP '9999-07-01 00:00:00' AS TIMESTAMP_LTZ(3))", "9999-06-30 22:00:00Z"),
        ("CAST('3026-10-25 02:30:00' AS TIMESTAMP_LTZ(3))", "3026-10-25 00:30:00Z"),
        ("UNIX_TIMESTAMP('9999-07-01 00:00:00')", 253_386_396_000),
        ("CONVERT_TZ('9999-07-01 00:00:00', 'Europe/Berlin', 'UTC')", "9999-06-30 22:00:00"),
        ("CONVERT_TZ('9999-12-31 23:59:59', 'UTC', 'Europe/Berlin')", "10000-01-01 00:59:59"),
        ("CONVERT_TZ('10000-12-31 23:59:59', 'UTC', 'Asia/Tokyo')", "10001-01-01 08:59:59"),
        ("TO_TIMESTAMP_LTZ('9999-07-01 00:00:00', 'yyyy-MM-dd HH:mm:ss', 'Europe/Berlin')", "9999-06-30 22:00:00Z"),
        ("EXTRACT(HOUR FROM TO_TIMESTAMP_LTZ(32503680000000, 3))", 1),
        ("FLOOR(TO_TIMESTAMP_LTZ(253402214400000, 3) TO DAY)", "9999-12-30 23:00:00Z"),
        ("CEIL(TO_TIMESTAMP_LTZ(253402214400000, 3) TO YEAR)", "9999-12-31 23:00:00Z"),
    ],
)
def test_zones_have_their_rules_in_all_years(sql, wanted):
    assert value(sql) == wanted


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        # 02:30 comes twice: CAST takes the first moment, the functions of Java's calendar the second one
        ("CAST(TIMESTAMP '2026-10-25 02:30:00' AS TIMESTAMP_LTZ(3))", "2026-10-25 00:30:00Z"),
        ("CAST('2026-10-25 02:30:00' AS TIMESTAMP_LTZ(3))", "2026-10-25 00:30:00Z"),
        ("TO_TIMESTAMP_LTZ('2026-10-25 02:30:00', 'yyyy-MM-dd HH:mm:ss', 'Europe/Berlin')", "2026-10-25 00:30:00Z"),
        ("UNIX_TIMESTAMP('2026-10-25 02:30:00')", 1_792_891_800),
        ("UNIX_TIMESTAMP('2026-10-25 02:30', 'yyyy-MM-dd HH:mm')", 1_792_891_800),
        ("CONVERT_TZ('2026-10-25 02:30:00', 'Europe/Berlin', 'UTC')", "2026-10-25 01:30:00"),
        ("CONVERT_TZ('2026-11-01 01:30:00', 'America/New_York', 'UTC')", "2026-11-01 06:30:00"),
        # 02:30 is left out
        ("CAST(TIMESTAMP '2026-03-29 02:30:00' AS TIMESTAMP_LTZ(3))", "2026-03-29 01:30:00Z"),
        ("UNIX_TIMESTAMP('2026-03-29 02:30:00')", 1_774_747_800),
        ("CONVERT_TZ('2026-03-29 02:30:00', 'Europe/Berlin', 'UTC')", "2026-03-29 01:30:00"),
    ],
)
def test_the_hour_that_comes_twice_and_the_one_that_is_left_out(sql, wanted):
    assert value(sql) == wanted


@pytest.mark.parametrize(
    ("day", "unit", "wanted", "flink"),
    [
        ("2026-10-25", "DAY", "2026-10-24 22:00:00Z", "2026-10-24 23:00:00Z"),
        ("2026-03-29", "DAY", "2026-03-28 23:00:00Z", "2026-03-28 22:00:00Z"),
        ("2026-10-31", "MONTH", "2026-09-30 22:00:00Z", "2026-09-30 23:00:00Z"),
        ("2026-03-31", "MONTH", "2026-02-28 23:00:00Z", "2026-02-28 22:00:00Z"),
        ("2026-07-31", "YEAR", "2025-12-31 23:00:00Z", "2025-12-31 22:00:00Z"),
    ],
)
def test_the_start_of_a_day_or_month_is_that_of_its_own_clocks_which_flink_gets_wrong(day, unit, wanted, flink):
    found = value(f"FLOOR(CAST(TIMESTAMP '{day} 12:00:00' AS TIMESTAMP_LTZ(3)) TO {unit})")
    assert found == wanted != flink


@pytest.mark.parametrize("name", ZONES)
def test_far_times_are_computed_as_near_ones(name):
    """One moment at a time, against Arrow, in years for which it knows the rules."""
    place, zone = ZoneInfo(name), Zone(name)
    hours = np.arange(0, 26_000, 0.5)
    near = (LISTED_END - 3 * 365 * 24 * HOUR + hours * HOUR).astype(np.int64)
    local = zone.local(near // 1000) * 1000
    assert [each + ahead_at(place, each) for each in near.tolist()] == local.tolist()
    assert [first_moment(place, each) // 1000 for each in near.tolist()] == zone.instants(near // 1000).tolist()
    for last in (False, True):
        again = [each - ahead_of_local(place, each, last=last) for each in local.tolist()]
        differ = np.array(again) - near
        assert set(differ.tolist()) <= {0, HOUR if last else -HOUR, HOUR // 2 if last else -HOUR // 2}
        assert (differ == 0).mean() > 0.99


@pytest.mark.parametrize("name", ZONES)
def test_the_rules_of_far_years_are_those_of_the_last_listed_ones(name):
    zone, era = Zone(name), 400 * 365 * 86_400_000 + 97 * 86_400_000
    hours = np.arange(0, 9_000, 0.5) * 3_600_000
    for start in (1_700_000_000_000, 2_000_000_000_000):
        moments = (start + hours).astype(np.int64)
        for eras in (1, 19, 20, 50):
            far = moments + eras * era
            assert (zone.local(far) - eras * era).tolist() == zone.local(moments).tolist()
            assert (zone.instants(far) - eras * era).tolist() == zone.instants(moments).tolist()
