"""``penstock state``: what the steps of a job keep, and the rows of one of them."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from penstock.cli.checkpoints import add_job, open_checkpoint
from penstock.cli.display import describe_command, format_event_time, format_size, format_span, format_table
from penstock.clock import now_ms
from penstock.errors import DefinitionError, Problem

if TYPE_CHECKING:
    from penstock.engine.checkpoint.inspection import JobState, StepState


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers ``state``."""
    text = "show what the steps of a job keep, or the rows of one step"
    parser = subparsers.add_parser("state", help=text, description=describe_command(text))
    add_job(parser, also=", or of a savepoint")
    parser.add_argument("--uid", metavar="UID", help="the step whose rows to show")
    parser.add_argument("--table", metavar="TABLE", help="which of its tables; by default the first")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="show at most N rows (default: 20)")
    parser.add_argument("--format", choices=("table", "json", "csv"), default="table")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from penstock.engine.checkpoint.inspection import job_state

    found = job_state(open_checkpoint(arguments))
    if arguments.uid is None:
        _print_overview(found, arguments.format)
        return 0
    step = next((each for each in found.steps if each.uid == arguments.uid), None)
    if step is None:
        raise _unknown_name_error("step", arguments.uid, "--uid", [each.uid for each in found.steps])
    names = [each.name for each in step.tables]
    name = arguments.table or names[0]
    if name not in names:
        raise _unknown_name_error("table", name, "--table", names)
    columns, rows = found.rows(step.uid, name)
    _print_rows(columns, islice(rows, max(0, arguments.limit)), arguments.format)
    return 0


def _unknown_name_error(kind: str, name: str, where: str, known: Sequence[str]) -> DefinitionError:
    hint = f"there are {', '.join(map(repr, known))}" if known else "the job keeps no state"
    return DefinitionError((Problem(f"the state has no {kind} '{name}'", where=where, hint=hint),))


def _print_overview(found: JobState, form: str) -> None:
    titles = ("step", "table", "key", "keys", "rows", "bytes", "segments", "oldest", "watermark", "late rows")
    now = now_ms()
    if form != "table":
        figures = (
            [step.uid, *_measure(step, number), step.time.reached, step.time.late]
            for step in found.steps
            for number in range(len(step.tables))
        )
        _print_rows(titles, figures, form)
        return
    print(f"job '{found.job}', after batch {found.batch}")
    if not found.steps:
        print("its steps keep no state")
        return
    lines = []
    for step in found.steps:
        for number in range(len(step.tables)):
            name, key, keys, rows, held, segments, oldest = _measure(step, number)
            age = "" if oldest is None else f"{format_span(max(0, now - oldest))} ago"
            line = (step.uid, name, key, f"{keys:,}", f"{rows:,}", format_size(held), str(segments), age)
            lines.append((*line, *_format_times(step)))
    timed = any(line[-2] for line in lines)
    print(format_table(titles, lines) if timed else format_table(titles[:-2], [line[:-2] for line in lines]))


def _format_times(step: StepState) -> tuple[str, str]:
    reached = step.time.reached
    return ("", "") if reached is None else (format_event_time(reached), f"{step.time.late:,}")


def _measure(step: StepState, number: int) -> tuple[str, str, int, int, int, int, int | None]:
    each = step.tables[number]
    held = each.size
    return each.name, ", ".join(each.key), each.keys, held.rows, held.bytes, held.segments, each.oldest_ms


def _print_rows(titles: Sequence[str], rows: Iterable[Sequence[Any]], form: str) -> None:
    if form == "table":
        print(format_table(titles, [[_to_text(value) for value in row] for row in rows]))
    elif form == "json":
        for row in rows:
            print(json.dumps(dict(zip(titles, map(_to_json, row), strict=True)), ensure_ascii=False))
    else:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(titles)
        writer.writerows(_to_texts(rows))


def _to_texts(rows: Iterable[Sequence[Any]]) -> Iterator[list[str]]:
    for row in rows:
        yield [_to_text(value) for value in row]


def _to_text(value: Any) -> str:
    plain = _to_json(value)
    if isinstance(plain, str):
        return plain
    return "NULL" if plain is None else json.dumps(plain, ensure_ascii=False)


def _to_json(value: Any) -> Any:
    """The value if JSON has its type, else its text."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): _to_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(each) for each in value]
    return str(value)
