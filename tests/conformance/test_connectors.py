"""What every connector that is registered does before it runs, by what it declares."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from penstock.errors import OptionsError, Problem, SchemaError, UnsupportedError
from penstock.options import OptionSet
from penstock.plan.checks import check_changes
from penstock.plan.explain import explain
from penstock.plan.guarantees import check_guarantees
from penstock.plan.nodes import Job, Scan, Sink
from penstock.settings import Settings
from penstock.spi import (
    CHANGES,
    INSERTIONS,
    Column,
    Connector,
    Guarantee,
    Readable,
    ScanCapabilities,
    ScanSpec,
    SinkCapabilities,
    SinkSpec,
    TableDefinition,
    Writable,
    connectors,
    scan_spec,
    sink_spec,
)
from penstock.types import BIGINT, STRING, RowKind
from tests.conformance.specimens import accepted
from tests.tables import FINITE, Read, Written

COLUMNS = (Column("id", BIGINT), Column("name", STRING))
DELIVERY = "sink.delivery-guarantee"


@dataclass(frozen=True)
class Side:
    """One side of a connector: how its tables are read, or how they are written."""

    connector: Connector
    make: Callable[[Connector, TableDefinition], ScanSpec | SinkSpec]
    options: type[OptionSet]

    def accepted(self, **more: str) -> tuple[ScanSpec | SinkSpec, TableDefinition]:
        """The spec of a table with these options and the required ones, and its definition."""
        given = {"connector": self.connector.identifier, **more}
        return accepted(self.spec, TableDefinition("t", COLUMNS, given), self.options)

    def spec(self, table: TableDefinition) -> ScanSpec | SinkSpec:
        """What the connector makes of a table."""
        return self.make(self.connector, table)

    def job(self, spec: ScanSpec | SinkSpec) -> Job:
        """A job that reads or writes the table."""
        _, table = self.accepted()
        name = self.connector.identifier
        if self.make is sink_spec:
            return Job("job", (Sink(spec.schema, Scan(table.produced, "s", "s", Read("s")), "t", name, spec),))
        scan = Scan(table.produced, "t", name, spec)
        return Job("job", (Sink(table.produced, scan, "w", "w", Written("w", table.produced)),))


def sides() -> Iterator[Side]:
    """Every side of every connector."""
    for name in connectors.names():
        connector = connectors.get(name)
        if isinstance(connector, Readable):
            yield Side(connector, scan_spec, connector.options["Source"])
        if isinstance(connector, Writable):
            yield Side(connector, sink_spec, connector.options["Sink"])


SIDES = list(sides())


def named(side: Side) -> str:
    """The test's name: connector and direction."""
    return f"{side.connector.identifier}-{'scan' if side.make is scan_spec else 'sink'}"


every_side = pytest.mark.parametrize("side", SIDES, ids=named)
every_sink = pytest.mark.parametrize("side", [each for each in SIDES if each.make is sink_spec], ids=named)
every_connector = pytest.mark.parametrize("name", connectors.names())


def guarantees(side: Side) -> dict[Guarantee, SinkCapabilities | OptionsError]:
    """What becomes of each guarantee that a table may ask for."""
    found: dict[Guarantee, SinkCapabilities | OptionsError] = {}
    for guarantee in Guarantee:
        try:
            found[guarantee] = side.accepted(**{DELIVERY: guarantee.value})[0].capabilities
        except OptionsError as error:
            found[guarantee] = error
    return found


# --- what a connector is -------------------------------------------------------------------------------------


@every_connector
def test_it_is_known_by_its_name_and_goes_some_way(name: str) -> None:
    connector = connectors.get(name)
    assert connector.identifier == name == name.lower()
    assert isinstance(connector, Readable | Writable)
    wanted = {title for title, kind in (("Source", Readable), ("Sink", Writable)) if isinstance(connector, kind)}
    assert connector.options.keys() == wanted


@every_connector
def test_the_way_that_it_does_not_go_is_refused(name: str) -> None:
    connector, table = connectors.get(name), TableDefinition("t", COLUMNS, {"connector": name})
    for make, way, word in ((scan_spec, Readable, "read"), (sink_spec, Writable, "written")):
        if not isinstance(connector, way):
            with pytest.raises(UnsupportedError, match=f"table 't': connector '{name}' cannot be {word}") as raised:
                make(connector, table)
            assert raised.value.problems[0].hint


@every_connector
def test_its_runtime_has_the_sides_that_the_connector_has(name: str) -> None:
    connector = connectors.get(name)
    module, _, attribute = connector.runtime.partition(":")
    runtime = getattr(importlib.import_module(module), attribute)
    ways = {way for way, kind in (("source", Readable), ("committer", Writable)) if isinstance(connector, kind)}
    assert {way for way in ("source", "committer") if callable(getattr(runtime, way, None))} == ways
    assert callable(getattr(runtime, "commit_group", None)) == ("committer" in ways)


@every_sink
def test_equal_sinks_are_written_by_one_committer(side: Side) -> None:
    module, _, attribute = side.connector.runtime.partition(":")
    runtime = getattr(importlib.import_module(module), attribute)()
    first, second = (side.accepted()[0] for _ in range(2))
    assert runtime.commit_group(first) == runtime.commit_group(second)
    assert hash(runtime.commit_group(first)) == hash(runtime.commit_group(second))


# --- options -------------------------------------------------------------------------------------------------


@every_side
def test_every_unknown_option_is_refused_with_the_nearest_one(side: Side) -> None:
    _, table = side.accepted()
    for option in side.options.declared_options().values():
        if option.key.startswith("properties."):
            continue  # a client's own, whose names the connector may pass on
        wrong = {f"{option.key}s": "x", "colour-of-the-bike-shed": "red"}
        with pytest.raises(OptionsError) as raised:
            side.spec(replace(table, options={**table.options, **wrong}))
        hints = {each.key: each.hint for each in raised.value.problems}
        assert hints.keys() == wrong.keys()
        assert f"'{option.key}'" in hints[f"{option.key}s"]


@every_side
def test_an_option_is_refused_even_where_there_are_none(side: Side) -> None:
    _, table = side.accepted()
    with pytest.raises(OptionsError, match="'colour-of-the-bike-shed': unknown option"):
        side.spec(replace(table, options={**table.options, "colour-of-the-bike-shed": "red"}))


@every_side
def test_required_options_have_examples_that_bind(side: Side) -> None:
    side.accepted()
    for option in side.options.declared_options().values():
        assert option.doc, option.key
        assert not option.required or option.example, f"{option.key} is required and has no example"
        if option.example:
            assert option.codec.parse(option.example) is not None, option.key


@every_side
def test_no_secret_is_shown(side: Side) -> None:
    _, table = side.accepted()
    for option in side.options.declared_options().values():
        if option.secret:
            options = {**table.options, option.key: "hush"}
            for given in (options, {**options, "colour-of-the-bike-shed": "red"}):
                assert "hush" not in shown(side, replace(table, options=given)), option.key


def shown(side: Side, table: TableDefinition) -> str:
    """What people see of a table: its spec, its plan, or what is wrong with it."""
    try:
        spec = side.spec(table)
    except OptionsError as error:
        return f"{error} {error!r}"
    return f"{spec!r} {spec.describe()} {explain(side.job(spec))}"


# --- specs ---------------------------------------------------------------------------------------------------


@every_side
def test_specs_are_values(side: Side) -> None:
    spec, table = side.accepted()
    again, copy = side.spec(table), pickle.loads(pickle.dumps(spec))
    assert (spec, hash(spec)) == (again, hash(again))
    assert (spec, hash(spec)) == (copy, hash(copy))
    assert spec != side.spec(replace(table, name="u"))
    assert copy.capabilities == spec.capabilities


@every_side
def test_a_spec_says_what_it_is(side: Side) -> None:
    spec, _ = side.accepted()
    assert "'t'" in spec.describe()
    plan = explain(side.job(spec))
    assert [line for line in spec.describe().splitlines() if line.strip() not in plan] == []
    assert all(isinstance(each, Problem) for each in spec.problems(Settings()))


@every_side
def test_capabilities_are_declared(side: Side) -> None:
    spec, table = side.accepted()
    found = spec.capabilities
    assert found.kinds <= CHANGES
    assert set(found.upsert_keys) <= {each.name for each in COLUMNS}
    if side.make is scan_spec:
        assert isinstance(found, ScanCapabilities)
        # A row of a table that upserts may replace another.
        assert found.kinds >= ({RowKind.UPDATE_AFTER, RowKind.DELETE} if found.upsert_keys else INSERTIONS)
        both = {RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER}
        assert found.upsert_keys or found.kinds & both in (set(), both), "an update has two rows, or a key"
        letters = spec.dead_letter_sink(())
        assert letters is None or isinstance(letters, SinkSpec)
    else:
        assert isinstance(found, SinkCapabilities)
        assert found.kinds >= (CHANGES if found.upsert_keys else INSERTIONS)
        assert (spec.table, spec.schema) == ("t", table.written)


# --- what a sink promises ------------------------------------------------------------------------------------


@every_sink
def test_a_guarantee_is_given_or_refused(side: Side) -> None:
    known = set(side.options.keys())
    for guarantee, found in guarantees(side).items():
        if isinstance(found, OptionsError):
            assert {each.key for each in found.problems} <= known | {DELIVERY}
        else:
            assert found.guarantee is guarantee


@every_sink
def test_exactly_once_names_what_is_committed(side: Side) -> None:
    found = guarantees(side)[Guarantee.EXACTLY_ONCE]
    if not isinstance(found, OptionsError):
        assert found.commits_to
    for other in (Guarantee.AT_LEAST_ONCE, Guarantee.NONE):
        found = guarantees(side)[other]
        assert isinstance(found, OptionsError) or not found.transactional_id_prefix


@every_sink
def test_beside_an_exactly_once_table_repeating_has_to_be_meant(side: Side) -> None:
    spec, table = side.accepted()
    exact = Written("exact", table.produced, SinkCapabilities(kinds=CHANGES, guarantee=Guarantee.EXACTLY_ONCE))
    rows = Scan(table.produced, "s", "s", Read("s"))
    sinks = (Sink(table.produced, rows, "exact", "x", exact), Sink(spec.schema, rows, "t", "t", spec))
    job = Job("job", sinks, Settings(checkpoint_dir="/tmp"))
    if spec.capabilities.guarantee is None:
        with pytest.raises(OptionsError, match=f"table 't'.*'{DELIVERY}'"):
            check_guarantees(job)
        assert DELIVERY in side.options.keys()  # noqa: SIM118 - a method of option sets
    else:
        check_guarantees(job)


@every_sink
def test_kinds_that_a_sink_does_not_take_are_refused_by_its_name(side: Side) -> None:
    spec, table = side.accepted()
    for kind in RowKind:
        changing = Read("changing", replace(FINITE, kinds=INSERTIONS | {kind}))
        rows = Scan(table.produced, "changing", "s", changing)
        job = Job("job", (Sink(spec.schema, rows, "t", side.connector.identifier, spec),))
        if kind in spec.capabilities.kinds:
            check_changes(job)
        else:
            with pytest.raises(SchemaError, match="table 't': takes insertions only, and table 'changing'"):
                check_changes(job)
