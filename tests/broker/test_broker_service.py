from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka.admin import ConfigResource, KafkaAdminClient, OffsetSpec
from kafka.errors import KafkaTimeoutError
from kafka.structs import TopicPartition

from penstock.errors import ServiceError
from penstock.machine.processes import Identity
from penstock_testing.commands import servers
from penstock_testing.services import KafkaCluster, Security
from penstock_testing.services.broker_config import NodePorts
from penstock_testing.services.cluster_members import cluster_members
from penstock_testing.services.kafka import choose_ports
from penstock_testing.services.running import BackgroundCluster
from tests.scans import write
from tests.sockets import LOOPBACK, free_port, listening
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.conftest import TopicFactory


def members(address: str) -> set[int]:
    """The node ids that the broker at ``address`` knows; empty when it does not answer at once."""
    host, _, port = address.partition(":")
    try:
        return set(cluster_members(host, int(port), seconds=0.5))
    except OSError:
        return set()


def await_members(address: str, *nodes: int) -> None:
    """Returns when the broker at ``address`` answers, and knows these nodes and no others."""
    eventually(lambda: members(address) == set(nodes))


@pytest.fixture(scope="module")
def other() -> Iterator[KafkaCluster]:
    """A broker with properties of its own, which looks at once for what is too old."""
    properties = {
        "transaction.max.timeout.ms": "4321",
        "transaction.version": "0",
        "log.retention.check.interval.ms": "50",
        "log.initial.task.delay.ms": "50",
    }
    with KafkaCluster(properties=properties) as cluster:
        yield cluster


class TestOneBroker:
    def test_answers_and_makes_topics(
        self, kafka: KafkaCluster, kafka_admin: KafkaAdminClient, topic: TopicFactory
    ) -> None:
        (described,) = kafka_admin.describe_topics([topic(3)])
        assert len(described["partitions"]) == 3
        await_members(kafka.bootstrap, 1)

    def test_listens_on_the_loopback_address_only(self, kafka: KafkaCluster) -> None:
        addresses = listening(kafka.processes[1].pid)
        assert addresses
        assert addresses <= LOOPBACK

    def test_properties_override_and_feature_levels_are_formatted(
        self, other: KafkaCluster, kafka_admin: KafkaAdminClient
    ) -> None:
        with KafkaAdminClient(bootstrap_servers=other.bootstrap) as admin:
            described = admin.describe_configs([ConfigResource("BROKER", "1")], config_filter="all")
            assert described["broker"]["1"]["transaction.max.timeout.ms"]["value"] == "4321"
            assert "finalized" not in admin.describe_features()["transaction.version"]  # as Kafka tells level 0
            assert kafka_admin.describe_features()["transaction.version"]["finalized"] == (2, 2)

    def test_records_from_long_ago_stay(self, other: KafkaCluster) -> None:
        """Kafka's own retention goes by what records say of their time, so that it would delete them within minutes."""
        with KafkaAdminClient(bootstrap_servers=other.bootstrap) as admin:
            topic = {"num_partitions": 1, "replication_factor": 1}
            admin.create_topics({"kept": topic, "deleted": {**topic, "configs": {"retention.ms": "1000"}}})
            admin.wait_for_topics(["kept", "deleted"], 60_000)
            long_ago = 1_000_000_000_000

            def left(name: str) -> int:
                (at,) = admin.list_partition_offsets({TopicPartition(name, 0): OffsetSpec.EARLIEST}).values()
                return at.offset

            write(other, "kept", 3, began=long_ago)
            for rounds in (1, 2):  # between the two, all topics have been looked at
                write(other, "deleted", 1, began=long_ago)
                eventually(lambda rounds=rounds: left("deleted") == rounds)
            assert left("kept") == 0

    def test_stop_ends_its_own_process_alone_and_deletes_temporary_data(self, kafka: KafkaCluster) -> None:
        cluster = KafkaCluster().start()
        identity, folder = cluster.processes[1], cluster.folder
        assert folder.exists()
        cluster.stop()
        assert not identity.alive()
        assert not folder.exists()
        await_members(kafka.bootstrap, 1)
        cluster.stop()  # once more does nothing

    def test_a_taken_port_is_named_before_anything_is_started(self) -> None:
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            port = holder.getsockname()[1]
            with pytest.raises(ServiceError, match=rf"port {port} on 127\.0\.0\.1 cannot be used"):
                KafkaCluster(port=port).start()

    def test_a_free_port_that_is_lost_before_the_broker_binds_it_is_replaced(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        choices = []
        with socket.socket() as thief:

            def choose(*args: int, **options: bool) -> dict[int, NodePorts]:
                choices.append(choose_ports(*args, **options))
                if len(choices) == 1:
                    thief.bind(("127.0.0.1", choices[0][1].controller))
                    thief.listen()
                return choices[-1]

            monkeypatch.setattr("penstock_testing.services.kafka.choose_ports", choose)
            with KafkaCluster() as cluster:
                await_members(cluster.bootstrap, 1)
        assert len(choices) == 2

    def test_a_setting_that_kafka_refuses_is_quoted(self) -> None:
        cluster = KafkaCluster(properties={"log.retention.bytes": "plenty"})
        with pytest.raises(ServiceError, match=r"plenty"):
            cluster.start()
        assert not cluster.processes

    def test_data_outlive_a_restart(self, tmp_path: Path) -> None:
        for known in (set(), {"kept"}):
            with (
                KafkaCluster(data=tmp_path) as cluster,
                KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin,
            ):
                assert set(admin.list_topics()) == known
                if not known:
                    admin.create_topics({"kept": {"num_partitions": 1, "replication_factor": 1}})
        with pytest.raises(ServiceError, match=r"data of 1 broker\(s\), not of 3"):
            KafkaCluster(3, data=tmp_path).start()


class TestDeathOfTheParent:
    """The child starts a cluster, tells the broker's pid and its folder, and waits to be killed. That the broker goes
    with a process that has started it in its main thread is part of the other case."""

    CHILD = """
import sys, threading
from penstock_testing.services import KafkaCluster
started = []
def start():
    started.append(KafkaCluster().start())
if sys.argv[1] == "thread":  # the tie must not be to the thread, which ends here
    worker = threading.Thread(target=start)
    worker.start()
    worker.join()
else:
    start()
print(started[0].processes[1].pid, started[0].bootstrap, started[0].folder, flush=True)
sys.stdin.read()
"""

    @pytest.fixture(params=[pytest.param("main", marks=pytest.mark.slow), "thread"])
    def child(self, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, "-c", self.CHILD, request.param]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            yield process
            process.kill()

    def test_the_broker_goes_with_it(self, child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None
        pid, bootstrap, folder = child.stdout.readline().split()
        broker = Identity.from_pid(int(pid))
        assert broker is not None
        await_members(bootstrap, 1)
        child.send_signal(signal.SIGKILL)
        child.wait()
        eventually(lambda: not broker.alive())
        eventually(lambda: not Path(folder).exists())

    def test_the_broker_goes_with_its_guard(self) -> None:
        with KafkaCluster() as cluster:
            broker = cluster.processes[1]
            guard = int(Path(f"/proc/{broker.pid}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(guard, signal.SIGKILL)
            eventually(lambda: not broker.alive())


class TestThreeBrokers:
    @pytest.mark.slow
    def test_survive_crash_pause_and_restart(self) -> None:
        noticed_soon = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
        with KafkaCluster(3, properties=noticed_soon) as cluster:
            addresses = cluster.bootstrap.split(",")
            for address in addresses:
                await_members(address, 1, 2, 3)
            with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
                admin.create_topics({"copied": {"num_partitions": 1}}, wait_for_metadata=True)
                (described,) = admin.describe_topics(["copied"])
                assert len(described["partitions"][0]["replica_nodes"]) == 3

            killed = cluster.processes[2]
            cluster.kill(2)
            assert not killed.alive()
            assert set(cluster.processes) == {1, 3}
            await_members(addresses[0], 1, 3)

            cluster.restart(2)
            await_members(addresses[1], 1, 2, 3)

            cluster.pause(3)
            assert cluster.processes[3].alive()
            assert members(addresses[2]) == set()
            cluster.resume(3)
            await_members(addresses[2], 1, 2, 3)


class TestSecurity:
    PASSWORD = 'se"cr\\et ä'

    @pytest.mark.parametrize(
        ("protocol", "mechanism"),
        [("SASL_SSL", "SCRAM-SHA-512"), pytest.param("SASL_PLAINTEXT", "PLAIN", marks=pytest.mark.slow)],
    )
    def test_lets_in_only_users_with_their_password(self, protocol: str, mechanism: str) -> None:
        security = Security(protocol, mechanism, {"alice": self.PASSWORD, "bob": "other"})
        with KafkaCluster(security=security) as cluster:
            settings = cluster.client_settings()
            assert settings["security.protocol"] == protocol
            common = {
                "bootstrap_servers": cluster.bootstrap,
                "security_protocol": protocol,
                "ssl_cafile": settings.get("ssl.truststore.location"),
                "sasl_mechanism": mechanism,
                "sasl_plain_username": "alice",
            }
            with KafkaAdminClient(**common, sasl_plain_password=self.PASSWORD) as admin:
                assert admin.list_topics() == []
            with pytest.raises(KafkaTimeoutError):
                KafkaAdminClient(**common, sasl_plain_password="other", bootstrap_timeout_ms=2000)
            assert members(cluster.bootstrap) == set()  # nobody without a name
            assert (cluster.folder / "server-1.properties").stat().st_mode & 0o077 == 0


class TestCommand:
    @pytest.fixture(autouse=True)
    def _own_state(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        yield
        for left in BackgroundCluster.all():
            left.stop()

    def run(self, *arguments: str) -> int:
        parser = argparse.ArgumentParser()
        servers.add_parser(parser.add_subparsers())
        args = parser.parse_args(["broker", *arguments])
        return int(args.run(args))

    def test_start_status_stop(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        port = free_port()
        assert self.run("status") == 1
        assert "no broker runs" in capsys.readouterr().out

        assert self.run("start", "--port", str(port)) == 0
        (line,) = capsys.readouterr().out.splitlines()
        told = json.loads(line)
        assert told["bootstrap"] == f"127.0.0.1:{port}"
        broker = Identity.from_pid(told["pid"])
        assert broker is not None
        await_members(told["bootstrap"], 1)

        assert self.run("status") == 0
        assert f"127.0.0.1:{port}  Kafka 4.3.0  answers  pid {broker.pid}" in capsys.readouterr().out
        with pytest.raises(ServiceError, match=f"runs on port {port} already"):
            self.run("start", "--port", str(port))

        assert self.run("stop") == 0
        assert not broker.alive()
        assert not (tmp_path / "state/penstock/brokers" / str(port)).exists()
        with pytest.raises(ServiceError, match="no broker"):
            self.run("stop")

    def test_the_broker_outlives_the_command(self, tmp_path: Path) -> None:
        script = (
            "import sys; from penstock_testing.services.running import BackgroundCluster as B;"
            "print(B.start(port=int(sys.argv[1])).nodes[0].pid)"
        )
        port = free_port()
        done = subprocess.run(
            [sys.executable, "-c", script, str(port)], capture_output=True, text=True, check=True, timeout=120
        )
        broker = Identity.from_pid(int(done.stdout))
        assert broker is not None
        await_members(f"127.0.0.1:{port}", 1)
        (found,) = BackgroundCluster.all()
        found.stop()
        assert not broker.alive()

    def test_a_process_that_inherited_the_pid_is_left_alone(self, tmp_path: Path) -> None:
        with subprocess.Popen(["sleep", "60"]) as other:
            folder = tmp_path / "state/penstock/brokers/9"
            folder.mkdir(parents=True)
            node = {"pid": other.pid, "started": "another boot:1"}
            state = {"port": 9, "address": "127.0.0.1:9", "version": "4.3.0", "data": "", "temporary": True}
            (folder / "state.json").write_text(json.dumps(state | {"nodes": [node]}))
            assert BackgroundCluster.all() == []
            with pytest.raises(ServiceError, match="no broker"):
                self.run("stop", "--port", "9")
            assert other.poll() is None
            other.kill()
