"""Ports that stay a server's own."""

from __future__ import annotations

import socket

import pytest

from penstock.errors import ServiceError
from penstock_testing.services import ports
from penstock_testing.services.ports import free_ports


@pytest.fixture
def given_away(tmp_path, monkeypatch):
    """Lets the system say which ports it gives to whoever asks for any."""
    monkeypatch.setattr(ports, "_RANGE", tmp_path / "range")
    return (tmp_path / "range").write_text


def test_a_free_port_is_none_that_the_system_gives_to_whoever_asks_for_any(given_away):
    given_away("20000\t30000\n")
    one, other = free_ports(0, 0)
    assert one != other
    assert {one // 10000, other // 10000} == {1}


@pytest.mark.parametrize("told", [None, "1024 65535"])
def test_where_there_are_no_others_any_will_do(given_away, told):
    if told:
        given_away(told)
    assert all(free_ports(0))


def test_a_port_that_is_taken_is_named():
    (port,) = free_ports(0)
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(ServiceError, match=rf"port {port} on 127\.0\.0\.1 cannot be used: .*ss -ltnp"),
    ):
        free_ports(0, port)


def test_ports_of_connections_just_closed_may_be_asked_for():
    (port,) = free_ports(0)
    with socket.create_server(("127.0.0.1", port)) as server, socket.create_connection(("127.0.0.1", port)):
        accepted, _ = server.accept()
        accepted.close()  # first, so that it is this end that lingers
    assert free_ports(port) == [port]
