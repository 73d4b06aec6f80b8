"""What builds the sources and committers of kafka tables."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TypeVar

from pyspark.sql import SparkSession

from penstock.connectors.kafka import start_checks
from penstock.connectors.kafka.sink.spec import KafkaSinkSpec
from penstock.connectors.kafka.source.spec import KafkaScanSpec
from penstock.connectors.kafka.spark.scan import KafkaScan
from penstock.connectors.kafka.table.client_properties import with_login
from penstock.errors import OptionsError, Problem
from penstock.settings import Settings
from penstock.spi import Committer, Guarantee, JobContext, Output, StartContext

_Spec = TypeVar("_Spec", KafkaScanSpec, KafkaSinkSpec)

#: Properties that name a cluster and a principal.
_CONNECTING = ("bootstrap.servers", "security.", "sasl.", "ssl.")


class KafkaRuntime:
    """Builds the sources and committers of a job's kafka tables."""

    def warm(self) -> None:
        """Import the modules of tasks, and load their compiled loops."""
        from penstock.connectors.kafka.warmup import warm

        warm()

    def source(self, spec: KafkaScanSpec, ordinal: int, context: JobContext) -> KafkaScan:
        """A source with start and stop resolved, or read from the checkpoint."""
        spec = _with_login(spec, context.settings)
        if spec.watermark is not None and spec.watermark.idle_timeout is None:
            spec = replace(spec, watermark=replace(spec.watermark, idle_timeout=context.settings.idle_timeout))
        return KafkaScan(spec, ordinal, context)

    def check_scan(self, spec: KafkaScanSpec, ordinal: int, context: StartContext) -> None:
        """Check the topics, and that the logs have the offsets where reading begins."""
        start_checks.check_scan(_with_login(spec, context.settings), ordinal, context)

    def check_sinks(self, outputs: Sequence[Output], context: StartContext) -> None:
        """Check the topics, and the options against the cluster's."""
        for output in outputs:
            start_checks.check_sink(_with_login(output.spec, context.settings), context)

    def commit_group(self, spec: KafkaSinkSpec) -> Hashable:
        """Exactly-once sinks of one cluster and principal share a committer, others those with equal client
        settings."""
        if spec.guarantee is Guarantee.EXACTLY_ONCE:
            return spec.guarantee, tuple(each for each in spec.client if each[0].startswith(_CONNECTING))
        return spec.guarantee, spec.client

    def committer(self, outputs: Sequence[Output], context: JobContext) -> Committer:
        """The committer for ``outputs``, which share a client and a guarantee."""
        from penstock.connectors.kafka.sink.committer import KafkaCommitter
        from penstock.connectors.kafka.sink.plain_committer import PlainCommitter

        outputs = [replace(each, spec=_with_login(each.spec, context.settings)) for each in outputs]
        exactly_once = outputs[0].spec.guarantee is Guarantee.EXACTLY_ONCE
        if exactly_once:
            _check_attempts(context.spark)
        committer = KafkaCommitter if exactly_once else PlainCommitter
        return committer(outputs, context)


def _with_login(spec: _Spec, settings: Settings) -> _Spec:
    """``spec`` with the job's login."""
    return replace(spec, client=with_login(spec.client, settings.kerberos))


def _check_attempts(spark: SparkSession) -> None:
    """Raises OptionsError for a session that might run a task twice in one transaction (rule "tasks run once")."""
    conf = spark.sparkContext.getConf()
    problems = []
    if conf.get("spark.speculation", "false") == "true":
        problems.append(Problem("must be false with exactly-once", "spark.speculation", "Spark's configuration"))
    if not str(spark.sparkContext.master).startswith("local"):
        for key in ("spark.task.maxFailures", "spark.stage.maxConsecutiveAttempts"):
            if conf.get(key, "4") != "1":
                problems.append(Problem("must be 1 with exactly-once", key, "Spark's configuration"))
    if problems:
        raise OptionsError(tuple(problems))
