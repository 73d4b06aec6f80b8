"""``sasl.jaas.config``: one Java login module and its options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_MODULE = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(?P<options>.*?);?\s*", re.S
)
_OPTION = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", re.S)


@dataclass(frozen=True)
class LoginModule:
    """A login module: its class as it was written, and its options."""

    written: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def name(self) -> str:
        """The class without its package, which differs in a shaded client."""
        return self.written.rpartition(".")[2]


def login_module(value: str, expected: str) -> LoginModule:
    """The one login module of a JAAS text.

    Raises ValueError with ``expected``. The error never quotes the text, which holds the password.
    """
    if '=\\"' in value:  # some editors escape the quotes
        value = value.replace('\\"', '"')
    found = _MODULE.fullmatch(value)
    if found is None:
        raise ValueError(f"expected {expected}")
    options = {}
    for name, double, single, bare in _OPTION.findall(found["options"]):
        options[name] = re.sub(r"\\(.)", r"\1", double or single) if double or single else bare
    return LoginModule(found["module"], options)
