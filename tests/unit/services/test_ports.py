"""Ports that stay a server's own."""

from __future__ import annotations

import socket

import pytest

from penstock.errors import ServiceError
from penstock.services import ports
from penstock.services.ports import held


def port_of(holder):
    return holder.getsockname()[1]


@pytest.fixture
def given_away(tmp_path, monkeypatch):
    """Lets the system say which ports it gives to whoever asks for any."""
    monkeypatch.setattr(ports, "_RANGE", tmp_path / "range")
    return (tmp_path / "range").write_text


def test_a_free_port_is_none_that_the_system_gives_to_whoever_asks_for_any(given_away):
    given_away("20000\t30000\n")
    with held() as one, held() as other:
        assert port_of(one) != port_of(other)
        assert {port_of(each) // 10000 for each in (one, other)} == {1}


@pytest.mark.parametrize("told", [None, "1024 65535"])
def test_where_there_are_no_others_any_will_do(given_away, told):
    if told:
        given_away(told)
    with held() as holder:
        assert port_of(holder)


def test_a_port_that_is_taken_is_named():
    with held() as holder:
        holder.listen()
        with pytest.raises(ServiceError, match=rf"port {port_of(holder)} on 127\.0\.0\.1 cannot be used: .*ss -ltnp"):
            held(port_of(holder))


def test_ports_of_connections_just_closed_may_be_asked_for():
    with held() as holder:
        port = port_of(holder)
    with socket.create_server(("127.0.0.1", port)) as server, socket.create_connection(("127.0.0.1", port)):
        accepted, _ = server.accept()
        accepted.close()  # first, so that it is this end that lingers
    with held(port) as again:
        assert port_of(again) == port
