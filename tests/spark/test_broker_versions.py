"""The versions of Kafka that the README names, each started as a user starts it; what others write in every codec."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.sockets import free_port

#: Of each version that is claimed the release that is started. The oldest brings the producer that is written in Java.
VERSIONS = ("3.9.1", "4.3.0")
#: As they are numbered in a record batch, whose attributes are its bytes 21 and 22.
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LINES = [f"line {number:05} {'abc' * 20}" for number in range(300)]


@pytest.fixture(scope="module", params=[VERSIONS[0], pytest.param(VERSIONS[1], marks=pytest.mark.slow)])
def kafka(request, tmp_path_factory):
    """A broker that ``penstock broker start --version`` has started; in place of the session's."""
    from penstock.cli.main import main
    from penstock_testing.services.running import BackgroundCluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        port = free_port()
        assert main(["broker", "start", "--port", str(port), "--version", request.param]) == 0
        (started,) = BackgroundCluster.all()
        try:
            yield started
        finally:
            assert main(["broker", "stop", "--port", str(port)]) == 0


@pytest.fixture(scope="module")
def kafka_admin(kafka):
    """An administrator's connection to this broker."""
    from kafka.admin import KafkaAdminClient

    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap) as admin:
        yield admin


def write_with_librdkafka(kafka, topic, codec, *, aborted):
    """Half of the lines in a transaction that is committed, around one that is aborted."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "transactional.id": topic,
            "compression.type": codec,
            "linger.ms": 100,
        }
    )
    producer.init_transactions(120)
    for lines, end in (
        (LINES[:150], producer.commit_transaction),
        (aborted, producer.abort_transaction),
        (LINES[150:], producer.commit_transaction),
    ):
        producer.begin_transaction()
        for line in lines:
            producer.produce(topic, line, key=codec)
        assert producer.flush(60) == 0
        end()


def writing_in_java(kafka, topic, codec, lines):
    """Kafka's own console producer, which writes the lines of a file."""
    from penstock.machine.java import find_java
    from penstock_testing.services import fetch_jars

    java = find_java()
    jars = fetch_jars(java, VERSIONS[0])
    command = [str(java.executable), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", jars.classpath()]
    command += ["kafka.tools.ConsoleProducer", "--bootstrap-server", kafka.bootstrap, "--topic", topic]
    command += ["--compression-codec", codec]
    with lines.open() as given:
        return subprocess.Popen(command, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def stored_codecs(kafka, topic):
    """The codecs of the record batches with records in the topic's files."""
    found = set()
    for log in Path(kafka.data).glob(f"node-*/{topic}-*/*.log"):
        data, at = log.read_bytes(), 0
        while at + 61 <= len(data) and int.from_bytes(data[at + 8 : at + 12]):
            attributes = int.from_bytes(data[at + 21 : at + 23])
            if not attributes & 0x20:  # a control batch is never compressed
                found.add(CODECS[attributes & 7])
            at += 12 + int.from_bytes(data[at + 8 : at + 12])
    return found


def test_every_codec_of_both_writers_is_read_and_what_was_aborted_is_not(kafka, jobs, topics, topic, tmp_path):
    lines = tmp_path / "lines"
    lines.write_text("\n".join(LINES))
    from_c = {codec: topic() for codec in CODECS}
    from_java = {codec: topic() for codec in CODECS}
    sink = topic(2)
    writers = [writing_in_java(kafka, name, codec, lines) for codec, name in from_java.items()]
    for codec, name in from_c.items():
        write_with_librdkafka(kafka, name, codec, aborted=["never to be seen"] * 50)
    for writer in writers:
        output, _ = writer.communicate(timeout=120)
        assert writer.returncode == 0, output.decode()
    for codec in CODECS:
        assert stored_codecs(kafka, from_c[codec]) == stored_codecs(kafka, from_java[codec]) == {codec}

    sources = [*from_c.values(), *from_java.values()]
    result = jobs.run(
        jobs.bounded(
            "s",
            "line STRING, name STRING NOT NULL METADATA FROM 'topic' VIRTUAL",
            ";".join(sources),
            format="raw",
            properties_isolation_level="read_committed",
            properties_group_id=sink,
        )
        + jobs.exactly_once("t", "name STRING, line STRING", sink)
        + "INSERT INTO t SELECT name, line FROM s;"
    )
    written = [message.json for message in topics.read(sink)]
    assert sorted((row["name"], row["line"]) for row in written) == sorted(
        (name, line) for name in sources for line in LINES
    )
    assert result.progress.records_out == len(sources) * len(LINES)
    assert not topics.open_transactions(sink)


def test_the_readme_claims_the_versions_that_are_started_and_no_others():
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    (claimed,) = re.findall(r"Brokers:\s+Kafka\s+([0-9., and\n]+[0-9])", readme)
    assert re.findall(r"\d+\.\d+", claimed) == [version.rpartition(".")[0] for version in VERSIONS]
