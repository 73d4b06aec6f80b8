"""When a job that failed is started again, as PyFlink writes it."""

from __future__ import annotations

from datetime import timedelta

from penstock.options import DURATION, Origin
from penstock.settings import ExponentialDelay, FailureRate, FixedDelay, RestartStrategy
from penstock.settings.restart import PREFIX


class RestartStrategyConfiguration:
    """A restart strategy; :class:`RestartStrategies` makes them. ``strategy`` is what the plan carries."""

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
    """Makes restart strategies. Times are milliseconds, or timedeltas. Values that mean nothing raise OptionsError."""

    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A failure ends the job."""

    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """What applies where no strategy is set: a failure ends the job."""

    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """So many restarts in all, each after the same delay."""

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
            """Failures within the interval that are followed by a restart."""
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
            """Each pause is so many times the one before it."""
            return self.strategy.backoff_multiplier

        def get_reset_backoff_threshold(self) -> timedelta:
            """After running for so long, pauses are short again."""
            return self.strategy.reset_backoff_threshold

        def get_jitter_factor(self) -> float:
            """The part of a pause that is left to chance."""
            return self.strategy.jitter_factor

    @staticmethod
    def no_restart() -> RestartStrategyConfiguration:
        """A failure ends the job."""
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> RestartStrategyConfiguration:
        """What applies where no strategy is set: a failure ends the job."""
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: int | timedelta
    ) -> FixedDelayRestartStrategyConfiguration:
        """``restart_attempts`` restarts in all, each after ``delay_between_attempts``."""
        given = {"attempts": str(restart_attempts), "delay": _text(delay_between_attempts)}
        strategy = FixedDelay.from_text(*_as_set("fixed-delay", given))
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(strategy)

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: int | timedelta, delay_interval: int | timedelta
    ) -> FailureRateRestartStrategyConfiguration:
        """Restarts after ``delay_interval``, unless ``failure_rate`` failures within ``failure_interval`` are
        exceeded."""
        given = {
            "max-failures-per-interval": str(failure_rate),
            "failure-rate-interval": _text(failure_interval),
            "delay": _text(delay_interval),
        }
        strategy = FailureRate.from_text(*_as_set("failure-rate", given))
        return RestartStrategies.FailureRateRestartStrategyConfiguration(strategy)

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: int | timedelta,
        max_backoff: int | timedelta,
        backoff_multiplier: float,
        reset_backoff_threshold: int | timedelta,
        jitter_factor: float,
    ) -> ExponentialDelayRestartStrategyConfiguration:
        """Any number of restarts, after delays that grow. Flink has this in Java only, with these arguments."""
        given = {
            "initial-backoff": _text(initial_backoff),
            "max-backoff": _text(max_backoff),
            "backoff-multiplier": str(backoff_multiplier),
            "reset-backoff-threshold": _text(reset_backoff_threshold),
            "jitter-factor": str(jitter_factor),
        }
        strategy = ExponentialDelay.from_text(*_as_set("exponential-delay", given))
        return RestartStrategies.ExponentialDelayRestartStrategyConfiguration(strategy)

    @staticmethod
    def of(strategy: RestartStrategy | None) -> RestartStrategyConfiguration:
        """The configuration for a strategy of the plan."""
        match strategy:
            case FixedDelay():
                return RestartStrategies.FixedDelayRestartStrategyConfiguration(strategy)
            case FailureRate():
                return RestartStrategies.FailureRateRestartStrategyConfiguration(strategy)
            case ExponentialDelay():
                return RestartStrategies.ExponentialDelayRestartStrategyConfiguration(strategy)
        return RestartStrategies.no_restart()


def _text(time: int | timedelta) -> str:
    return DURATION.show(time) if isinstance(time, timedelta) else str(time)


def _as_set(name: str, given: dict[str, str]) -> tuple[dict[str, str], Origin, str]:
    """What ``from_text`` takes: the same keys and checks as in SET."""
    prefix = f"{PREFIX}{name}."
    return {prefix + key: text for key, text in given.items()}, Origin("RestartStrategies"), prefix
