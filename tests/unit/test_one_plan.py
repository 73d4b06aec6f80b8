"""One job, written in SQL and in Python, is one plan; a pipeline in YAML has the same settings and options."""

from __future__ import annotations

from datetime import timedelta

import pytest

from penstock.common import Configuration, RestartStrategies, Types, WatermarkStrategy, call_sql
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from penstock.ingest import lower, parse_pipeline
from penstock.plan.nodes import Filter, Job, Project, Scan
from penstock.sql import parse_script

SQL = """
SET 'pipeline.name' = 'large-orders';
SET 'execution.checkpointing.interval' = '1 s';
SET 'execution.checkpointing.dir' = 'file:///state';
SET 'parallelism.default' = '2';
SET 'table.local-time-zone' = 'UTC';
SET 'restart-strategy.type' = 'fixed-delay';
SET 'restart-strategy.fixed-delay.attempts' = '3';
SET 'restart-strategy.fixed-delay.delay' = '10 s';

CREATE TABLE orders (id BIGINT, item STRING, amount DOUBLE) WITH (
  'connector' = 'kafka',
  'topic' = 'orders',
  'properties.bootstrap.servers' = 'localhost:9092',
  'properties.group.id' = 'large-orders',
  'properties.isolation.level' = 'read_committed',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'scan.topic-partition-discovery.interval' = '10 s',
  'format' = 'json',
  'json.ignore-parse-errors' = 'true'
);

CREATE TABLE large_orders (id BIGINT, label STRING, total DOUBLE) WITH (
  'connector' = 'kafka',
  'topic' = 'large-orders',
  'properties.bootstrap.servers' = 'localhost:9092',
  'properties.compression.type' = 'lz4',
  'format' = 'json',
  'sink.partitioner' = 'default',
  'sink.delivery-guarantee' = 'exactly-once',
  'sink.transactional-id-prefix' = 'large-orders'
);

INSERT INTO large_orders
SELECT id, UPPER(item) AS label, amount * 1.19E0 AS total FROM orders WHERE amount > 100 AND item IS NOT NULL;
"""

YAML = """
source:
  type: kafka
  topic: orders
  properties.bootstrap.servers: localhost:9092
  properties.group.id: large-orders
  properties.isolation.level: read_committed
  scan.startup.mode: earliest-offset
  scan.bounded.mode: latest-offset
  scan.topic-partition-discovery.interval: 10 s
  value.format: json
  json.ignore-parse-errors: true
  schema.inference.strategy: static
  scan.value.initial-schemas.ddls: CREATE TABLE orders (id BIGINT, item STRING, amount DOUBLE);

transform:
  - source-table: orders
    projection: id, UPPER(item) AS label, amount * 1.19E0 AS total
    filter: amount > 100 AND item IS NOT NULL

route:
  - source-table: orders
    sink-table: large_orders

sink:
  type: kafka
  topic: large-orders
  properties.bootstrap.servers: localhost:9092
  properties.compression.type: lz4
  value.format: json
  sink.partitioner: default
  sink.delivery-guarantee: exactly-once
  sink.transactional-id-prefix: large-orders

pipeline:
  name: large-orders
  parallelism: 2
  execution.checkpointing.interval: 1 s
  execution.checkpointing.dir: file:///state
  local-time-zone: UTC
  restart-strategy.type: fixed-delay
  restart-strategy.fixed-delay.attempts: 3
  restart-strategy.fixed-delay.delay: 10 s
"""


#: The same with the timestamps of records, which Python's streams have, as in Flink.
TIMED_SQL = (
    SQL.replace("amount DOUBLE)", "amount DOUBLE, `__timestamp` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp')")
    .replace("total DOUBLE)", "total DOUBLE, `__timestamp` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp')")
    .replace("AS total FROM", "AS total, `__timestamp` FROM")
)


def from_sql(text: str = SQL) -> Job:
    (job,) = parse_script(text).jobs
    return job


def from_yaml() -> Job:
    return lower(parse_pipeline(YAML))


def from_python() -> Job:
    configuration = Configuration().set_string("table.local-time-zone", "UTC")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.enable_checkpointing(1000).set_parallelism(2)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 10_000))
    env.get_checkpoint_config().set_checkpoint_storage_dir("file:///state")
    order = Types.ROW_NAMED(["id", "item", "amount"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])
    large = Types.ROW_NAMED(["id", "label", "total"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers("localhost:9092")
        .set_topics("orders")
        .set_group_id("large-orders")
        .set_property("isolation.level", "read_committed")
        .set_property("partition.discovery.interval.ms", "10000")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(
            JsonRowDeserializationSchema.builder().type_info(order).ignore_parse_errors().build()
        )
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers("localhost:9092")
        .set_property("compression.type", "lz4")
        .set_record_serializer(
            KafkaRecordSerializationSchema.builder()
            .set_topic("large-orders")
            .set_value_serialization_schema(JsonRowSerializationSchema.builder().with_type_info(large).build())
            .build()
        )
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("large-orders")
        .build()
    )
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")
        .filter(call_sql("amount > 100 AND item IS NOT NULL"))
        .map(call_sql("id, UPPER(item) AS label, amount * 1.19E0 AS total"))
        .sink_to(sink)
        .name("large_orders")
    )
    return env.to_job("large-orders")


@pytest.mark.filterwarnings("ignore:the property 'partition.discovery.interval.ms' is overridden")
def test_sql_and_python_give_one_plan():
    assert from_sql(TIMED_SQL) == from_python()


def test_the_plan_is_the_job_that_was_meant():
    job = from_sql()
    (sink,) = job.sinks
    node = sink.input

    assert (job.name, job.settings.checkpoint_interval, job.settings.parallelism) == (
        "large-orders",
        timedelta(seconds=1),
        2,
    )
    assert isinstance(node, Project)
    assert node.schema.names == sink.schema.names == ("id", "label", "total")
    assert isinstance(node.input, Filter)
    assert isinstance(node.input.input, Scan)
    assert sink.spec.transactional_id_prefix == "large-orders"


def test_yaml_has_the_settings_and_the_options_of_the_same_job():
    sql, yaml = from_sql(), from_yaml()
    written, found = sql.sinks[0].spec, yaml.sinks[0].spec
    assert (yaml.name, yaml.settings) == (sql.name, sql.settings)
    assert (found.client, found.guarantee, found.transactional_id_prefix, found.topics, found.partitioner) == (
        written.client,
        written.guarantee,
        written.transactional_id_prefix,
        written.topics,
        written.partitioner,
    )
    read, messages = sql.sinks[0].input.input.input.spec, yaml.sinks[0].input.input.spec
    assert (messages.client, messages.group_id, messages.options.topic, messages.discovery, messages.bounded) == (
        read.client,
        read.group_id,
        read.options.topic,
        read.discovery,
        read.bounded,
    )


def test_a_difference_anywhere_makes_another_plan():
    assert from_sql(SQL.replace("amount > 100", "amount > 101")) != from_sql()
    assert from_sql(SQL.replace("lz4", "zstd")) != from_sql()
