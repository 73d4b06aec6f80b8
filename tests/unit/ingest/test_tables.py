"""Patterns of table ids."""

from __future__ import annotations

import pytest

from penstock.ingest.table_ids import find_topic, match_table_id


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("db.orders", "db.orders", True),
        ("db.orders", "dbxorders", False),
        (r"db.\.*", "db.orders", True),
        (r"db.\.*", "other.orders", False),
        (r"\.*\.\.*", "db.orders", True),
        (r"db.order\d+", "db.order17", True),
        (r"db.order\d+", "db.order17x", False),
        ("a.x, a.y", "a.y", True),
        ("orders", "db.orders", False),
    ],
)
def test_a_dot_separates_and_an_escaped_dot_is_any_character(pattern, name, matches):
    assert bool(match_table_id(pattern, name)) is matches


def test_the_first_entry_that_fits_names_the_topic():
    mapping = r"db.a,db.b:first; db.\.*:rest"

    assert [find_topic(mapping, name) for name in ("db.b", "db.c", "x.c")] == ["first", "rest", None]


@pytest.mark.parametrize("mapping", ["db.a", ":topic", "db.a:", "db.(:topic"])
def test_a_mapping_that_cannot_mean_anything_is_refused(mapping):
    with pytest.raises(ValueError, match=r"expected|not a valid pattern"):
        find_topic(mapping, "db.a")
