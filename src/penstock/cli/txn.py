"""``penstock txn``: a cluster's open transactions: who holds back which readers, and how to abort what is left open."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import groupby

from penstock.cli.client import add_client_options, client_config
from penstock.cli.display import count, describe_command, format_moment, format_span, format_table
from penstock.clock import now_ms
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
    explain_unlisted,
    find_held_back,
    find_transactions,
    is_open,
    list_leaderless,
    read_owners,
)
from penstock.kafka.partitions import TopicPartition
from penstock.kafka.progress import TOPIC
from penstock.kafka.session import TRANSACTION, Session
from penstock.kafka.transactions import TransactionDescription, describe_transaction
from penstock.machine.processes import Identity

#: How long the cluster may take to answer, and the progress topic to be read.
_PATIENCE_MS = 10_000.0
# A process that started later than this after a claim was written is not the one that wrote it.
_CLOCK_MS = 5_000


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers ``txn list``, ``txn describe`` and ``txn abort``."""
    text = "open transactions of a cluster: look at them, abort them"
    txn = subparsers.add_parser("txn", help=text, description=describe_command(text))
    actions = txn.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, function, text in (
        ("list", _list, "show open transactions, and the partitions whose last stable offset they hold back"),
        ("describe", _describe, "show everything that is known about transactional ids"),
        ("abort", _abort, "abort open transactions; fences a process that still uses the id"),
    ):
        parser = actions.add_parser(name, help=text, description=describe_command(text))
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
            parser.add_argument("--force", action="store_true", help="even if the owner still runs, or may still run")
        add_client_options(parser)
        topic = f"the topic that says who owns an id; default {TOPIC}"
        parser.add_argument("--progress-topic", default=TOPIC, metavar="NAME", help=topic)
        parser.set_defaults(run=function)


@contextmanager
def _connect(args: argparse.Namespace) -> Iterator[Session]:
    with closing(Session(client_config(args))) as session:
        session.brokers(_connect_deadline(session))
        yield session


def _connect_deadline(session: Session) -> Deadline:
    return session.deadline(min(_PATIENCE_MS, session.config.default_api_timeout_ms))


# --- list ------------------------------------------------------------------------------------------------------


def _list(args: argparse.Namespace) -> int:
    prefix = args.prefix or ""
    with _connect(args) as session:
        shown = find_transactions(session, prefix, ended=args.all)
        _warn_about_unseen(session, prefix, bool(shown))
        known, people = _find_owners(session, shown, args)
        held = [
            each
            for each in find_held_back(session)
            if not prefix or any(holder.transactional_id.startswith(prefix) for holder in each.holders)
        ]
        lost = list_leaderless(session)
        hanging = [each for each in held if any(holder.hanging for holder in each.holders)]
        # A transaction of an id that is not listed looks like a hanging one.
        doubt = explain_unlisted(session) if hanging else ""
    if shown:
        print(_format_table(shown, people))
    else:
        which = f" of ids that start with '{prefix}'" if prefix else ""
        print("No transactions" + which if args.all else "No open transactions" + which)
    if held:
        print("\nRead_committed readers wait at the last stable offset of:")
        print(format_table(_HELD_TITLES, _held_back_rows(held, doubt)))
        if hanging and not doubt:
            options = " ".join(f"--hanging {each.topic}-{each.partition}" for each in hanging)
            print(f"No coordinator will end the hanging transactions; this does: penstock txn abort {options}")
    else:
        print("No last stable offset is held back" + (" by them" if prefix else ""))
    if shown and known.unknown:
        _warn(f"owners are not known: {known.unknown}")
    _warn_about_lost(lost)
    return 0


_TITLES = ("TRANSACTIONAL ID", "STATE", "AGE", "TIMEOUT", "PRODUCER", "EPOCH", "PARTITIONS", "OWNER")
_HELD_TITLES = ("PARTITION", "FROM OFFSET", "RECORDS", "HELD BACK BY", "SINCE")


def _warn_about_unseen(session: Session, prefix: str, any_seen: bool) -> None:
    """Warns when open transactions may be missing from a list. Raises KafkaError when no id is listed at all."""
    unseen = explain_unlisted(session, prefix)
    if unseen and not any_seen and not find_transactions(session, prefix, ended=True):
        raise KafkaError(f"no transactional id is listed: {unseen}")
    if unseen:
        _warn(unseen)


def _warn_about_lost(lost: Sequence[TopicPartition]) -> None:
    if lost:
        _warn(f"these partitions are left out, because they have no leader: {_format_partitions(lost)}")


def _format_table(shown: Iterable[TransactionDescription], people: Mapping[str, _Owner]) -> str:
    return format_table(
        _TITLES,
        [
            (
                each.transactional_id,
                each.state,
                "-" if (age := age_ms(each)) is None else format_span(age),
                format_span(each.timeout_ms),
                str(each.producer_id),
                str(each.epoch),
                _format_partitions(each.partitions) or "-",
                people[each.transactional_id].short,
            )
            for each in shown
        ],
    )


def _held_back_rows(held: Iterable[HeldBack], doubt: str) -> Iterator[Sequence[str]]:
    """A row for each open transaction in each partition. The first one holds readers back, the others will do so when
    it has ended."""
    for each in held:
        partition = f"{each.topic} {each.partition}"
        if not each.holders:
            waiting = str(each.last_stable_offset), str(each.records)
            yield partition, *waiting, "not known: needs Read on the topic", "-"
        for holder in each.holders:
            start = each.last_stable_offset if holder is each.holders[0] else holder.start_offset
            offset, records = ("-", "-") if start < 0 else (str(start), str(each.high_watermark - start))
            if holder.transaction:
                since = format_moment(holder.transaction.started_ms)
            else:
                since = f"last record of {format_moment(holder.last_timestamp)}"
            yield partition, offset, records, _describe_holder(holder, doubt), since
            partition = ""


def _describe_holder(holder: Holder, doubt: str) -> str:
    if not holder.hanging:
        return holder.transactional_id
    producer = f"producer {holder.producer_id}, epoch {holder.epoch}"
    if holder.transactional_id:
        return f"{holder.transactional_id}, hanging: not open at its coordinator ({producer})"
    if doubt:
        return f"{producer}: hanging, or of an id that is not listed"
    return f"{producer}, hanging: no coordinator knows it"


# --- describe --------------------------------------------------------------------------------------------------


def _describe(args: argparse.Namespace) -> int:
    with _connect(args) as session:
        chosen = _find_transactions(session, args, ended=True)
        known, people = _find_owners(session, chosen, args)
        held = find_held_back(session)
        _warn_about_lost(list_leaderless(session))
        for number, each in enumerate(chosen):
            if number:
                print()
            print(each.transactional_id)
            node = session.coordinator(TRANSACTION, each.transactional_id, session.deadline())
            progress = known.find_progress(each.transactional_id).progress
            for title, text in (
                ("state", each.state),
                ("producer", f"id {each.producer_id}, epoch {each.epoch}"),
                ("coordinator", f"node {node}, {session.address(node)}"),
                *_describe_times(each),
                ("partitions", _format_partitions(each.partitions) or "none"),
                ("owner", people[each.transactional_id].long),
                ("last progress", known.unknown or str(progress or f"none in topic '{args.progress_topic}'")),
                *(("holds back", text) for text in _describe_held_back(each, held)),
            ):
                print(f"  {title:<14}{text}")
    if not chosen:
        print(f"No transactional id starts with '{args.prefix}'")
    return 0


def _describe_times(seen: TransactionDescription) -> Iterator[tuple[str, str]]:
    timeout, age = format_span(seen.timeout_ms), age_ms(seen)
    if age is not None:
        yield "open since", f"{format_moment(seen.started_ms)}, {format_span(age)} ago"
        timeout += f": left open, it is aborted at {format_moment(seen.started_ms + seen.timeout_ms)}"
    yield "timeout", timeout


def _describe_held_back(seen: TransactionDescription, held: Iterable[HeldBack]) -> Iterator[str]:
    for each in held:
        partition = f"{each.topic} {each.partition} from offset"
        for holder in each.holders:
            if holder.transaction and holder.transactional_id == seen.transactional_id:
                first = each.holders[0]
                if holder is first:
                    unread = f"{each.records} of {each.high_watermark} are not readable"
                    yield f"{partition} {each.last_stable_offset} on: {unread}"
                else:
                    before = first.transactional_id or f"producer {first.producer_id}"
                    yield f"{partition} {holder.start_offset} on, once {before} has ended"


# --- abort -----------------------------------------------------------------------------------------------------


def _abort(args: argparse.Namespace) -> int:
    if args.prefix == "":
        hint = "name the ids, or give the prefix that they share"
        raise OptionsError((Problem("an empty prefix would mean every transaction", where="--prefix", hint=hint),))
    with _connect(args) as session:
        return _abort_hanging(session, args) if args.hanging else _abort_ids(session, args)


def _abort_ids(session: Session, args: argparse.Namespace) -> int:
    chosen = _find_transactions(session, args, ended=False)
    _, people = _find_owners(session, chosen, args)
    doomed = [each for each in chosen if args.force or not people[each.transactional_id].obstacle]
    if chosen:
        print(_format_table(chosen, people))
    elif args.prefix:
        print(f"No open transactions of ids that start with '{args.prefix}'")
    failed = len(doomed) < len(chosen)
    for each in chosen:
        if each not in doomed:
            _complain(f"'{each.transactional_id}' is left alone: {people[each.transactional_id].obstacle}")
    if not doomed:
        return int(failed)
    print(
        "Aborting takes an id over: whoever still uses it is fenced and ends with an error. What its transaction wrote"
    )
    print("is not published; a penstock query runs the batch again when it is next started.")
    if not _ask(args, f"Abort {count(len(doomed), 'transaction')}?"):
        return 1
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
        hint = "abort transactional ids in a separate command"
        raise OptionsError((Problem("cannot be combined with ids or --prefix", where="--hanging", hint=hint),))
    tps = [_parse_partition(each) for each in args.hanging]
    doubt = explain_unlisted(session)
    if doubt and not args.force:
        raise KafkaError(
            f"hanging transactions look like those of ids that are not listed: {doubt}; --force aborts them "
            "nevertheless"
        )
    found = [
        each for each in find_held_back(session, {topic for topic, _ in tps}) if (each.topic, each.partition) in tps
    ]
    doomed = [(each, holder) for each in found for holder in each.holders if holder.hanging]
    hanging = {(each.topic, each.partition) for each, _ in doomed}
    for topic, partition in tps:
        if (topic, partition) not in hanging:
            print(f"No hanging transactions in topic '{topic}', partition {partition}")
    if not doomed:
        return 0
    print(format_table(_HELD_TITLES, _held_back_rows(found, doubt)))
    print("The brokers end the hanging transactions in these partitions, without any coordinator.")
    if not _ask(args, f"Abort {count(len(doomed), 'hanging transaction')}?"):
        return 1
    for each, holder in doomed:
        abort_hanging(session, each, holder)
        where = f"topic '{each.topic}', partition {each.partition}"
        print(f"aborted the transaction of producer {holder.producer_id} in {where}")
    return 0


def _parse_partition(text: str) -> TopicPartition:
    topic, dash, partition = text.rpartition("-")
    if not dash or not topic or not partition.isdecimal():
        raise OptionsError((Problem("expected a topic, a dash and a partition's number", text, where="--hanging"),))
    return topic, int(partition)


def _ask(args: argparse.Namespace, question: str) -> bool:
    if args.yes:
        return True
    if not sys.stdin.isatty():
        hint = "check the list above, then pass --yes"
        raise OptionsError((Problem("cannot ask, because there is no terminal", where="txn abort", hint=hint),))
    try:
        agreed = input(f"{question} [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        agreed = False
    if not agreed:
        print("nothing was aborted")
    return agreed


# --- ids and owners --------------------------------------------------------------------------------------------


def _find_transactions(session: Session, args: argparse.Namespace, *, ended: bool) -> list[TransactionDescription]:
    """The transactions of the ids that were named, or that share the prefix.

    Raises KafkaError for a named id that no coordinator knows. Without ``ended``, prints which named ids have no open
    transaction.
    """
    if bool(args.ids) == (args.prefix is not None):
        hint = "penstock txn list shows them"
        raise OptionsError((Problem("name transactional ids, or give --prefix P, and not both", hint=hint),))
    if args.prefix is not None:
        found = find_transactions(session, args.prefix, ended=ended)
        _warn_about_unseen(session, args.prefix, bool(found))
        return found
    found = []
    for name in dict.fromkeys(args.ids):
        seen = describe_transaction(session, name)
        if seen is None:
            raise KafkaError(f"no coordinator knows transactional id '{name}'; `penstock txn list --all` shows all")
        if ended or is_open(seen):
            found.append(seen)
        else:
            print(f"'{name}' has no open transaction ({seen.state})")
    return found


@dataclass(frozen=True)
class _Owner:
    """Who claimed an id: ``short`` for a table's cell, ``long`` for a line.

    ``obstacle`` says why its transaction should not be aborted and what to do then. It is empty if the owner has ended.
    """

    short: str
    long: str
    obstacle: str


def _find_owners(
    session: Session, chosen: Iterable[TransactionDescription], args: argparse.Namespace
) -> tuple[Owners, dict[str, _Owner]]:
    """What the progress topic says about transactional ids, and the owner of each."""
    ids = [each.transactional_id for each in chosen]
    known = read_owners(session, ids, args.progress_topic, deadline=_connect_deadline(session))
    return known, {
        each: _find_owner(known.find_progress(each).latest_claim, known, args.progress_topic) for each in ids
    }


def _find_owner(claim: Claim | None, known: Owners, progress_topic: str) -> _Owner:
    unless = "make sure that it does not run, then abort with --force"
    if claim is None:
        reason = known.unknown or f"no claim in topic '{progress_topic}'"
        obstacle = f"it is not known whether its owner runs ({reason}); {unless}"
        return _Owner("not known", f"not known: {reason}", obstacle)
    short = f"process {claim.pid} on {claim.host}"
    if claim.host != socket.gethostname():
        obstacle = f"its owner may run on another host: {claim}; {unless}"
        return _Owner(short, f"{claim}; only that host can tell whether it runs", obstacle)
    if _is_running(claim):
        obstacle = f"its owner runs: {claim}; stop that, or fence it with --force"
        return _Owner(f"{short}, runs", f"{claim}, which runs", obstacle)
    return _Owner(f"{short}, gone", f"{claim}, which has ended", "")


def _is_running(claim: Claim) -> bool:
    """Whether the process that wrote a claim on this host still runs. Another process may have its number now."""
    process = Identity.from_pid(claim.pid)
    if process is None:
        return False
    ticks = process.started.rpartition(":")[2]
    if not hasattr(time, "CLOCK_BOOTTIME") or not ticks.isdecimal():  # not Linux: the number has to be enough
        return True
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(ticks) / os.sysconf("SC_CLK_TCK")
    return now_ms() - age * 1000 <= claim.started_ms + _CLOCK_MS


# --- text ------------------------------------------------------------------------------------------------------


def _format_partitions(tps: Iterable[TopicPartition]) -> str:
    """``orders 0-3, 5; audit 0``"""
    texts = []
    for topic, members in groupby(sorted(tps), lambda each: each[0]):
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
