"""The progress topic: the last published batch and the owner of each query (docs/design/rules.md, Progress).

Records are JSON in a compacted topic. A query's progress has its transactional id as key and is written in the same
transaction as the batch. A claim has the id, a zero byte and ``claim`` as key, and names the run that owns the id. A
mark (``mark``) is written before progress is read, outside of transactions, and proves that the read is not older
(:func:`read_present_progress`).

Progress is sealed with a secret that only the query's checkpoint holds (:class:`Seal`), so records that another program
writes with the same key are not believed.
"""

from penstock.kafka.progress.reading import ProgressRead, read_present_progress, read_progress, read_progress_of
from penstock.kafka.progress.records import Seal
from penstock.kafka.progress.topic import TOPIC, ProgressTopic, encode_progress, ensure_progress_topic
