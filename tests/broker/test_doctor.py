from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path

import pytest

from penstock.cli import doctor
from penstock.errors import OptionsError
from penstock_testing.services import KafkaCluster, Security
from tests.sockets import nobody


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    doctor.add_parser(parser.add_subparsers())
    args = parser.parse_args(["doctor", *arguments])
    return int(args.run(args))


def test_all_in_order(kafka: KafkaCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--bootstrap-servers", kafka.bootstrap) == 0
    shown = capsys.readouterr().out
    for subject in ("Python", "Java", "PySpark", "pyarrow", "broker jars", "Kafka", "node 1"):
        assert re.search(rf"^  ok  {subject} ", shown, re.MULTILINE), shown
    assert kafka.bootstrap in shown
    assert "Everything is in order." in shown


def test_nobody_at_the_bootstrap_address(capsys: pytest.CaptureFixture[str]) -> None:
    with nobody() as address:
        assert run("--bootstrap-servers", address) == 1
    shown = capsys.readouterr().out
    assert re.search(rf"!!  Kafka +does not answer +{address}", shown)
    assert "advertised" not in shown
    assert "node 1" not in shown


def test_an_advertised_address_that_does_not_answer_is_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    with nobody() as advertised:
        properties = {"advertised.listeners": f"PLAINTEXT://{advertised}"}
        with KafkaCluster(properties=properties) as cluster:
            assert run("--bootstrap-servers", cluster.bootstrap) == 1
    shown = capsys.readouterr().out
    assert re.search(r"ok  Kafka +answers", shown)
    assert re.search(rf"!!  node 1 +does not answer +{advertised}", shown)
    assert f"sends clients to {advertised} for node 1" in shown
    assert "check advertised.listeners" in shown


def test_properties_reach_the_client_and_passwords_stay_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaCluster(security=Security("SASL_PLAINTEXT", "PLAIN", {"alice": "the-password"})) as cluster:
        given = [f"--property={key}={value}" for key, value in cluster.client_settings().items()]
        assert run(*given) == 0
        assert run(*(pair.replace("the-password", "not-that-password") for pair in given)) == 1
    shown = capsys.readouterr().out
    assert re.search(r"ok  node 1 +answers", shown)
    assert "the-password" not in shown
    assert "not-that-password" not in shown


def test_missing_java_is_the_first_thing_to_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run() == 1
    shown = capsys.readouterr().out
    assert re.search(r"!!  Java +none that fits", shown)
    assert re.search(r"ok  broker jars +not yet", shown)  # fetched when needed: nothing to do
    assert "openjdk-17-jre-headless" in shown.partition("To do:")[2]


@pytest.mark.parametrize("pair", ["no-equals-sign", "security.protcol=SSL"])
def test_a_property_that_cannot_be_is_refused(pair: str) -> None:
    with pytest.raises(OptionsError, match="--property"):
        run("--property", pair)


def test_every_dependency_is_looked_at() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=!~ \[;]", each)[0] for each in project["dependencies"]}
    assert names == {*doctor.dependencies(), "pyspark"}
