"""Facts from public test suites, where they are present: in the folder that PENSTOCK_CORPORA names."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.spi import Guarantee, ScanCapabilities, SinkCapabilities, TableDefinition
from penstock.sql import Script, parse_script
from penstock.types import RowKind
from tests.tables import Read, Written

_KINDS = {"I": RowKind.INSERT, "UB": RowKind.UPDATE_BEFORE, "UA": RowKind.UPDATE_AFTER, "D": RowKind.DELETE}


def flink_programs() -> list[dict[str, Any]]:
    """The SQL programs of Flink's own tests; none where the corpora are not present."""
    return _read("flink-sql/flink-programs.json")


def flink_errors() -> list[dict[str, Any]]:
    """The SQL programs of Flink's own tests that must fail; none where the corpora are not present."""
    return _read("flink-sql/flink-errors.json")


def cdc_specs() -> list[dict[str, Any]]:
    """The cases of Flink CDC's tests of transforms; none where the corpora are not present."""
    if not _folder():
        return []
    files = sorted((Path(_folder()) / "data" / "cdc-specs").glob("*.yaml"))
    return [case for each in files for case in yaml.safe_load(each.read_text("utf-8"))]


def nexmark() -> dict[str, Any]:
    """Nexmark's tables and queries, with their results on a few rows."""
    found: dict[str, Any] = _read("flink-sql/nexmark-small.json") or {}
    return found


def needed() -> pytest.MarkDecorator:
    """For tests that need the corpora."""
    return pytest.mark.skipif(not _folder(), reason="PENSTOCK_CORPORA names no folder of corpora")


def _folder() -> str:
    return os.environ.get("PENSTOCK_CORPORA", "")


def _read(name: str) -> Any:
    return json.loads((Path(_folder()) / name).read_text("utf-8")) if _folder() else []


def script(program: dict[str, Any]) -> Script:
    """The jobs of a program of Flink's tests, whose tables are read and written by nobody."""
    text = "".join(_created(each, each["changelog_mode"]) for each in program["tables"]) + "".join(
        _created(each, _mode(each["options"])) for each in program["sinks"]
    )
    settings = [f"SET '{key}' = '{value}'" for key, value in program.get("config", {}).items()]
    statements = [*settings, *(program.get("setup_sql") or []), *program["sql"]]
    return parsed(text + ";\n".join(statements))


@lru_cache(maxsize=16)  # a program is run in several ways, one after the other
def parsed(text: str) -> Script:
    """The jobs of a script whose tables have the connector 'any'."""
    return parse_script(text, connectors=Anything())  # type: ignore[arg-type]  # stands for the registry


def _mode(options: dict[str, str]) -> str:
    """The changes that a sink asks for."""
    return options.get("sink-changelog-mode-enforced") or options.get("changelog-mode") or ""


def _created(table: dict[str, Any], mode: str) -> str:
    columns = [*table["schema"]]
    if table["primary_key"]:
        columns.append(f"PRIMARY KEY ({', '.join(f'`{each}`' for each in table['primary_key'])}) NOT ENFORCED")
    if table.get("watermark"):
        columns.append(f"WATERMARK FOR {table['watermark']}")
    options = {"connector": "any", "mode": mode, "bounded": str(bool(table.get("bounded")))}
    clause = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return f"CREATE TABLE `{table['name']}` ({', '.join(columns)}) WITH ({clause});\n"


@dataclass(frozen=True)
class Anything:
    """A registry of one connector, whose tables have the changes that they name."""

    identifier: str = "any"
    runtime: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """None that are checked."""
        return {}

    def names(self) -> Sequence[str]:
        """The connector's name."""
        return ("any",)

    def get(self, identifier: str) -> Anything:
        """The connector."""
        assert identifier == "any"
        return self

    def scan(self, table: TableDefinition) -> Read:
        """A table whose rows have the kinds of its mode: upserts by its primary key if there is no row before an
        update."""
        kinds = frozenset(_KINDS[each.strip()] for each in table.options["mode"].split(","))
        upserts = RowKind.UPDATE_AFTER in kinds and RowKind.UPDATE_BEFORE not in kinds
        keys = table.primary_key if upserts else ()
        bounded = table.options.get("bounded") == "True"
        return Read(table.name, ScanCapabilities(kinds=kinds, bounded=bounded, upsert_keys=keys))

    def sink(self, table: TableDefinition) -> Written:
        """A table that takes all changes, by its primary key if it has one and asks for no row before an update."""
        keys = table.primary_key if "UB" not in table.options["mode"] else ()
        can = SinkCapabilities(kinds=frozenset(RowKind), guarantee=Guarantee.NONE, upsert_keys=keys)
        return Written(table.name, table.written, can)
