"""The settings of an environment, as the calls of a program give them."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from penstock.common.calls import CALLS
from penstock.common.program_lines import ProgramLine
from penstock.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from penstock.settings.given import GivenSettings

_MILLISECOND = timedelta(milliseconds=1)


class CallSettings:
    """What an environment, its checkpoint configuration and its execution configuration share.

    A call with a key of Flink's does what SET does with that key. The values of other calls are kept, so that getters
    return them. A call without effect gives one warning.
    """

    def __init__(self) -> None:
        self.given = GivenSettings()
        self.restart: RestartStrategyConfiguration = RestartStrategies.fall_back_restart()
        self.local_parallelism = cores()
        self._kept: dict[str, Any] = {}
        self._said = 0
        self._noted: set[str] = set()

    def put(self, call: str, value: Any, key: str = "") -> None:
        """Do what ``call`` of :data:`~penstock.common.calls.CALLS` says; ``value`` as Flink's configuration has it, an
        integer of a duration in milliseconds. Raises OptionsError for a wrong value."""
        text = str(value).lower() if isinstance(value, bool) else str(value)
        self.given.put(key or CALLS[call].key, text, call.rpartition(".")[2])
        self.give_warnings()

    def value(self, call: str) -> Any:
        """The value of a key without effect that ``call`` sets, by default Flink's; durations in milliseconds."""
        found = self.given.without_effect(CALLS[call].key)
        return found // _MILLISECOND if isinstance(found, timedelta) else found

    def keep(self, call: str, value: Any) -> None:
        """Keep the value of a call without a key, and warn if it has no effect."""
        self._kept[call] = value
        if not CALLS[call].acts:
            self.note(call)

    def get_kept(self, call: str, default: Any) -> Any:
        """The value of a call that was kept."""
        return self._kept.get(call, default)

    def keep_flag(self, name: str, value: bool) -> None:
        """Keep the value of a pair of calls, one of which switches on what the other switches off."""
        self._kept[name] = value

    def flag(self, name: str, default: bool) -> bool:
        """The value of a pair of calls that was kept."""
        return bool(self._kept.get(name, default))

    def note(self, call: str) -> None:
        """Warn that a call has no effect, once."""
        if call not in self._noted:
            self._noted.add(call)
            name = call.rpartition(".")[2]
            ProgramLine.current().warn(f"{name} has no effect here. {CALLS[call].here}")

    def give_warnings(self) -> None:
        """Give the warnings of the settings that are new."""
        new, self._said = self.given.warnings[self._said :], len(self.given.warnings)
        for warning in new:
            ProgramLine.current().warn(warning)

    @property
    def parallelism(self) -> int:
        """The tasks that run at a time: as set, else one for each core."""
        return int(self.given.value("parallelism") or self.local_parallelism)


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
