"""Reports of reading tasks to the driver: counters, as JSON in the engine's report column."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field


@dataclass
class ReadReport:
    """The counts of one task, or (:meth:`merge`) of all tasks of a batch.

    ``records`` were read, in record batches of ``fetched_bytes``. Of these ``filtered`` did not pass the header filter,
    and ``refused`` could not be decoded, and were left out or became dead letters. ``lost`` counts offsets that are no
    longer in the log and were skipped as the user asked. ``fetches`` counts answers to requests: ``latency`` is the
    milliseconds until they came, ``throttled`` the milliseconds that the brokers delayed them, in total and at most,
    and ``size_max`` the most bytes of records in one. Lags are in milliseconds, of the last record of the partition
    with the largest one: ``fetch_lag`` from the record's timestamp until it was fetched, ``emit_lag`` until its row was
    made. ``behind`` is the largest number of records that a partition had beyond the fetched ones, ``ahead`` the
    smallest number that its log still had before their end. ``watermarks`` lists topic, partition and the watermark of
    its rows, in ms since 1970, for scans with event time.
    """

    records: int = 0
    fetched_bytes: int = 0
    filtered: int = 0
    refused: int = 0
    lost: int = 0
    fetches: int = 0
    latency: float = 0
    latency_max: float = 0
    throttled: float = 0
    throttled_max: float = 0
    size_max: int = 0
    fetch_lag: float | None = None
    emit_lag: float | None = None
    behind: int | None = None
    ahead: int | None = None
    watermarks: list[tuple[str, int, int]] = field(default_factory=list)

    def to_bytes(self) -> bytes:
        """As JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def merge(cls, reports: Sequence[bytes]) -> ReadReport:
        """One report for all: the sums of the counters, and the largest lags and maxima."""
        documents = [json.loads(each) for each in reports]
        whole = cls()
        for name in ("records", "fetched_bytes", "filtered", "refused", "lost", "fetches", "latency", "throttled"):
            setattr(whole, name, sum(each[name] for each in documents))
        for name in ("latency_max", "throttled_max", "size_max"):
            setattr(whole, name, max((each[name] for each in documents), default=0))
        for name, most in (("fetch_lag", max), ("emit_lag", max), ("behind", max), ("ahead", min)):
            setattr(whole, name, most((each[name] for each in documents if each[name] is not None), default=None))
        whole.watermarks = [tuple(each) for document in documents for each in document["watermarks"]]
        return whole
