"""When a failed job restarts: Flink's restart strategies, with its keys and defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from penstock.errors import Problem
from penstock.options import DURATION, Codec, OptionSet, Origin, number, one_of, opt
from penstock.settings.codecs import restrict


def _parse_double(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("expected a number") from None


_DELAY = restrict(DURATION, lambda value: value >= timedelta(0), "a duration of 0 ms or more")
_SPAN = restrict(DURATION, lambda value: value >= timedelta(milliseconds=1), "a duration of 1 ms or more")
_DOUBLE = Codec("Double", _parse_double)


@dataclass(frozen=True, kw_only=True)
class FixedDelay(OptionSet):
    """A fixed number of restarts, each after the same delay."""

    attempts: int = opt("attempts", number(0), default=1, doc="Restarts before the job fails.", example="10")
    delay: timedelta = opt("delay", _DELAY, default=timedelta(seconds=1), doc="Pause before a restart.", example="10 s")

    def describe(self) -> str:
        """One line for people."""
        return f"at most {self.attempts}, {DURATION.show(self.delay)} after a failure"


@dataclass(frozen=True, kw_only=True)
class FailureRate(OptionSet):
    """Restarts until more failures than allowed fall into an interval, which ends with the latest failure."""

    max_failures_per_interval: int = opt(
        "max-failures-per-interval",
        number(1),
        default=1,
        doc="Failures within the interval after which the job restarts; one more ends it.",
        example="3",
    )
    failure_rate_interval: timedelta = opt(
        "failure-rate-interval", _SPAN, default=timedelta(minutes=1), doc="Length of the interval.", example="5 min"
    )
    delay: timedelta = opt("delay", _DELAY, default=timedelta(seconds=1), doc="Pause before a restart.", example="10 s")

    def describe(self) -> str:
        """One line for people."""
        return (
            f"at most {self.max_failures_per_interval} in {DURATION.show(self.failure_rate_interval)}, "
            f"{DURATION.show(self.delay)} after a failure"
        )


def _check_order(strategy: ExponentialDelay) -> Iterator[Problem]:
    initial, most = strategy.initial_backoff, strategy.max_backoff
    if initial > most and most == ExponentialDelay().max_backoff:
        reason = f"expected {DURATION.show(most)} or less, not {DURATION.show(initial)}"
        yield Problem(f"{reason}: no pause is longer than max-backoff", "initial-backoff", hint="set that, too")
    elif initial > most:
        reason = f"expected {DURATION.show(initial)} or more, not {DURATION.show(most)}"
        yield Problem(f"{reason}: no pause is shorter than initial-backoff", "max-backoff", hint="set that, too")


@dataclass(frozen=True, kw_only=True)
class ExponentialDelay(OptionSet):
    """Restarts after a delay that grows with every restart, and is reset after a time without failures."""

    initial_backoff: timedelta = opt(
        "initial-backoff", _SPAN, default=timedelta(seconds=1), doc="Pause before the first restart.", example="2 s"
    )
    max_backoff: timedelta = opt(
        "max-backoff", _SPAN, default=timedelta(minutes=1), doc="Longest pause before a restart.", example="5 min"
    )
    backoff_multiplier: float = opt(
        "backoff-multiplier",
        restrict(_DOUBLE, lambda value: 1 < value < float("inf"), "a number greater than 1"),
        default=1.5,
        doc="The factor from one pause to the next.",
        example="2",
    )
    reset_backoff_threshold: timedelta = opt(
        "reset-backoff-threshold",
        _SPAN,
        default=timedelta(hours=1),
        doc="After this time without a failure, the pause and the number of attempts are reset.",
        example="10 min",
    )
    jitter_factor: float = opt(
        "jitter-factor",
        restrict(_DOUBLE, lambda value: 0 <= value <= 1, "a number from 0 to 1"),
        default=0.1,
        doc="The fraction of a pause that is added or taken away at random, so that jobs do not restart together.",
        example="0",
    )
    attempts_before_reset_backoff: int | None = opt(
        "attempts-before-reset-backoff",
        number(1),
        default=None,
        default_text="(unlimited)",
        doc="Restarts before the job fails; a run as long as the threshold resets the count.",
        example="10",
    )

    rules = (_check_order,)

    def describe(self) -> str:
        """One line for people."""
        most = self.attempts_before_reset_backoff
        return (
            f"{'any number' if most is None else f'at most {most}'}, {DURATION.show(self.initial_backoff)} to "
            f"{DURATION.show(self.max_backoff)} after a failure; reset after "
            f"{DURATION.show(self.reset_backoff_threshold)} without a failure"
        )


RestartStrategy = FixedDelay | FailureRate | ExponentialDelay

#: The name of a strategy, which is also the part of its keys after :data:`PREFIX`, and its options.
STRATEGIES: dict[str, type[FixedDelay] | type[FailureRate] | type[ExponentialDelay]] = {
    "fixed-delay": FixedDelay,
    "failure-rate": FailureRate,
    "exponential-delay": ExponentialDelay,
}
PREFIX = "restart-strategy."
#: The strategy of jobs with an interval of checkpoints that choose none, as in Flink since 1.19.
DEFAULT_WITH_CHECKPOINTS = "exponential-delay"
#: The key that chooses the strategy, and its name before Flink 1.17.
TYPE_KEYS = ("restart-strategy.type", "restart-strategy")

_NONE = ("none", "off", "disable")
#: Flink also takes the names of strategies without a hyphen.
_PLAIN = {name.replace("-", ""): name for name in STRATEGIES}
TYPE = one_of(*STRATEGIES, *_NONE, fold=lambda text: _PLAIN.get(text.lower(), text.lower()))


def read_restart_strategy(given: Mapping[str, str], origin: Origin) -> RestartStrategy | None:
    """The strategy of the given settings; None, the default, for no restarts.

    Raises OptionsError with every value that cannot be read, or for values that contradict one another.
    """
    name = _find_name(given)
    return STRATEGIES[name].from_text(given, origin, f"{PREFIX}{name}.") if name else None


def find_without_effect(given: Mapping[str, str]) -> dict[str, str]:
    """The keys of strategies that were not chosen, each with a warning."""
    name = _find_name(given)
    why = f"'{TYPE_KEYS[0]}' is '{name}'"
    if not name:
        why = "restarts are switched off" if any(key in given for key in TYPE_KEYS) else f"'{TYPE_KEYS[0]}' is not set"
    keys = [key for key in given if key not in TYPE_KEYS and not (name and key.startswith(f"{PREFIX}{name}."))]
    return {key: f"'{key}' has no effect: {why}" for key in keys}


def _find_name(given: Mapping[str, str]) -> str:
    """The name of the strategy, empty for none."""
    name = next((str(TYPE.parse(given[key])) for key in TYPE_KEYS if key in given), "")
    return "" if name in _NONE else name
