"""Ports that stay a server's own."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from penstock.errors import ServiceError
from penstock.services import ports
from penstock.services.ports import held


def port_of(holder):
    return holder.getsockname()[1]


def test_a_free_port_is_none_that_the_system_gives_to_whoever_asks_for_any():
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    with held() as one, held() as other:
        assert port_of(one) != port_of(other)
        assert max(port_of(one), port_of(other)) < first


@pytest.mark.parametrize("told", ["no number", "0 10", "1024 65535"])
def test_where_the_system_does_not_say_which_those_are_any_will_do(tmp_path, monkeypatch, told):
    (tmp_path / "range").write_text(told)
    monkeypatch.setattr(ports, "_RANGE", tmp_path / "range")
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
