"""`penstock doctor`: whether this machine has everything that penstock needs, and how to get the rest."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

from kafka.protocol.metadata import MetadataRequest

from penstock import __version__
from penstock.cli.client import add_client_options, client_config
from penstock.cli.display import describe_command, format_table
from penstock.cli.kit import GET_KIT, KIT, has_kit
from penstock.errors import PenstockError
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import Session
from penstock.machine.java import MINIMUM_JAVA, find_java
from penstock.machine.packages import spark_jars_folder

#: Modules of distributions whose names differ.
_MODULES = {"kafka-python": "kafka", "protobuf": "google.protobuf", "pyyaml": "yaml"}
_SPARK = "4.3"
_PYTHON = (3, 11)
_BROKER_MS = 5_000.0


@dataclass(frozen=True)
class Finding:
    """The result of one check. ``remedy`` says how to fix it; empty when nothing is wrong."""

    subject: str
    found: str
    where: str = ""
    remedy: str = ""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers ``doctor``."""
    text = "check Java, Spark, the libraries and the connection to a Kafka cluster"
    description = f"{describe_command(text)} Problems are listed with their remedies, and the exit status is 1."
    doctor = subparsers.add_parser("doctor", help=text, description=description)
    add_client_options(doctor.add_argument_group("a Kafka cluster", "check this cluster too, and each of its brokers"))
    doctor.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    asked = args.bootstrap_servers or args.property or args.command_config
    config = client_config(args) if asked else None  # first: a mistyped option ends the command at once
    findings = [*_check_python(), *_check_spark(), *_check_libraries(), *_check_services()]
    if config is not None:
        findings += _check_cluster(config)
    print(f"penstock {__version__}\n")
    rows = [("  !!" if each.remedy else "  ok", each.subject, each.found, each.where) for each in findings]
    print(format_table(rows[0], rows[1:]))
    remedies = [finding for finding in findings if finding.remedy]
    if not remedies:
        print("\nEverything is in order.")
        return 0
    print("\nTo do:")
    for finding in remedies:
        print(f"  - {finding.subject}: {finding.remedy}")
    return 1


def _check_python() -> Iterator[Finding]:
    found = ".".join(str(part) for part in sys.version_info[:3])
    remedy = "" if sys.version_info >= _PYTHON else "install Python 3.11 or newer"
    yield Finding("Python", found, sys.executable, remedy)


def _check_spark() -> Iterator[Finding]:
    yield check_java("Java")
    try:
        found, folder = version("pyspark"), spark_jars_folder()
    except PackageNotFoundError:
        yield Finding("PySpark", "missing", remedy=f"`pip install 'pyspark=={_SPARK}.*'`")
    except PenstockError as error:
        yield Finding("PySpark", "incomplete", remedy=str(error))
    else:
        fits = found.startswith(f"{_SPARK}.")
        yield Finding("PySpark", found, str(folder.parent), "" if fits else f"`pip install 'pyspark=={_SPARK}.*'`")


def check_java(subject: str, minimum: int = MINIMUM_JAVA) -> Finding:
    """Whether there is a Java of at least version ``minimum``."""
    try:
        java = find_java(minimum)
    except PenstockError as error:
        return Finding(subject, "none that fits", remedy=str(error))
    return Finding(subject, java.version, f"{java.executable} (by {java.origin})")


def dependencies() -> list[str]:
    """The distributions that penstock needs, except PySpark, which is not imported here."""
    required = [each for each in requires("penstock") or () if "extra ==" not in each]
    return [name for each in required if (name := re.split(r"[^\w.-]", each)[0]) != "pyspark"]


def _check_libraries() -> Iterator[Finding]:
    for name in dependencies():
        try:
            found = version(name)
            importlib.import_module(_MODULES.get(name, name.replace("-", "_")))
        except PackageNotFoundError:
            yield Finding(name, "missing", remedy=f"`pip install {name}`")
        except (ImportError, OSError) as error:
            remedy = f"it cannot be imported: {error}; `pip install --force-reinstall {name}`"
            yield Finding(name, found, "broken", remedy)
        else:
            yield Finding(name, found)


def _check_services() -> Iterator[Finding]:
    """What the test kit says of its servers, where it is installed."""
    if not has_kit():
        where = f"brings servers for development and tests: `{GET_KIT}`"
        yield Finding("penstock-testing", "not installed", where)
        return
    yield from importlib.import_module(f"{KIT}.commands.findings").find_services()


def _check_cluster(config: ClientConfig) -> Iterator[Finding]:
    """The cluster as a client sees it: first its bootstrap addresses, then each broker at its advertised address."""
    servers = ",".join(config.bootstrap_servers)
    with closing(Session(config)) as session:
        try:
            nodes = session.brokers(session.deadline(_BROKER_MS))
        except PenstockError as error:
            yield Finding("Kafka", "does not answer", servers, str(error))
            return
        yield Finding("Kafka", "answers", f"{servers}, cluster {session.cluster_id}")
        for node in sorted(nodes):
            yield _check_broker(session, node)


def _check_broker(session: Session, node: int) -> Finding:
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
