"""The properties that every walk must keep, under any faults.

Two kinds of witness: the cluster tells what it decides, at the moment when it decides it, and wires tell what clients
send and receive. Nothing here knows how a driver works inside.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulation.brokers import kind_of
from tests.simulation.checkpoint import OTHER_QUERY, QUERIES, QUERY, group_of, text_of
from tests.simulation.cluster import Cluster
from tests.simulation.coordinator import ONGOING, TopicPartition, Transaction
from tests.simulation.ledger import Ledger, Published, position_in
from tests.simulation.log import Batch

__all__ = ["Invariants", "owner_of"]

_HEAD = struct.Struct(">qi")
_LAST_DELTA = struct.Struct(">i")
_LATEST = -1
#: Answers to EndTxn after which the client does not know: fenced, or a state that says nothing about this transaction.
_INDEFINITE = {47, 48, 49, 90}
_AGAIN = {14, 15, 16, 51}


def owner_of(sender: str) -> str:
    """The driver that a client belongs to: its tasks are its own."""
    return sender.split("/", maxsplit=1)[0]


@dataclass
class _Outcome:
    """How much a driver knows of the transaction that it asked to commit."""

    asked: bool = False
    transactional_id: str = ""
    owned: bool = False
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    read: dict[TopicPartition, int] = field(default_factory=dict)


class Invariants:
    """Watches a walk. ``violations`` says what was broken, in the order of its happening."""

    def __init__(self, outputs: tuple[str, ...], progress_topic: str, group: str):
        self.cluster: Cluster
        self.ledger = Ledger()
        self.violations: list[str] = []
        self._outputs, self._progress, self._group = outputs, progress_topic, group
        self._outcomes: dict[str, _Outcome] = {}
        #: Progress of open transactions that was lost with its topic, by producer id.
        self._swept: dict[int, list[tuple[str, dict[str, Any]]]] = {}
        #: The state after the last batch of each query.
        self._states: dict[str, tuple[int, str]] = {}
        #: The partitions that hold records of a transactional id.
        self._homes: dict[str, set[TopicPartition]] = {}

    def broken(self, what: str) -> None:
        """Note a violation."""
        self.violations.append(what)

    # --- what the cluster decides ---

    def deciding(self, transaction: Transaction, commit: bool) -> None:
        """A transaction that commits holds one whole batch with its progress and its offsets, or nothing."""
        swept = self._swept.pop(transaction.producer_id, [])
        if not commit:
            return
        batches = self._open_batches(transaction.producer_id)
        rows = Counter(value for place, batch in batches if place[0] in self._outputs for _, value in batch.records())
        found: list[tuple[str, dict[str, Any]]] = []
        for place, batch in batches:
            if place[0] == self._progress and (documents := _documents(batch)):
                self._homes.setdefault(transaction.id, set()).add(place)
                driver = owner_of(batch.sender)
                found += [(driver, each) for each in documents if "batch_id" in each]
        swept = [] if found else swept  # it may have been sent again
        found += swept
        offsets = self.cluster.pending_offsets(transaction.producer_id)
        if not rows and not found and not offsets:
            return
        who = f"a transaction of producer {transaction.producer_id}, epoch {transaction.epoch},"
        if len(found) != 1:
            self.broken(f"{who} commits {sum(rows.values())} rows with {len(found)} progress records")
            return
        ((driver, record),) = found
        start, end = (position_in(record[name]) for name in ("start", "end"))
        new = Published(
            len(self.ledger.published), record["query_id"], int(record["batch_id"]), start, end, transaction.id
        )
        who = f"{driver}, as '{transaction.id}' with epoch {transaction.epoch},"
        if rows != Counter(text_of(each, new.query) for each in range(start, end)):
            self.broken(f"{who} commits batch {new.batch} torn: {sum(rows.values())} rows of {end - start}")
        for against in self.ledger.publishes(driver, new):
            self.broken(f"{who} commits batch {new.batch} {against}")
        self._follows(who, new, record.get("state", ""))
        if swept:
            self.ledger.progress_is_lost()
        wanted = {group_of(self._group, new.query): {("input", 0): end}} if self._group else {}
        if offsets != wanted:
            self.broken(f"{who} commits batch {new.batch} with offsets {offsets} instead of {wanted}")

    def _follows(self, who: str, new: Published, state: str) -> None:
        """A state is made in its batch, from the state that was committed with the batch before it."""
        before = self._states.get(new.query, (-1, ""))[1] if new.batch else ""
        if state and not state.startswith(f"({before}){new.batch} of "):
            self.broken(f"{who} commits batch {new.batch} with the state '{state}', which was not made from '{before}'")
        if not state and before:
            self.broken(f"{who} commits batch {new.batch} without the state that was there before")
        self._states[new.query] = new.batch, state

    def offsets_committed(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """A group is never ahead of what is committed."""
        (query,) = (each for each in QUERIES if group_of(self._group, each) == group)
        reached = self.ledger.reached(query)
        for place, offset in offsets.items():
            if offset > reached:
                self.broken(
                    f"group '{group}' is at {offset} in {place[0]}-{place[1]}, but only {reached} are committed"
                )

    def progress_is_lost(self) -> None:
        """The progress topic is about to lose all records."""
        self.ledger.progress_is_lost()
        undecided = {each.producer_id for each in self.cluster.coordinator.known.values() if each.state == ONGOING}
        for place in self.cluster.places(self._progress):
            log = self.cluster.log(place)
            for producer_id in undecided & {each for each, _ in log.open}:
                self._swept[producer_id] = [
                    (owner_of(batch.sender), each)
                    for batch in log.of_open_transaction(producer_id)
                    for each in _documents(batch)
                    if batch.sender and "batch_id" in each
                ]

    def _open_batches(self, producer_id: int) -> list[tuple[TopicPartition, Batch]]:
        return [
            (place, batch)
            for topic in (*self._outputs, self._progress)
            if topic in self.cluster.topics
            for place in self.cluster.places(topic)
            for batch in self.cluster.log(place).of_open_transaction(producer_id)
        ]

    # --- what drivers report ---

    def reported(self, driver: str, number: int, start: int, end: int) -> None:
        """A driver says that a batch is published, or was before."""
        query = self.ledger.run(driver).query
        of_it = [each for each in self.ledger.published if each.query == query]
        if any(not any(each.start <= record < each.end for each in of_it) for record in range(start, end)):
            self.broken(f"{driver} reports batch {number} as published, but it is not committed")

    # --- unknown stays unknown ---

    def sent(self, sender: str, name: str, request: Any) -> None:
        """Between a commit that was not answered and a whole read of progress as the owner, nothing is published."""
        driver = owner_of(sender)
        outcome = self._outcomes.setdefault(driver, _Outcome())
        if name == "EndTxn commit":
            if not outcome.asked:
                self._outcomes[driver] = _Outcome(asked=True, transactional_id=request.transactional_id)
            return
        begins = kind_of(request) in {"Produce", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit"}
        if kind_of(request) == "Produce" and request.transactional_id is None:  # a mark
            begins = False
        if outcome.asked and begins and sender == driver:  # tasks of an earlier attempt may still be at work
            self.broken(f"{driver} sends {name} although the outcome of its transaction is unknown")

    def publishing(self, driver: str) -> None:
        """A driver has tasks publish."""
        if self._outcomes.get(driver, _Outcome()).asked:
            self.broken(f"{driver} has tasks publish although the outcome of its transaction is unknown")

    def received(self, sender: str, name: str, request: Any, answer: Any) -> None:
        """Follow the knowledge of a driver."""
        outcome = self._outcomes.get(owner_of(sender))
        if outcome is None or not outcome.asked:
            return
        kind = kind_of(request)
        if kind == "EndTxn" and request.committed and answer.error_code not in _INDEFINITE | _AGAIN:
            outcome.asked = False
        elif kind == "InitProducerId":
            if not answer.error_code and request.transactional_id == outcome.transactional_id:
                self._outcomes[owner_of(sender)] = replace(outcome, owned=True, ends={}, read={})
        elif outcome.owned and kind == "ListOffsets":
            self._take_ends(outcome, request, answer)
        elif outcome.owned and kind == "Fetch":
            self._take_read(outcome, request, answer)
        if outcome.owned and self._is_read(outcome):
            outcome.asked = False

    def _take_ends(self, outcome: _Outcome, request: Any, answer: Any) -> None:
        asked = {
            (topic.name, each.partition_index): each.timestamp for topic in request.topics for each in topic.partitions
        }
        for topic in answer.topics:
            for each in topic.partitions:
                place = topic.name, each.partition_index
                if place[0] == self._progress and not each.error_code and asked[place] == _LATEST:
                    outcome.ends[place] = each.offset

    def _take_read(self, outcome: _Outcome, request: Any, answer: Any) -> None:
        names = {topic.topic_id: topic.topic for topic in request.topics}
        for topic in answer.responses:
            for each in topic.partitions:
                if not each.error_code and each.records:
                    place = names[topic.topic_id], each.partition_index
                    outcome.read[place] = max(outcome.read.get(place, 0), _end_of(each.records))

    def _is_read(self, outcome: _Outcome) -> bool:
        """Whether all partitions were read that have held something of the id."""
        homes = self._homes.get(outcome.transactional_id, set())
        return all(each in outcome.ends and outcome.read.get(each, 0) >= outcome.ends[each] for each in homes)

    # --- at the end ---

    def at_the_end(self, query: str, records: int, *, finished: bool) -> None:
        """What was committed of a query is in the output, once for each time that it was; when the query is done, that
        is every input record."""
        published = [each for each in self.ledger.published if each.query == query]
        mine = {text_of(record, query) for record in range(records)}
        others = {text_of(record, OTHER_QUERY) for record in range(records)}
        seen = Counter(
            value
            for topic in self._outputs
            for place in self.cluster.places(topic)
            for batch in self.cluster.log(place).visible()
            for _, value in batch.records()
            if (value not in others if query == QUERY else value in mine)
        )
        wanted: Counter[bytes | None] = Counter(
            text_of(record, query) for each in published for record in range(each.start, each.end)
        )
        if finished:
            wanted |= Counter(mine)
        if missing := wanted - seen:
            self.broken(f"{missing.total()} of {records} records are not in the output: {_some(missing)}")
        if extra := seen - wanted:
            self.broken(f"{extra.total()} records are in the output that should not be: {_some(extra)}")
        if not self._group or not finished or self.ledger.repeated:
            return
        group = group_of(self._group, query)
        if (at := self.cluster.groups.get(group, {}).get(("input", 0), (0,))[0]) != records:
            self.broken(f"group '{group}' is at {at} instead of {records}")

    def nothing_is_open(self) -> None:
        """No transaction is left, with nobody to end it."""
        for what in self.cluster.open_transactions():
            self.broken(f"left open at the end: {what}")


def _some(values: Counter[bytes | None]) -> str:
    return ", ".join(str(each) for each in sorted(values.items(), key=str)[:5])


def _documents(batch: Batch) -> list[dict[str, Any]]:
    found = []
    for _, value in batch.records():
        try:
            record = json.loads(value or b"")
        except ValueError:
            continue
        if isinstance(record, dict):
            found.append(record)
    return found


def _end_of(records: bytes) -> int:
    """The offset after the last whole batch."""
    position = end = 0
    while position + 27 <= len(records):
        base, length = _HEAD.unpack_from(records, position)
        end = base + _LAST_DELTA.unpack_from(records, position + 23)[0] + 1
        position += 12 + length
    return end
