"""``penstock txn``: a cluster's open transactions, whom they hold back, and ending those that nobody else will end."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby

from penstock.cli.client import add_client_options, client_config
from penstock.cli.text import count, moment, span, table
from penstock.deadline import Deadline
from penstock.delivery import Claim
from penstock.errors import KafkaError, OptionsError, PenstockError, Problem
from penstock.kafka.inspection import (
    HeldBack,
    Holder,
    Owners,
    abort_hanging,
    abort_transaction,
    age_ms,
    blind_spot,
    held_back,
    is_open,
    owners,
    transactions,
    without_leader,
)
from penstock.kafka.progress import TOPIC
from penstock.kafka.session import TRANSACTION, Session, TopicPartition
from penstock.kafka.transactions import TransactionDescription, describe_transaction
from penstock.services.process import Identity

#: How long the cluster may take to answer at all, and the progress topic to tell owners.
_PATIENCE_MS = 10_000.0
# A process that started this much after a claim was written is not the one that wrote it.
_CLOCK_MS = 5_000


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register ``txn list``, ``txn describe`` and ``txn abort``."""
    text = "open transactions of a cluster: look at them, abort them"
    txn = subparsers.add_parser("txn", help=text, description=text.capitalize() + ".")
    actions = txn.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, function, text in (
        ("list", _list, "show open transactions, and the partitions whose last stable offset they hold back"),
        ("describe", _describe, "show all that is known about some transactional ids"),
        ("abort", _abort, "abort open transactions; fences whoever still uses the id"),
    ):
        parser = actions.add_parser(name, help=text, description=text.capitalize() + ".")
        if name != "list":
            parser.add_argument("ids", nargs="*", metavar="ID", help="a transactional id")
        parser.add_argument("--prefix", metavar="P", help="all transactional ids that start with P")
        if name == "list":
            parser.add_argument("--all", action="store_true", help="also ids whose last transaction has ended")
        if name == "abort":
            parser.add_argument(
                "--hanging",
                action="append",
                default=[],
                metavar="TOPIC-PARTITION",
                help="end the transactions in this partition that no coordinator knows; repeatable",
            )
            parser.add_argument("--yes", action="store_true", help="do not ask")
            parser.add_argument(
                "--force", action="store_true", help="also where the owner still runs, or may still run"
            )
        add_client_options(parser)
        parser.add_argument(
            "--progress-topic", default=TOPIC, metavar="NAME", help=f"tells who owns an id; default {TOPIC}"
        )
        parser.set_defaults(run=function)


def _connected(args: argparse.Namespace) -> Session:
    session = Session(client_config(args))
    try:
        session.brokers(_patience(session))
    except BaseException:
        session.close()
        raise
    return session


def _patience(session: Session) -> Deadline:
    return session.deadline(min(_PATIENCE_MS, session.config.default_api_timeout_ms))


# --- list ------------------------------------------------------------------------------------------------------


def _list(args: argparse.Namespace) -> int:
    prefix = args.prefix or ""
    with closing(_connected(args)) as session:
        shown = transactions(session, prefix, ended=args.all)
        _warn_of_unseen(session, prefix, bool(shown))
        known = _owners(session, shown, args)
        held = [each for each in held_back(session) if not prefix or _of_prefix(each, prefix)]
        lost = without_leader(session)
        # What is of an id that is not listed looks as if it were hanging.
        doubt = blind_spot(session) if any(holder.hanging for each in held for holder in each.holders) else ""
    if shown:
        people = {each.transactional_id: _owner(each.transactional_id, known, args.progress_topic) for each in shown}
        print(table(_TITLES, [_row(each, people[each.transactional_id]) for each in shown]))
    else:
        which = f" of ids that start with '{prefix}'" if prefix else ""
        print("No transactions" + which if args.all else "No open transactions" + which)
    if held:
        print("\nRead_committed readers wait at the last stable offset of:")
        print(table(_HELD_TITLES, _held_rows(held, doubt)))
        _say_how_to_end(held, doubt)
    else:
        print("No last stable offset is held back" + (" by them" if prefix else ""))
    if shown and known.unknown:
        _warn(f"owners are not known: {known.unknown}")
    _warn_of_lost(lost)
    return 0


_TITLES = ("TRANSACTIONAL ID", "STATE", "AGE", "TIMEOUT", "PRODUCER", "EPOCH", "PARTITIONS", "OWNER")
_HELD_TITLES = ("PARTITION", "FROM OFFSET", "RECORDS", "HELD BACK BY", "SINCE")


def _warn_of_unseen(session: Session, prefix: str, any_seen: bool) -> None:
    """Warns where open transactions may not be listed. Raises KafkaError where none of the ids is."""
    unseen = blind_spot(session, prefix)
    if unseen and not any_seen and not transactions(session, prefix, ended=True):
        raise KafkaError(f"no transactional id is listed: {unseen}")
    if unseen:
        _warn(unseen)


def _warn_of_lost(lost: Sequence[TopicPartition]) -> None:
    if lost:
        _warn(f"not looked at, for they have no leader: {_partitions(lost)}")


def _row(transaction: TransactionDescription, owner: _Owner) -> Sequence[str]:
    age = age_ms(transaction)
    return (
        transaction.transactional_id,
        transaction.state,
        "-" if age is None else span(age),
        span(transaction.timeout_ms),
        str(transaction.producer_id),
        str(transaction.epoch),
        _partitions(transaction.partitions) or "-",
        owner.short,
    )


def _of_prefix(held: HeldBack, prefix: str) -> bool:
    return any(each.transactional_id.startswith(prefix) for each in held.holders)


def _held_rows(held: Iterable[HeldBack], doubt: str) -> Iterator[Sequence[str]]:
    """A row for each open transaction in each partition: the first one holds, the others will when it has ended."""
    for each in held:
        place = f"{each.topic} {each.partition}"
        if not each.holders:
            yield place, str(each.last_stable_offset), str(each.records), "not known: needs Read on the topic", "-"
        for holder in each.holders:
            start = holder.start_offset
            offset, records = ("-", "-") if start < 0 else (str(start), str(each.high_watermark - start))
            if holder is each.holders[0]:
                offset, records = str(each.last_stable_offset), str(each.records)
            yield place, offset, records, _who(holder, doubt), _since(holder)
            place = ""


def _who(holder: Holder, doubt: str) -> str:
    if not holder.hanging:
        return holder.transactional_id
    producer = f"producer {holder.producer_id}, epoch {holder.epoch}"
    if holder.transactional_id:
        return f"{holder.transactional_id}, hanging: not open at its coordinator ({producer})"
    if doubt:
        return f"{producer}: hanging, or of an id that is not listed"
    return f"{producer}, hanging: no coordinator knows it"


def _since(holder: Holder) -> str:
    if holder.transaction:
        return moment(holder.transaction.started_ms)
    return f"last record of {moment(holder.last_timestamp)}"


def _say_how_to_end(held: Iterable[HeldBack], doubt: str) -> None:
    hanging = [each for each in held if any(holder.hanging for holder in each.holders)]
    if hanging and not doubt:
        places = " ".join(f"--hanging {each.topic}-{each.partition}" for each in hanging)
        print(f"No coordinator will end what is hanging; this does: penstock txn abort {places}")


# --- describe --------------------------------------------------------------------------------------------------


def _describe(args: argparse.Namespace) -> int:
    with closing(_connected(args)) as session:
        chosen = _chosen(session, args, ended=True)
        known = _owners(session, chosen, args)
        held = held_back(session)
        _warn_of_lost(without_leader(session))
        for number, each in enumerate(chosen):
            if number:
                print()
            print(each.transactional_id)
            node = session.coordinator(TRANSACTION, each.transactional_id, session.deadline())
            coordinator = f"node {node}, {session.address(node)}"
            for title, text in _details(each, coordinator, known, held, args.progress_topic):
                print(f"  {title:<14}{text}")
    if not chosen:
        print(f"No transactional id starts with '{args.prefix}'")
    return 0


def _details(
    seen: TransactionDescription, coordinator: str, known: Owners, held: Iterable[HeldBack], progress_topic: str
) -> Iterator[tuple[str, str]]:
    yield "state", seen.state
    yield "producer", f"id {seen.producer_id}, epoch {seen.epoch}"
    yield "coordinator", coordinator
    age = age_ms(seen)
    if age is not None:
        yield "open since", f"{moment(seen.started_ms)}, {span(age)} ago"
        ends = moment(seen.started_ms + seen.timeout_ms)
        yield "timeout", f"{span(seen.timeout_ms)}: left open, it is aborted at {ends}"
    else:
        yield "timeout", span(seen.timeout_ms)
    yield "partitions", _partitions(seen.partitions) or "none"
    yield "owner", _owner(seen.transactional_id, known, progress_topic).long
    progress = known.of(seen.transactional_id).progress
    yield "last progress", known.unknown or (str(progress) if progress else f"none in topic '{progress_topic}'")
    for each in held:
        for holder in each.holders:
            if holder.transaction and holder.transactional_id == seen.transactional_id:
                yield "holds back", _holds(each, holder)


def _holds(held: HeldBack, holder: Holder) -> str:
    place = f"{held.topic} {held.partition}"
    first = held.holders[0]
    if holder is not first:
        waits = first.transactional_id or f"producer {first.producer_id}"
        return f"{place} from offset {holder.start_offset} on, once {waits} has ended"
    return f"{place} from offset {held.last_stable_offset} on: {held.records} of {held.high_watermark} are not readable"


# --- abort -----------------------------------------------------------------------------------------------------


def _abort(args: argparse.Namespace) -> int:
    if args.prefix == "":
        hint = "name the ids, or give the prefix that they share"
        raise OptionsError((Problem("is empty, which would mean every transaction", where="--prefix", hint=hint),))
    with closing(_connected(args)) as session:
        return _abort_hanging(session, args) if args.hanging else _abort_ids(session, args)


def _abort_ids(session: Session, args: argparse.Namespace) -> int:
    chosen = _chosen(session, args, ended=False)
    known = _owners(session, chosen, args)
    people = {each.transactional_id: _owner(each.transactional_id, known, args.progress_topic) for each in chosen}
    refused = [each for each in chosen if people[each.transactional_id].obstacle and not args.force]
    doomed = [each for each in chosen if each not in refused]
    if chosen:
        print(table(_TITLES, [_row(each, people[each.transactional_id]) for each in chosen]))
    elif args.prefix:
        print(f"No open transactions of ids that start with '{args.prefix}'")
    for each in refused:
        name = each.transactional_id
        _complain(f"'{name}' is left alone: {people[name].obstacle}")
    if not doomed:
        return 1 if refused else 0
    print(
        "Aborting takes an id over: whoever still uses it is fenced and ends with an error. What its transaction wrote"
    )
    print("is not published; a penstock query does the batch again when it is next started.")
    if not _agreed(args, f"Abort {count(len(doomed), 'transaction')}?"):
        return 1
    failed = bool(refused)
    for each in doomed:
        try:
            now = abort_transaction(session, each)
        except PenstockError as error:
            failed = True
            _complain(str(error))
        else:
            partitions = count(len(each.partitions), "partition")
            print(f"aborted '{each.transactional_id}' in {partitions}; the id is now at epoch {now.epoch}")
    return int(failed)


def _abort_hanging(session: Session, args: argparse.Namespace) -> int:
    if args.ids or args.prefix:
        hint = "abort transactional ids by a command of their own"
        raise OptionsError((Problem("stands alone", where="--hanging", hint=hint),))
    places = [_place(each) for each in args.hanging]
    doubt = blind_spot(session)
    if doubt and not args.force:
        raise KafkaError(f"what is hanging cannot be told from what is in work: {doubt}; --force goes on nevertheless")
    found = [
        each for each in held_back(session, {topic for topic, _ in places}) if (each.topic, each.partition) in places
    ]
    doomed = [(each, holder) for each in found for holder in each.holders if holder.hanging]
    for place in places:
        if not any((each.topic, each.partition) == place for each, _ in doomed):
            print(f"Nothing hangs in topic '{place[0]}', partition {place[1]}")
    if not doomed:
        return 0
    print(table(_HELD_TITLES, _held_rows(found, doubt)))
    print("The brokers are told to end what is hanging in these partitions, past all coordinators.")
    if not _agreed(args, f"Abort {count(len(doomed), 'hanging transaction')}?"):
        return 1
    for each, holder in doomed:
        abort_hanging(session, each, holder)
        print(
            f"aborted what producer {holder.producer_id} had open in topic '{each.topic}', partition {each.partition}"
        )
    return 0


def _place(text: str) -> TopicPartition:
    topic, dash, partition = text.rpartition("-")
    if not dash or not topic or not partition.isdecimal():
        raise OptionsError((Problem("expected a topic, a dash and a partition's number", text, where="--hanging"),))
    return topic, int(partition)


def _agreed(args: argparse.Namespace, question: str) -> bool:
    if args.yes:
        return True
    if not sys.stdin.isatty():
        hint = "look at what is shown, then say --yes"
        raise OptionsError((Problem("nobody can be asked, for there is no terminal", where="txn abort", hint=hint),))
    try:
        agreed = input(f"{question} [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        agreed = False
    if not agreed:
        print("nothing was aborted")
    return agreed


# --- ids and owners --------------------------------------------------------------------------------------------


def _chosen(session: Session, args: argparse.Namespace, *, ended: bool) -> list[TransactionDescription]:
    """The transactions of the ids that were named, or that share the prefix.

    Says of the ids named what is not as expected: unknown is an error, and without ``ended`` so much as a line.
    """
    if bool(args.ids) == (args.prefix is not None):
        hint = "penstock txn list shows them"
        raise OptionsError((Problem("name transactional ids, or give --prefix P, and not both", hint=hint),))
    if args.prefix is not None:
        found = transactions(session, args.prefix, ended=ended)
        _warn_of_unseen(session, args.prefix, bool(found))
        return found
    found = []
    for name in dict.fromkeys(args.ids):
        seen = describe_transaction(session, name)
        if seen is None:
            raise KafkaError(
                f"no coordinator knows transactional id '{name}'; `penstock txn list --all` shows which are"
            )
        if ended or is_open(seen):
            found.append(seen)
        else:
            print(f"'{name}' has no open transaction ({seen.state})")
    return found


@dataclass(frozen=True)
class _Owner:
    """Who claimed an id, in a table's cell and in a line.

    ``obstacle`` is why its transaction should not be aborted, and what to do then; empty when its owner has ended.
    """

    short: str
    long: str
    obstacle: str


def _owners(session: Session, chosen: Iterable[TransactionDescription], args: argparse.Namespace) -> Owners:
    ids = [each.transactional_id for each in chosen]
    return owners(session, ids, args.progress_topic, deadline=_patience(session))


def _owner(transactional_id: str, known: Owners, progress_topic: str) -> _Owner:
    claim = known.of(transactional_id).latest_claim
    unless = "make sure that it does not, then abort with --force"
    if claim is None:
        reason = known.unknown or f"no claim in topic '{progress_topic}'"
        return _Owner(
            "not known", f"not known: {reason}", f"whether its owner runs cannot be told ({reason}); {unless}"
        )
    short = f"process {claim.pid} on {claim.host}"
    if claim.host != socket.gethostname():
        obstacle = f"whether its owner runs, {claim}, cannot be told on another host; {unless}"
        return _Owner(short, f"{claim}; whether it runs can be told on that host only", obstacle)
    if _runs(claim):
        return _Owner(
            f"{short}, runs", f"{claim}, which runs", f"its owner runs: {claim}; stop that, or fence it with --force"
        )
    return _Owner(f"{short}, gone", f"{claim}, which has ended", "")


def _runs(claim: Claim) -> bool:
    """Whether the process that wrote a claim on this host runs still, and not another one that got its number."""
    process = Identity.of(claim.pid)
    if process is None:
        return False
    ticks = process.started.rpartition(":")[2]
    if not hasattr(time, "CLOCK_BOOTTIME") or not ticks.isdecimal():  # not Linux: the number has to do
        return True
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(ticks) / os.sysconf("SC_CLK_TCK")
    return (time.time() - age) * 1000 <= claim.started_ms + _CLOCK_MS


# --- text ------------------------------------------------------------------------------------------------------


def _partitions(places: Iterable[TopicPartition]) -> str:
    """``orders 0-3, 5; audit 0``"""
    texts = []
    for topic, members in groupby(sorted(places), lambda each: each[0]):
        runs: list[list[int]] = []
        for _, partition in members:
            if runs and partition == runs[-1][1] + 1:
                runs[-1][1] = partition
            else:
                runs.append([partition, partition])
        texts.append(f"{topic} " + ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs))
    return "; ".join(texts)


def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)


def _complain(text: str) -> None:
    print(f"error: {text}", file=sys.stderr)
