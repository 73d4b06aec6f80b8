"""How many records of each partition the next batch may have."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from penstock.connectors.kafka.table.options import KafkaSourceOptions
from penstock.kafka.partitions import TopicPartition


class Admission:
    """The admission control of one scan, in the planning process: all of its options that limit a batch. Its state may
    be lost.

    ``clock`` is monotonic, in seconds.
    """

    def __init__(self, options: KafkaSourceOptions, clock: Callable[[], float] = time.monotonic):
        self._most = options.max_records_per_trigger
        self._rate = options.max_records_per_second
        self._least = options.min_records_per_trigger
        self._patience = options.max_trigger_delay.total_seconds()
        self._clock = clock
        self._batch_began = clock()
        # Nothing has been planned yet: the first batch gets the records of one second.
        self._granted_until = clock() - 1.0

    def admit(
        self,
        waiting: Mapping[TopicPartition, int],
        *,
        last: bool = False,
        idles: bool = True,
    ) -> dict[TopicPartition, int]:
        """How many of the ``waiting`` records of each partition the next batch reads: none while it waits for more.

        With ``last`` it does not wait for more, since no more will come. Without ``idles`` the call blocks until the
        rate allows a record.
        """
        total = sum(waiting.values())
        if not last and self._postpones(total):
            return dict.fromkeys(waiting, 0)
        granted = self._grant()
        while granted == 0 and total and not idles:
            time.sleep(self._next_pause())
            granted = self._grant()
        shares = _divide(waiting, granted)
        if any(shares.values()):
            self._batch_began = self._clock()
        return shares

    def _postpones(self, waiting: int) -> bool:
        """Whether ``waiting`` records are too few for a batch, and the longest wait for more is not over."""
        if self._least is None or not 0 < waiting < self._least:
            return False
        return self._clock() - self._batch_began < self._patience

    def _grant(self) -> int:
        """How many records may be read now: at most those of a batch, and at most as many as the rate allows for the
        time since the last grant. An unused grant is lost, but not the fraction of a record."""
        if self._rate is None:
            return self._most
        granted = int((self._clock() - self._granted_until) * self._rate)
        self._granted_until += granted / self._rate
        return min(self._most, granted)

    def _next_pause(self) -> float:
        """Seconds until the rate allows another record."""
        if self._rate is None:
            return 0.0
        return max(0.0, self._granted_until + 1 / self._rate - self._clock())


def _divide(wanted: Mapping[TopicPartition, int], most: int) -> dict[TopicPartition, int]:
    """``most`` records over the partitions, in proportion to their waiting records; a large one does not starve
    others."""
    total = sum(wanted.values())
    if total <= most:
        return dict(wanted)
    waiting = [tp for tp, count in sorted(wanted.items()) if count]
    least = 1 if len(waiting) <= most else 0
    rest = most - least * len(waiting)
    shares = dict.fromkeys(wanted, 0)
    for tp in waiting:
        shares[tp] = least + (wanted[tp] - least) * rest // (total - least * len(waiting))
    left = most - sum(shares.values())  # less than the number of partitions
    for tp in waiting:
        if left and shares[tp] < wanted[tp]:
            shares[tp] += 1
            left -= 1
    return shares
