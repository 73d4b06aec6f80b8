"""``penstock schemas``: the tables that a pipeline has found, and how their columns have changed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.cli.checkpoints import add_job, open_checkpoint
from penstock.cli.display import describe_command, format_table
from penstock.errors import DefinitionError, Problem, nearest

if TYPE_CHECKING:
    from penstock.engine.checkpoint.schema_history import SchemaHistory
    from penstock.schemas import SchemaVersion


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers ``schemas``."""
    text = "show the tables that a pipeline has found, and how their columns have changed"
    parser = subparsers.add_parser("schemas", help=text, description=describe_command(text))
    add_job(parser, also=", or of a savepoint")
    parser.add_argument("--table", metavar="TABLE", help="the history of one table, with its columns")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from penstock.engine.checkpoint.schema_history import read_schema_history

    history = found = read_schema_history(open_checkpoint(arguments))
    if arguments.table is not None:
        found = history.select_table(arguments.table)
        if not found.versions:
            raise _unknown_table_error(arguments.table, history)
    if arguments.format == "json":
        for each in found.versions:
            print(json.dumps(each.to_json(), ensure_ascii=False))
    elif arguments.table is not None:
        print("\n".join(_describe_history(found)))
    else:
        _print_tables(found)
    return 0


def _unknown_table_error(table: str, history: SchemaHistory) -> DefinitionError:
    known = sorted({each.table for each in history.versions})
    hint = nearest(table, known) or (f"there are {', '.join(known)}" if known else "it has found none yet")
    return DefinitionError((Problem(f"the job knows no table '{table}'", where="--table", hint=hint),))


def _print_tables(found: SchemaHistory) -> None:
    print(f"job '{found.job}', after batch {found.batch}")
    if found.refused:
        print(f"{found.refused:,} records were left out so far")
    if not found.versions:
        print("it has found no tables")
        return
    titles = "side", "table", "version", "columns", "key", "last change", "what"
    lines = []
    for each in found.present():
        columns, key = str(len(each.schema.row.fields)), ", ".join(each.schema.primary_key)
        what = "; ".join([*each.changes, *([f"refused: {each.outcome}"] if each.outcome else [])])
        lines.append((each.side.value, each.table, str(each.number), columns, key, _format_time(each), what))
    print(format_table(titles, lines))


def _describe_history(found: SchemaHistory) -> Iterator[str]:
    """The versions of one table, the oldest first, and its columns now."""
    for each in found.versions:
        place = f", {each.place}" if each.place else ""
        when = f"batch {each.batch}, {_format_time(each)}{place}"
        yield f"{each.side.value} table '{each.table}', version {each.number}: {when}"
        yield from (f"  {change}" for change in each.changes)
        if each.outcome:
            yield f"  the sink did not follow: {each.outcome}"
    for each in found.present():
        key = f", primary key {', '.join(each.schema.primary_key)}" if each.schema.primary_key else ""
        yield f"columns of {each.side.value} table '{each.table}' now{key}:"
        yield from (f"  {column}" for column in each.schema.row.fields)


def _format_time(version: SchemaVersion) -> str:
    return f"{datetime.fromtimestamp(version.time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
