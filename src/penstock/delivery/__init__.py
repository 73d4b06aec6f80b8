"""Exactly-once delivery to any transactional system: progress, claims, and the decision whether to publish a batch.

The Kafka and PostgreSQL connectors store their own records of progress and claims.
"""

from penstock.delivery.decisions import (
    FINISH_BATCH,
    Decision,
    Publish,
    Skip,
    TakeOver,
    check_ahead,
    check_stateless,
    decide,
)
from penstock.delivery.progress import Claim, Progress, format_utc, to_canonical_json
from penstock.delivery.retries import run_with_retries
from penstock.delivery.targets import Attempt, Delivered, Operators, deliver
