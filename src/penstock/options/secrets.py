"""Secrets among options and properties: how they are told by their names, and what is shown in their place."""

from __future__ import annotations

import re
from collections.abc import Collection

from penstock.options.options import Properties

#: What is shown in place of a secret.
MASK = "******"

_SECRET = re.compile(r"password|passphrase|secret|token|jaas|credential|\.key$|private", re.IGNORECASE)


def mask_secrets(properties: Properties, known: Collection[str] = ()) -> Properties:
    """The properties with :data:`MASK` as the value of each that is ``known`` to be secret, or named like one."""
    return tuple((key, MASK if key in known or _SECRET.search(key) else value) for key, value in properties)
