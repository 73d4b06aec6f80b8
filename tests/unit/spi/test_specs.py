"""What the plan asks of specs is there, or is named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from penstock.errors import PluginError
from penstock.spi import INSERTIONS, SinkCapabilities, TableDefinition, scan_spec, sink_spec
from tests.tables import Read, Written

TABLE = TableDefinition("t", (), {})


@dataclass
class Plugin:
    """A connector that makes this of a table."""

    made: Any
    identifier = "odd"
    options: Any = None
    runtime = ""

    def scan(self, table: TableDefinition) -> Any:
        return self.made

    def sink(self, table: TableDefinition) -> Any:
        return self.made


class Misspelt:
    table, schema, capabilites = "t", TABLE.written, INSERTIONS

    def problems(self, settings: Any) -> tuple[()]:
        return ()


def test_a_spec_that_lacks_something_is_refused_by_what_it_lacks() -> None:
    with pytest.raises(PluginError, match=r"a Misspelt, .* it lacks capabilities, dead_letter_sink, describe$"):
        scan_spec(Plugin(Misspelt()), TABLE)
    with pytest.raises(PluginError, match=r"'odd' returns a Misspelt, .* lacks capabilities, describe$"):
        sink_spec(Plugin(Misspelt()), TABLE)


def test_a_spec_that_has_everything_is_taken() -> None:
    read, written = Read("t"), Written("t", TABLE.written)
    assert scan_spec(Plugin(read), TABLE) is read
    assert sink_spec(Plugin(written), TABLE) is written


def test_a_guarantee_has_no_default_and_no_other_name() -> None:
    with pytest.raises(TypeError, match="guarantee"):
        SinkCapabilities(kinds=INSERTIONS)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="guarantie"):
        SinkCapabilities(kinds=INSERTIONS, guarantie=None)  # type: ignore[call-arg]
