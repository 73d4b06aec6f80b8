"""What all tests share: one real Kafka broker for the session, and a topic for each test that asks."""

from __future__ import annotations

import itertools
import os
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.durations import Duration, update_durations

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

    from penstock_testing.services import KafkaCluster, RegistryServer

#: Makes a topic of this many partitions and returns its name, which no other test has.
TopicFactory = Callable[..., str]


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--rule "tasks run once"`` runs the tests that show one rule. ``--durations-file FILE`` writes how many seconds
    each file of tests has taken."""
    parser.addoption("--rule", help="run only tests of this rule of docs/design/rules.md")
    parser.addoption("--durations-file", help="write the seconds of each file of tests to this file")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out tests of other rules than that of ``--rule``."""
    rule = config.getoption("rule")
    if rule:
        items[:] = [each for each in items if any(rule in mark.args for mark in each.iter_markers("rule"))]


def pytest_configure(config: pytest.Config) -> None:
    """Examples are the same each time, and others each time in ``make test-all``; how long one takes says how busy the
    machine is. And lets kafka-python be imported: it reads its message schemas by a call that Python 3.11 deprecates.
    """
    settings.register_profile("steady", deadline=None, derandomize=config.option.markexpr == "not slow")
    settings.load_profile("steady")
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Writes how long the files of tests took."""
    path = config.getoption("durations_file")
    if path is None:
        return
    seconds: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for report in itertools.chain(*terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            file = report.nodeid.partition("::")[0]
            seconds[file] += report.duration
            tests[file] += report.when == "call"
    update_durations(Path(path), {file: Duration(each, tests[file]) for file, each in seconds.items()})


@pytest.fixture(scope="session", autouse=True)
def unsynced_files() -> Iterator[None]:
    """Files are not forced onto the disk, which tests would wait for: none needs what outlives a crash of the
    machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_brokers() -> Iterator[None]:
    """The JVMs of brokers are made for tests of seconds, wherever a test starts one."""
    from penstock_testing.services import kafka
    from tests.jvm import UNOPTIMISED

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka, "_JVM", (*kafka._JVM, UNOPTIMISED))
        yield


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaCluster]:
    """A broker on a free port, started when the first test asks for it. Without Java the test fails and says so.

    What Kafka does every 10 or 15 seconds it does at once.
    """
    from penstock_testing.services import KafkaCluster

    properties = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
        "log.cleaner.backoff.ms": "500",
    }
    with KafkaCluster(properties=properties) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def registry_java() -> None:
    """Skips a test that starts a schema registry, where there is no Java that is new enough for one."""
    from penstock.errors import ServiceError
    from penstock_testing.services import find_java
    from penstock_testing.services.registry import REGISTRY_JAVA

    try:
        find_java(REGISTRY_JAVA)
    except ServiceError as error:
        pytest.skip(f"the schema registry cannot be started: {error}")


@pytest.fixture(scope="session")
def registry(registry_java: None) -> Iterator[RegistryServer]:
    """A schema registry on a free port, started when the first test asks for it."""
    from penstock_testing.services import RegistryServer

    with RegistryServer() as server:
        yield server


@pytest.fixture(scope="session")
def kafka_admin(kafka: KafkaCluster) -> Iterator[KafkaAdminClient]:
    """An administrator's connection to the session's broker."""
    from kafka.admin import KafkaAdminClient

    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap) as admin:
        yield admin


@pytest.fixture
def topic(request: pytest.FixtureRequest, kafka_admin: KafkaAdminClient) -> TopicFactory:
    """Makes topics: ``topic()``, ``topic(partitions=4)``, ``topic(2, configs={"cleanup.policy": "compact"})``."""

    def make(partitions: int = 1, configs: dict[str, str] | None = None) -> str:
        test = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name)[:100].strip("-")
        name = f"{test}-{uuid.uuid4().hex[:8]}"
        wanted = {name: {"num_partitions": partitions, "replication_factor": 1, "configs": configs or {}}}
        kafka_admin.create_topics(wanted)
        kafka_admin.wait_for_topics([name], 60_000)
        return name

    return make
