"""SET: which keys there are, and what each of them means for a job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from penstock.errors import OptionsError, Problem
from penstock.options import BOOLEAN, DURATION, INTEGER, TEXT, Origin, nearest
from penstock.settings import Settings
from penstock.settings.kerberos import kerberos_keys, kerberos_of, kerberos_remarks
from penstock.settings.restart import restart_keys, strategy_of, without_effect
from penstock.sql.parse.source import Source
from penstock.sql.parse.statements import Reset, SetOption

__all__ = ["SET_KEYS", "WITHOUT_EFFECT", "Session"]


def _interval(text: str) -> timedelta:
    found: timedelta = DURATION.parse(text)
    if found <= timedelta(0):
        raise ValueError("expected a duration longer than nothing")
    return found


def _timeout(text: str) -> timedelta | None:
    return DURATION.parse(text) or None


def _parallelism(text: str) -> int:
    found: int = INTEGER.parse(text)
    if found < 1:
        raise ValueError("expected a whole number from 1")
    return found


def _zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise ValueError("expected a time zone such as 'UTC' or 'Europe/Berlin'") from None
    return text


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("expected something between the quotes")
    return text.strip()


def _one_of(*values: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.strip().lower() not in values:
            raise ValueError(f"expected one of {', '.join(values)}")
        return text.strip().lower()

    return parse


#: Key to the field of Settings that it sets ("" for the job's name) and how its text is read. The keys for ``restart``
#: and those for ``kerberos`` make one value together.
SET_KEYS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "pipeline.name": ("", _filled),
    "execution.checkpointing.interval": ("checkpoint_interval", _interval),
    "execution.checkpointing.dir": ("checkpoint_dir", _filled),
    "state.checkpoints.dir": ("checkpoint_dir", _filled),
    "parallelism.default": ("parallelism", _parallelism),
    "table.local-time-zone": ("session_time_zone", _zone),
    "table.exec.source.idle-timeout": ("idle_timeout", _timeout),
    "penstock.progress-topic": ("progress_topic", _filled),
    "penstock.adopt-progress": ("adopt_progress", BOOLEAN.parse),
    **{key: ("restart", parse) for key, parse in restart_keys().items()},
    **{key: ("kerberos", parse) for key, parse in kerberos_keys().items()},
}

#: Keys of Flink's that are understood and checked but change nothing here, so that files need no edit.
WITHOUT_EFFECT: dict[str, Callable[[str], Any]] = {
    "execution.checkpointing.mode": _one_of("exactly_once", "at_least_once"),
    "execution.runtime-mode": _one_of("streaming", "batch", "automatic"),
    "table.dml-sync": BOOLEAN.parse,
    **dict.fromkeys(
        (
            "execution.checkpointing.aligned-checkpoint-timeout",
            "execution.checkpointing.externalized-checkpoint-retention",
            "execution.checkpointing.incremental",
            "execution.checkpointing.max-concurrent-checkpoints",
            "execution.checkpointing.min-pause",
            "execution.checkpointing.num-retained",
            "execution.checkpointing.savepoint-dir",
            "execution.checkpointing.storage",
            "execution.checkpointing.timeout",
            "execution.checkpointing.tolerable-failed-checkpoints",
            "execution.checkpointing.unaligned.enabled",
            "execution.savepoint.path",
            "execution.state-recovery.path",
            "execution.target",
            "parallelism.max",
            "pipeline.auto-watermark-interval",
            "pipeline.jars",
            "pipeline.max-parallelism",
            "pipeline.object-reuse",
            "pipeline.operator-chaining.enabled",
            "rest.address",
            "rest.port",
            "sql-client.display.max-column-width",
            "sql-client.execution.result-mode",
            "sql-client.verbose",
            "state.backend",
            "state.backend.incremental",
            "state.backend.type",
            "state.savepoints.dir",
            "table.exec.mini-batch.allow-latency",
            "table.exec.mini-batch.enabled",
            "table.exec.mini-batch.size",
            "table.exec.resource.default-parallelism",
            "table.exec.sink.upsert-materialize",
            "table.exec.state.ttl",
            "table.optimizer.reuse-source-enabled",
            "table.sql-dialect",
            "taskmanager.memory.process.size",
            "taskmanager.numberOfTaskSlots",
        ),
        TEXT.parse,
    ),
}

#: What is the case anyway, so that no word is lost about it.
_AS_EVER = {
    ("execution.checkpointing.mode", "exactly_once"),
    ("execution.runtime-mode", "automatic"),
    ("execution.runtime-mode", "streaming"),
}


@dataclass
class Session:
    """What has been SET up to a point of the file."""

    source: Source
    warnings: list[str] = field(default_factory=list)
    _values: dict[str, Any] = field(default_factory=dict)
    #: The texts of the keys that make one value together, by the name of that, and where each stands.
    _texts: dict[str, dict[str, str]] = field(default_factory=lambda: {"restart": {}, "kerberos": {}})
    _places: dict[str, str] = field(default_factory=dict)

    def set(self, statement: SetOption) -> None:
        """Take a value over. Raises OptionsError for an unknown key or a value that cannot be read."""
        _, parse = SET_KEYS.get(statement.key) or ("", WITHOUT_EFFECT.get(statement.key))
        if parse is None:
            raise self._unknown(statement.key, statement.key_at)
        try:
            value = parse(statement.value)
        except ValueError as error:
            where = self.source.place(statement.value_at)
            raise OptionsError(
                (Problem(f"{error}, not {_in_quotes(statement.shown)}", statement.key, where),)
            ) from None
        if statement.key in WITHOUT_EFFECT:
            if (statement.key, value) not in _AS_EVER:
                self.warnings.append(f"{self.source.place(statement.at)}: '{statement.key}' has no effect here")
        elif (texts := self._texts.get(SET_KEYS[statement.key][0])) is not None:
            texts[statement.key] = statement.value
            self._places[statement.key] = self.source.place(statement.value_at)
        else:
            self._values[statement.key] = value

    def reset(self, statement: Reset) -> None:
        """Forget one value, or all. Raises OptionsError for an unknown key."""
        if not statement.key:
            self._values.clear()
            for texts in self._texts.values():
                texts.clear()
        elif statement.key in SET_KEYS or statement.key in WITHOUT_EFFECT:
            self._values.pop(statement.key, None)
            for texts in self._texts.values():
                texts.pop(statement.key, None)
        else:
            raise self._unknown(statement.key, statement.key_at)

    @property
    def name(self) -> str:
        """The job's name that was SET, else nothing."""
        return str(self._values.get("pipeline.name", ""))

    def settings(self) -> Settings:
        """The settings of a job that starts now. Warns of keys that belong to another restart strategy than the chosen
        one, or to a Kerberos login that is not Kafka's. Raises OptionsError for keys that contradict one another."""
        restart, kerberos = self._texts["restart"], self._texts["kerberos"]
        for key, remark in (without_effect(restart) | kerberos_remarks(kerberos)).items():
            warning = f"{self._places[key]}: {remark}"
            if warning not in self.warnings:
                self.warnings.append(warning)
        origin = Origin(places=self._places)
        given = {SET_KEYS[key][0]: value for key, value in self._values.items() if SET_KEYS[key][0]}
        return replace(
            Settings(), **given, restart=strategy_of(restart, origin), kerberos=kerberos_of(kerberos, origin)
        )

    def _unknown(self, key: str, at: int) -> OptionsError:
        hint = nearest(key, (*SET_KEYS, *WITHOUT_EFFECT))
        return OptionsError((Problem("unknown key", key, self.source.place(at), hint),))


def _in_quotes(shown: str) -> str:
    return shown if shown.startswith("'") else f"'{shown}'"
