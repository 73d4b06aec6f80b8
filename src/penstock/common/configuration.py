"""A job's configuration, by PyFlink's names."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import yaml

from penstock.common.arguments import expect
from penstock.java_gateway import without_java

__all__ = ["Configuration"]


class Configuration:
    """Settings by Flink's keys, with values as text. Raises UnsupportedError when it is made of a Java object."""

    def __init__(self, other: Configuration | None = None, j_configuration: Any = None):
        if j_configuration is not None:
            raise without_java("j_configuration")
        self._values: dict[str, str] = {}
        if other is not None:
            self.add_all(other)

    def set_string(self, key: str, value: str) -> Configuration:
        """Set a string."""
        self._values[key] = value
        return self

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set a whole number."""
        return self.set_string(key, str(value))

    def set_float(self, key: str, value: float) -> Configuration:
        """Set a number."""
        return self.set_string(key, repr(float(value)))

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set true or false."""
        return self.set_string(key, "true" if value else "false")

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        """Set bytes, which are kept as base64."""
        return self.set_string(key, base64.b64encode(value).decode("ascii"))

    def get_string(self, key: str, default_value: str) -> str:
        """The value of a key, or the default."""
        return self._values.get(key, default_value)

    def get_integer(self, key: str, default_value: int) -> int:
        """The whole number of a key, or the default. Raises ValueError for another value."""
        return int(self._values[key]) if key in self._values else default_value

    def get_float(self, key: str, default_value: float) -> float:
        """The number of a key, or the default. Raises ValueError for another value."""
        return float(self._values[key]) if key in self._values else default_value

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Whether a key is true, or the default. Raises ValueError for another value."""
        text = self._values.get(key, str(default_value)).strip().lower()
        if text not in ("true", "false"):
            raise ValueError(f"'{key}' is '{text}', not true or false")
        return text == "true"

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """The bytes of a key, or the default."""
        return bytearray(base64.b64decode(self._values[key])) if key in self._values else default_value

    def contains_key(self, key: str) -> bool:
        """Whether the key was set."""
        return key in self._values

    def key_set(self) -> set[str]:
        """All keys."""
        return set(self._values)

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Add all keys of another configuration, behind ``prefix``."""
        expect(other, Configuration, "Configuration.add_all")
        self._values |= {(prefix or "") + key: value for key, value in other.to_dict().items()}
        return self

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Add all keys and values to a dictionary."""
        target_dict.update(self._values)

    def remove_config(self, key: str) -> bool:
        """Remove a key. Returns whether it was set."""
        return self._values.pop(key, None) is not None

    def to_dict(self) -> Mapping[str, str]:
        """All keys and values."""
        return dict(self._values)

    @staticmethod
    def parse_list_value(value: str) -> list[Any]:
        """A list in YAML, or texts joined by semicolons."""
        if not value:
            return []
        found = yaml.safe_load(value)
        return found if isinstance(found, list) else value.split(";")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and other._values == self._values

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __str__(self) -> str:
        return str(self._values)
