"""Restart strategies as texts by Flink's keys."""

from __future__ import annotations

from datetime import timedelta

import pytest

from penstock.errors import OptionsError
from penstock.plan.explain import explain
from penstock.plan.nodes import Job
from penstock.settings import ExponentialDelay, FailureRate, FixedDelay, Settings
from penstock.settings.given import KEYS, GivenSettings
from penstock.settings.restart import find_without_effect

SECOND = timedelta(seconds=1)


def keys(**options):
    """Keys as Flink writes them, from ``fixed_delay__attempts`` and the like."""
    return {"restart-strategy." + key.replace("__", ".").replace("_", "-"): text for key, text in options.items()}


def strategy_of(given):
    """The strategy of a job with these settings."""
    settings = GivenSettings()
    for key, text in given.items():
        settings.put(key, text, "here, line 3")
    return settings.settings().restart


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("none", None),
        ("off", None),
        ("disable", None),
        ("fixed-delay", FixedDelay()),
        ("fixeddelay", FixedDelay()),
        ("failure-rate", FailureRate()),
        ("failurerate", FailureRate()),
        ("exponential-delay", ExponentialDelay()),
        (" ExponentialDelay ", ExponentialDelay()),
    ],
)
def test_every_name_that_flink_knows(text, wanted):
    assert strategy_of({"restart-strategy.type": text}) == wanted
    assert strategy_of({"restart-strategy": text}) == wanted


def test_without_a_name_nothing_is_restarted():
    assert strategy_of({}) is None
    assert strategy_of(keys(fixed_delay__attempts="3")) is None


def test_an_interval_of_checkpoints_brings_the_restarts_of_flink():
    interval = {"execution.checkpointing.interval": "10 s"}
    assert strategy_of(interval) == ExponentialDelay()
    assert strategy_of(interval | keys(exponential_delay__max_backoff="5 s")) == ExponentialDelay(
        max_backoff=5 * SECOND
    )
    assert strategy_of(interval | keys(type="none")) is None
    assert strategy_of(interval | keys(type="fixed-delay")) == FixedDelay()


def test_the_key_of_today_wins_over_the_former_one():
    given = {"restart-strategy": "fixed-delay", "restart-strategy.type": "failure-rate"}
    assert strategy_of(given) == FailureRate()


def test_the_defaults_are_flinks():
    assert FixedDelay() == FixedDelay(attempts=1, delay=SECOND)
    assert FailureRate() == FailureRate(max_failures_per_interval=1, failure_rate_interval=60 * SECOND, delay=SECOND)
    assert ExponentialDelay() == ExponentialDelay(
        initial_backoff=SECOND,
        max_backoff=60 * SECOND,
        backoff_multiplier=1.5,
        reset_backoff_threshold=3600 * SECOND,
        jitter_factor=0.1,
        attempts_before_reset_backoff=None,
    )


def test_every_option_is_read():
    assert strategy_of(keys(type="fixed-delay", fixed_delay__attempts="10", fixed_delay__delay="10 s")) == FixedDelay(
        attempts=10, delay=10 * SECOND
    )
    assert strategy_of(
        keys(
            type="failure-rate",
            failure_rate__max_failures_per_interval="3",
            failure_rate__failure_rate_interval="5 min",
            failure_rate__delay="0",
        )
    ) == FailureRate(max_failures_per_interval=3, failure_rate_interval=300 * SECOND, delay=timedelta(0))
    assert strategy_of(
        keys(
            type="exponential-delay",
            exponential_delay__initial_backoff="2 s",
            exponential_delay__max_backoff="2 min",
            exponential_delay__backoff_multiplier="1.4",
            exponential_delay__reset_backoff_threshold="10 min",
            exponential_delay__jitter_factor="0.2",
            exponential_delay__attempts_before_reset_backoff="10",
        )
    ) == ExponentialDelay(
        initial_backoff=2 * SECOND,
        max_backoff=120 * SECOND,
        backoff_multiplier=1.4,
        reset_backoff_threshold=600 * SECOND,
        jitter_factor=0.2,
        attempts_before_reset_backoff=10,
    )
    assert sum(name == "restart" for name, _ in KEYS.values()) == 2 + 2 + 3 + 6


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        (
            "type",
            "sometimes",
            "expected one of 'fixed-delay', 'failure-rate', 'exponential-delay', 'none', 'off', 'disable'",
        ),
        ("fixed-delay.attempts", "-1", "expected a number between 0 and"),
        ("fixed-delay.attempts", "many", "expected a whole number"),
        ("fixed-delay.delay", "-1 s", "expected a duration of 0 ms or more"),
        ("fixed-delay.delay", "soon", "expected a duration"),
        ("failure-rate.max-failures-per-interval", "0", "expected a number between 1 and"),
        ("failure-rate.failure-rate-interval", "0 s", "expected a duration of 1 ms or more"),
        ("failure-rate.delay", "-1", "expected a duration of 0 ms or more"),
        ("exponential-delay.initial-backoff", "0 s", "expected a duration of 1 ms or more"),
        ("exponential-delay.max-backoff", "-5", "expected a duration of 1 ms or more"),
        ("exponential-delay.backoff-multiplier", "1", "expected a number greater than 1"),
        ("exponential-delay.backoff-multiplier", "nan", "expected a number greater than 1"),
        ("exponential-delay.backoff-multiplier", "inf", "expected a number greater than 1"),
        ("exponential-delay.backoff-multiplier", "twice", "expected a number"),
        ("exponential-delay.reset-backoff-threshold", "0", "expected a duration of 1 ms or more"),
        ("exponential-delay.jitter-factor", "1.1", "expected a number from 0 to 1"),
        ("exponential-delay.jitter-factor", "-0.1", "expected a number from 0 to 1"),
        ("exponential-delay.attempts-before-reset-backoff", "0", "expected a number between 1 and"),
    ],
)
def test_what_means_nothing_is_refused_with_its_place(key, text, expected):
    key = f"restart-strategy.{key}"
    with pytest.raises(OptionsError) as raised:
        strategy_of({key: text})
    assert str(raised.value).startswith(f"here, line 3: '{key}': {expected}")
    assert f"not '{text}'" in str(raised.value)


def test_all_problems_are_reported_at_once():
    with pytest.raises(OptionsError) as raised:
        FixedDelay.from_text(
            keys(fixed_delay__attempts="-1", fixed_delay__delay="x"), prefix="restart-strategy.fixed-delay."
        )
    assert len(raised.value.problems) == 2


@pytest.mark.parametrize(
    ("given", "blamed"),
    [
        ({"exponential_delay__initial_backoff": "5 min"}, "initial-backoff"),
        ({"exponential_delay__max_backoff": "10 ms"}, "max-backoff"),
        ({"exponential_delay__initial_backoff": "2 s", "exponential_delay__max_backoff": "1 s"}, "max-backoff"),
    ],
)
def test_the_first_pause_is_not_longer_than_the_longest(given, blamed):
    with pytest.raises(OptionsError) as raised:
        strategy_of(keys(type="exponential-delay", **given))
    (problem,) = raised.value.problems
    assert problem.key == f"restart-strategy.exponential-delay.{blamed}"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "'restart-strategy.type' is not set"),
        ({"type": "none"}, "restarts are switched off"),
        ({"type": "failurerate"}, "'restart-strategy.type' is 'failure-rate'"),
    ],
)
def test_keys_of_another_strategy_are_remarked(given, why):
    key = "restart-strategy.fixed-delay.delay"
    given = keys(failure_rate__delay="1 s", fixed_delay__delay="1 s", **given)
    remarks = find_without_effect(given)
    assert remarks[key] == f"'{key}' has no effect: {why}"
    assert ("restart-strategy.failure-rate.delay" in remarks) == (why != "'restart-strategy.type' is 'failure-rate'")
    assert find_without_effect(keys(type="fixed-delay", fixed_delay__delay="1 s")) == {}


@pytest.mark.parametrize(
    ("strategy", "line"),
    [
        (FixedDelay(attempts=3), "restarts: at most 3, 1 s after a failure"),
        (FailureRate(), "restarts: at most 1 in 1 min, 1 s after a failure"),
        (
            ExponentialDelay(),
            "restarts: any number, 1 s to 1 min after a failure; reset after 1 h without a failure",
        ),
    ],
)
def test_the_strategy_is_explained(strategy, line):
    assert f"  {line}\n" in explain(Job("j", (), Settings(restart=strategy))) + "\n"
    assert "restarts" not in explain(Job("j", ()))
