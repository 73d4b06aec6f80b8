"""A job's configuration, by PyFlink's names."""

from __future__ import annotations

from collections.abc import Mapping


class Configuration:
    """Settings by Flink's keys, with values as text."""

    def __init__(self, other: Configuration | None = None):
        self._values: dict[str, str] = dict(other.to_dict()) if other is not None else {}

    def set_string(self, key: str, value: str) -> Configuration:
        """Set a string."""
        self._values[key] = value
        return self

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set a number."""
        return self.set_string(key, str(value))

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set true or false."""
        return self.set_string(key, "true" if value else "false")

    def get_string(self, key: str, default_value: str) -> str:
        """The value of a key, or the default."""
        return self._values.get(key, default_value)

    def contains_key(self, key: str) -> bool:
        """Whether the key was set."""
        return key in self._values

    def add_all(self, other: Configuration) -> Configuration:
        """Add all keys of another configuration."""
        self._values |= other.to_dict()
        return self

    def to_dict(self) -> Mapping[str, str]:
        """All keys and values."""
        return dict(self._values)
