"""The progress topic: which batch of a query was published last, and who publishes (rules 3 to 7 of exactly-once).

Records are JSON in a compacted topic. A query's progress has its transactional id as key and is written in the same
transaction as the batch; a claim has the id, a zero byte and ``claim`` as key, and says which run owns the id. A mark
(``mark``) is written before progress is read, outside of transactions, and proves the read to be as new
(:func:`read_present_progress`).

Progress is sealed with a secret that only the query's checkpoint holds (:class:`Seal`), so that a record that something
else put under the key is not taken for the query's own.
"""

from penstock.kafka.progress.reading import ProgressRead, read_present_progress, read_progress, read_progress_of
from penstock.kafka.progress.records import Seal
from penstock.kafka.progress.topic import TOPIC, ProgressTopic, ensure_progress_topic, progress_batch

__all__ = [
    "TOPIC",
    "ProgressRead",
    "ProgressTopic",
    "Seal",
    "ensure_progress_topic",
    "progress_batch",
    "read_present_progress",
    "read_progress",
    "read_progress_of",
]
