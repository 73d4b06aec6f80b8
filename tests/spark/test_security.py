"""Whole jobs over TLS, with stores as Java has them: driver and tasks get in, or the job ends with one error."""

from __future__ import annotations

import subprocess

import pytest

from penstock.errors import AuthenticationError
from tests.relay import Relay
from tests.spark.conftest import Jobs, Topics


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A cluster that is reached through a relay, and the properties with which ``anna`` comes in."""
    from penstock.machine.java import find_java
    from penstock_testing.services import KafkaCluster, Security

    security = Security("SASL_SSL", "SCRAM-SHA-512", {"anna": "hush-password"}, ("anna",))
    with Relay() as relay, KafkaCluster(security=security, advertised=(relay.port,)) as cluster:
        relay.target = int(cluster.bootstrap.rpartition(":")[2])
        settings = cluster.client_settings()
        store = tmp_path_factory.mktemp("stores") / "trust.jks"
        authority = settings.pop("ssl.truststore.location")
        arguments = ["-importcert", "-noprompt", "-alias", "ca", "-file", authority, "-storetype", "JKS"]
        keytool = find_java().home / "bin" / "keytool"
        arguments += ["-keystore", str(store), "-storepass", "hush-store"]
        subprocess.run([keytool, *arguments], check=True, capture_output=True)
        for name in ("bootstrap.servers", "ssl.truststore.type"):
            del settings[name]
        settings |= {"ssl.truststore.location": str(store), "ssl.truststore.password": "hush-store"}
        yield cluster, relay, settings


def copy(jobs, topic, login):
    """A job that copies ``topic`` to another, which it makes, exactly once."""
    options = {f"properties_{key}": value for key, value in login.items()}
    return (
        jobs.bounded("s", "id BIGINT", topic, **options)
        + jobs.exactly_once("t", "id BIGINT", f"{topic}-copy", **options)
        + "INSERT INTO t SELECT id FROM s WHERE id >= 0;"
    )


def test_a_job_with_java_stores_and_a_login_shows_no_secret(guarded, tmp_path, capfd):
    cluster, relay, login = guarded
    topics, jobs = Topics(cluster.plain_bootstrap), Jobs(relay.address, tmp_path)
    topics.write("taken", [{"id": i} for i in range(100)])
    running = jobs.start(copy(jobs, "taken", login))
    assert running.wait(120)
    assert sorted(message.json["id"] for message in topics.read("taken-copy")) == list(range(100))
    query = running._run.spark_query
    plan = query._jsq.explainInternal(True)
    assert "penstock_kafka" in plan
    # The last one is how a pickle begins in base64, which is what Spark is given to hide.
    secrets = {"hush", login["ssl.keystore.password"], "gASV"}
    output = capfd.readouterr()
    for shown in (plan, str(query.lastProgress), repr(running.job), output.out, output.err, str(jobs.warnings)):
        assert [each for each in secrets if each in shown] == []


def test_a_job_with_a_wrong_password_ends_at_its_first_attempt(guarded, tmp_path, capfd):
    cluster, relay, login = guarded
    Topics(cluster.plain_bootstrap).write("left", [{"id": 1}])
    jobs, before = Jobs(relay.address, tmp_path), relay.connections
    wrong = {**login, "sasl.jaas.config": login["sasl.jaas.config"].replace("hush-password", "hush-guess")}
    restarts = "SET 'restart-strategy.type' = 'fixed-delay'; SET 'restart-strategy.fixed-delay.attempts' = '5';"
    with pytest.raises(AuthenticationError, match="check user name, password") as raised:
        jobs.run(restarts + copy(jobs, "left", wrong))
    assert relay.connections == before + 1
    output = capfd.readouterr()
    assert "hush" not in f"{raised.value}{output.out}{output.err}{jobs.warnings}"
