"""``FlinkKafkaProducer``, the Kafka sink of PyFlink's former API. It becomes a KafkaSink."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Mapping
from typing import Any

from penstock.common import SerializationSchema, TypeInformation
from penstock.common.arguments import expect
from penstock.datastream.connectors.base import DeliveryGuarantee, Sink
from penstock.datastream.connectors.kafka.serialization import (
    KafkaRecordSerializationSchema,
    KafkaSerializationSchema,
    write_steps,
)
from penstock.datastream.connectors.kafka.sink import KafkaSink
from penstock.datastream.connectors.kafka.typed import TypeInformationKeyValueSerializationSchema
from penstock.datastream.function_steps import Step
from penstock.errors import OptionsError, Problem
from penstock.java_gateway import without_java
from penstock.spi import TableDefinition

#: The effect of a choice in Flink, and what applies here instead.
_REMARKS = {
    "kafka_producer_pool_size": "a batch is one transaction of one id, however many tasks write it",
    "set_log_failures_only": "a record that cannot be written fails its batch, which is tried again",
    "set_flush_on_checkpoint": "a batch is done when the brokers have acknowledged all of its records",
    "ignore_failures_after_transaction_timeout": "a batch whose transaction has timed out is written again",
}


class Semantic(enum.Enum):
    """What a failure may do to the records of a :class:`FlinkKafkaProducer`."""

    #: Neither lost nor repeated: one Kafka transaction per batch.
    EXACTLY_ONCE = 0
    #: Not lost; repeated when a batch is retried.
    AT_LEAST_ONCE = 1
    #: Lost or repeated.
    NONE = 2


class FlinkKafkaProducerBase(Sink):
    """The base of the former sinks of Kafka. Raises UnsupportedError when it is made of a Java object."""

    _properties: dict[str, str]
    _serializer: KafkaSerializationSchema
    _guarantee: DeliveryGuarantee
    _prefix = ""
    parallel = True

    def __init__(self, j_flink_kafka_producer: Any):
        raise without_java("FlinkKafkaProducerBase", "use FlinkKafkaProducer")

    def set_log_failures_only(self, log_failures_only: bool) -> FlinkKafkaProducerBase:
        """In Flink whether failures to write are only logged. Here they fail the batch; True is warned of."""
        if log_failures_only:
            _remark("set_log_failures_only")
        return self

    def set_flush_on_checkpoint(self, flush_on_checkpoint: bool) -> FlinkKafkaProducerBase:
        """In Flink whether a checkpoint waits for the brokers. Here a batch always does; False is warned of."""
        if not flush_on_checkpoint:
            _remark("set_flush_on_checkpoint")
        return self

    def set_write_timestamp_to_kafka(self, write_timestamp_to_kafka: bool) -> FlinkKafkaProducerBase:
        """Whether records keep their timestamps, and do not get the time of writing, which is the default."""
        self.writes_timestamps = write_timestamp_to_kafka
        return self

    def steps(self, stream: TypeInformation) -> tuple[Step, ...]:
        """The functions that make the records' parts."""
        return write_steps(self._serializer, stream)

    def table(self, name: str, stream: TypeInformation, job_name: str) -> TableDefinition:
        """The table that ``stream`` is written to. Raises DefinitionError when the stream's type does not fit."""
        builder = KafkaSink.builder().set_record_serializer(self._serializer)
        builder.set_kafka_producer_config(self._properties).set_delivery_guarantee(self._guarantee)
        if self._prefix:
            builder.set_transactional_id_prefix(self._prefix)
        return builder.build().table(name, stream, job_name)


class FlinkKafkaProducer(FlinkKafkaProducerBase):
    """Writes the values of a stream to ``topic``, for ``stream.add_sink``. A KafkaSerializationSchema names the topic
    of each record by itself; a TypeInformationKeyValueSerializationSchema makes the key too.

    ``producer_config`` are properties of Kafka's producer and need ``bootstrap.servers``. With EXACTLY_ONCE the
    transactional id begins with ``<job name>-<sink name>`` unless a prefix is set; a pool of producers is not
    needed. The timestamps of records are written only after ``set_write_timestamp_to_kafka(True)``, as in Flink.
    """

    def __init__(
        self,
        topic: str,
        serialization_schema: (
            SerializationSchema | KafkaSerializationSchema | TypeInformationKeyValueSerializationSchema
        ),
        producer_config: Mapping[str, str],
        kafka_producer_pool_size: int = 5,
        semantic: Semantic = Semantic.AT_LEAST_ONCE,
    ):
        if kafka_producer_pool_size < 1:
            reason = f"expected 1 or more, not {kafka_producer_pool_size}"
            raise OptionsError((Problem(reason, "kafka_producer_pool_size", "FlinkKafkaProducer"),))
        if kafka_producer_pool_size != 5:
            _remark("kafka_producer_pool_size")
        schemas = SerializationSchema, KafkaSerializationSchema, TypeInformationKeyValueSerializationSchema
        expect(serialization_schema, schemas, "FlinkKafkaProducer", "for example SimpleStringSchema()")
        expect(semantic, Semantic, "FlinkKafkaProducer", "for example Semantic.EXACTLY_ONCE")
        self._properties = dict(expect(producer_config, Mapping, "FlinkKafkaProducer", "{'bootstrap.servers': ..}"))
        if isinstance(serialization_schema, KafkaSerializationSchema):
            self._serializer = serialization_schema
        else:
            builder = KafkaRecordSerializationSchema.builder().set_topic(topic)
            value = serialization_schema
            if isinstance(value, TypeInformationKeyValueSerializationSchema):
                key, value = value.parts()
                builder.set_key_serialization_schema(key)
            self._serializer = builder.set_value_serialization_schema(value).build()
        self._guarantee = DeliveryGuarantee[semantic.name]
        self.writes_timestamps = False

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> FlinkKafkaProducer:
        """The beginning of the transactional id, for EXACTLY_ONCE; no other job may use it. Flink has this in Java."""
        self._prefix = transactional_id_prefix
        return self

    def ignore_failures_after_transaction_timeout(self) -> FlinkKafkaProducer:
        """In Flink a transaction that has timed out does not fail the recovery of a job. Warns: here no transaction is
        committed in a recovery."""
        _remark("ignore_failures_after_transaction_timeout")
        return self


def _remark(call: str) -> None:
    warnings.warn(f"{call} has no effect here: {_REMARKS[call]}", stacklevel=3)
