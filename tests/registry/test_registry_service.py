from __future__ import annotations

import argparse
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ServiceError
from penstock.machine.processes import Identity
from penstock_testing.commands import servers
from penstock_testing.services import RegistryServer
from penstock_testing.services.running import BackgroundRegistry
from tests.sockets import LOOPBACK, free_port, listening


def ask(url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/vnd.schemaregistry.v1+json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_registers_schemas_by_confluents_api(registry: RegistryServer) -> None:
    schema = '{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}'
    number = ask(f"{registry.url}/subjects/by-hand/versions", {"schema": schema})["id"]
    assert json.loads(ask(f"{registry.url}/schemas/ids/{number}")["schema"]) == json.loads(schema)


def test_listens_on_the_loopback_address_only(registry: RegistryServer) -> None:
    addresses = listening(registry.process.pid)
    assert addresses
    assert addresses <= LOOPBACK


@pytest.mark.slow
def test_schemas_outlive_a_crash_and_nothing_outlives_the_end(registry: RegistryServer) -> None:
    with RegistryServer() as server:
        folder, first = server.folder, server.process
        number = ask(f"{server.url}/subjects/kept/versions", {"schema": '"int"'})["id"]
        server.kill()
        assert not first.alive()
        server.start()
        assert ask(f"{server.url}/subjects/kept", {"schema": '"int"'})["id"] == number
        second = server.process
    assert not second.alive()
    assert not folder.exists()
    server.stop()  # once more does nothing
    assert registry.process.alive()


def test_a_taken_port_is_named(registry: RegistryServer) -> None:
    with pytest.raises(ServiceError, match=rf"port {registry.port} on 127\.0\.0\.1 cannot be used"):
        RegistryServer(port=registry.port).start()


class TestCommand:
    @pytest.fixture(autouse=True)
    def _own_state(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: RegistryServer) -> Iterator[None]:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        yield
        for left in BackgroundRegistry.all():
            left.stop()

    def run(self, *arguments: str) -> int:
        parser = argparse.ArgumentParser()
        servers.add_parser(parser.add_subparsers())
        args = parser.parse_args(["registry", *arguments])
        return int(args.run(args))

    def test_start_status_stop(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        port, data = free_port(), tmp_path / "schemas"
        assert self.run("status") == 1
        assert "no registry runs" in capsys.readouterr().out

        assert self.run("start", "--port", str(port), "--data", str(data)) == 0
        (line,) = capsys.readouterr().out.splitlines()
        told = json.loads(line)
        assert told["url"] == f"http://127.0.0.1:{port}/apis/ccompat/v7"
        server = Identity.of(told["pid"])
        assert server is not None
        ask(f"{told['url']}/subjects/kept/versions", {"schema": '"int"'})

        assert self.run("status") == 0
        assert f"{told['url']}  Apicurio 3.3.3  answers  pid {server.pid}" in capsys.readouterr().out
        with pytest.raises(ServiceError, match=f"runs on port {port} already"):
            self.run("start", "--port", str(port))

        assert self.run("stop") == 0
        assert not server.alive()
        with pytest.raises(ServiceError, match="no registry"):
            self.run("stop")
        with RegistryServer(data=data) as again:
            assert ask(f"{again.url}/subjects") == ["kept"]
