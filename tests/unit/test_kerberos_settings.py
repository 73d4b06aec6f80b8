"""Flink's keys for Kerberos, in SQL, YAML and Python, and what they do to a table."""

from __future__ import annotations

import pytest

from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.connectors.kafka.table.client_properties import with_login
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.values import ValuesSource
from penstock.errors import OptionsError, PipelineError
from penstock.ingest import lower, parse_pipeline
from penstock.kafka.login import KerberosLogin
from penstock.kafka.properties import ClientConfig
from penstock.plan.explain import explain
from penstock.settings import KerberosSettings
from penstock.sql import parse_script

KEYTAB = KerberosSettings(
    keytab="/etc/orders.keytab", principal="orders@EXAMPLE.COM", contexts=("Client", "KafkaClient")
)
KEYS = {
    "security.kerberos.login.keytab": "/etc/orders.keytab",
    "security.kerberos.login.principal": "orders@EXAMPLE.COM",
    "security.kerberos.login.contexts": "Client, KafkaClient",
}
SQL = """
CREATE TABLE s (id INT) WITH (
  'connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json',
  'properties.security.protocol' = 'SASL_PLAINTEXT', 'properties.sasl.kerberos.service.name' = 'broker'
);
CREATE TABLE t (id INT) WITH ('connector' = 'blackhole');
INSERT INTO t SELECT id FROM s;
"""
YAML = """
source:
  type: kafka
  topic: a
  scan.startup.mode: earliest-offset
  properties.bootstrap.servers: b:9092
  value.format: json
  schema.inference.strategy: static
  scan.value.initial-schemas.ddls: CREATE TABLE s (id INT);
sink:
  type: blackhole
pipeline:
  name: j
"""
PROPERTIES = (
    ("bootstrap.servers", "b:9092"),
    ("sasl.kerberos.service.name", "broker"),
    ("security.protocol", "SASL_PLAINTEXT"),
)


def from_sql(keys: dict[str, str]):
    script = parse_script("".join(f"SET '{key}' = '{value}';\n" for key, value in keys.items()) + SQL)
    return script.jobs[0], script.warnings


def from_yaml(keys: dict[str, str]):
    definition = parse_pipeline(YAML + "".join(f"  {key}: '{value}'\n" for key, value in keys.items()))
    return lower(definition), definition.warnings


def test_the_three_front_ends_understand_the_same_keys():
    environment = StreamExecutionEnvironment.get_execution_environment()
    configuration = Configuration()
    for key, value in KEYS.items():
        configuration.set_string(key, value)
    environment.configure(configuration)
    environment.from_source(ValuesSource([1], Types.LONG()), WatermarkStrategy.no_watermarks(), "s").print()
    assert environment.to_job().settings.kerberos == KEYTAB
    for job, warnings in (from_sql(KEYS), from_yaml(KEYS)):
        assert job.settings.kerberos == KEYTAB
        assert list(warnings) == []
        assert "Kerberos login: orders@EXAMPLE.COM by /etc/orders.keytab" in explain(job)


@pytest.mark.parametrize("front_end", [from_sql, from_yaml])
def test_without_kafka_among_the_contexts_they_do_nothing_and_say_so(front_end):
    keys = {**KEYS, "security.kerberos.login.contexts": "Client"}
    job, warnings = front_end(keys)
    assert job.settings.kerberos is None
    assert len([each for each in warnings if "does not name KafkaClient" in str(each)]) == len(keys)


@pytest.mark.parametrize("front_end", [from_sql, from_yaml])
@pytest.mark.parametrize(
    ("changed", "key", "expected"),
    [
        ({"principal": None}, "keytab", "needs 'security.kerberos.login.principal'"),
        ({"keytab": None}, "principal", "needs 'security.kerberos.login.keytab'"),
        ({"use-ticket-cache": "perhaps"}, "use-ticket-cache", "expected true or false"),
        ({"keytab": None, "principal": None, "use-ticket-cache": "false"}, "use-ticket-cache", "no way to log in"),
    ],
)
def test_what_contradicts_itself_is_refused_by_its_key(front_end, changed, key, expected):
    keys = dict(KEYS)
    for name, value in changed.items():
        keys.pop(f"security.kerberos.login.{name}", None)
        if value is not None:
            keys[f"security.kerberos.login.{name}"] = value
    with pytest.raises((OptionsError, PipelineError)) as raised:
        front_end(keys)
    (problem,) = raised.value.problems
    assert problem.key == f"security.kerberos.login.{key}"
    assert expected in problem.reason


def test_a_table_that_names_no_login_gets_the_jobs():
    login = ClientConfig.from_properties(dict(with_login(PROPERTIES, KEYTAB))).login
    assert login == KerberosLogin("broker", "orders@EXAMPLE.COM", "/etc/orders.keytab")


def test_paths_with_quotes_and_backslashes_arrive_as_they_are():
    odd = KerberosSettings(keytab='/a "b"\\c', principal="p", contexts=("KafkaClient",))
    assert ClientConfig.from_properties(dict(with_login(PROPERTIES, odd))).login == KerberosLogin(
        "broker", "p", '/a "b"\\c'
    )


@pytest.mark.parametrize(
    "more",
    [
        {"sasl.jaas.config": "a.Krb5LoginModule required useTicketCache=true;"},
        {"sasl.mechanism": "PLAIN"},
        {"security.protocol": "SSL"},
    ],
)
def test_other_tables_keep_what_they_have(more):
    properties = tuple(sorted({**dict(PROPERTIES), **more}.items()))
    assert with_login(properties, KEYTAB) == properties
    assert with_login(PROPERTIES, None) == PROPERTIES
