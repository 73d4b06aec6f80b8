"""``penstock status``: how far a job is, from its checkpoint alone."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.cli.checkpoints import add_job, open_checkpoint
from penstock.cli.client import add_client_options, client_config
from penstock.cli.display import count, describe_command, format_moment, format_span, format_table
from penstock.clock import now_ms
from penstock.errors import CheckpointError, DefinitionError, Problem

if TYPE_CHECKING:
    from penstock.engine.checkpoint.job_status import JobStatus, TableStatus
    from penstock.kafka.partitions import TopicPartition

_SHOWN = 50


@dataclass(frozen=True)
class _Partition:
    """A partition of a source's topic: the next offset to read, and the end of its log, None where it was not asked."""

    source: str
    topic: str
    partition: int
    offset: int
    end: int | None = None

    @property
    def lag(self) -> int | None:
        """The records that are still to be read."""
        return None if self.end is None else max(0, self.end - self.offset)

    def to_json(self) -> dict[str, Any]:
        """The partition as a JSON document."""
        found = {"source": self.source, "topic": self.topic, "partition": self.partition, "offset": self.offset}
        return found | ({} if self.end is None else {"end": self.end, "lag": self.lag})


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers ``status``."""
    text = "show how far a job is, and what it has read of each table, from its checkpoint alone"
    parser = subparsers.add_parser("status", help=text, description=describe_command(text))
    add_job(parser, also=", or of a savepoint")
    parser.add_argument(
        "--limit",
        type=int,
        default=_SHOWN,
        metavar="N",
        help=f"show at most N tables: those with the most records left out, then those with the most rows (default: "
        f"{_SHOWN}; 0: all)",
    )
    parser.add_argument("--format", choices=("table", "json"), default="table")
    live = parser.add_argument_group("the ends of the topics")
    live.add_argument("--live", action="store_true", help="ask the brokers for them, and show the lag")
    add_client_options(live)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from penstock.engine.checkpoint.job_status import read_status

    _check_live(arguments)
    found = read_status(open_checkpoint(arguments))
    partitions = list(_list_partitions(found))
    if arguments.live:
        partitions = _find_ends(partitions, arguments)
    if arguments.format == "json":
        print(json.dumps(_to_json(found, partitions), ensure_ascii=False))
    else:
        _print_status(found, partitions, arguments.limit)
    return 0


def _check_live(arguments: argparse.Namespace) -> None:
    """Raises DefinitionError for options of the client without ``--live``, and for ``--live`` without an address."""
    if arguments.live and not arguments.bootstrap_servers and arguments.command_config is None:
        hint = "for example --bootstrap-servers localhost:9092; the checkpoint does not have it"
        raise DefinitionError((Problem("needs the address of the brokers", where="--live", hint=hint),))
    if not arguments.live and (arguments.bootstrap_servers or arguments.command_config or arguments.property):
        problem = Problem("the brokers are not asked without --live", where="--bootstrap-servers", hint="add --live")
        raise DefinitionError((problem,))


def _list_partitions(found: JobStatus) -> Iterator[_Partition]:
    """The partitions of sources that read topics."""
    from penstock.connectors.kafka.source.positions import Positions

    for source, document in found.positions.items():
        try:
            positions = Positions.from_json(document)
        except CheckpointError:  # of another connector
            continue
        for topic, partition in positions.partitions():
            yield _Partition(source, topic, partition, positions.at[topic, partition].offset)


def _find_ends(partitions: Sequence[_Partition], arguments: argparse.Namespace) -> list[_Partition]:
    """The partitions with the ends of their logs."""
    from penstock.kafka.offsets import LATEST, list_offsets
    from penstock.kafka.session import Session

    wanted: set[TopicPartition] = {(each.topic, each.partition) for each in partitions}
    with closing(Session(client_config(arguments))) as session:
        ends = list_offsets(session, sorted(wanted), LATEST) if wanted else {}
    known = ((each, ends.get((each.topic, each.partition))) for each in partitions)
    return [replace(each, end=None if end is None else end.offset) for each, end in known]


# --- output ------------------------------------------------------------------------------------------------------


def _to_json(found: JobStatus, partitions: Sequence[_Partition]) -> dict[str, Any]:
    return {
        "job": found.job,
        "batch": found.batch,
        "time_ms": found.time_ms,
        "begun": found.begun,
        "partitions": [each.to_json() for each in partitions],
        "tables": [_table_to_json(each) for each in found.sort_tables()],
        "unknown_refused": found.unknown,
    }


def _table_to_json(each: TableStatus) -> dict[str, Any]:
    version: Mapping[str, Any] = {}
    if each.version is not None:
        version = {"version": each.version.number, "changed_ms": each.version.time_ms, "what": each.version.changes}
    return {"table": each.table, "rows": each.total.rows, "refused": each.total.refused, **version}


def _print_status(found: JobStatus, partitions: Sequence[_Partition], limit: int) -> None:
    if found.batch < 0:
        print(f"job '{found.job}', before its first batch")
    else:
        when = "" if found.time_ms is None else f", committed {_format_time(found.time_ms)}"
        print(f"job '{found.job}', after batch {found.batch}{when}")
    if found.begun is not None:
        print(f"batch {found.begun} was begun; whether it is committed, the job or its next start knows")
    if partitions:
        live = any(each.end is not None for each in partitions)
        titles = ("source", "topic", "partition", "next offset", *(("end", "lag") if live else ()))
        print()
        print(format_table(titles, [_show_partition(each, live=live) for each in partitions]))
        if live:
            print(f"lag: {count(sum(each.lag or 0 for each in partitions), 'record')}")
    if found.tables or found.unknown:
        print()
        _print_tables(found, limit)


def _show_partition(each: _Partition, *, live: bool) -> list[str]:
    ends = ["" if number is None else f"{number:,}" for number in (each.end, each.lag)] if live else []
    return [each.source, each.topic, str(each.partition), f"{each.offset:,}", *ends]


def _print_tables(found: JobStatus, limit: int) -> None:
    refused = f", {count(found.refused, 'record')} left out" if found.refused else ""
    of_none = f", {found.unknown:,} of them of no table" if found.unknown else ""
    print(f"{count(len(found.tables), 'table')}, {count(found.rows, 'row')} read{refused}{of_none}")
    tables = found.sort_tables()
    shown = tables[:limit] if limit > 0 else tables
    if shown:
        titles = ("table", "rows", "left out", "version", "last change", "what")
        print(format_table(titles, map(_show_table, shown)))
    if len(shown) < len(tables):
        print(f"and {count(len(tables) - len(shown), 'more table')}; --limit 0 shows all")


def _show_table(each: TableStatus) -> list[str]:
    numbers = [f"{each.total.rows:,}", f"{each.total.refused:,}" if each.total.refused else ""]
    if each.version is None:
        return [each.table, *numbers, "", "", ""]
    changed = format_moment(each.version.time_ms)
    return [each.table, *numbers, str(each.version.number), changed, "; ".join(each.version.changes)]


def _format_time(ms: int) -> str:
    ago = now_ms() - ms
    return format_moment(ms) + (f", {format_span(ago)} ago" if ago >= 0 else "")
