"""`penstock doctor`: what this machine has of what penstock needs, and how to get the rest."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from kafka.protocol.metadata import MetadataRequest

from penstock import __version__
from penstock.cli.client import add_client_options, client_config
from penstock.errors import PenstockError
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import Session
from penstock.services.downloads import spark_jars_folder
from penstock.services.folders import cache_folder
from penstock.services.jars import DEFAULT_VERSION, cached_jars
from penstock.services.java import find_java
from penstock.services.registry import REGISTRY_JAVA, REGISTRY_VERSION, cached_registry
from penstock.services.running import BackgroundCluster, BackgroundRegistry

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

#: Distribution to module, for everything penstock depends on except PySpark, which is not imported here.
LIBRARIES = {
    "adbc-driver-postgresql": "adbc_driver_postgresql",
    "cramjam": "cramjam",
    "cryptography": "cryptography",
    "fastavro": "fastavro",
    "google-crc32c": "google_crc32c",
    "kafka-python": "kafka",
    "numba": "numba",
    "numpy": "numpy",
    "pandas": "pandas",
    "prometheus-client": "prometheus_client",
    "protobuf": "google.protobuf",
    "pyarrow": "pyarrow",
    "pyyaml": "yaml",
    "urllib3": "urllib3",
}
_SPARK = "4.3"
_PYTHON = (3, 11)
_BROKER_MS = 5_000.0


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. ``remedy`` is what to do about it; empty when it is in order."""

    subject: str
    found: str
    where: str = ""
    remedy: str = ""


def add_parser(subparsers: Subparsers) -> None:
    """Adds ``doctor`` to the command line."""
    doctor = subparsers.add_parser("doctor", help="check Java, Spark, the libraries and the way to a Kafka cluster")
    add_client_options(
        doctor.add_argument_group("a Kafka cluster", "look at this cluster too, each of its brokers by itself")
    )
    doctor.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    asked = args.bootstrap_servers or args.property or args.command_config
    config = client_config(args) if asked else None  # first: a mistyped option ends it at once
    findings = [*_python(), *_spark(), *_libraries(), *_local_brokers(), *_local_registries()]
    if config is not None:
        findings += _cluster(config)
    print(f"penstock {__version__}\n")
    print(_table(findings))
    remedies = [finding for finding in findings if finding.remedy]
    if not remedies:
        print("\nEverything is in order.")
        return 0
    print("\nTo do:")
    for finding in remedies:
        print(f"  - {finding.subject}: {finding.remedy}")
    return 1


def _table(findings: list[Finding]) -> str:
    subjects = max(len(finding.subject) for finding in findings)
    wheres = [len(finding.found) for finding in findings if finding.where]
    founds = min(max(wheres, default=0), 40)
    lines = []
    for finding in findings:
        mark = "!!" if finding.remedy else "ok"
        lines.append(f"  {mark}  {finding.subject:<{subjects}}  {finding.found:<{founds}}  {finding.where}".rstrip())
    return "\n".join(lines)


def _python() -> Iterator[Finding]:
    found = ".".join(str(part) for part in sys.version_info[:3])
    remedy = "" if sys.version_info >= _PYTHON else "install Python 3.11 or newer"
    yield Finding("Python", found, sys.executable, remedy)


def _spark() -> Iterator[Finding]:
    try:
        java = find_java()
        yield Finding("Java", java.version, f"{java.executable} (by {java.origin})")
    except PenstockError as error:
        yield Finding("Java", "none that fits", remedy=str(error))
    try:
        found, folder = version("pyspark"), spark_jars_folder()
    except PackageNotFoundError:
        yield Finding("PySpark", "missing", remedy=f"`pip install 'pyspark=={_SPARK}.*'`")
    except PenstockError as error:
        yield Finding("PySpark", "incomplete", remedy=str(error))
    else:
        fits = found.startswith(f"{_SPARK}.")
        yield Finding("PySpark", found, str(folder.parent), "" if fits else f"`pip install 'pyspark=={_SPARK}.*'`")


def _libraries() -> Iterator[Finding]:
    for distribution, module in LIBRARIES.items():
        try:
            found = version(distribution)
            importlib.import_module(module)
        except PackageNotFoundError:
            yield Finding(distribution, "missing", remedy=f"`pip install {distribution}`")
        except (ImportError, OSError) as error:
            remedy = f"it cannot be imported: {error}; `pip install --force-reinstall {distribution}`"
            yield Finding(distribution, found, "broken", remedy)
        else:
            yield Finding(distribution, found)


def _local_brokers() -> Iterator[Finding]:
    jars = cached_jars()
    if jars:
        yield Finding("broker jars", jars.version, str(jars.folder))
    else:
        yield Finding("broker jars", "not yet", f"Kafka {DEFAULT_VERSION} goes to {cache_folder()} when first needed")
    for cluster in BackgroundCluster.all():
        yield Finding("local broker", cluster.address, f"pid {cluster.pids}, `penstock broker stop` stops it")


def _local_registries() -> Iterator[Finding]:
    folder = cached_registry()
    if folder:
        yield Finding("schema registry", REGISTRY_VERSION, str(folder))
    else:
        where = f"Apicurio Registry {REGISTRY_VERSION} goes to {cache_folder()} when first needed"
        yield Finding("schema registry", "not yet", where)
    try:
        java = find_java(REGISTRY_JAVA)
        yield Finding("its Java", java.version, f"{java.executable} (by {java.origin})")
    except PenstockError:
        where = f"there is none of version {REGISTRY_JAVA} or newer; nothing but `penstock registry` needs it"
        yield Finding("its Java", "none", where)
    for registry in BackgroundRegistry.all():
        where = f"pid {registry.pids}, `penstock registry stop` stops it"
        yield Finding("local registry", registry.address, where)


def _cluster(config: ClientConfig) -> Iterator[Finding]:
    """The cluster as a client meets it: first its bootstrap addresses, then each broker where it says it is."""
    session = Session(config)
    try:
        try:
            nodes = session.brokers(session.deadline(_BROKER_MS))
        except PenstockError as error:
            yield Finding("Kafka", "does not answer", ",".join(config.bootstrap_servers), str(error))
            return
        yield Finding("Kafka", "answers", f"{','.join(config.bootstrap_servers)}, cluster {session.cluster_id}")
        for node in sorted(nodes):
            yield _broker(session, node)
    finally:
        session.close()


def _broker(session: Session, node: int) -> Finding:
    subject, address = f"node {node}", session.address(node)
    try:
        session.ask_node(
            f"asking node {node}",
            node,
            build=lambda: MetadataRequest(topics=[]),
            check=lambda answer: None,
            deadline=session.deadline(_BROKER_MS),
        )
    except PenstockError as error:
        remedy = (
            f"the bootstrap address answers, but sends clients to {address} for node {node}, which does not answer; "
            f"check advertised.listeners of that broker, and that this name and port can be reached from here ({error})"
        )
        return Finding(subject, "does not answer", address, remedy)
    return Finding(subject, "answers", address)
