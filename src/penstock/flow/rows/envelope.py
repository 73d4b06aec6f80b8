"""The columns that rows between operators, and in their state, have beside those of their node."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.equality import RowIndices, fixed_values
from penstock.columns.hashing import Hashes
from penstock.spi import own_name

#: How often a row is added (or, below 0, retracted), and the hash of its keys: int64 and uint64.
WEIGHT, HASH = own_name("weight"), own_name("hash")
#: The int64 column of rows that go to an operator whose result depends on the order of arrival, where it would be lost:
#: the place of the row that caused the change among those of its batch.
ARRIVED = own_name("arrived")
#: Of rows that are kept: when they came, among all rows of their key, and their time in milliseconds; how many rows of
#: the other side of a join they match.
ARRIVAL, TIME, MATCHES = own_name("arrival"), own_name("time"), own_name("matches")
#: Of sessions: where they begin and end, and when their next row comes.
START, END, NEXT = own_name("start"), own_name("end"), own_name("next")
#: Of values that are kept of groups, and of groups where rows come from: the value; the end of their slice of time.
VALUE, SLICE = own_name("value"), own_name("slice")
#: Where the names of several columns begin: of states of groups where rows come from, of random values that a condition
#: and what is computed after it both have, and of the places where values of DISTINCT appeared.
STATE, ONCE, APPEARED = own_name("state "), own_name("once "), own_name("appeared ")


#: Of rows of tables that a pipeline transforms: the parts of the table's id, and the short name of the row's kind.
NAMESPACE_NAME, SCHEMA_NAME, TABLE_NAME = (own_name(f"{part} name") for part in ("namespace", "schema", "table"))
EVENT_TYPE = own_name("event type")
#: Where the names of columns begin whose values a filter and a projection share.
SHARED = own_name("shared ")


def weights_of(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The weights of a batch's rows."""
    return np.asarray(fixed_values(batch.column(WEIGHT)), np.int64)


def arrivals_of(batch: pa.RecordBatch) -> RowIndices:
    """The places of a batch's rows in the order of arrival."""
    return np.asarray(fixed_values(batch.column(ARRIVED)), np.int64)


def hashes_of(batch: pa.RecordBatch) -> Hashes:
    """The hashes of the keys of a batch's rows."""
    return np.asarray(fixed_values(batch.column(HASH)), np.uint64)
