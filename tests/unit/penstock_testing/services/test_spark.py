"""The Spark cluster for tests."""

from __future__ import annotations

import socket

import pytest

from penstock.errors import ServiceError
from penstock_testing.services import SparkCluster
from tests.jvm import UNOPTIMISED


@pytest.mark.slow  # three JVMs
def test_workers_register_and_come_back_and_leave_nothing_when_the_cluster_stops():
    with SparkCluster(2, jvm_options=(UNOPTIMISED,)) as cluster:
        folder, url, processes = cluster.folder, cluster.url, cluster.processes
        assert sorted(processes) == [1, 2, 3]
        assert url.startswith("spark://127.0.0.1:")
        assert cluster.executors(2) == cluster.executors(3) == []
        cluster.kill(3)
        assert sorted(cluster.processes) == [1, 2]
        cluster.kill(2)
        cluster.kill(1)
        cluster.start()
        assert cluster.url == url
        assert sorted(cluster.processes) == [1, 2, 3]
        processes |= cluster.processes
    assert not any(each.alive() for each in processes.values())
    assert not folder.exists()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=5)


def test_a_cluster_has_workers():
    with pytest.raises(ServiceError, match="0 workers runs no tasks"):
        SparkCluster(0)


def test_a_cluster_that_is_not_started_has_no_address():
    with pytest.raises(ServiceError, match="not started"):
        SparkCluster().url  # noqa: B018 - it raises
