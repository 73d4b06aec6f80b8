"""Restart strategies for failed jobs, by PyFlink's names."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeVar

from penstock.common.arguments import expect
from penstock.options import DURATION, OptionSet, Origin
from penstock.settings import ExponentialDelay, FailureRate, FixedDelay, RestartStrategy
from penstock.settings.restart import PREFIX, STRATEGIES

S = TypeVar("S", bound=OptionSet)


def expect_restart(given: Any) -> RestartStrategyConfiguration:
    """``given``, a restart strategy. Raises ArgumentError for anything else."""
    hint = "for example RestartStrategies.fixed_delay_restart(3, 10_000)"
    return expect(given, RestartStrategyConfiguration, "set_restart_strategy", hint)


class RestartStrategyConfiguration:
    """A restart strategy; :class:`RestartStrategies` makes them. ``strategy`` is its form in the plan."""

    def __init__(self, strategy: RestartStrategy | None = None):
        self.strategy = strategy

    def get_description(self) -> str:
        """The strategy in words."""
        return f"restarts: {self.strategy.describe()}" if self.strategy else "no restarts"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.strategy == self.strategy

    def __hash__(self) -> int:
        return hash((type(self), self.strategy))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.get_description()}>"


class RestartStrategies:
    """Makes restart strategies. Times are milliseconds, or timedeltas. Invalid values raise OptionsError."""

    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A failure ends the job."""

    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Applies if no strategy is set: a job with an interval of checkpoints restarts after a delay that grows, and
        a failure ends any other."""

        def get_description(self) -> str:
            """The strategy in words."""
            return "exponential-delay with an interval of checkpoints, else no restarts"

    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A fixed number of restarts, each after the same delay."""

        strategy: FixedDelay

        def get_restart_attempts(self) -> int:
            """Restarts before the job fails."""
            return self.strategy.attempts

        def get_delay_between_attempts_interval(self) -> timedelta:
            """The pause before a restart."""
            return self.strategy.delay

    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Restarts as long as failures are rare."""

        strategy: FailureRate

        def get_max_failure_rate(self) -> int:
            """The failures within the interval that lead to a restart."""
            return self.strategy.max_failures_per_interval

        def get_failure_interval(self) -> timedelta:
            """The length of the interval."""
            return self.strategy.failure_rate_interval

        def get_delay_between_attempts_interval(self) -> timedelta:
            """The pause before a restart."""
            return self.strategy.delay

    class ExponentialDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Restarts after a delay that grows."""

        strategy: ExponentialDelay

        def get_initial_backoff(self) -> timedelta:
            """The pause before the first restart."""
            return self.strategy.initial_backoff

        def get_max_backoff(self) -> timedelta:
            """The longest pause."""
            return self.strategy.max_backoff

        def get_backoff_multiplier(self) -> float:
            """The factor between one pause and the next."""
            return self.strategy.backoff_multiplier

        def get_reset_backoff_threshold(self) -> timedelta:
            """The running time after which the pause is the initial one again."""
            return self.strategy.reset_backoff_threshold

        def get_jitter_factor(self) -> float:
            """The random part of a pause."""
            return self.strategy.jitter_factor

    @staticmethod
    def no_restart() -> RestartStrategyConfiguration:
        """A failure ends the job."""
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> RestartStrategyConfiguration:
        """What applies if no strategy is set."""
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: int | timedelta
    ) -> FixedDelayRestartStrategyConfiguration:
        """``restart_attempts`` restarts in all, each after ``delay_between_attempts``."""
        strategy = _check_strategy(FixedDelay, attempts=restart_attempts, delay=delay_between_attempts)
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(strategy)

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: int | timedelta, delay_interval: int | timedelta
    ) -> FailureRateRestartStrategyConfiguration:
        """Restarts after ``delay_interval``, unless ``failure_rate`` failures within ``failure_interval`` are
        exceeded."""
        strategy = _check_strategy(
            FailureRate,
            max_failures_per_interval=failure_rate,
            failure_rate_interval=failure_interval,
            delay=delay_interval,
        )
        return RestartStrategies.FailureRateRestartStrategyConfiguration(strategy)

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: int | timedelta,
        max_backoff: int | timedelta,
        backoff_multiplier: float,
        reset_backoff_threshold: int | timedelta,
        jitter_factor: float,
    ) -> ExponentialDelayRestartStrategyConfiguration:
        """Any number of restarts, after growing delays. Flink has this in Java only, with these arguments."""
        strategy = _check_strategy(
            ExponentialDelay,
            initial_backoff=initial_backoff,
            max_backoff=max_backoff,
            backoff_multiplier=backoff_multiplier,
            reset_backoff_threshold=reset_backoff_threshold,
            jitter_factor=jitter_factor,
        )
        return RestartStrategies.ExponentialDelayRestartStrategyConfiguration(strategy)

    @staticmethod
    def _from_plan(strategy: RestartStrategy | None) -> RestartStrategyConfiguration:
        """The configuration of a strategy in the plan."""
        if strategy is None:
            return RestartStrategies.no_restart()
        configurations: dict[type[RestartStrategy], type[RestartStrategyConfiguration]] = {
            FixedDelay: RestartStrategies.FixedDelayRestartStrategyConfiguration,
            FailureRate: RestartStrategies.FailureRateRestartStrategyConfiguration,
            ExponentialDelay: RestartStrategies.ExponentialDelayRestartStrategyConfiguration,
        }
        return configurations[type(strategy)](strategy)


def _check_strategy(cls: type[S], **given: float | timedelta) -> S:
    """A strategy with the same keys and checks as in SET."""
    prefix = next(f"{PREFIX}{name}." for name, each in STRATEGIES.items() if each is cls)
    text = {
        prefix + key.replace("_", "-"): DURATION.show(value) if isinstance(value, timedelta) else str(value)
        for key, value in given.items()
    }
    return cls.from_text(text, Origin("RestartStrategies"), prefix)
