"""``penstock decode`` and ``penstock encode``, run as the command line runs them."""

from __future__ import annotations

import argparse
import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.formats import add_parser


def run(capfdbinary: pytest.CaptureFixture[bytes], *args: str) -> tuple[int, list[str], list[str]]:
    parser = argparse.ArgumentParser(prog="penstock")
    add_parser(parser.add_subparsers(required=True))
    parsed = parser.parse_args(args)
    status: int = parsed.run(parsed)
    out, err = capfdbinary.readouterr()
    return status, out.decode().splitlines(), err.decode().splitlines()


@pytest.fixture
def lines(tmp_path: Path) -> Any:
    def written(*given: str | bytes) -> str:
        path = tmp_path / "lines"
        path.write_bytes(b"".join((each.encode() if isinstance(each, str) else each) + b"\n" for each in given))
        return str(path)

    return written


def test_decode_prints_a_row_per_message(capfdbinary: pytest.CaptureFixture[bytes], lines: Any) -> None:
    schema = "i BIGINT, n DECIMAL(30, 2), y BYTES, d DATE, ti TIME(3), ts TIMESTAMP(3), a ARRAY<INT>"
    message = (
        '{"i":1,"n":12345678901234567890.50,"y":"QQ==","d":"2024-01-02","ti":"03:04:05.6","ts":"2024-01-02 03:04:05.6",'
        '"a":[1]}'
    )
    status, out, err = run(capfdbinary, "decode", "--format", "json", "--schema", schema, lines(message, "", "[{},{}]"))
    assert (status, err) == (0, [])
    assert out[0] == '{"op": "+I", "row": ' + message + "}"
    assert [json.loads(line)["row"]["i"] for line in out] == [1, None, None]


def test_decode_names_the_lines_that_are_bad(capfdbinary: pytest.CaptureFixture[bytes], lines: Any) -> None:
    args = ["decode", "--format", "json", "--schema", "i INT, j INT"]
    path = lines('{"i":1}', '{"i":"x"}', "{", '{"j":2}')
    status, out, err = run(capfdbinary, *args, path)
    assert status == 1
    assert [json.loads(line)["row"] for line in out] == [{"i": 1, "j": None}, {"i": None, "j": 2}]
    assert len(err) == 3
    assert err[0].startswith("line 2: format 'json', field 'i': ")
    assert err[1].startswith("line 3: format 'json': ")
    assert err[2].startswith(
        "penstock decode: 2 of the messages cannot be read; --option json.ignore-parse-errors=true"
    )
    status, out, err = run(capfdbinary, *args, "--option", "json.ignore-parse-errors=true", path)
    assert (status, err) == (0, [])
    assert [json.loads(line)["row"]["i"] for line in out] == [1, None, None]


def test_decode_takes_the_options_of_the_format(capfdbinary: pytest.CaptureFixture[bytes], lines: Any) -> None:
    args = ["--option", "csv.field-delimiter=;", "--option", "csv.null-literal=-"]
    status, out, _ = run(capfdbinary, "decode", "--format", "CSV", "--schema", "a STRING, b INT", *args, lines("x,y;-"))
    assert (status, json.loads(out[0])) == (0, {"op": "+I", "row": {"a": "x,y", "b": None}})


def test_encode_takes_rows_with_and_without_an_op(capfdbinary: pytest.CaptureFixture[bytes], lines: Any) -> None:
    rows = ('{"op": "+I", "row": {"a": "x", "b": 1.50}}', '{"a": "y z"}', '{"op": "+U", "row": {"b": "2"}}')
    args = ["encode", "--schema", "a STRING, b DECIMAL(38, 20)"]
    status, out, err = run(capfdbinary, *args, "--format", "json", lines(*rows))
    assert (status, err) == (0, [])
    assert out == ['{"a":"x","b":1.5}', '{"a":"y z","b":null}', '{"a":null,"b":2}']
    assert run(capfdbinary, *args, "--format", "csv", lines(*rows))[1] == [
        f"x,1.5{'0' * 19}",
        '"y z",',
        f",2.{'0' * 20}",
    ]


def test_encode_names_the_lines_that_are_bad(capfdbinary: pytest.CaptureFixture[bytes], lines: Any) -> None:
    rows = ('{"a": 1}', '{"a": "x"}', "x", '{"op": "-D", "row": {"a": 2}}', '{"a": 3}')
    status, out, err = run(capfdbinary, "encode", "--format", "json", "--schema", "a INT", lines(*rows))
    assert (status, out) == (1, ['{"a":1}', '{"a":3}'])
    assert [line.split(":")[0] for line in err] == ["line 2", "line 3", "line 4"]
    assert "'a'" in err[0]


def test_a_column_may_be_called_row(capfdbinary: pytest.CaptureFixture[bytes], lines: Any) -> None:
    given = lines('{"row": {"x": 1}}', '{"op": "+I", "row": {"row": {"x": 2}}}')
    out = run(capfdbinary, "encode", "--format", "json", "--schema", "`row` ROW<x INT>", given)[1]
    assert out == ['{"row":{"x":1}}', '{"row":{"x":2}}']


@pytest.mark.parametrize("format", ["json", "csv", "debezium-json", "canal-json", "maxwell-json", "ogg-json"])
def test_there_and_back(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, format: str) -> None:
    schema = "s STRING, y BYTES, d DOUBLE, ts TIMESTAMP(6), lz TIMESTAMP_LTZ(3), b BOOLEAN"
    row = {
        "s": 'é "quoted", with comma',
        "y": base64.b64encode(b"\x00\xff").decode(),
        "d": 1.0e-7,
        "ts": "2024-01-02 03:04:05.000006",
        "lz": "2024-01-02 03:04:05Z",
        "b": True,
    }
    (tmp_path / "rows").write_text(json.dumps(row))
    args = ["--format", format, "--schema", schema]
    messages = run(capfdbinary, "encode", *args, str(tmp_path / "rows"))[1]
    (tmp_path / "messages").write_text("\n".join(messages))
    status, out, _ = run(capfdbinary, "decode", *args, str(tmp_path / "messages"))
    assert (status, json.loads(out[0])["row"]) == (0, row)


def test_binary_messages_stand_in_base64(capfdbinary: pytest.CaptureFixture[bytes], lines: Any) -> None:
    args = ["--format", "avro", "--schema", "i INT NOT NULL, s STRING"]
    rows = [{"i": 5, "s": "x"}, {"i": 7, "s": None}]
    given = lines(*map(json.dumps, rows))
    status, out, err = run(capfdbinary, "encode", *args, given)
    assert (status, out, err) == (
        1,
        ["\x0e\x00"],
        ["line 1: its message has a line end in it (write the messages with --base64)"],
    )
    status, out, err = run(capfdbinary, "encode", *args, "--base64", given)
    assert (status, out, err) == (0, ["CgICeA==", "DgA="], [])
    status, out, err = run(capfdbinary, "decode", *args, "--base64", lines("no base64", *out, "CgI="))
    assert (status, [json.loads(line)["row"] for line in out]) == (1, rows)
    assert err[0].startswith("line 1: expected base64: ")
    assert err[1] == "line 4: format 'avro', field 's': the message ends inside this value"


def test_protobuf_messages_of_a_proto_file(
    capfdbinary: pytest.CaptureFixture[bytes], lines: Any, tmp_path: Path
) -> None:
    path = tmp_path / "pair.proto"
    path.write_text('syntax = "proto3"; package p; message Pair { int32 i = 1; string s = 2; }')
    args = ["--format", "protobuf", "--schema", "i INT, s STRING", "--base64"]
    args += ["--option", f"protobuf.proto-file={path}", "--option"]
    rows = [{"i": 5, "s": "x"}, {"i": 0, "s": ""}]
    given = lines(*map(json.dumps, rows))
    status, out, err = run(capfdbinary, "encode", *args, "protobuf.message-class-name=p.Pair", given)
    assert (status, out, err) == (0, ["CAUSAXg=", ""], [])
    status, out, err = run(capfdbinary, "decode", *args, "protobuf.message-class-name=p.Pair", lines(*out, "CAUSAng="))
    assert (status, [json.loads(line)["row"] for line in out]) == (1, rows)
    assert err[0].startswith("line 3: format 'protobuf', field 's': a length is larger than")
    status, out, err = run(capfdbinary, "decode", *args, "protobuf.message-class-name=p.Pear", given)
    assert (status, out) == (2, [])
    assert err == [
        "penstock decode: --option: 'protobuf.message-class-name': no message 'p.Pear' (did you mean 'p.Pair'?)"
    ]


def test_keys_of_maps_that_are_no_text_are_shown_as_text(
    capfdbinary: pytest.CaptureFixture[bytes], lines: Any, tmp_path: Path
) -> None:
    path = tmp_path / "maps.proto"
    path.write_text(
        'syntax = "proto3"; message Inner { map<bool, int32> flags = 1; } '
        "message Maps { map<int64, Inner> parts = 1; repeated Inner more = 2; }"
    )
    args = ["--format", "protobuf", "--base64", "--option", f"protobuf.proto-file={path}"]
    args += ["--option", "protobuf.message-class-name=Maps"]
    inner = "ROW<flags MAP<BOOLEAN, INT>>"
    args += ["--schema", f"parts MAP<BIGINT, {inner}>, more ARRAY<{inner}>"]
    row = {"parts": {"-7": {"flags": {"true": 1}}}, "more": [{"flags": {"false": 2}}, {"flags": None}]}
    status, out, err = run(capfdbinary, "encode", *args, lines(json.dumps(row)))
    assert (status, err) == (0, [])
    status, out, err = run(capfdbinary, "decode", *args, lines(*out))
    assert (status, err, json.loads(out[0])["row"]) == (0, [], row)


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        (["--format", "jsn", "--schema", "a INT"], ["no format 'jsn'"]),
        (["--format", "json", "--schema", "a BIGNT"], ["unknown type BIGNT (did you mean 'BIGINT'?)"]),
        (["--format", "raw", "--schema", "a INT, b INT"], ["exactly one physical column"]),
        (["--format", "json", "--schema", "a INT", "--option", "json.ignore-parse-error=true"], ["did you mean"]),
        (["--format", "json", "--schema", "a INT", "--option", "json.ignore-parse-errors"], ["KEY=VALUE"]),
        (["--format", "json", "--schema", "a INT", "/no/such/file"], ["'/no/such/file'"]),
        (
            ["--format", "csv", "--schema", "a INT b", "--option", "csv.x=1", "--option", "csv.allow-comments=maybe"],
            ["found 'b'", "csv.x", "csv.allow-comments"],
        ),
    ],
)
@pytest.mark.parametrize("command", ["decode", "encode"])
def test_problems_are_all_told_a_line_each(
    capfdbinary: pytest.CaptureFixture[bytes], command: str, args: list[str], wanted: list[str]
) -> None:
    status, out, err = run(capfdbinary, command, *args)
    assert (status, out, len(err)) == (2, [], len(wanted))
    for line, text in zip(err, wanted, strict=True):
        assert line.startswith(f"penstock {command}: ")
        assert text in line


def test_standard_input_is_read_in_the_absence_of_a_file() -> None:
    program = (
        "import argparse, sys; from penstock.cli.formats import add_parser; parser = argparse.ArgumentParser(); "
        "add_parser(parser.add_subparsers()); args = parser.parse_args(); sys.exit(args.run(args))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "decode", "--format", "raw", "--schema", "v STRING"],
        input=b"one\ntwo",
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert [json.loads(line)["row"]["v"] for line in done.stdout.splitlines()] == ["one", "two"]


def test_what_an_encoder_needs_is_named_as_it_is_written(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    given = ["--format", "avro-confluent", "--schema", "id INT", "--option", "avro-confluent.url=http://localhost:1"]
    status, _, err = run(capfdbinary, "encode", *given)
    assert status == 2
    assert err[0].startswith("penstock encode: 'avro-confluent.subject': is required to write")


def test_changes_are_decoded_with_their_kinds(capfdbinary: pytest.CaptureFixture[bytes], lines: Any) -> None:
    args = ["decode", "--format", "debezium-json", "--schema", "id INT"]
    path = lines(
        '{"before":{"id":1},"after":{"id":2},"op":"u"}', "", '{"before":null,"op":"d"}', '{"before":{"id":3},"op":"d"}'
    )
    status, out, err = run(capfdbinary, *args, path)
    assert out == ['{"op": "-U", "row": {"id":1}}', '{"op": "+U", "row": {"id":2}}', '{"op": "-D", "row": {"id":3}}']
    assert status == 1
    assert len(err) == 2
    assert err[0].startswith("line 3: format 'debezium-json', field 'before': the field is missing or null in a delete")
    assert err[1].startswith("penstock decode: 1 of the messages")


def test_metadata_of_changes_is_shown_among_the_columns(capfdbinary: pytest.CaptureFixture[bytes], lines: Any) -> None:
    schema = (
        "at TIMESTAMP(3) METADATA FROM 'value.ingestion-timestamp' VIRTUAL, id INT, "
        "origin STRING METADATA FROM 'value.source.table', name STRING"
    )
    args = ["--format", "debezium-json", "--schema", schema]
    path = lines('{"before":{"id":1},"after":{"id":2},"op":"u","ts_ms":1769000000123,"source":{"table":"t"}}')
    status, out, err = run(capfdbinary, "decode", *args, path)
    assert (status, err) == (0, [])
    rest = {"at": "2026-01-21 12:53:20.123Z", "origin": "t", "name": None}
    assert [json.loads(line) for line in out] == [
        {"op": op, "row": {"id": at, **rest}} for op, at in (("-U", 1), ("+U", 2))
    ]
    assert out[0].startswith('{"op": "-U", "row": {"at":')
    # the same columns read back: metadata is no part of what is written
    out = run(capfdbinary, "encode", *args, lines(*out))[1]
    assert [json.loads(line)["op"] for line in out] == ["d", "c"]


@pytest.mark.parametrize("command", ["decode", "encode"])
def test_columns_that_a_format_has_nothing_for_are_named(
    capfdbinary: pytest.CaptureFixture[bytes], command: str
) -> None:
    schema = "a INT, b STRING METADATA FROM 'value.tabel', c BIGINT METADATA FROM 'offset', d AS a + 1"
    status, out, err = run(capfdbinary, command, "--format", "ogg-json", "--schema", schema)
    assert (status, out) == (2, [])
    assert err == [
        f"penstock {command}: --schema: 'b': ogg-json messages have no metadata 'value.tabel' (did you mean "
        "'value.table'?)",
        f"penstock {command}: --schema: 'c': ogg-json messages have no metadata 'offset' (known are value.table, "
        "value.primary-keys, value.ingestion-timestamp, value.event-timestamp)",
        f"penstock {command}: --schema: 'd': a computed column is not in messages (leave it out)",
    ]
    _, _, (told,) = run(capfdbinary, command, "--format", "json", "--schema", "a INT, b STRING METADATA")
    assert told == f"penstock {command}: --schema: 'b': json messages have no metadata 'b' (leave it out)"


def test_rows_of_all_kinds_are_encoded_by_formats_of_changes(
    capfdbinary: pytest.CaptureFixture[bytes], lines: Any
) -> None:
    rows = [f'{{"op":"{op}","row":{{"id":{at}}}}}' for at, op in enumerate(("+I", "-U", "+U", "-D"))]
    path = lines(*rows, '{"id":4}', '{"op":"?","row":{"id":5}}')
    status, out, err = run(capfdbinary, "encode", "--format", "maxwell-json", "--schema", "id INT", path)
    kinds = ("insert", "delete", "insert", "delete", "insert")
    assert out == [f'{{"data":{{"id":{at}}},"type":"{kind}"}}' for at, kind in enumerate(kinds)]
    assert status == 1
    assert err == ["line 6: expected the op '+I', '-U', '+U', '-D', not '?'"]
    status, out, err = run(capfdbinary, "encode", "--format", "json", "--schema", "id INT", path)
    assert out == ['{"id":0}', '{"id":2}', '{"id":4}']
    assert [each.partition(":")[0] for each in err] == ["line 2", "line 4", "line 6"]
