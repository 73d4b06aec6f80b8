"""Records of the progress topic: their keys, their seal, their encoding and parsing."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.clock import now_ms
from penstock.delivery import Claim, Progress, to_canonical_json
from penstock.kafka import record_batches
from penstock.kafka.compression import Compression
from penstock.kafka.record_batches import EncodedBatch

DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
_CLAIM_KEY, _MARK_KEY = "\0claim", "\0mark"


@dataclass(frozen=True)
class Seal:
    """The seal on a query's progress: HMAC-SHA256 over id and record, with a secret that only its checkpoint holds.

    Other writers to the progress topic, for example a sink, may know its records, but not the secret.
    """

    query_id: str
    secret: str = field(repr=False)
    #: Whether progress without a seal is the query's too: an earlier version, which did not seal, may have published.
    unsealed: bool = False

    def sign(self, transactional_id: str, fields: Mapping[str, Any]) -> str:
        """The seal of a record with these fields, in hexadecimal."""
        text = f"{transactional_id}\0{to_canonical_json(fields)}"
        return hmac.new(self.secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def encode_record(key: bytes, value: bytes, partition: int, largest: int = DEFAULT_MAX_MESSAGE_BYTES) -> EncodedBatch:
    """An encoded batch of one record."""
    (batch,) = record_batches.encode(
        keys=pa.array([key], pa.binary()),
        values=pa.array([value], pa.binary()),
        timestamps=np.array([now_ms()], np.int64),
        partitions=np.array([partition], np.int32),
        # Progress has the offsets of each source partition twice. Without compression, the record of a source with
        # 11,000 partitions would exceed Kafka's default of max.message.bytes.
        compression=Compression.ZSTD,
        max_batch_bytes=largest,
    )
    return batch


def record_key(transactional_id: str, record: type[Progress | Claim]) -> bytes:
    """The key of an id's progress, or of its claims."""
    return (transactional_id + (_CLAIM_KEY if record is Claim else "")).encode()


def mark_key(transactional_id: str) -> bytes:
    """The key of the marks that are written before an id's progress is read."""
    return (transactional_id + _MARK_KEY).encode()


def encode_value(transactional_id: str, record: Progress | Claim, seal: Seal | None) -> bytes:
    """The JSON of a record, with its seal if it is progress."""
    fields = {name: getattr(record, name) for name in record.__dataclass_fields__}
    fields = {name: value for name, value in fields.items() if value or name not in _OPTIONAL}
    head: dict[str, Any] = {"kind": type(record).__name__.lower(), "version": 1}
    if seal is not None and isinstance(record, Progress):
        head["seal"] = seal.sign(transactional_id, fields)
    return to_canonical_json(head | fields).encode()


#: Fields of each record that the seal does not cover.
_HEAD = {"kind", "version", "seal"}
#: Fields of progress that are left out if they are empty.
_OPTIONAL = {"tables", "state"}
_JSON_TYPES: Mapping[str, type] = {
    "query_id": str,
    "batch_id": int,
    "tables": list,
    "state": str,
    "run_id": str,
    "host": str,
    "pid": int,
    "started_ms": int,
}


class NotBelievedError(Exception):
    """The reason why a record is not one of the query's."""


def parse_record(cls: type[Progress | Claim], transactional_id: str, value: bytes | None, seal: Seal | None) -> Any:
    """The Progress or Claim in a record. Progress of the query with this seal must have the seal."""
    try:
        found = json.loads(value or b"")
        wanted = {*cls.__dataclass_fields__} - (_OPTIONAL - found.keys())
        fields = {name: found[name] for name in cls.__dataclass_fields__ if name in wanted}
        for name, each in fields.items():
            if not isinstance(each, _JSON_TYPES.get(name, object)):
                raise TypeError(name)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise NotBelievedError("is not one of penstock's") from None
    if "tables" in fields:
        fields["tables"] = tuple(fields["tables"])
    if seal is not None and cls is Progress and fields["query_id"] == seal.query_id:
        given = found.get("seal")
        if given is None and seal.unsealed:
            return cls(**fields)
        sealed = {name: each for name, each in found.items() if name not in _HEAD}  # fields of other versions too
        if not hmac.compare_digest(str(given).encode(), seal.sign(transactional_id, sealed).encode()):
            raise NotBelievedError("names this query and does not have its seal")
    return cls(**fields)
