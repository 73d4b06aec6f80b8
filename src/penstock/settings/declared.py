"""Which settings there are, and what each of them means for a job: the same for ``SET``, YAML, Python and the command
line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from penstock.errors import OptionsError, Problem
from penstock.options import BOOLEAN, DURATION, INTEGER, TEXT, Origin, nearest
from penstock.settings.job import Settings
from penstock.settings.kerberos import kerberos_keys, kerberos_of, kerberos_remarks
from penstock.settings.restart import TYPE_KEYS, restart_keys, strategy_of, without_effect

__all__ = ["KEYS", "WITHOUT_EFFECT", "Given", "unknown_hint"]


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
KEYS: dict[str, tuple[str, Callable[[str], Any]]] = {
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
class Given:
    """The settings that were given so far, each as text with its place. ``warnings`` are for people."""

    warnings: list[str] = field(default_factory=list)
    _values: dict[str, Any] = field(default_factory=dict)
    #: The texts of the keys that make one value together, by the name of that.
    _texts: dict[str, dict[str, str]] = field(default_factory=lambda: {"restart": {}, "kerberos": {}})
    _places: dict[str, str] = field(default_factory=dict)

    def put(self, key: str, text: str, place: str, *, at: str = "", shown: str | None = None) -> None:
        """Take a setting over. ``place``: of its text, ``at``: of its key, if another; ``shown``: the text as
        it was written, for a variable may be a secret. Raises OptionsError for an unknown key, and for a text that
        cannot be read."""
        name, parse = KEYS.get(key) or ("", WITHOUT_EFFECT.get(key))
        if parse is None:
            raise OptionsError((Problem("unknown key", key, at or place, unknown_hint(key)),))
        try:
            value = parse(text)
        except ValueError as error:
            written = f"'{text}'" if shown is None else shown
            raise OptionsError((Problem(f"{error}, not {written}", key, place),)) from None
        if key in WITHOUT_EFFECT:
            if (key, value) not in _AS_EVER:
                self._warn(f"{at or place}: '{key}' has no effect here")
        elif name in self._texts:
            self._texts[name][key] = text
            self._places[key] = place
        else:
            self._values[key] = value

    def remove(self, key: str, place: str = "") -> None:
        """Forget a setting. Raises OptionsError for an unknown key."""
        if key not in KEYS and key not in WITHOUT_EFFECT:
            raise OptionsError((Problem("unknown key", key, place, unknown_hint(key)),))
        self._values.pop(key, None)
        for texts in self._texts.values():
            texts.pop(key, None)

    def clear(self) -> None:
        """Forget all."""
        self._values.clear()
        for texts in self._texts.values():
            texts.clear()

    @property
    def names_a_strategy(self) -> bool:
        """Whether a restart strategy was chosen, and not only set up."""
        return not self._texts["restart"].keys().isdisjoint(TYPE_KEYS)

    @property
    def name(self) -> str:
        """The job's name that was given, else nothing."""
        return str(self._values.get("pipeline.name", ""))

    def settings(self) -> Settings:
        """The settings of a job that starts now. Warns of keys that belong to another restart strategy than the chosen
        one, or to a Kerberos login that is not Kafka's. Raises OptionsError for keys that contradict one another."""
        restart, kerberos = self._texts["restart"], self._texts["kerberos"]
        for key, remark in (without_effect(restart) | kerberos_remarks(kerberos)).items():
            self._warn(f"{self._places[key]}: {remark}")
        origin = Origin(places=self._places)
        given = {KEYS[key][0]: value for key, value in self._values.items() if KEYS[key][0]}
        return replace(
            Settings(), **given, restart=strategy_of(restart, origin), kerberos=kerberos_of(kerberos, origin)
        )

    def _warn(self, warning: str) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)


def unknown_hint(key: str) -> str:
    """Which known key was perhaps meant."""
    return nearest(key, (*KEYS, *WITHOUT_EFFECT))
