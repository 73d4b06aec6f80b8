"""Checkpoints of former versions, which are kept with words in capitals for what belongs to a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.kafka.produce import Producer
from penstock.kafka.progress import ProgressTopic
from penstock.kafka.progress.records import encode_record
from penstock.kafka.session import Session
from penstock.kafka.transactions import TransactionClient


def replace_words(folder: Path, words: Mapping[str, str]) -> None:
    """Replace words, one after the other, in the files of a folder and in their names; those of state are not texts."""

    def replaced(text: str) -> str:
        for word, meaning in words.items():
            text = text.replace(word, meaning)
        return text

    files = [each for each in folder.rglob("*") if each.is_file() and "state" not in each.relative_to(folder).parts]
    for file in files:
        text = replaced(file.read_text())
        file.unlink()
        file.with_name(replaced(file.name)).write_text(text)


def publish_progress(session: Session, progress: ProgressTopic, name: str, record: bytes) -> None:
    """Write the last record of a transactional id, as its last owner did."""
    batch = encode_record(name.encode(), record, progress.partition_of(name))
    client = TransactionClient(session, name, 60_000)
    client.init()
    client.begin()
    with Producer(session, client.identity, transactional_id=name) as producer:
        producer.submit(progress.name, batch.partition, batch.data, batch.count)
        producer.flush()
    client.commit()
