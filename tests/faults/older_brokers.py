"""The F1 cells that matter most, on brokers that know no ``transaction.version`` 2: Kafka 3.9."""

from __future__ import annotations

from tests.faults.driver_deaths import after_end_txn, mid_publish
from tests.faults.harness import Outcome, Trial, cell

KAFKA_3 = "3.9.1"


@cell("F1", "mid-publish, on Kafka 3.9", version=KAFKA_3)
def mid_publish_on_kafka_3(trial: Trial) -> Outcome:
    return mid_publish(trial)


@cell("F1", "after EndTxn, before Spark's commit log, on Kafka 3.9", version=KAFKA_3)
def after_end_txn_on_kafka_3(trial: Trial) -> Outcome:
    return after_end_txn(trial)
