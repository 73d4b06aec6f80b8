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


places = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 9))
waiting = st.dictionaries(places, st.integers(0, 50) | st.integers(0, 10**9), max_size=8)
most = st.integers(1, 60) | st.integers(1, 10**9)


@settings(deadline=None)
@given(waiting, most)
def test_a_batch_has_all_there_is_or_the_most_exactly(waiting, most):
    shares = Admission(options(max_records_per_trigger=str(most))).admit(waiting)

    assert shares.keys() == waiting.keys()
    assert all(0 <= shares[place] <= waiting[place] for place in waiting)
    assert sum(shares.values()) == min(sum(waiting.values()), most)


@settings(deadline=None)
@given(waiting, most)
def test_shares_are_in_proportion_and_nobody_waits_behind_a_larger_place(waiting, most):
    shares, total = Admission(options(max_records_per_trigger=str(most))).admit(waiting), sum(waiting.values())
    there = [place for place, count in waiting.items() if count]

    if total > most:
        assert all(abs(shares[place] - count * most / total) <= len(there) for place, count in waiting.items())
        if most >= len(there):
            assert all(shares[place] for place in there)


def of_one(admission: Admission, waiting: int = 10**9, **how: bool) -> int:
    """How many records of the only partition a batch gets."""
    return admission.admit({("a", 0): waiting}, **how)["a", 0]


@settings(deadline=None)
@given(st.integers(1, 10**6), st.lists(st.floats(0, 100), max_size=50))
def test_the_rate_is_kept_over_any_sequence_of_plannings(rate, pauses):
    clock = Clock()
    admission = Admission(options(max_records_per_second=str(rate), max_records_per_trigger=str(10**9)), clock)
    granted = 0
    for pause in pauses:
        clock.now += pause
        granted += of_one(admission)

    allowed = (1 + sum(pauses)) * rate if pauses else 0
    assert granted <= allowed + 1e-3
    assert granted >= allowed - 1 - 1e-3


def test_what_is_not_used_is_not_kept():
    clock = Clock()
    admission = Admission(options(max_records_per_second="100", max_records_per_trigger="1000"), clock)

    assert of_one(admission) == 100
    clock.now += 60
    assert of_one(admission) == 1000  # of six thousand
    clock.now += 0.25
    assert of_one(admission) == 25


def test_less_than_a_record_is_kept():
    clock = Clock()
    admission = Admission(options(max_records_per_second="2"), clock)
    assert (of_one(admission), of_one(admission)) == (2, 0)

    clock.now += 0.25
    assert of_one(admission) == 0
    clock.now += 0.25
    assert of_one(admission) == 1


def test_a_scan_that_must_not_idle_waits_until_the_rate_allows_a_record():
    admission = Admission(options(max_records_per_second="50"))
    assert 1 <= of_one(admission, 1000, idles=False) <= 51
    assert of_one(admission, 1000, idles=False) >= 1


def test_without_a_rate_a_batch_has_what_it_may_have():
    admission = Admission(options(max_records_per_trigger="5"), Clock())
    assert [of_one(admission, waiting) for waiting in (8, 3, 8)] == [5, 3, 5]


def test_a_batch_waits_for_its_minimum_or_until_the_delay_has_passed():
    clock = Clock()
    admission = Admission(options(min_records_per_trigger="10", max_trigger_delay="1 min"), clock)

    assert of_one(admission, 9) == 0
    assert of_one(admission, 9, last=True) == 9  # no more will come
    assert of_one(admission, 0) == 0  # there is nothing to wait with
    clock.now += 59
    assert of_one(admission, 9) == 0
    clock.now += 1
    assert of_one(admission, 9) == 9
    assert of_one(admission, 9) == 0
    assert of_one(admission, 10) == 10


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
