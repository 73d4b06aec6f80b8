"""A real Kafka cluster on this machine, for development and tests: KRaft mode, one JVM per node.

::

    with KafkaCluster() as cluster:
        print(cluster.bootstrap)      # 127.0.0.1:40123

Each node is broker and controller at once, listens on 127.0.0.1 only, and ends with the process that started it.
"""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

from penstock.errors import ServiceError
from penstock.machine.java import find_java
from penstock.machine.processes import GRACE_SECONDS, Identity
from penstock_testing.services import broker_config
from penstock_testing.services.broker_config import HOST, NodePorts, Security
from penstock_testing.services.certificates import Certificates, make_certificates
from penstock_testing.services.class_archive import shared_classes
from penstock_testing.services.cluster_members import cluster_members
from penstock_testing.services.downloads import Progress
from penstock_testing.services.jars import DEFAULT_VERSION, fetch_jars
from penstock_testing.services.ports import free_ports
from penstock_testing.services.process import tail
from penstock_testing.services.service import Service

_JVM = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-Djava.awt.headless=true")


class KafkaCluster(Service):
    """One or three Kafka nodes (any number works; three is the least that survives a loss).

    Args:
        brokers: how many nodes; their ids count from 1. With three or more, topics have three replicas, and two
            must be in sync.
        port: the first node's port for clients, the next nodes take the following ones. 0 takes free ports.
        data: where the nodes keep their logs, across restarts. By default a temporary folder. Records are kept
            whatever their timestamps, unless a topic or ``properties`` set a retention.
        version: of Kafka; its jars are fetched when they are not in the cache.
        properties: settings of the brokers by Kafka's names, over penstock's own. Feature levels may be among them
            (``transaction.version``: ``0``) and take effect when ``data`` is first written.
        security: how clients connect if not in plain text.
        advertised: one port per node for clients instead of the one that the node listens on, for a proxy in between
            (:class:`penstock_testing.KafkaProxy`). :attr:`plain_bootstrap` goes past it.
        jvm_options: more options of the JVM, after ``-Xmx512m -XX:+UseSerialGC``.
        folder: for settings and logs of the run, deleted by :meth:`stop`. By default a temporary folder.
        detachable: :meth:`detach` may be called. Until then the servers are tied less closely to this process.
        progress: called with a short line at each step that takes long.

    Not for use by several threads at once, nor by a fork of the process that started it.
    """

    name = "the cluster"
    prefix = "penstock-kafka-"
    port_lost = "failed to bind"

    def __init__(
        self,
        brokers: int = 1,
        *,
        port: int = 0,
        data: Path | str | None = None,
        version: str = DEFAULT_VERSION,
        properties: Mapping[str, str] | None = None,
        security: Security | None = None,
        advertised: Sequence[int] = (),
        jvm_options: Sequence[str] = (),
        folder: Path | None = None,
        detachable: bool = False,
        progress: Progress = lambda line: None,
    ):
        super().__init__(folder, data=data, detachable=detachable)
        if brokers < 1:
            raise ServiceError(f"a cluster of {brokers} brokers cannot be started; ask for 1, or for 3")
        if not 0 <= port <= 65536 - brokers:
            raise ServiceError(
                f"port {port} is out of range for {brokers} broker(s); choose one from 1024 to 65000, or 0"
            )
        if advertised and len(advertised) != brokers:
            raise ServiceError(
                f"{len(advertised)} advertised port(s) do not fit {brokers} broker(s); give one for each"
            )
        self.version = version
        self.properties = dict(properties or {})
        self.security = security
        self._size, self._port = brokers, port
        self._advertised = dict(zip(self.nodes, advertised, strict=False))
        self._jvm_options = tuple(jvm_options)
        self._progress = progress
        self._certificates: Certificates | None = None
        self._ports: dict[int, NodePorts] = {}
        self._java: list[str] = []

    @property
    def nodes(self) -> tuple[int, ...]:
        """The node ids, whether they run or not."""
        return tuple(range(1, self._size + 1))

    @property
    def bootstrap(self) -> str:
        """``host:port,...`` of every node, for clients."""
        return self._addresses(lambda ports: ports.client)

    @property
    def plain_bootstrap(self) -> str:
        """``host:port,...`` of the listener in plain text that nodes use among themselves, whatever ``security`` is."""
        return self._addresses(lambda ports: ports.internal)

    def client_settings(self, user: str | None = None) -> dict[str, str]:
        """A client's settings to connect, by the names of Kafka's Java client (``bootstrap.servers`` and so on)."""
        return broker_config.client_settings(self.bootstrap, self.security, self._certificates, user)

    def log(self, node: int = 1) -> Path:
        """The file with a node's warnings and errors."""
        return self.folder / f"broker-{self._check_node(node)}.log"

    def __repr__(self) -> str:
        return f"KafkaCluster(brokers={self._size}, version='{self.version}', running={sorted(self.processes)})"

    def restart(self, *nodes: int) -> None:
        """Starts nodes again with their data and ports, all at once, and stops those that still run in order first.
        (When the whole cluster is down, most nodes become ready only together.)"""
        self._end([self._process(node) for node in nodes], GRACE_SECONDS)
        self._launch(nodes)

    # --- inside ----------------------------------------------------------------------------------------------

    def _addresses(self, port: Callable[[NodePorts], int]) -> str:
        _ = self.folder  # raises if the cluster is not started
        return ",".join(f"{HOST}:{port(each)}" for each in self._ports.values())

    def _check_node(self, node: int) -> int:
        if node not in self.nodes:
            raise ServiceError(f"the cluster has no node {node}; its nodes are {', '.join(map(str, self.nodes))}")
        return node

    def _process(self, node: int) -> Identity:
        return super()._process(self._check_node(node))

    def _title(self, node: int) -> str:
        return f"node {node}"

    def _settings_file(self, node: int) -> Path:
        return self.folder / f"server-{node}.properties"

    def _install(self) -> None:
        java = find_java()
        jars = fetch_jars(java, self.version, self._progress)
        same = partial(KafkaCluster, version=self.version)
        shared = shared_classes(jars.folder, java, "Kafka", same, self._jvm_options, self._progress)
        self._java = [str(java.executable), *_JVM, *shared, "-cp", jars.classpath()]

    def _prepare(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        kept = [path for path in self.data.glob("node-*") if (path / "meta.properties").exists()]
        if kept and len(kept) != self._size:
            raise ServiceError(
                f"{self.data} holds the data of {len(kept)} broker(s), not of {self._size}; "
                "start as many as before, or choose another folder"
            )
        self._ports = choose_ports(self._size, self._port, separate=bool(self.security or self._advertised))
        if self.security and self.security.tls:
            self._certificates = make_certificates(self.data / "tls", self.security.certificates)
        logging = self.folder / "log4j2.properties"
        logging.write_text(broker_config.LOGGING)
        self._command = [*self._java, f"-Dlog4j2.configurationFile={logging}"]
        for node in self.nodes:
            written = broker_config.node_settings(
                node,
                self._ports,
                self.data / f"node-{node}",
                self.security,
                self._certificates,
                self.properties,
                advertised=self._advertised.get(node),
            )
            path = self._settings_file(node)
            path.touch(mode=0o600)  # it may hold passwords
            path.write_text(broker_config.render(written))
        self._format()

    def _format(self) -> None:
        """Formats the storage of nodes that have none yet, all at once."""
        # Kafka takes 16 bytes in URL-safe base64; a leading dash would look like an option.
        cluster_id = "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        options = [f"--feature={key}={level}" for key, level in broker_config.feature_levels(self.properties).items()]
        options += [f"--add-scram={user}" for user in broker_config.scram_credentials(self.security)]

        def format_node(node: int) -> None:
            command = [
                *self._command, "kafka.tools.StorageTool", "format", "--cluster-id", cluster_id,
                "--config", str(self._settings_file(node)), *options,
            ]  # fmt: skip
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            if done.returncode:
                said = tail(done.stdout + done.stderr)
                raise ServiceError(f"the storage of node {node} cannot be formatted:\n{said}")

        fresh = [node for node in self.nodes if not (self.data / f"node-{node}" / "meta.properties").exists()]
        with ThreadPoolExecutor() as pool:
            list(pool.map(format_node, fresh))  # raises the error of a node

    def _arguments(self, node: int) -> list[str]:
        return [*self._jvm_options, "kafka.Kafka", str(self._settings_file(node))]

    def _answers(self, node: int) -> bool:
        """Whether a node answers and counts all nodes that should run among the cluster's members."""
        with suppress(OSError):
            return set(self._running) - self._down <= set(cluster_members(HOST, self._ports[node].internal))
        return False


def choose_ports(nodes: int, first: int, *, separate: bool) -> dict[int, NodePorts]:
    """Ports for each node: ``first`` and the next ones for clients (0: free ones), and free ones for the rest.

    ``separate``: clients have their own listener.

    Raises:
        ServiceError: a port that was asked for is taken.
    """
    clients = [first + index if first else 0 for index in range(nodes)]
    ports = free_ports(*clients, *[0] * nodes * (2 if separate else 1))
    internal = ports[nodes : 2 * nodes] if separate else ports[:nodes]
    found = zip(ports[:nodes], internal, ports[-nodes:], strict=True)
    return {node: NodePorts(*each) for node, each in enumerate(found, 1)}
