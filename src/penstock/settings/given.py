"""Every key of a job's settings, and the settings that were given: the same for ``SET``, YAML, Python and the command
line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.errors import OptionsError, Problem, nearest
from penstock.options import Codec, Option, Origin
from penstock.settings.codecs import FILLED
from penstock.settings.ignored import WITHOUT_EFFECT, ignored_key
from penstock.settings.job import Settings
from penstock.settings.kerberos import KERBEROS_PREFIX, KerberosSettings, find_kerberos_remarks, read_kerberos
from penstock.settings.refused import REFUSED
from penstock.settings.restart import (
    DEFAULT_WITH_CHECKPOINTS,
    PREFIX,
    STRATEGIES,
    TYPE,
    TYPE_KEYS,
    find_without_effect,
    read_restart_strategy,
)

_NAME = Option(
    "pipeline.name",
    FILLED,
    "The job's name, as in Flink. Here it also names the checkpoint and the transactions: a job that keeps its name "
    "continues where it was.",
    "late-flights",
    default_text="the file's name, or the name of the first table written",
)

#: The options of a job by their names in :class:`Settings`, and its name under "".
OPTIONS: Mapping[str, Option] = {"": _NAME, **Settings.declared_options()}

#: Key to the field of Settings that it sets ("" for the job's name), and its codec. The keys for ``restart`` make one
#: value together, and so do the keys for ``kerberos``.
KEYS: Mapping[str, tuple[str, Codec]] = {
    **{key: (name, option.codec) for name, option in OPTIONS.items() for key in option.all_keys},
    **dict.fromkeys(TYPE_KEYS, ("restart", TYPE)),
    **{
        f"{PREFIX}{name}.{option.key}": ("restart", option.codec)
        for name, options in STRATEGIES.items()
        for option in options.declared_options().values()
    },
    **{
        f"{KERBEROS_PREFIX}{each.key}": ("kerberos", each.codec)
        for each in KerberosSettings.declared_options().values()
    },
}


def is_known(key: str) -> bool:
    """Whether a key is one of those that can be set, with an effect or without."""
    return key in KEYS or key in REFUSED or ignored_key(key) is not None


@dataclass
class GivenSettings:
    """The settings that were given so far, with their places, and warnings about them."""

    warnings: list[str] = field(default_factory=list)
    #: By the name of the field of Settings.
    _values: dict[str, Any] = field(default_factory=dict)
    #: The values of keys without effect, by key.
    _ignored: dict[str, Any] = field(default_factory=dict)
    #: The texts of the keys that make one value together, by the name of its field.
    _texts: dict[str, dict[str, str]] = field(default_factory=lambda: {"restart": {}, "kerberos": {}})
    _places: dict[str, str] = field(default_factory=dict)
    #: Every key that was given, with its value as it was written.
    _written: dict[str, str] = field(default_factory=dict)

    def put(self, key: str, text: str, place: str, *, at: str = "", shown: str | None = None) -> None:
        """Add a setting. ``place`` says where its text is, ``at`` where its key is, if that differs. Errors quote
        ``shown``, the text before variables were replaced, since their values may be secret. Raises OptionsError for an
        unknown key, and for a text that cannot be read."""
        self._check_known(key, at or place)
        ignored = None if key in KEYS else ignored_key(key)  # a family may have a key with effect
        try:
            if key in REFUSED:
                REFUSED[key].check(text)
                return
            name, codec = KEYS[key] if ignored is None else ("", ignored.codec)
            value = codec.parse(text)
        except ValueError as error:
            written = f"'{text}'" if shown is None else shown
            raise OptionsError((Problem(f"{error}, not {written}", key, place),)) from None
        self._written[key] = text if shown is None else shown.removeprefix("'").removesuffix("'")
        if ignored is not None:
            self._ignored[key] = value
            if value not in ignored.fulfilled:
                self._warn(f"{at or place}: '{key}' has no effect here. {ignored.here}")
        elif name in self._texts:
            self._texts[name][key] = text
            self._places[key] = place
        else:
            self._values[name] = value

    def remove(self, key: str, place: str) -> None:
        """Forget a setting. Raises OptionsError for an unknown key."""
        self._check_known(key, place)
        self._ignored.pop(key, None)
        self._written.pop(key, None)
        if key in KEYS:
            self._values.pop(KEYS[key][0], None)
        for texts in self._texts.values():
            texts.pop(key, None)

    def clear(self) -> None:
        """Forget all settings."""
        self._values.clear()
        self._ignored.clear()
        self._written.clear()
        for texts in self._texts.values():
            texts.clear()

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The keys that were given and their values as they were written, in the order of the keys."""
        return sorted(self._written.items())

    @property
    def names_a_strategy(self) -> bool:
        """Whether a restart strategy was chosen, not only configured."""
        return not self._texts["restart"].keys().isdisjoint(TYPE_KEYS)

    @property
    def name(self) -> str:
        """The name of the job, empty if none was given."""
        return str(self._values.get("", ""))

    def value(self, name: str) -> Any:
        """The value that was given for a field of Settings, or None."""
        return self._values.get(name)

    def without_effect(self, key: str) -> Any:
        """The value of a key without effect, by default Flink's; None for none."""
        return self._ignored.get(key, WITHOUT_EFFECT[key].flink)

    def settings(self) -> Settings:
        """The settings so far. An interval of checkpoints brings Flink's restarts with it, unless a strategy is chosen
        (decision 0033). Warns of keys of restart strategies that were not chosen, and of a Kerberos login that
        is not for Kafka. Raises OptionsError for keys that contradict one another."""
        restart, kerberos = self._texts["restart"], self._texts["kerberos"]
        if "checkpoint_interval" in self._values and not self.names_a_strategy:
            restart = {TYPE_KEYS[0]: DEFAULT_WITH_CHECKPOINTS, **restart}
        for key, remark in (find_without_effect(restart) | find_kerberos_remarks(kerberos)).items():
            self._warn(f"{self._places[key]}: {remark}")
        origin = Origin(places=self._places)
        given = {name: value for name, value in self._values.items() if name}
        return replace(
            Settings(),
            **given,
            restart=read_restart_strategy(restart, origin),
            kerberos=read_kerberos(kerberos, origin),
        )

    def over(self, before: Settings) -> Settings:
        """``before`` with the settings that were given in place of the former ones. Raises OptionsError as
        :meth:`settings`."""
        own = self.settings()
        composed = {name: getattr(own, name) for name, texts in self._texts.items() if texts}
        return replace(before, **{name: value for name, value in self._values.items() if name}, **composed)

    def _check_known(self, key: str, place: str) -> None:
        if not is_known(key):
            whole = (each for each in WITHOUT_EFFECT if not each.endswith("*"))
            hint = nearest(key, (*KEYS, *whole, *REFUSED))
            raise OptionsError((Problem("unknown key", key, place, hint),))

    def _warn(self, warning: str) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)
