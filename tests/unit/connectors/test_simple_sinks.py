"""The print and blackhole connectors."""

from __future__ import annotations

import pickle

import pytest

from penstock.errors import OptionsError
from penstock.spi import Column, Guarantee, TableDefinition, connectors
from penstock.types import BIGINT

COLUMNS = (Column("id", BIGINT),)


def test_print_takes_its_options():
    options = {"connector": "print", "print-identifier": "orders", "standard-error": "true"}
    found = connectors.get("print").sink(TableDefinition("t", COLUMNS, options))

    assert (found.options.identifier, found.options.standard_error) == ("orders", True)
    assert found.schema.names == ("id",)
    assert pickle.loads(pickle.dumps(found)) == found


def test_blackhole_takes_nothing():
    found = connectors.get("blackhole").sink(TableDefinition("t", COLUMNS, {"connector": "blackhole"}))

    assert found.schema.names == ("id",)
    assert "'t'" in found.describe()


def test_every_problem_of_print_is_reported():
    options = {"connector": "print", "standard-error": "perhaps", "colour": "red"}

    with pytest.raises(OptionsError) as error:
        connectors.get("print").sink(TableDefinition("t", COLUMNS, options))
    assert len(error.value.problems) == 2


@pytest.mark.rule("targets commit independently")
def test_print_says_whether_it_may_repeat():
    def sink(**options):
        return connectors.get("print").sink(TableDefinition("t", COLUMNS, {"connector": "print", **options}))

    assert sink().capabilities.guarantee is None
    assert sink(**{"sink.delivery-guarantee": "at-least-once"}).capabilities.guarantee is Guarantee.AT_LEAST_ONCE
    with pytest.raises(OptionsError, match="cannot tell what it has printed"):
        sink(**{"sink.delivery-guarantee": "exactly-once"})
