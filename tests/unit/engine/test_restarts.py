"""What restart strategies say to failures, on a clock that the tests turn."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.runs.restarts import Restarts
from penstock.settings import ExponentialDelay, FailureRate, FixedDelay


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def seconds(number):
    return timedelta(seconds=number)


def middle(low, high):
    return (low + high) / 2


def test_without_a_strategy_the_first_failure_is_the_last():
    restarts = Restarts(None)
    assert restarts.after_failure() is None
    assert restarts.count == 0


@pytest.mark.parametrize("attempts", [0, 1, 3])
def test_a_fixed_delay_allows_so_many_in_all(attempts):
    restarts = Restarts(FixedDelay(attempts=attempts, delay=seconds(1.5)))
    made = [restarts.after_failure() for _ in range(attempts)]
    assert [each.number for each in made] == list(range(1, attempts + 1))
    assert {each.delay for each in made} <= {1.5}
    assert restarts.after_failure() is None
    assert restarts.count == attempts


def test_a_restart_in_words():
    fixed = Restarts(FixedDelay(attempts=5, delay=seconds(1.5)))
    fixed.after_failure()
    assert str(fixed.after_failure()) == "restart 2 of at most 5 in 1.5 s"
    rate = FailureRate(max_failures_per_interval=3, delay=seconds(10))
    assert str(Restarts(rate).after_failure()) == "restart 1 (1 of at most 3 in 1 min) in 10 s"
    exponential = ExponentialDelay(initial_backoff=timedelta(milliseconds=1234))
    assert str(Restarts(exponential, uniform=middle).after_failure()) == "restart 1 in 1.23 s"
    limited = ExponentialDelay(attempts_before_reset_backoff=4)
    assert str(Restarts(limited, uniform=middle).after_failure()) == (
        "restart 1 (1 of at most 4 unless it runs for 1 h) in 1 s"
    )


# --- failure rate --------------------------------------------------------------------------------------------


def test_failures_at_both_ends_of_the_interval_count():
    clock = Clock()
    restarts = Restarts(FailureRate(max_failures_per_interval=1, failure_rate_interval=seconds(60)), clock)
    assert restarts.after_failure() is not None
    clock.now += 60.5
    assert restarts.after_failure() is not None
    clock.now += 60
    assert restarts.after_failure() is None


@given(
    gaps=st.lists(st.integers(0, 100), min_size=1, max_size=50),
    most=st.integers(1, 5),
    interval=st.integers(1, 60),
)
def test_failures_end_the_job_when_and_only_when_too_many_are_in_one_interval(gaps, most, interval):
    clock = Clock()
    strategy = FailureRate(max_failures_per_interval=most, failure_rate_interval=seconds(interval))
    restarts = Restarts(strategy, clock)
    failed = []
    for gap in gaps:
        clock.now += gap
        failed.append(clock.now)
        within = [at for at in failed if clock.now - at <= interval]
        restart = restarts.after_failure()
        assert (restart is None) == (len(within) > most)
        if restart is None:
            break
    assert restarts.count == len(failed) - (restart is None)


# --- exponential delay ---------------------------------------------------------------------------------------


def test_pauses_grow_to_the_longest_and_stay():
    clock = Clock()
    strategy = ExponentialDelay(max_backoff=seconds(10), backoff_multiplier=2.0)
    restarts = Restarts(strategy, clock, middle)
    delays = []
    for _ in range(6):
        delays.append(restarts.after_failure().delay)
        clock.now += delays[-1]
    assert delays == [1, 2, 4, 8, 10, 10]


def test_time_without_failure_counts_from_the_end_of_the_pause():
    clock = Clock()
    strategy = ExponentialDelay(
        backoff_multiplier=2.0, reset_backoff_threshold=seconds(100), attempts_before_reset_backoff=2
    )
    restarts = Restarts(strategy, clock, middle)
    assert restarts.after_failure().delay == 1
    clock.now += 1 + 99.9
    assert restarts.after_failure().delay == 2
    clock.now += 2 + 100
    restart = restarts.after_failure()
    assert (restart.delay, restart.number) == (1, 3)
    clock.now += 1
    assert restarts.after_failure().delay == 2
    clock.now += 2
    assert restarts.after_failure() is None
    assert restarts.count == 4


def test_pauses_stay_finite_for_ever():
    restarts = Restarts(ExponentialDelay(backoff_multiplier=1e300), Clock(), middle)
    assert [restarts.after_failure().delay for _ in range(50)] == [1] + [60] * 49


@given(
    gaps=st.lists(st.floats(0, 500), max_size=40),
    initial=st.integers(1, 20),
    longest=st.integers(20, 200),
    multiplier=st.floats(1.01, 5),
    threshold=st.integers(1, 300),
    jitter=st.floats(0, 1),
    chance=st.randoms(use_true_random=False),
)
def test_pauses_keep_their_bounds_and_start_anew_after_the_threshold(
    gaps, initial, longest, multiplier, threshold, jitter, chance
):
    clock = Clock()
    strategy = ExponentialDelay(
        initial_backoff=seconds(initial),
        max_backoff=seconds(longest),
        backoff_multiplier=multiplier,
        reset_backoff_threshold=seconds(threshold),
        jitter_factor=jitter,
    )
    restarts = Restarts(strategy, clock, chance.uniform)
    row = 0
    for number, gap in enumerate((0.0, *gaps), start=1):
        ran = clock.now + gap - clock.now
        clock.now += gap
        row = 0 if number == 1 or ran >= threshold else row + 1
        restart = restarts.after_failure()
        assert restart.number == number
        base = initial * multiplier**row
        low, high = base * (1 - jitter), base * (1 + jitter)
        slack = 1e-6 * base
        assert max(initial, min(low, longest)) - slack <= restart.delay <= max(initial, min(high, longest)) + slack
        clock.now += restart.delay


@given(multiplier=st.floats(1.01, 10))
def test_without_jitter_no_pause_is_shorter_than_the_one_before(multiplier):
    restarts = Restarts(ExponentialDelay(backoff_multiplier=multiplier, jitter_factor=0.0), Clock())
    delays = [restarts.after_failure().delay for _ in range(100)]
    assert all(one <= other for one, other in pairwise(delays))
    assert (delays[0], max(delays)) == (1, 60 if multiplier**99 >= 60 else max(delays))
