"""The distribution ``penstock-testing``, which brings its own commands, and the message where it is missing."""

from __future__ import annotations

import importlib.util

#: The package of that distribution.
KIT = "penstock_testing"
#: How to get it.
GET_KIT = "pip install 'penstock[demo]'"


def has_kit() -> bool:
    """Whether the distribution is installed."""
    return importlib.util.find_spec(KIT) is not None
