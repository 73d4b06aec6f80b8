"""Whether the records in the output are those that were written: the verifier looks at their headers alone."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.offsets import LATEST, list_offsets
from penstock.kafka.properties import READ_COMMITTED
from penstock.kafka.session import Session
from penstock_testing.numbered import numbers_of

__all__ = ["garbled", "mismatched"]

#: What the trial's jobs write as value.
_VALUE = r'^\{"k": ?"(?P<k>[^"]*)", ?"n": ?(?P<n>[0-9]+)\}$'


def mismatched(headers: pa.ListArray, keys: pa.Array, values: pa.Array, where: str) -> int:
    """In how many records the value has not the number that is in the headers, or not what the key says, where there is
    one: the value's ``k``, or with a key of the query's own making ``<k>-<n>``."""
    _, numbers = numbers_of(headers, where)
    found = pc.extract_regex(values.cast(pa.string()), _VALUE)
    k, n = pc.struct_field(found, "k"), pc.struct_field(found, "n")
    texts = keys.cast(pa.string())
    own = pc.or_(pc.equal(texts, k), pc.equal(texts, pc.binary_join_element_wise(k, n, "-")))
    fits = pc.and_(pc.equal(n.cast(pa.int64()), pa.array(numbers)), pc.or_(pc.is_null(texts), pc.fill_null(own, False)))
    return int(pc.sum(pc.invert(pc.fill_null(fits, False))).as_py() or 0)


def garbled(session: Session, topics: Iterable[str]) -> int:
    """The same of all that a reader of the topics sees."""
    places = [(name, each.partition) for name in topics for each in session.topic(name).partitions]
    if not places:
        return 0
    ends = list_offsets(session, places, LATEST, isolation=READ_COMMITTED)
    ranges = [Range(*place, 0, end.offset) for place, end in ends.items() if end is not None and end.offset]
    found = 0
    for chunk in Fetcher(session, ranges, isolation=READ_COMMITTED):
        where = f"topic '{chunk.topic}', partition {chunk.partition}"
        for records in chunk.slices(headers=True):
            if len(records):
                found += mismatched(records.headers, records.keys, records.values, where)
    return found
