"""Records of the progress topic: their keys, their seal, and how they are written and read."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.delivery import Claim, Progress, canonical
from penstock.kafka import batches
from penstock.kafka.batches import EncodedBatch
from penstock.kafka.compression import Codec

DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
_CLAIM_KEY, _MARK_KEY = "\0claim", "\0mark"


@dataclass(frozen=True)
class Seal:
    """What a query marks its progress with: HMAC-SHA256 over id and record, by a secret that only its checkpoint holds.

    Whatever else can write to the progress topic, a row of a sink for one, knows the records there and not the secret.
    """

    query_id: str
    secret: str = field(repr=False)
    #: The last batch whose progress may lack a seal: a version that did not seal may have published it.
    unsealed_to: int = -1

    def of(self, transactional_id: str, fields: Mapping[str, Any]) -> str:
        """The seal of a record's fields, in hexadecimal."""
        text = f"{transactional_id}\0{canonical(fields)}"
        return hmac.new(self.secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def encoded_record(key: bytes, value: bytes, partition: int, largest: int = DEFAULT_MAX_MESSAGE_BYTES) -> EncodedBatch:
    """A record as an encoded batch of its own."""
    (batch,) = batches.encode(
        keys=pa.array([key], pa.binary()),
        values=pa.array([value], pa.binary()),
        timestamps=np.array([time.time_ns() // 1_000_000], np.int64),
        partitions=np.array([partition], np.int32),
        # The offsets of each source partition stand in it twice, and are much alike: without compression a source
        # of 11,000 partitions would be too large for a topic with Kafka's default of max.message.bytes.
        codec=Codec.ZSTD,
        max_batch_bytes=largest,
    )
    return batch


def record_key(transactional_id: str, kind: type[Progress | Claim]) -> bytes:
    """The key of an id's progress, or of its claims."""
    return (transactional_id + (_CLAIM_KEY if kind is Claim else "")).encode()


def mark_key(transactional_id: str) -> bytes:
    """The key of the marks that are written before an id's progress is read."""
    return (transactional_id + _MARK_KEY).encode()


def sealed_value(transactional_id: str, record: Progress | Claim, seal: Seal | None) -> bytes:
    """The JSON of a record, with its seal if it is progress."""
    fields = _fields(record)
    head: dict[str, Any] = {"kind": type(record).__name__.lower(), "version": 1}
    if seal is not None and isinstance(record, Progress):
        head["seal"] = seal.of(transactional_id, fields)
    return canonical(head | fields).encode()


def _fields(record: Progress | Claim) -> dict[str, Any]:
    fields = {name: getattr(record, name) for name in record.__dataclass_fields__}
    return {name: value for name, value in fields.items() if name != _OPTIONAL or value}


#: A field of progress that is left out where it says nothing.
_OPTIONAL = "tables"
_JSON_TYPES: Mapping[str, type] = {
    "query_id": str,
    "batch_id": int,
    "errors": dict,
    "tables": list,
    "run_id": str,
    "host": str,
    "pid": int,
    "started_ms": int,
}


class NotBelievedError(Exception):
    """A record that is none of the query's, and why."""


def parse_record(kind: type[Progress | Claim], transactional_id: str, value: bytes | None, seal: Seal | None) -> Any:
    """A record's Progress or Claim. Progress that says to be the query's own must have its seal."""
    try:
        found = json.loads(value or b"")
        fields = {name: found[name] for name in kind.__dataclass_fields__ if name != _OPTIONAL}
        if kind is Progress and _OPTIONAL in found:
            fields[_OPTIONAL] = found[_OPTIONAL]
        for name, each in fields.items():
            if not isinstance(each, _JSON_TYPES.get(name, object)):
                raise TypeError(name)
    except (ValueError, KeyError, TypeError):
        raise NotBelievedError("is not one of penstock's") from None
    if _OPTIONAL in fields:
        fields[_OPTIONAL] = tuple(fields[_OPTIONAL])
    if seal is not None and kind is Progress and fields["query_id"] == seal.query_id:
        given = found.get("seal")
        if given is None and fields["batch_id"] <= seal.unsealed_to:
            return kind(**fields)
        if not hmac.compare_digest(str(given).encode(), seal.of(transactional_id, fields).encode()):
            raise NotBelievedError("says to be this query's and does not have its seal")
    return kind(**fields)
