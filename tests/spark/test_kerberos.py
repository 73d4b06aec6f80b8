"""Jobs that log in by Kerberos, at a real key distribution centre and a real broker."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock_testing.services import KafkaCluster, Security
from tests.kerberos import REALM, Centre, MissingError, centre
from tests.spark.conftest import Topics

pytestmark = pytest.mark.slow

PROGRAM = Path(sys.executable).with_name("penstock")


@dataclass(frozen=True)
class Site:
    """A centre, and a broker that trusts it."""

    centre: Centre
    cluster: KafkaCluster
    keytab: Path

    def run(self, folder: Path, topic: str, settings: str, service: str = "kafka") -> subprocess.CompletedProcess[str]:
        """A job that copies a topic to another, exactly once, in a process of its own."""
        tables = "".join(
            f"CREATE TABLE {name} (id BIGINT) WITH ('connector' = 'kafka', 'topic' = '{each}', 'format' = 'json', "
            f"'properties.bootstrap.servers' = '{self.cluster.bootstrap}', "
            f"'properties.security.protocol' = 'SASL_PLAINTEXT', "
            f"'properties.sasl.kerberos.service.name' = '{service}', {options});\n"
            for name, each, options in (
                ("given", topic, "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'"),
                (
                    "made",
                    f"{topic}-copy",
                    f"'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{topic}'",
                ),
            )
        )
        (folder / "job.sql").write_text(f"{settings}\n{tables}INSERT INTO made SELECT id FROM given;")
        environment = {**self.centre.environment, "XDG_STATE_HOME": str(folder)}
        return subprocess.run(
            [str(PROGRAM), "run", str(folder / "job.sql")],
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kerberos")
    try:
        with centre(folder) as made:
            broker = made.keytab("kafka/127.0.0.1", "kafka/localhost")
            login = f'keyTab="{broker}" principal="kafka/127.0.0.1@{REALM}"'
            properties = {
                "sasl.enabled.mechanisms": "PLAIN,GSSAPI",
                "sasl.kerberos.service.name": "kafka",
                "listener.name.client.gssapi.sasl.jaas.config": (
                    f"com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true {login};"
                ),
            }
            options = [f"-Djava.security.krb5.conf={folder / 'krb5.conf'}"]
            security = Security("SASL_PLAINTEXT", "PLAIN", {"admin": "hush"})
            with KafkaCluster(security=security, properties=properties, jvm_options=options) as cluster:
                yield Site(made, cluster, made.keytab("orders"))
    except MissingError as error:
        print(f"no Kerberos: {error}")
        pytest.skip(f"no Kerberos: {error}")


def keytab_settings(site: Site, principal: str) -> str:
    return (
        f"SET 'security.kerberos.login.keytab' = '{site.keytab}';"
        f"SET 'security.kerberos.login.principal' = '{principal}@{REALM}';"
        "SET 'security.kerberos.login.contexts' = 'KafkaClient';"
    )


@pytest.fixture
def copied(site, tmp_path):
    topics = Topics(site.cluster.plain_bootstrap)

    def check(topic, settings):
        topics.write(topic, [{"id": number} for number in range(20)])
        ended = site.run(tmp_path, topic, settings)
        assert ended.returncode == 0, ended.stderr
        assert sorted(each.json["id"] for each in topics.read(f"{topic}-copy")) == list(range(20))

    return check


def test_a_job_logs_in_by_its_keytab(site, copied):
    copied("by-keytab", keytab_settings(site, "orders"))


def test_a_job_logs_in_by_the_tickets_of_kinit(site, copied):
    site.centre.run("kinit", "-k", "-t", str(site.keytab), f"orders@{REALM}")
    copied("by-tickets", "SET 'security.kerberos.login.contexts' = 'KafkaClient';")


@pytest.mark.parametrize(
    ("principal", "service"), [("nobody", "kafka"), ("orders", "kafkaesque")], ids=["principal", "service"]
)
def test_a_login_that_is_refused_ends_the_job_and_says_what_to_check(site, tmp_path, principal, service):
    Topics(site.cluster.plain_bootstrap).write("kept", [{"id": 1}])
    ended = site.run(tmp_path, "kept", keytab_settings(site, principal), service)
    assert ended.returncode == 3  # a restart does not heal it
    assert "no Kerberos ticket" in ended.stderr
    assert "check the keytab and the principal" in ended.stderr
