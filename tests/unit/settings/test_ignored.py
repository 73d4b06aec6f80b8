"""Keys of Flink that have no effect here."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import OptionsError
from penstock.settings.given import KEYS, GivenSettings, is_known
from penstock.settings.ignored import WITHOUT_EFFECT
from penstock.settings.refused import REFUSED


def test_a_key_with_an_effect_is_not_among_them():
    assert not KEYS.keys() & WITHOUT_EFFECT.keys()
    assert not REFUSED.keys() & (KEYS.keys() | WITHOUT_EFFECT.keys())


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


def test_a_value_that_applies_anyway_needs_no_warning():
    given = GivenSettings()
    given.put("execution.checkpointing.max-concurrent-checkpoints", "1", "here")
    given.put("execution.checkpointing.min-pause", "0 ms", "here")
    assert given.warnings == []
    given.put("execution.checkpointing.max-concurrent-checkpoints", "2", "here, line 3")
    assert given.warnings == [
        "here, line 3: 'execution.checkpointing.max-concurrent-checkpoints' has no effect here. Batches follow one "
        "another, each as soon as the interval allows."
    ]


def test_their_values_are_known_all_the_same():
    key = "execution.checkpointing.max-concurrent-checkpoints"
    given = GivenSettings()
    assert (given.without_effect(key), given.without_effect("pipeline.jars")) == (1, None)
    given.put(key, "2", "here")
    assert given.without_effect(key) == 2
    given.remove(key, "here")
    assert given.without_effect(key) == 1


def test_a_key_of_a_family_needs_no_list_of_all_of_them():
    given = GivenSettings()
    given.put("state.backend.rocksdb.localdir", "rocksdb", "here")
    given.put("execution.checkpointing.unaligned", "false", "here")
    assert given.warnings == [
        "here: 'state.backend.rocksdb.localdir' has no effect here. State is read for all keys of a batch at once, "
        "from files that are mapped into memory."
    ]


def test_keys_that_would_change_what_a_table_holds_are_refused_by_name():
    for key, text in (
        ("table.exec.emit.early-fire.enabled", "true"),
        ("table.exec.emit.late-fire.delay", "1 min"),
        ("table.exec.emit.allow-lateness", "1 h"),
        ("table.exec.legacy-cast-behaviour", "ENABLED"),
        ("table.exec.sort.default-limit", "100"),
        ("table.column-expansion-strategy", "EXCLUDE_DEFAULT_VIRTUAL_METADATA_COLUMNS"),
    ):
        GivenSettings().put(key, REFUSED[key].default, "here")
        with pytest.raises(OptionsError, match=f"'{key}': .*; expected .*, not '{text}'"):
            GivenSettings().put(key, text, "here")


def test_every_key_of_flink_about_queries_execution_and_state_is_known():
    keys = Path("tests/recorded/settings.txt").read_text("utf-8").split()
    assert len(keys) > 300
    assert [key for key in keys if not is_known(key)] == []


@pytest.mark.parametrize("key", ["taskmanager.memory.managed.fraction", "python.executable", "kubernetes.cluster-id"])
def test_keys_of_clusters_and_their_processes_are_known(key):
    given = GivenSettings()
    given.put(key, "secret", "here")
    (warning,) = given.warnings
    assert f"'{key}' has no effect here" in warning
    assert "secret" not in warning


def test_the_name_of_a_family_is_no_key():
    assert not is_known("state.backend.rocksdb.*")
