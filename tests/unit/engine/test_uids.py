"""Sources of a job and of its checkpoint."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.engine.runs.identity import in_order_of, uids_of
from penstock.errors import CheckpointError
from penstock.plan.nodes import Scan
from penstock.types import parse_columns
from tests.tables import Read

SCHEMA = parse_columns("id INT")
A, B, C = (Scan(SCHEMA, name, "values", Read(name)) for name in "abc")


def test_a_scan_is_known_by_its_table_or_by_the_uid_that_it_was_given():
    again = replace(A, spec=Read("another"))
    assert uids_of((A, replace(B, uid="orders"), again)) == {"a": A, "orders": replace(B, uid="orders"), "a-2": again}


def test_tables_that_change_places_keep_their_positions():
    warnings = []
    assert list(in_order_of(["a", "b", "c"], (C, A, B), where="'c'", warn=warnings.append).values()) == [A, B, C]
    assert warnings == []


def test_a_table_that_was_renamed_takes_the_place_that_is_left():
    warnings = []
    assert list(in_order_of(["a", "former", "c"], (C, B, A), where="'c'", warn=warnings.append)) == ["a", "b", "c"]
    assert warnings == ["source 'b' continues at the position of 'former' in the checkpoint 'c'"]


@pytest.mark.parametrize("scans", [(A,), (A, B, C)])
def test_sources_that_come_or_go_are_refused(scans):
    with pytest.raises(CheckpointError, match="with 2 source\\(s\\), 'a', 'b', and this one has"):
        in_order_of(["a", "b"], scans, where="'c'", warn=pytest.fail)
