"""Timers of operators: a table of keys with parts, by the time when the rows of these keys are looked at."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.columns.equality import RowIndices
from penstock.columns.hashing import Groups
from penstock.flow.operators.contract import Input
from penstock.flow.operators.deltas import concat_columns, select_groups
from penstock.flow.rows.envelope import hashes_of
from penstock.flow.state.segments import TableSpec
from penstock.flow.state.store import StateStore
from penstock.flow.time.watermarks import Clock
from penstock.flow.time.zones import Millis

#: The name of the table.
TIMERS = "timers"
#: The width of a part, as the share 1 / 2 ** _SHARE of its distance from the watermark.
_SHARE = 3
#: The longest step of a watermark that counts, in milliseconds: its first one comes from far away.
_LONGEST = 1 << 32


def make_timers_table(given: Input) -> TableSpec:
    """The table of timers, which have no time to live."""
    return TableSpec(TIMERS, given.key_schema, pa.schema([]), "keyed", side=None, parted=True)


def find_woken_groups(batch: pa.RecordBatch, given: Input, state: StateStore, due: list[int]) -> Groups:
    """The keys of a batch's rows and, as rows that follow these, the keys of the parts that are ``due``."""
    timers = [state.part(each).keyed(TIMERS).read_all() for each in due]
    hashes = np.concatenate([hashes_of(batch), *(each.hashes for each in timers)])
    keys = [batch.select(given.keys).columns, *(list(each.keys) for each in timers)]
    return Groups.by_key(hashes, concat_columns(keys, given.key_schema, len(hashes)))


def set_timers(state: StateStore, groups: Groups, which: RowIndices, times: Millis) -> None:
    """Note when the groups ``which`` are looked at: in the part of each one's time. A group may have several times."""
    for time in np.unique(times).tolist():
        chosen = np.zeros(len(groups), np.bool_)
        chosen[which[times == time]] = True
        state.part(time).keyed(TIMERS).put_keys(select_groups(groups, chosen))


def parts_of(times: Millis, clock: Clock) -> Millis:
    """The part of each of these ``times``: never later than the time itself, and coarser the further away it is, but
    no finer than the steps of the watermark. The watermark has reached neither."""
    after = max(clock.after, int(times.min()) - 1)
    step = min(max(clock.after - clock.before, 1), _LONGEST)
    widths: Millis = 1 << np.maximum(np.frexp(times - after)[1].astype(np.int64) - 1 - _SHARE, step.bit_length() - 1)
    found: Millis = np.maximum(times // widths * widths, after + 1)
    return found
