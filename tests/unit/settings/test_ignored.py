"""Keys of Flink that have no effect here."""

from __future__ import annotations

import pytest

from penstock.errors import OptionsError
from penstock.settings.given import KEYS, GivenSettings
from penstock.settings.ignored import WITHOUT_EFFECT


def test_a_key_with_an_effect_is_not_among_them():
    assert not KEYS.keys() & WITHOUT_EFFECT.keys()


@pytest.mark.parametrize("key", WITHOUT_EFFECT)
def test_defaults_of_flink_can_be_set(key):
    default = WITHOUT_EFFECT[key].default
    if default != "(none)":
        GivenSettings().put(key, default, "here")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("table.exec.mini-batch.enabled", "maybe"),
        ("table.exec.mini-batch.size", "many"),
        ("table.exec.mini-batch.allow-latency", "soon"),
        ("execution.runtime-mode", "sometimes"),
    ],
)
def test_their_values_are_checked(key, text):
    with pytest.raises(OptionsError, match=f"'{key}'.*, not '{text}'"):
        GivenSettings().put(key, text, "here")
