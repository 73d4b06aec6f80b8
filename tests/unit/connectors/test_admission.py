"""How many records a batch may have, by a clock that the test moves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.source.admission import Admission
from penstock.connectors.kafka.table.options import KafkaSourceOptions
from penstock.errors import OptionsError
from penstock.spi import Column, TableDefinition
from penstock.types import BIGINT


class Clock:
    """Stands still until it is moved."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def options(**given) -> KafkaSourceOptions:
    base = {"topic": "a", "properties.bootstrap.servers": "localhost:1", "format": "json"}
    base |= {f"scan.{key.replace('_', '-')}": value for key, value in given.items()}
    return KafkaConnector().scan(TableDefinition("t", (Column("id", BIGINT),), base)).options


@settings(deadline=None)
@given(st.integers(1, 10**6), st.lists(st.floats(0, 100), max_size=50))
def test_the_rate_is_kept_over_any_sequence_of_plannings(rate, pauses):
    clock = Clock()
    admission = Admission(options(max_records_per_second=str(rate)), clock)
    granted = 0
    for pause in pauses:
        clock.now += pause
        granted += admission.grant(None)

    allowed = (1 + sum(pauses)) * rate if pauses else 0
    assert granted <= allowed + 1e-3
    assert granted >= allowed - 1 - 1e-3


def test_what_is_not_used_is_not_kept():
    clock = Clock()
    admission = Admission(options(max_records_per_second="100"), clock)

    assert admission.grant(1000) == 100
    clock.now += 60
    assert admission.grant(1000) == 1000  # of six thousand
    clock.now += 0.25
    assert admission.grant(1000) == 25


def test_less_than_a_record_is_kept_and_the_pause_is_known():
    clock = Clock()
    admission = Admission(options(max_records_per_second="2"), clock)
    assert (admission.grant(None), admission.grant(None)) == (2, 0)

    clock.now += 0.25
    assert admission.grant(None) == 0
    assert admission.pause() == pytest.approx(0.25)
    clock.now += 0.25
    assert admission.grant(None) == 1


def test_without_a_rate_a_batch_has_what_it_may_have():
    admission = Admission(options(), Clock())
    assert [admission.grant(most) for most in (5, None, 5)] == [5, None, 5]
    assert not admission.postpones(1)


def test_a_batch_waits_for_its_minimum_or_until_the_delay_has_passed():
    clock = Clock()
    admission = Admission(options(min_records_per_trigger="10", max_trigger_delay="1 min"), clock)

    assert admission.postpones(9)
    assert not admission.postpones(10)
    assert not admission.postpones(0)  # there is nothing to wait with
    clock.now += 59
    assert admission.postpones(9)
    clock.now += 1
    assert not admission.postpones(9)
    admission.began()
    assert admission.postpones(9)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"max_records_per_second": "0"}, "'scan.max-records-per-second': expected 1 or more, not '0'"),
        ({"min_records_per_trigger": "0"}, "'scan.min-records-per-trigger': expected 1 or more, not '0'"),
        (
            {"min_records_per_trigger": "9", "max_records_per_trigger": "8"},
            "'scan.min-records-per-trigger': is more than 'scan.max-records-per-trigger', which is 8",
        ),
        ({"max_trigger_delay": "0 s"}, "'scan.max-trigger-delay': expected more than 0, not '0:00:00'"),
    ],
)
def test_amounts_that_mean_nothing_are_refused(given, expected):
    with pytest.raises(OptionsError) as error:
        options(**given)
    assert expected in str(error.value)
