"""avro-confluent against a real registry: what is asked of it, when, and what becomes of messages meanwhile."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import pickle
import random
import re
import ssl
import subprocess
import sys
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from penstock.cli.main import main
from penstock.errors import OptionsError, SchemaRegistryError, SchemaRegistryUnavailableError, from_wire, to_wire
from penstock.formats.avro_confluent.decode import AvroConfluentDecoder
from penstock.formats.avro_confluent.encode import AvroConfluentEncoder
from penstock.formats.avro_confluent.factory import FORMAT
from penstock.formats.avro_confluent.options import AvroConfluentOptions
from penstock.types import arrow_schema, parse_columns
from penstock_testing.services import RegistryServer
from tests.registry.gateway import Gateway
from tests.sockets import nobody
from tests.waiting import eventually

TLS = Path(__file__).parents[1] / "unit" / "tls"
COLUMNS = "id BIGINT NOT NULL, name STRING"
FIRST = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "name", "type": ["null", "string"], "default": None}]}


@pytest.fixture
def subject() -> str:
    """A subject that no other test has."""
    return f"{uuid.uuid4().hex}-value"


def options(url: str, **given: str) -> AvroConfluentOptions:
    """Options by their keys, with ``_`` for ``.`` and ``__`` for ``-``."""
    named = {key.replace("__", "-").replace("_", "."): value for key, value in given.items()}
    return AvroConfluentOptions.from_text({"url": url, **named})


def decoder(url: str, columns: str = COLUMNS, **given: str) -> AvroConfluentDecoder:
    return FORMAT.decoder(parse_columns(columns), options(url, **given))


def encoder(url: str, subject: str, columns: str = COLUMNS, **given: str) -> AvroConfluentEncoder:
    return FORMAT.encoder(parse_columns(columns), options(url, subject=subject, **given))


def batch(columns: str, *rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=arrow_schema(parse_columns(columns)))


def ask(url: str, body: Any = None, method: str | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def register(url: str, subject: str, schema: Any, **more: Any) -> int:
    """Registers a schema by hand, and returns its id."""
    return int(ask(f"{url}/subjects/{subject}/versions", {"schema": json.dumps(schema), **more})["id"])


def written(number: int, schema: Any, value: Any) -> bytes:
    """A message as others write it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


class TestMessages:
    def test_rows_of_all_types_come_back(self, registry: RegistryServer, subject: str) -> None:
        columns = (
            "b BOOLEAN, t TINYINT, s SMALLINT, i INT, l BIGINT NOT NULL, f FLOAT, d DOUBLE, c STRING, y BYTES, "
            "n DECIMAL(12, 3), day DATE, tm TIME(3), ts TIMESTAMP(3), a ARRAY<STRING>, m MAP<STRING, INT>, "
            "r ROW<x INT, y ARRAY<ROW<z STRING NOT NULL>>>"
        )
        full = {
            "b": True, "t": -3, "s": 300, "i": 70_000, "l": 1 << 40, "f": 0.5, "d": 1e100, "c": "größer", "y": b"\0\1",
            "n": Decimal("123456789.125"), "day": dt.date(2026, 2, 3), "tm": dt.time(1, 2, 3, 4000),
            "ts": dt.datetime(2026, 2, 3, 4, 5, 6, 7000), "a": ["x", None], "m": [("k", 1)],
            "r": {"x": None, "y": [{"z": "deep"}]},
        }  # fmt: skip
        rows = batch(columns, full, dict.fromkeys(full) | {"l": 2})
        messages = encoder(registry.url, subject, columns).encode(rows)
        number = ask(f"{registry.url}/subjects/{subject}/versions/latest")["id"]
        assert {message[:5] for message in messages.to_pylist()} == {b"\0" + number.to_bytes(4, "big")}
        decoded = decoder(registry.url, columns).decode(messages)
        assert decoded.rows.equals(rows)
        assert (decoded.origin, decoded.kinds, decoded.bad) == (None, None, ())

    def test_the_schema_of_the_table_is_registered_under_the_subject(
        self, registry: RegistryServer, subject: str
    ) -> None:
        encoder(registry.url, subject).encode(batch(COLUMNS, {"id": 1, "name": "x"}))
        assert ask(f"{registry.url}/subjects/{subject}/versions/latest")["schema"] == (
            '{"type":"record","name":"record","namespace":"org.apache.flink.avro.generated","fields":['
            '{"name":"id","type":"long"},{"name":"name","type":["null","string"],"default":null}]}'
        )

    def test_a_schema_that_is_given_is_registered_as_it_is_and_written(
        self, registry: RegistryServer, subject: str
    ) -> None:
        given = {"type": "record", "name": "mine", "doc": "kept", "fields": [
            {"name": "name", "type": ["string", "null"]}, {"name": "source", "type": "string", "default": "here"},
            {"name": "id", "type": "long"},
        ]}  # fmt: skip
        messages = encoder(registry.url, subject, schema=json.dumps(given)).encode(
            batch(COLUMNS, {"id": 7, "name": "x"})
        )
        found = ask(f"{registry.url}/subjects/{subject}/versions/latest")
        assert json.loads(found["schema"]) == given
        expected = written(found["id"], given, {"name": "x", "source": "here", "id": 7})
        assert messages.to_pylist() == [expected]

    def test_a_schema_evolves_in_the_middle_of_a_batch(self, registry: RegistryServer, subject: str) -> None:
        reader = decoder(registry.url)
        first = register(registry.url, subject, FIRST)
        old = [written(first, FIRST, {"id": index}) for index in range(3)]
        assert reader.decode(pa.array(old)).rows.to_pylist() == [{"id": index, "name": None} for index in range(3)]
        second = register(registry.url, subject, SECOND)
        assert second != first
        new = [written(second, SECOND, {"id": index, "name": "new"}) for index in range(3)]
        mixed = pa.array([old[0], new[1], None, old[2], b"\0\0", new[0]])
        decoded = reader.decode(mixed)
        assert decoded.rows.to_pylist() == [
            {"id": 0, "name": None},
            {"id": 1, "name": "new"},
            {"id": 2, "name": None},
            {"id": 0, "name": "new"},
        ]
        assert decoded.origin is not None
        assert decoded.origin.tolist() == [0, 1, 3, 5]
        assert [bad.index for bad in decoded.bad] == [4]

    def test_a_mixed_batch_reads_as_its_messages_do_one_by_one(self, registry: RegistryServer, subject: str) -> None:
        chance = random.Random(1)
        first, second = (register(registry.url, subject, each) for each in (FIRST, SECOND))
        stranger = register(registry.url, f"other-{subject}", {**FIRST, "fields": [{"name": "id", "type": "string"}]})
        kinds = [
            lambda: written(first, FIRST, {"id": chance.getrandbits(40)}),
            lambda: written(second, SECOND, {"id": chance.getrandbits(40), "name": chance.choice(["", "x", None])}),
            lambda: written(second, SECOND, {"id": 1, "name": "cut short"})[: chance.randrange(20)],
            lambda: b"\0" + stranger.to_bytes(4, "big") + b"\2x",
            lambda: b"\0\x7f\xff\xff\xff",
            lambda: b"{}{}{}",
            lambda: None,
        ]
        messages = pa.array([chance.choice(kinds)() for _ in range(300)], pa.binary())
        reader = decoder(registry.url)
        for part in (messages, messages.slice(17, 200)):
            singly = [reader.decode(part.slice(index, 1)) for index in range(len(part))]
            whole = reader.decode(part)
            assert whole.rows.to_pylist() == [row for each in singly for row in each.rows.to_pylist()]
            assert whole.origin is not None
            assert whole.origin.tolist() == [index for index, each in enumerate(singly) if each.rows.num_rows]
            expected = [(index, bad.field, bad.reason) for index, each in enumerate(singly) for bad in each.bad]
            assert [(bad.index, bad.field, bad.reason) for bad in whole.bad] == expected

    @pytest.mark.parametrize(
        ("message", "reason"),
        [
            (b"", "0 bytes are too few: the id of the schema takes the first 5"),
            (b"\0\0\0\0", "4 bytes are too few"),
            (b'{"id":1}', "the first byte is 0x7b, not the magic byte 0x00"),
            (b"\0\x7f\xff\xff\xfe", "does not have the schema with id 2147483646: GET {url}/schemas/ids/2147483646"),
            (b"\0\xff\xff\xff\xff", "does not have the schema with id -1"),
        ],
    )
    def test_a_message_without_a_schema_is_refused(self, registry: RegistryServer, message: bytes, reason: str) -> None:
        (bad,) = decoder(registry.url).decode(pa.array([message])).bad
        assert reason.format(url=registry.url) in bad.reason

    def test_a_schema_that_comes_later_is_found(self, registry: RegistryServer, subject: str) -> None:
        reader, name = decoder(registry.url), f"r{uuid.uuid4().hex}"
        number = register(registry.url, subject, {**FIRST, "name": name}) + 1  # ids are given out in order
        message = pa.array([written(number, FIRST, {"id": 5})])
        assert reader.decode(message).bad
        assert register(registry.url, f"later-{subject}", {**FIRST, "name": f"{name}_later"}) == number
        assert reader.decode(message).rows.to_pylist() == [{"id": 5, "name": None}]

    def test_data_of_a_schema_that_does_not_fit_the_table_are_refused(
        self, registry: RegistryServer, subject: str
    ) -> None:
        number = register(registry.url, subject, {**FIRST, "fields": [{"name": "id", "type": "string"}]})
        (bad,) = decoder(registry.url).decode(pa.array([b"\0" + number.to_bytes(4, "big") + b"\2x"])).bad
        assert bad.field == "id"
        assert bad.reason.startswith(f"the schema with id {number} does not fit the table: the data has string")

    @pytest.mark.parametrize(
        ("schema", "more", "reason"),
        [
            (
                {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"},
                {"schemaType": "JSON"},
                "is of type JSON, not AVRO",
            ),
            (
                {"type": "record", "name": "n", "fields": [{"name": "n", "type": ["null", "n"]}]},
                {},
                "is invalid: .*'n' contains itself",
            ),
        ],
    )
    def test_a_schema_that_no_table_can_have_is_refused(
        self, registry: RegistryServer, subject: str, schema: Any, more: dict[str, str], reason: str
    ) -> None:
        number = register(registry.url, subject, schema, **more)
        for _ in range(2):
            (bad,) = decoder(registry.url).decode(pa.array([b"\0" + number.to_bytes(4, "big")])).bad
            assert bad.reason.startswith(f"the schema with id {number} ")
            assert re.search(reason, bad.reason)

    def test_a_schema_may_refer_to_others(self, registry: RegistryServer, subject: str) -> None:
        point = {"type": "record", "name": "point", "namespace": "geo", "fields": [{"name": "x", "type": "int"}]}
        line = {"type": "record", "name": "line", "namespace": "geo", "fields": [{"name": "a", "type": "geo.point"}]}
        whole = {"type": "record", "name": "r", "fields": [
            {"name": "l", "type": "geo.line"}, {"name": "p", "type": "geo.point"},
        ]}  # fmt: skip
        named = {name: f"{name}-{subject}" for name in ("point", "line")}
        to_point = {"name": "geo.point", "subject": named["point"], "version": 1}
        to_line = {"name": "geo.line", "subject": named["line"], "version": 1}
        register(registry.url, named["point"], point)
        register(registry.url, named["line"], line, references=[to_point])
        number = register(registry.url, subject, whole, references=[to_line, to_point])
        message = b"\0" + number.to_bytes(4, "big") + b"\2\4"
        decoded = decoder(registry.url, "l ROW<a ROW<x INT>>, p ROW<x INT>").decode(pa.array([message]))
        assert decoded.rows.to_pylist() == [{"l": {"a": {"x": 1}}, "p": {"x": 2}}]

    def test_the_given_schema_stands_for_fields_that_were_not_written(
        self, registry: RegistryServer, subject: str
    ) -> None:
        number = register(registry.url, subject, FIRST)
        wanted = {**FIRST, "fields": [
            {"name": "number", "aliases": ["id"], "type": "long"},
            {"name": "name", "type": "string", "default": "none"},
        ]}  # fmt: skip
        columns = "number BIGINT, name STRING"
        decoded = decoder(registry.url, columns, schema=json.dumps(wanted)).decode(
            pa.array([written(number, FIRST, {"id": 3})])
        )
        assert decoded.rows.to_pylist() == [{"number": 3, "name": "none"}]

    def test_timestamps_with_a_zone_need_the_other_mapping(self, registry: RegistryServer, subject: str) -> None:
        columns, given = "t TIMESTAMP_LTZ(6)", {"timestamp_mapping.legacy": "false"}
        rows = batch(columns, {"t": dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)})
        bound = AvroConfluentOptions.from_text({"url": registry.url, "subject": subject, **given})
        messages = FORMAT.encoder(parse_columns(columns), bound).encode(rows)
        assert FORMAT.decoder(parse_columns(columns), bound).decode(messages).rows.equals(rows)

    def test_both_sides_survive_a_task_boundary(self, registry: RegistryServer, subject: str) -> None:
        rows = batch(COLUMNS, {"id": 1, "name": "x"})
        writer, reader = encoder(registry.url, subject), decoder(registry.url)
        messages = writer.encode(rows)
        assert reader.decode(messages).rows.equals(rows)
        assert pickle.loads(pickle.dumps(writer)).encode(rows).equals(messages)
        assert pickle.loads(pickle.dumps(reader)).decode(messages).rows.equals(rows)

    def test_the_command_line_knows_it(
        self, registry: RegistryServer, subject: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        settings = [f"url={registry.url}", f"subject={subject}", "properties.http.read.timeout.ms=30000"]
        common = ["--format", "avro-confluent", "--schema", COLUMNS, "--base64"]
        common += [part for each in settings for part in ("--option", f"avro-confluent.{each}")]
        rows = tmp_path / "rows"
        rows.write_text('{"id": 1, "name": "x"}\n')
        assert main(["encode", *common, str(rows)]) == 0
        message = capfd.readouterr().out
        assert base64.b64decode(message)[5:] == b"\2\2\2x"
        (tmp_path / "messages").write_text(message)
        assert main(["decode", *common, str(tmp_path / "messages")]) == 0
        assert json.loads(capfd.readouterr().out) == {"op": "+I", "row": {"id": 1, "name": "x"}}


class TestOthers:
    """Confluent's client for Python, which shares no code with ours."""

    def test_what_confluents_serializer_writes_is_read(self, registry: RegistryServer, subject: str) -> None:
        from confluent_kafka.schema_registry import SchemaRegistryClient
        from confluent_kafka.schema_registry.avro import AvroSerializer
        from confluent_kafka.serialization import MessageField, SerializationContext

        with SchemaRegistryClient({"url": registry.url}) as client:
            serialize = AvroSerializer(client, json.dumps(SECOND))
            context = SerializationContext(subject.removesuffix("-value"), MessageField.VALUE)
            messages = [serialize({"id": index, "name": f"row {index}"}, context) for index in range(5)]
        decoded = decoder(registry.url).decode(pa.array(messages))
        assert decoded.rows.to_pylist() == [{"id": index, "name": f"row {index}"} for index in range(5)]

    def test_confluents_deserializer_reads_what_is_written(self, registry: RegistryServer, subject: str) -> None:
        from confluent_kafka.schema_registry import SchemaRegistryClient
        from confluent_kafka.schema_registry.avro import AvroDeserializer
        from confluent_kafka.serialization import MessageField, SerializationContext

        rows = batch(COLUMNS, {"id": 1, "name": "x"}, {"id": 2, "name": None})
        messages = encoder(registry.url, subject).encode(rows).to_pylist()
        with SchemaRegistryClient({"url": registry.url}) as client:
            deserialize = AvroDeserializer(client)
            context = SerializationContext(subject.removesuffix("-value"), MessageField.VALUE)
            assert [deserialize(message, context) for message in messages] == rows.to_pylist()


class TestSubjects:
    def test_without_registration_the_schema_has_to_be_there(self, registry: RegistryServer, subject: str) -> None:
        rows = batch(COLUMNS, {"id": 1, "name": None})
        writer = encoder(registry.url, subject, auto_register_schemas="false")
        with pytest.raises(SchemaRegistryError, match=rf"subject '{subject}' does not have the schema.*register it"):
            writer.encode(rows)
        registered = encoder(registry.url, subject).encode(rows)
        assert writer.encode(rows).equals(registered)

    def test_another_schema_in_the_subject_does_not_do(self, registry: RegistryServer, subject: str) -> None:
        register(registry.url, subject, FIRST)
        writer = encoder(registry.url, subject, auto_register_schemas="false")
        with pytest.raises(SchemaRegistryError, match=rf"subject '{subject}' does not have the schema"):
            writer.encode(batch(COLUMNS, {"id": 1, "name": None}))

    def test_a_schema_that_the_subject_refuses_fails_with_the_reason(
        self, registry: RegistryServer, subject: str
    ) -> None:
        register(registry.url, subject, {**FIRST, "fields": [{"name": "id", "type": "string"}]})
        ask(f"{registry.url}/config/{subject}", {"compatibility": "BACKWARD"}, "PUT")
        with pytest.raises(SchemaRegistryError, match=r"not compatible.*Incompatible artifact.*change the table") as e:
            encoder(registry.url, subject).encode(batch(COLUMNS, {"id": 1, "name": None}))
        assert not e.value.restartable
        assert not isinstance(e.value, SchemaRegistryUnavailableError)

    def test_a_batch_without_rows_registers_nothing(self, registry: RegistryServer, subject: str) -> None:
        assert len(encoder(registry.url, subject).encode(batch(COLUMNS))) == 0
        assert subject not in ask(f"{registry.url}/subjects")


class TestBadDays:
    def message(self, registry: RegistryServer, subject: str) -> pa.Array:
        return pa.array([written(register(registry.url, subject, FIRST), FIRST, {"id": 1})])

    def test_a_registry_that_is_down_fails_the_batch_and_not_the_message(self) -> None:
        given = {"subject": "s", "request.timeout": "500 ms", "properties.retries.wait.ms": "10"}
        with nobody() as address:
            url = f"http://{address}/apis/ccompat/v7"
            bound = AvroConfluentOptions.from_text({"url": url, **given})
            expected = rf"within 0\.5 s: {url}/.*: Connection refused; check that it is running"
            with pytest.raises(SchemaRegistryUnavailableError, match=expected) as raised:
                FORMAT.decoder(parse_columns(COLUMNS), bound).decode(pa.array([b"\0\0\0\0\1\2"]))
            assert raised.value.restartable
            assert str(from_wire(to_wire(raised.value))) == str(raised.value)
            rows = batch(COLUMNS, {"id": 1, "name": ""})
            with pytest.raises(SchemaRegistryUnavailableError, match=expected):
                FORMAT.encoder(parse_columns(COLUMNS), bound).encode(rows)

    @pytest.mark.slow
    @pytest.mark.usefixtures("registry_java")
    def test_reading_and_writing_go_on_when_the_registry_is_back(self, subject: str) -> None:
        with RegistryServer() as server, ThreadPoolExecutor(2) as pool:
            message = self.message(server, subject)
            server.kill()
            rows = batch(COLUMNS, {"id": 1, "name": None})
            given = {"properties_retries_max_wait_ms": "200"}
            read = pool.submit(decoder(server.url, **given).decode, message)
            write = pool.submit(encoder(server.url, subject, **given).encode, rows)
            server.start()
            assert read.result(180).rows.equals(rows)
            assert len(write.result(180)) == 1

    def test_known_answers_are_not_requested_again(self, registry: RegistryServer, subject: str) -> None:
        message, rows = self.message(registry, subject), batch(COLUMNS, {"id": 1, "name": None})
        with Gateway(registry.url).running() as gateway:
            for _ in range(2):  # as tasks do, each with a reader and a writer of its own
                assert decoder(gateway.url).decode(message).rows.equals(rows)
                assert len(encoder(gateway.url, subject).encode(rows)) == 1
            assert [each.split()[0] for each in gateway.requests] == ["GET", "POST"]

    def test_threads_ask_once_for_a_schema(self, registry: RegistryServer, subject: str) -> None:
        message = self.message(registry, subject)
        with Gateway(registry.url).running() as gateway, ThreadPoolExecutor(4) as pool:
            gateway.open.clear()
            waiting = [pool.submit(decoder(gateway.url).decode, message) for _ in range(4)]
            eventually(lambda: gateway.requests)
            gateway.open.set()
            assert all(each.result(60).rows.num_rows == 1 for each in waiting)
            assert len(gateway.requests) == 1

    def test_a_failure_is_not_kept(self, registry: RegistryServer, subject: str) -> None:
        message = self.message(registry, subject)
        with Gateway(registry.url).running() as gateway:
            gateway.next_answers = [(503, "")]
            reader = decoder(gateway.url, request_timeout="10 s", properties_retries_wait_ms="60000")
            with pytest.raises(SchemaRegistryUnavailableError, match="it answered 503"):
                reader.decode(message)
            assert reader.decode(message).rows.num_rows == 1

    def test_a_slow_registry_is_waited_for_until_the_time_is_up(self, registry: RegistryServer, subject: str) -> None:
        message = self.message(registry, subject)
        with Gateway(registry.url).running() as gateway:
            gateway.open.clear()
            given = {"request_timeout": "500 ms", "properties_http_read_timeout_ms": "100"}
            with pytest.raises(SchemaRegistryUnavailableError, match=r"within 0\.5 s: .*no answer in time"):
                decoder(gateway.url, **given).decode(message)

    def test_passing_errors_are_followed_by_another_question(self, registry: RegistryServer, subject: str) -> None:
        with Gateway(registry.url).running() as gateway:
            gateway.next_answers = [(503, ""), (500, ""), (429, "")]
            given = {"properties_retries_wait_ms": "1"}
            writer = encoder(gateway.url, subject, **given)
            assert len(writer.encode(batch(COLUMNS, {"id": 1, "name": ""}))) == 1
            assert gateway.requests == [f"POST /apis/ccompat/v7/subjects/{subject}/versions"] * 4

    def test_of_several_addresses_the_one_that_answers_is_asked(self, registry: RegistryServer, subject: str) -> None:
        rows = batch(COLUMNS, {"id": 1, "name": "x"})
        with nobody() as address:
            addresses = f"http://{address}/x, {registry.url}/"
            messages = encoder(addresses, subject).encode(rows)
            assert decoder(addresses).decode(messages).rows.equals(rows)

    def test_a_redirection_is_followed(self, registry: RegistryServer, subject: str) -> None:
        message = self.message(registry, subject)
        number = int.from_bytes(message[0].as_py()[1:5], "big")
        with Gateway(registry.url).running() as gateway:
            gateway.next_answers = [(307, f"{registry.url}/schemas/ids/{number}")]
            assert decoder(gateway.url).decode(message).rows.num_rows == 1

    def test_a_server_that_is_not_a_registry_fails_the_batch_and_not_the_message(
        self, registry: RegistryServer
    ) -> None:
        wrong = registry.url.replace("/apis/ccompat/v7", "/nothing")
        with pytest.raises(SchemaRegistryError, match=r"answered 404.*check that this is the address of a schema reg"):
            decoder(wrong).decode(pa.array([b"\0\0\0\0\1\2"]))

    def test_a_forked_process_asks_by_itself(self, registry: RegistryServer, subject: str) -> None:
        message = self.message(registry, subject)[0].as_py()
        with Gateway(registry.url).running() as gateway:
            program = f"""
import os, pyarrow as pa
from penstock.formats.avro_confluent.factory import FORMAT
from penstock.formats.avro_confluent.options import AvroConfluentOptions
from penstock.types import parse_columns
options = AvroConfluentOptions.from_text({{"url": {gateway.url!r}}})
reader = FORMAT.decoder(parse_columns({COLUMNS!r}), options)
message = pa.array([{message!r}])
assert reader.decode(message).rows.num_rows == 1
child = os.fork()
assert reader.decode(message).rows.num_rows == 1
if child:
    assert os.waitpid(child, 0)[1] == 0
    assert reader.decode(message).rows.num_rows == 1
else:
    os._exit(0)
"""
            subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
            assert len(gateway.requests) == 2


class TestLogins:
    ROWS = batch(COLUMNS, {"id": 1, "name": "x"})

    def both_ways(self, url: str, subject: str, **given: str) -> None:
        messages = encoder(url, subject, **given).encode(self.ROWS)
        assert decoder(url, **given).decode(messages).rows.equals(self.ROWS)

    @pytest.mark.parametrize(
        ("wants", "given"),
        [
            ("Basic", {"basic__auth_user__info": "anna:hush:1"}),
            ("Basic", {"basic__auth_credentials__source": "USER_INFO", "basic__auth_user__info": "anna:hush:1"}),
            ("Basic", {"properties": "basic.auth.credentials.source:USER_INFO,basic.auth.user.info:'anna:hush:1'"}),
            ("Basic", {"url": "anna:hush%3A1@"}),
            ("Basic", {"url": "anna:hush:1@", "basic__auth_credentials__source": "URL"}),
            ("Bearer", {"bearer__auth_token": "hush-1"}),
            ("Bearer", {"bearer__auth_credentials__source": "STATIC_TOKEN", "bearer__auth_token": "hush-1"}),
            ("Bearer", {"properties_bearer_auth_token": "hush-1"}),
        ],
    )
    def test_credentials_are_shown_to_the_registry(
        self, registry: RegistryServer, subject: str, wants: str, given: dict[str, str]
    ) -> None:
        login = base64.b64encode(b"anna:hush:1").decode() if wants == "Basic" else "hush-1"
        with Gateway(registry.url, wants=f"{wants} {login}").running() as gateway:
            given = dict(given)
            url = gateway.url.replace("//", f"//{given.pop('url', '')}")
            self.both_ways(url, subject, **given)
            assert len(gateway.requests) == 2

    @pytest.mark.parametrize("given", [{}, {"basic__auth_user__info": "anna:hush"}, {"bearer__auth_token": "hush"}])
    def test_wrong_credentials_end_it_at_once_and_are_not_shown(
        self, registry: RegistryServer, given: dict[str, str]
    ) -> None:
        with Gateway(registry.url, wants="Bearer right").running() as gateway:
            with pytest.raises(SchemaRegistryError, match=r"answered 401: who are you\?; check credentials") as raised:
                decoder(gateway.url.replace("//", "//bert:hush@"), **given).decode(pa.array([b"\0\0\0\0\1\2"]))
            assert "hush" not in str(raised.value)
            assert not raised.value.restartable
            assert len(gateway.requests) == 1

    def context(self, *, ask_for_certificate: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / "pem/certificate.pem", TLS / "pem/key.pem")
        if ask_for_certificate:
            context.load_verify_locations(TLS / "pem/certificate.pem")
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    @pytest.mark.parametrize(
        "given",
        [
            {"ssl_truststore_location": "stores/trust.jks", "ssl_truststore_password": "store-pass"},
            {"ssl_truststore_location": "stores/trust.p12", "ssl_truststore_password": "store-pass"},
            {"ssl_truststore_location": "pem/certificate.pem", "properties_schema_registry_ssl_truststore_type": "PEM"},
        ],
    )
    def test_a_registry_behind_tls_is_reached_by_its_truststore(
        self, registry: RegistryServer, subject: str, given: dict[str, str]
    ) -> None:
        placed = {key: str(TLS / value) if key.endswith("location") else value for key, value in given.items()}
        with Gateway(registry.url, tls=self.context()).running() as gateway:
            self.both_ways(gateway.url, subject, **placed)

    def test_a_store_that_is_not_there_is_named(self, registry: RegistryServer) -> None:
        with (
            Gateway(registry.url, tls=self.context()).running() as gateway,
            pytest.raises(OptionsError, match=r"'ssl\.truststore\.location'.*'/gone' cannot be read"),
        ):
            decoder(gateway.url, ssl_truststore_location="/gone").decode(pa.array([b"\0\0\0\0\1\2"]))

    def test_a_certificate_that_is_not_trusted_ends_it_at_once(self, registry: RegistryServer) -> None:
        with (
            Gateway(registry.url, tls=self.context()).running() as gateway,
            pytest.raises(SchemaRegistryError, match=r"open a TLS connection.*certificate verify failed") as raised,
        ):
            decoder(gateway.url).decode(pa.array([b"\0\0\0\0\1\2"]))
        assert not raised.value.restartable

    def test_the_name_in_the_certificate_has_to_fit_unless_it_need_not(
        self, registry: RegistryServer, subject: str
    ) -> None:
        trust = {"ssl_truststore_location": str(TLS / "stores/trust.jks")}
        with Gateway(registry.url, tls=self.context()).running() as gateway:
            by_number = gateway.url.replace("localhost", "127.0.0.1")
            with pytest.raises(SchemaRegistryError, match=r"cannot open a TLS connection.*127"):
                encoder(by_number, subject, **trust).encode(self.ROWS)
            bound = AvroConfluentOptions.from_text(
                {
                    "url": by_number,
                    "subject": subject,
                    "ssl.truststore.location": str(TLS / "stores/trust.jks"),
                    "properties.schema.registry.ssl.endpoint.identification.algorithm": "",
                }
            )
            assert len(FORMAT.encoder(parse_columns(COLUMNS), bound).encode(self.ROWS)) == 1

    def test_a_registry_that_asks_for_a_certificate_gets_that_of_the_keystore(
        self, registry: RegistryServer, subject: str
    ) -> None:
        trust = {"ssl_truststore_location": str(TLS / "stores/trust.jks")}
        own = {"ssl_keystore_location": str(TLS / "stores/key.p12"), "ssl_keystore_password": "store-pass"}
        with Gateway(registry.url, tls=self.context(ask_for_certificate=True)).running() as gateway:
            self.both_ways(gateway.url, subject, **trust, **own)
