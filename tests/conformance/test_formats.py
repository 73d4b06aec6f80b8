"""What every format that is registered does, by what it declares."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import OptionsError, RecordError, SchemaError
from penstock.spi import (
    CHANGES,
    INSERTIONS,
    ChangeFormat,
    Column,
    Decoded,
    Decoder,
    Encoder,
    Format,
    FormatSpec,
    NotNull,
    RegistryFormat,
    TableDefinition,
    connectors,
    formats,
    scan_spec,
    sink_spec,
)
from penstock.types import RowKind, RowType, arrow_schema, arrow_type
from tests.conformance.samples import SAMPLES, batch, columns, tuples
from tests.conformance.specimens import WITHOUT_NULL, format_options

REGISTERED = [
    pytest.param(name, marks=pytest.mark.registry) if isinstance(formats.get(name), RegistryFormat) else name
    for name in formats.names()
]
#: Rows of a row kind each.
KINDS = np.array(list(RowKind), np.int8)
#: What is a message in hardly any format, beside the beginnings of a right one.
GARBAGE = (b"\xff", b"", b"{", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")


@dataclass(frozen=True)
class Subject:
    """A format, and where a schema registry is if it needs one."""

    format: Format
    registry: str

    def options(self, schema: RowType) -> Any:
        """The options for a table of ``schema``."""
        return format_options(self.format, schema, self.registry)

    def encoder(self, schema: RowType) -> Encoder:
        """Writes rows of ``schema``."""
        return self.format.encoder(schema, self.options(schema))

    def decoder(self, schema: RowType, metadata: tuple[str, ...] = ()) -> Decoder:
        """Reads rows of ``schema``."""
        extra = {"metadata": metadata} if metadata else {}
        return self.format.decoder(schema, self.options(schema), **extra)

    def declares(self, *types: str) -> bool:
        """Whether a table may have columns of these types, by what the format itself says."""
        try:
            self.decoder(columns(types))
            self.encoder(columns(types))
        except SchemaError:
            return False
        return True

    @property
    def types(self) -> tuple[str, ...]:
        """The types that the format reads and writes."""
        return tuple(kind for kind in SAMPLES if self.declares(kind))

    @property
    def table(self) -> tuple[str, ...]:
        """The types of a table with as many columns as the format takes: all, or the first that it declares."""
        return self.types if self.declares(*self.types) else self.types[:1]

    def written(self, schema: RowType, rows: pa.RecordBatch) -> list[bytes | None]:
        """The rows as messages."""
        messages: list[bytes | None] = self.encoder(schema).encode(rows).to_pylist()
        return messages


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> Subject:
    """The format of the name that the test was given."""
    found = formats.get(request.param)
    address = request.getfixturevalue("registry").url if isinstance(found, RegistryFormat) else ""
    return Subject(found, address)


every_format = pytest.mark.parametrize("subject", REGISTERED, indirect=True)


def decode(decoder: Decoder, messages: list[bytes | None]) -> Decoded:
    """The messages, decoded; what comes out is whole."""
    found = decoder.decode(pa.array(messages, pa.binary()))
    found.rows.validate(full=True)
    for each in (found.origin, found.kinds):
        assert each is None or len(each) == found.rows.num_rows
    return found


def by_message(found: Decoded, count: int) -> list[list[tuple[Any, ...]]]:
    """The rows of each of so many messages."""
    rows: list[list[tuple[Any, ...]]] = [[] for _ in range(count)]
    origin = range(count) if found.origin is None else found.origin.tolist()
    for index, row in zip(origin, tuples(found.rows), strict=True):
        rows[index].append(row)
    return rows


def samples(types: tuple[str, ...], count: int = 3) -> pa.RecordBatch:
    """So many rows with samples of each type."""
    rows = [[SAMPLES[kind][number % len(SAMPLES[kind])] for kind in types] for number in range(count)]
    return batch(columns(types), rows)


def shown(make: Callable[[], object]) -> str:
    """What people see of what is made, or of the error."""
    try:
        return repr(make())
    except OptionsError as error:
        return str(error)


# --- rows ----------------------------------------------------------------------------------------------------


@every_format
def test_null_in_a_column_that_is_not_null_is_seen(subject: Subject) -> None:
    """By the format itself, or in its rows by the connector; a format whose messages cannot have NULL refuses it."""
    type_ = subject.types[0]
    nullable, declared = columns((type_,)), columns((f"{type_} NOT NULL",))
    rows = batch(nullable, [[SAMPLES[type_][0]], [None], [SAMPLES[type_][0]]])
    if subject.format.identifier == "avro":  # the reader's schema is derived from the declared columns
        with pytest.raises(RecordError):
            subject.encoder(declared).encode(rows)
        return
    found = decode(subject.decoder(declared), subject.written(nullable, rows))
    origin = np.arange(found.rows.num_rows) if found.origin is None else found.origin
    named = dict(zip(declared.names, found.rows.columns, strict=False))
    missing = [origin[mask] for _, mask in NotNull(declared).missing(named, found.kinds)]
    assert {each.index for each in found.bad} | set(np.concatenate([[], *missing]).tolist()) == {1}


@every_format
def test_values_of_every_declared_type_come_back(subject: Subject) -> None:
    assert subject.types
    for kind in subject.types:
        schema, rows = columns([kind]), batch(columns([kind]), [[value] for value in SAMPLES[kind]])
        found = decode(subject.decoder(schema), subject.written(schema, rows))
        assert (kind, tuples(found.rows), found.bad) == (kind, tuples(rows), ())
        assert found.rows.schema.equals(arrow_schema(schema)), kind


@every_format
def test_null_comes_back(subject: Subject) -> None:
    for kind in subject.types:
        if kind.startswith(WITHOUT_NULL.get(subject.format.identifier, ())):
            continue
        schema = columns([kind])
        rows = batch(schema, [[SAMPLES[kind][0]], [None], [SAMPLES[kind][-1]]])
        found = decode(subject.decoder(schema), subject.written(schema, rows))
        assert (kind, tuples(found.rows), found.bad) == (kind, tuples(rows), ())


@every_format
def test_a_table_of_all_declared_types_comes_back(subject: Subject) -> None:
    types = subject.table
    rows = samples(types)
    found = decode(subject.decoder(columns(types)), subject.written(columns(types), rows))
    assert (tuples(found.rows), found.bad) == (tuples(rows), ())
    assert found.rows.schema.equals(rows.schema)


@every_format
def test_no_messages_give_no_rows_and_no_rows_no_messages(subject: Subject) -> None:
    schema = columns(subject.table)
    assert subject.written(schema, samples(subject.table, 0)) == []
    found = decode(subject.decoder(schema), [])
    assert (found.rows.num_rows, found.bad) == (0, ())
    assert found.rows.schema.equals(arrow_schema(schema))


@every_format
def test_equal_rows_give_equal_messages(subject: Subject) -> None:
    schema, rows = columns(subject.table), samples(subject.table)
    encoder = subject.encoder(schema)
    first = encoder.encode(rows).to_pylist()
    assert encoder.encode(rows).to_pylist() == first
    assert subject.written(schema, rows) == first
    assert [subject.written(schema, rows.slice(number, 1))[0] for number in range(3)] == first


@every_format
def test_some_columns_are_read_as_all_are(subject: Subject) -> None:
    types = subject.table
    schema = columns(types)
    messages = subject.written(schema, samples(types))
    wanted = schema.names[::-2] if subject.format.by_name else schema.names
    assert not subject.format.by_name or len(types) > 1, "a format that finds columns by name takes several"
    options = subject.options(schema)
    found = decode(subject.format.decoder(schema.select(wanted), options), messages)
    assert found.rows.schema.names == list(wanted)
    assert tuples(found.rows) == tuples(samples(types).select(list(wanted)))


# --- what is malformed ---------------------------------------------------------------------------------------


@every_format
def test_a_malformed_message_is_refused_by_its_index_and_spoils_no_other(subject: Subject) -> None:
    types = tuple(kind for kind in ("BIGINT", "STRING", "INT") if kind in subject.types) or subject.types
    types = types if subject.declares(*types) else types[:1]
    schema, rows = columns(types), samples(types)
    good = subject.written(schema, rows)
    assert None not in good
    decoder = subject.decoder(schema)
    refused = 0
    for bad in (*GARBAGE, *((good[0] or b"")[:length] for length in range(1, len(good[0] or b"")))):
        found = decode(decoder, [good[0], good[1], bad, good[2], bad])
        assert {each.index for each in found.bad} <= {2, 4}, bad
        assert len({each.index for each in found.bad}) in (0, 2), bad
        assert all(each.reason.strip() for each in found.bad), bad
        of_each = by_message(found, 5) if found.origin is not None else None
        if of_each is None:
            assert not found.bad
            of_each = [[row] for row in tuples(found.rows)]
        wanted = [[row] for row in tuples(rows)]
        assert [of_each[number] for number in (0, 1, 3)] == wanted, bad
        refused += bool(found.bad)
    assert refused, "nothing is refused"


@every_format
def test_going_on_after_errors_is_the_users_choice(subject: Subject) -> None:
    schema = columns(subject.types[:1])
    options = subject.options(schema)
    assert not subject.format.decoder(schema, options).ignores_errors
    if "ignore-parse-errors" in subject.format.options.keys():  # noqa: SIM118 - a method of option sets
        text = {**options.to_text(), "ignore-parse-errors": "true"}
        assert subject.format.decoder(schema, subject.format.options.from_text(text)).ignores_errors


# --- changes -------------------------------------------------------------------------------------------------


@every_format
def test_only_changes_have_kinds(subject: Subject) -> None:
    schema = columns(subject.types[:1])
    rows = samples(subject.types[:1], 4)
    encoder, decoder = subject.encoder(schema), subject.decoder(schema)
    if not isinstance(subject.format, ChangeFormat):
        assert decode(decoder, subject.written(schema, rows)).kinds is None
        return
    found = decode(decoder, encoder.encode(rows, KINDS).to_pylist())
    assert found.kinds is not None
    # A message may not say that a row was updated: but whether it is there afterwards.
    adds = {RowKind.INSERT, RowKind.UPDATE_AFTER}
    assert [kind in adds for kind in found.kinds.tolist()] == [kind in adds for kind in KINDS]
    assert tuples(found.rows) == tuples(rows)
    insertions = decode(decoder, encoder.encode(rows).to_pylist()).kinds
    assert insertions is None or set(insertions.tolist()) == {RowKind.INSERT}


@every_format
def test_changes_that_were_written_make_up_the_same_table(subject: Subject) -> None:
    if not isinstance(subject.format, ChangeFormat):
        return
    rng, types = random.Random(1), subject.types[:1]
    rows = samples(types, 8)
    live: list[int] = []
    changes: list[tuple[int, RowKind]] = []
    for _ in range(60):
        old, new = live.pop(rng.randrange(len(live))) if live and rng.random() < 0.7 else None, rng.randrange(8)
        update = old is not None and rng.random() < 0.5
        if old is not None:
            changes.append((old, RowKind.UPDATE_BEFORE if update else RowKind.DELETE))
        if old is None or update:
            changes.append((new, RowKind.UPDATE_AFTER if update else RowKind.INSERT))
            live.append(new)
    at, kinds = zip(*changes, strict=True)

    messages = subject.encoder(columns(types)).encode(rows.take(pa.array(at)), np.array(kinds, np.int8)).to_pylist()
    found = decode(subject.decoder(columns(types)), messages)
    table: Counter[object] = Counter()
    for row, kind in zip(tuples(found.rows), found.kinds if found.kinds is not None else (), strict=True):
        table[row] += 1 if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER) else -1
        assert table[row] >= 0
    assert +table == Counter(tuples(rows.take(pa.array(live))))


@every_format
def test_metadata_are_columns_of_the_declared_types(subject: Subject) -> None:
    if not isinstance(subject.format, ChangeFormat):
        return
    keys = tuple(subject.format.metadata)[::-1]
    types = subject.types[:1]
    found = decode(subject.decoder(columns(types), keys), subject.written(columns(types), samples(types)))
    assert found.rows.schema.names == ["c0", *keys]
    assert found.rows.schema.types[1:] == [arrow_type(subject.format.metadata[key]) for key in keys]


@every_format
def test_tables_have_the_kinds_that_the_format_has(subject: Subject) -> None:
    definition = table(subject)
    kinds = CHANGES if isinstance(subject.format, ChangeFormat) else INSERTIONS
    kafka = connectors.get("kafka")
    assert scan_spec(kafka, definition).capabilities.kinds == kinds
    assert sink_spec(kafka, definition).capabilities.kinds == kinds


# --- options -------------------------------------------------------------------------------------------------


def table(subject: Subject, **more: str) -> TableDefinition:
    """A Kafka table of one column in this format."""
    schema = columns(subject.types[:1])
    name = subject.format.identifier
    given = {f"{name}.{key}": text for key, text in subject.options(schema).to_text().items()}
    options = {"connector": "kafka", "topic": "t", "properties.bootstrap.servers": "127.0.0.1:1", "format": name}
    return TableDefinition(
        "t", tuple(Column(each.name, each.type) for each in schema.fields), {**options, **given, **more}
    )


@every_format
def test_an_unknown_option_is_refused_with_the_nearest_one(subject: Subject) -> None:
    name = subject.format.identifier
    for option in subject.format.options.declared_options().values():
        wrong = f"{name}.{option.key}s"
        for make in (scan_spec, sink_spec):
            with pytest.raises(OptionsError) as raised:
                make(connectors.get("kafka"), table(subject, **{wrong: "x"}))
            (problem,) = (each for each in raised.value.problems if each.key == wrong)
            assert f"'{name}.{option.key}'" in problem.hint


@every_format
def test_options_bind_to_equal_ones_and_examples_are_right(subject: Subject) -> None:
    options = subject.options(columns(subject.types[:1]))
    assert subject.format.options.from_text(options.to_text()) == options
    for option in subject.format.options.declared_options().values():
        assert option.doc, option.key
        assert not option.required or option.example, f"{option.key} is required and has no example"
        if option.example:
            assert option.codec.parse(option.example) is not None, option.key


@every_format
def test_what_is_required_is_asked_for(subject: Subject) -> None:
    declared = subject.format.options.declared_options().values()
    required = {f"x.{each.key}" for each in declared if each.required}
    if required:
        with pytest.raises(OptionsError) as raised:
            subject.format.options.from_text({}, prefix="x.")
        missing = {each.key for each in raised.value.problems if each.reason == "is required"}
        assert missing == required


@every_format
def test_no_secret_is_shown(subject: Subject) -> None:
    secrets = [each for each in subject.format.options.declared_options().values() if each.secret]
    given = subject.options(columns(subject.types[:1])).to_text()
    for option in secrets:
        assert "hush" not in shown(
            lambda option=option: subject.format.options.from_text({**given, option.key: "hush"})
        )


@every_format
def test_specs_and_what_is_made_of_them_are_pickled(subject: Subject) -> None:
    schema, rows = columns(subject.table), samples(subject.table)
    spec = FormatSpec(subject.format.identifier, subject.options(schema), "value.")
    copy = pickle.loads(pickle.dumps(spec))
    assert (copy, hash(copy)) == (spec, hash(spec))
    assert spec == FormatSpec(subject.format.identifier, copy.options), "a prefix is only what the user wrote"
    encoder = pickle.loads(pickle.dumps(subject.encoder(schema)))
    decoder = pickle.loads(pickle.dumps(subject.decoder(schema)))
    found = decode(decoder, encoder.encode(rows).to_pylist())
    assert tuples(found.rows) == tuples(rows)
