"""Every key of a job's settings, and the settings that were given: the same for ``SET``, YAML, Python and the command
line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.errors import OptionsError, Problem
from penstock.options import Option, Origin, nearest
from penstock.settings.codecs import FILLED
from penstock.settings.ignored import WITHOUT_EFFECT
from penstock.settings.job import Settings
from penstock.settings.kerberos import kerberos_keys, kerberos_of, kerberos_remarks
from penstock.settings.restart import TYPE_KEYS, restart_keys, strategy_of, without_effect

_NAME = Option(
    "pipeline.name",
    FILLED,
    "The job's name, as in Flink. Here it also names the checkpoint and the transactions: a job that keeps its name "
    "goes on where it was.",
    "late-flights",
    default_text="the file's name, or that of the first table written",
)

#: The options of a job by their names in :class:`Settings`, and its name under "".
OPTIONS: Mapping[str, Option] = {"": _NAME, **Settings.declared()}

#: Key to the field of Settings that it sets ("" for the job's name) and how its text is read. The keys for ``restart``
#: and those for ``kerberos`` make one value together.
KEYS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    **{key: (name, option.codec.parse) for name, option in OPTIONS.items() for key in option.all_keys},
    **{key: ("restart", parse) for key, parse in restart_keys().items()},
    **{key: ("kerberos", parse) for key, parse in kerberos_keys().items()},
}


@dataclass
class Given:
    """The settings that were given so far, with their places. ``warnings`` are for people."""

    warnings: list[str] = field(default_factory=list)
    _values: dict[str, Any] = field(default_factory=dict)
    #: The texts of the keys that make one value together, by the name of that.
    _texts: dict[str, dict[str, str]] = field(default_factory=lambda: {"restart": {}, "kerberos": {}})
    _places: dict[str, str] = field(default_factory=dict)

    def put(self, key: str, text: str, place: str, *, at: str = "", shown: str | None = None) -> None:
        """Add a setting. ``place``: of its text, ``at``: of its key, if another; ``shown``: the text as it was
        written, since a variable may be a secret. Raises OptionsError for an unknown key, and for a text that
        cannot be read."""
        ignored = WITHOUT_EFFECT.get(key)
        if key not in KEYS and ignored is None:
            raise OptionsError((Problem("unknown key", key, at or place, unknown_hint(key)),))
        name, parse = ("", ignored.parse) if ignored else KEYS[key]
        try:
            value = parse(text)
        except ValueError as error:
            written = f"'{text}'" if shown is None else shown
            raise OptionsError((Problem(f"{error}, not {written}", key, place),)) from None
        if ignored:
            if value not in ignored.fulfilled:
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
        """Whether a restart strategy was chosen, not only configured."""
        return not self._texts["restart"].keys().isdisjoint(TYPE_KEYS)

    @property
    def name(self) -> str:
        """The name of the job, empty if none was given."""
        return str(self._values.get("pipeline.name", ""))

    def settings(self) -> Settings:
        """The settings so far. Warns of keys of restart strategies that were not chosen, and of a Kerberos login that
        is not for Kafka. Raises OptionsError for keys that contradict one another."""
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
    """A hint with the known key that is closest to ``key``."""
    return nearest(key, (*KEYS, *WITHOUT_EFFECT))
