"""Where the cluster is, and how to log in: options and Java's properties files."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.client import add_client_options, client_config, parse_properties
from penstock.errors import OptionsError
from penstock.kafka.properties import ClientConfig
from penstock_testing.services.broker_config import render

SECRET = "a-password-nobody-may-see"


def config(*arguments: str) -> ClientConfig:
    parser = argparse.ArgumentParser()
    add_client_options(parser)
    return client_config(parser.parse_args(arguments))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("  a = b c \n", {"a": "b c "}),
        ("a:b\nc d\ne", {"a": "b", "c": "d", "e": ""}),
        ("a = = b", {"a": "= b"}),
        ("# a=1\n ! b=2\n\n \t\nc=3", {"c": "3"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=one,\\\n   two\nb=\\\\\nc=3", {"a": "one,two", "b": "\\", "c": "3"}),
        ("a=1\\\n# no comment\n", {"a": "1# no comment"}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("a=\\t\\n\\x\\u00e9\\uD83D\\uDE00", {"a": "\t\nx\N{LATIN SMALL LETTER E WITH ACUTE}\N{GRINNING FACE}"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
        ("", {}),
    ],
)
def test_files_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@given(st.dictionaries(st.from_regex(r"[a-z][a-z.]{0,20}", fullmatch=True), st.text()))
def test_what_is_written_for_brokers_is_read_back(settings: dict[str, str]) -> None:
    assert parse_properties(render(settings)) == settings


def test_a_malformed_escape_names_the_line_and_not_what_is_in_it() -> None:
    with pytest.raises(ValueError, match=r"^line 3: expected four hexadecimal digits after \\u$"):
        parse_properties(f"a=1\n\nssl.key.password={SECRET}\\\n\\u12")


def test_options_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\nclient.id=file\nrequest.timeout.ms=5\n")
    found = config("--command-config", str(file), "--bootstrap", "option:2", "--property", "client.id=option")
    assert (found.bootstrap_servers, found.client_id, found.request_timeout_ms) == (("option:2",), "option", 5)
    assert config("--command-config", str(file)).bootstrap_servers == ("file:1",)


def test_problems_name_where_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nclient.iid=1\n"
        f'sasl.jaas.config=PlainLoginModule required user="u" password="{SECRET}";\n'
    )
    with pytest.raises(OptionsError) as raised:
        config("--command-config", str(file), "--bootstrap-servers", "nowhere", "--property", "acks=7")
    text = str(raised.value)
    for problem in (
        f"{file}: 'client.iid'",
        f"{file}: 'sasl.jaas.config'",
        "--bootstrap-servers: ",
        "--property: 'acks'",
    ):
        assert problem in text
    assert SECRET not in text


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "--bootstrap-servers: 'bootstrap.servers': is required"),
        (("--property", "no-equals-sign"), "--property: 'no-equals-sign': expected KEY=VALUE"),
        (("--command-config", "/no/such/file"), "/no/such/file: cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_used_is_refused(arguments: tuple[str, ...], problem: str) -> None:
    with pytest.raises(OptionsError, match=problem):
        config(*arguments)


def test_what_is_no_property_of_a_client_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    config("--bootstrap", "broker:1", "--property", "schema.registry.url=http://me:secret@host")
    said = capsys.readouterr().err
    assert said == "warning: 'schema.registry.url' has no effect: it is not a property of a Kafka client\n"
