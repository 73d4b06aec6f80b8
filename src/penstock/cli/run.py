"""``penstock run`` and ``penstock check``: jobs from SQL, YAML and Python files."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from penstock.cli.display import add_pairs, count, describe_command, log_to, parse_pairs
from penstock.cli.reporter import Reporter, describe_restarts, read_text
from penstock.cli.variables import add_variables, read_variables
from penstock.errors import VERBOSE, DefinitionError, ExecutionError, OptionsError, PenstockError, Problem
from penstock.plan.checks import check_settings
from penstock.plan.dead_letter_sinks import with_dead_letters
from penstock.plan.guarantees import check_guarantees, check_identities
from penstock.plan.lifetimes import warn_of_growing_steps
from penstock.plan.nodes import Job
from penstock.plan.planning import plan_job
from penstock.settings.given import GivenSettings

if TYPE_CHECKING:
    from penstock.engine import JobResult, RunningJob

_SCRIPTS = (".sql", ".yaml", ".yml")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers ``run`` and ``check``."""
    for name, function, text in (
        ("run", _run, "run the jobs of a .sql, .yaml or .py file"),
        ("check", _check, "validate a file and print its plan without running it"),
    ):
        parser = subparsers.add_parser(name, help=text, description=describe_command(text))
        parser.add_argument("file", type=Path, metavar="FILE", help=".sql, .yaml or .py")
        add_variables(parser)
        parser.set_defaults(run=function)
        _add_state(parser)
        if name == "check":
            parser.add_argument(
                "--live",
                action="store_true",
                help="look at the records in the topics of a pipeline, and show which tables it would find, and what "
                "it would do to the tables that it knows; nothing is written",
            )
        if name == "run":
            parser.set_defaults(terminal_status=3)
            parser.add_argument(
                "--available-now",
                action="store_true",
                help="read what is there, and end; the next run continues from the checkpoint",
            )
            parser.add_argument(
                "--adopt-progress",
                action="store_true",
                help="continue although the progress topic was lost: the last batch may be published twice",
            )
            parser.add_argument(
                "--take-over",
                action="store_true",
                help="take the place of a copy of the job that still runs, and end it",
            )
            parser.add_argument(
                "--metrics-port",
                type=_parse_address,
                metavar="[HOST:]PORT",
                help="serve Prometheus metrics at /metrics on this port while the jobs run (0: any free port)",
            )
            parser.add_argument("--quiet", action="store_true", help="print only warnings and errors")
            parser.add_argument(
                "--verbose",
                action="store_true",
                help="show on the terminal what Spark and Python report about an error, and not in a file",
            )
            parser.add_argument(
                "--start-time",
                type=_parse_start_time,
                metavar="TIME",
                help="without a checkpoint, start sources at the first record from this time on, whatever their "
                "options say: ISO 8601 (in this machine's zone if it names none) or milliseconds since 1970",
            )


def _add_state(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that decide which state a job continues from."""
    parser.add_argument("--checkpoint-dir", metavar="DIR", help="directory or URI that keeps the jobs' progress")
    add_pairs(parser, "-D", "a setting of the jobs; overrides the file")
    parser.add_argument("--from", dest="savepoint", metavar="DIR", help="start a new job from a savepoint")
    parser.add_argument(
        "--allow-non-restored-state",
        action="store_true",
        help="leave out state and positions of steps and sources that the job does not have",
    )
    parser.add_argument(
        "--reset-state",
        action="append",
        default=[],
        metavar="STEP",
        help="let this step begin empty if its state does not fit the job, or leave the state out if the job does not "
        "have the step; may be given several times",
    )


def _parse_start_time(text: str) -> int:
    """Milliseconds since 1970, given as such or in ISO 8601."""
    try:
        millis = int(text) if text.isdecimal() else round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        millis = -1
    if millis < 0:
        raise argparse.ArgumentTypeError(
            f"expected a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970, not '{text}'"
        )
    return millis


# --- check ---------------------------------------------------------------------------------------------------


def _check(arguments: argparse.Namespace) -> int:
    from penstock.plan.explain import explain

    given = _read_settings(arguments)
    jobs = [_apply_settings(job, arguments, given) for job in _read_jobs(arguments, given)]
    from penstock.engine.checkpoint.state_report import state_report  # a file with mistakes is reported without them
    from penstock.flow.graph.routes import describe_route

    if arguments.file.suffix.lower() != ".py":  # the jobs of a program run one after the other
        check_identities(jobs)
    reports = []
    for job in map(plan_job, jobs):
        check_settings(job)
        check_guarantees(job)
        complete = with_dead_letters(job)
        print(f"{explain(complete)}\n  {describe_route(complete)}")
        for warning in warn_of_growing_steps(job):
            print(f"warning: {warning}", file=sys.stderr)
        report = state_report(complete)
        if report is not None:
            print(f"  {report.title}", *(f"    {line}" for line, _ in report.lines()), sep="\n")
            reports.append(report)
        if arguments.live:
            from penstock.cli.live_check import check_live

            print(*(f"  {line}" for line in check_live(job)), sep="\n")
    for report in reports:
        report.check()
    return 0


# --- run -----------------------------------------------------------------------------------------------------


def _run(arguments: argparse.Namespace) -> int:
    if arguments.verbose:
        os.environ[VERBOSE] = "1"
    if arguments.file.suffix.lower() == ".py":
        return _run_python(arguments)
    if arguments.file.suffix.lower() in _SCRIPTS and arguments.file.is_file():
        from penstock.engine import session

        session.prepare()  # Spark starts while the file is read
    given = _read_settings(arguments)
    jobs = [_apply_settings(job, arguments, given) for job in _read_jobs(arguments, given)]
    if jobs:  # and not just EXPLAIN or SHOW
        run_jobs(jobs, metrics=arguments.metrics_port, quiet=arguments.quiet)
    return 0


def _read_settings(arguments: argparse.Namespace) -> GivenSettings:
    """The settings of ``-D``, whose warnings are printed. Raises DefinitionError with every problem."""
    settings, problems = parse_pairs(arguments.D, "-D")
    given = GivenSettings()
    for key, text in settings.items():
        try:
            given.put(key, text, f"-D {key}")
        except OptionsError as error:
            problems += error.problems
    if problems:
        raise DefinitionError(tuple(problems))
    given.settings()
    for warning in given.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return given


def _apply_settings(job: Job, arguments: argparse.Namespace, given: GivenSettings) -> Job:
    """``job`` with the settings of the command line."""
    settings = given.over(job.settings)
    settings = replace(
        settings,
        checkpoint_dir=arguments.checkpoint_dir or settings.checkpoint_dir,
        savepoint=arguments.savepoint or settings.savepoint,
        ignore_unclaimed_state=arguments.allow_non_restored_state or settings.ignore_unclaimed_state,
        reset_state=(*settings.reset_state, *arguments.reset_state),
    )
    if arguments.run is _run:
        settings = replace(
            settings,
            adopt_progress=arguments.adopt_progress or settings.adopt_progress,
            take_over=arguments.take_over or settings.take_over,
            available_now=arguments.available_now or settings.available_now,
            start_time=arguments.start_time,
        )
    return replace(job, name=given.name or job.name, settings=settings)


def _parse_address(text: str) -> tuple[str, int]:
    """Host and port of ``[HOST:]PORT``."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) >= 1 << 16:
        raise argparse.ArgumentTypeError(f"expected [HOST:]PORT with a port below 65536, not '{text}'")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - metrics are read from other machines


def run_jobs(
    jobs: Sequence[Job], metrics: tuple[str, int] | None = None, *, quiet: bool = False
) -> list[JobResult] | None:
    """Runs jobs side by side until all have ended, one has failed, or a signal stops them, and shows their progress,
    unless ``quiet``. ``metrics`` are host and port of the server for Prometheus.

    Returns the result of each job, None after a signal. Raises the PenstockError of the job that failed, and
    OptionsError, before any job is started, for jobs that would interfere with each other.
    """
    check_identities(jobs)
    from penstock import engine

    reporter = Reporter(quiet=quiet)
    running: list[engine.RunningJob] = []
    with _collect_signals() as stopped:
        try:
            with ExitStack() as stops:
                stops.callback(reporter.close)
                stops.enter_context(_hide_py4j_tracebacks())
                stops.enter_context(log_to(reporter.warn))
                if metrics is not None:
                    host, port = metrics
                    server = engine.MetricsServer(lambda: [each.metrics for each in list(running)], port, host)
                    stops.callback(server.close)
                    reporter.say(f"metrics: http://{host}:{server.port}/metrics")
                for job in jobs:
                    reporter.say(f"job '{job.name}': starting")
                    running.append(engine.start(job, reporter.warn, reporter.say))
                    stops.callback(running[-1].stop)
                    if job.settings.checkpointing:
                        reporter.say(f"job '{job.name}': checkpoint {running[-1].checkpoint.location}")
                with _collect_signals(stopped):  # Spark has replaced our handlers
                    _wait(running, reporter, stopped)
        except Exception as error:
            if not stopped or isinstance(error, PenstockError):
                raise
            raise ExecutionError(
                "the signal also ended Spark's own processes, before the jobs were stopped; their next start aborts "
                f"the open transactions. Send the signal to process {os.getpid()} only"
            ) from error
    for each in running:
        try:
            each.wait()
        except PenstockError as error:  # it ended while it was being stopped
            if not error.restartable:
                raise
    results = [each.result() for each in running]
    for job, result in zip(jobs, results, strict=True):
        _say_result(reporter, job, result, bool(stopped))
    return None if stopped else results


def _wait(running: Sequence[RunningJob], reporter: Reporter, stopped: Sequence[int]) -> None:
    """Returns when all jobs have ended or ``stopped`` says so. Raises the PenstockError that ended one."""
    left = list(running)
    while left and not stopped:
        try:
            left = [each for each in left if not each.wait(timeout=1)]
        except PenstockError as error:
            if not stopped:
                raise
            # Ctrl-C reaches Spark's workers too. Their batch is aborted, and retried at the next start.
            reporter.warn(f"the current batch was aborted: {error}")
            return
        reporter.progress(running)


def _say_result(reporter: Reporter, job: Job, result: JobResult, stopped: bool) -> None:
    done = result.progress
    how = "stopped" if stopped else "finished"
    read = read_text([done], f"{count(done.records_in, 'record')} read")
    reporter.say(
        f"job '{result.job}': {how}: {read}, {done.records_out:,} written "
        f"in {_format_batches(done.batches)} and {result.seconds:.1f} s{describe_restarts(done.restarts)}"
    )
    if not stopped and not done.records_in and not done.files_in:
        reporter.say(f"job '{result.job}': {_explain_nothing_read(job, result)}")


def _format_batches(number: int) -> str:
    return f"{number:,} {'batch' if number == 1 else 'batches'}"


def _explain_nothing_read(job: Job, result: JobResult) -> str:
    """Why a job has read nothing, and what to do."""
    again = "use another --checkpoint-dir to read them again"
    if not result.continued:
        reason = "its sources had no records after their start positions, which are shown above"
        again = "to start elsewhere, set 'scan.startup.mode' and use another --checkpoint-dir"
    else:
        reason = "its sources had no records beyond those in the checkpoint"
    return f"{reason}; {'run it again when there are more' if job.settings.once else again}"


def _run_python(arguments: argparse.Namespace) -> int:
    given = _read_settings(arguments)

    def run_job(job: Job) -> JobResult:
        results = run_jobs(
            [_apply_settings(job, arguments, given)], metrics=arguments.metrics_port, quiet=arguments.quiet
        )
        if results is None:
            raise SystemExit(0)  # the signal that ended the job ends the program
        return results[0]

    if problem := _run_file(arguments, run_job):
        print(f"warning: {problem}", file=sys.stderr)
    return 0


def _run_file(arguments: argparse.Namespace, run_job: Callable[[Job], Any]) -> Problem | None:
    from penstock.cli.program import run_program

    if arguments.var or arguments.var_file:
        option = "--var" if arguments.var else "--var-file"
        reason = "replaces ${KEY} in .sql and .yaml files only"
        raise DefinitionError((Problem(reason, where=option, hint="a program can read os.environ"),))
    return run_program(_check_exists(arguments.file), run_job)


@contextmanager
def _collect_signals(received: list[int] | None = None) -> Iterator[list[int]]:
    """Collects SIGINT and SIGTERM in the list that it yields; they do not end the process."""
    received = [] if received is None else received

    def note(number: int, _: FrameType | None) -> None:
        if received:  # a second signal: the user will not wait
            raise KeyboardInterrupt
        received.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _hide_py4j_tracebacks() -> Iterator[None]:
    """Keeps the root logger from showing the tracebacks that py4j logs for every call after the JVM has ended. The
    error that ends the job says what has happened."""

    def keep(record: logging.LogRecord) -> bool:
        return Path(record.pathname).parent.name != "py4j"

    logging.getLogger().addFilter(keep)
    try:
        yield
    finally:
        logging.getLogger().removeFilter(keep)


# --- files ---------------------------------------------------------------------------------------------------


def _read_jobs(arguments: argparse.Namespace, given: GivenSettings) -> list[Job]:
    """The jobs of a file. Prints its warnings. Raises DefinitionError with every problem of the file."""
    jobs: list[Job] = []
    path = _check_exists(arguments.file)
    suffix = path.suffix.lower()
    if suffix == ".py":
        if problem := _run_file(arguments, jobs.append):
            raise DefinitionError((problem,))
        return jobs
    if suffix not in _SCRIPTS:
        raise DefinitionError((Problem("expected a .sql, .yaml or .py file", where=str(path)),))
    variables = read_variables(arguments, os.environ)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError((Problem(f"cannot be read: {error}", where=str(path)),)) from None
    if suffix == ".sql":
        from penstock.cli.found_columns import make_finder
        from penstock.ingest import copy_table
        from penstock.sql import parse_script

        script = parse_script(
            text,
            file=path.name,
            variables=variables,
            default_name=path.stem,
            folder=str(path.resolve().parent),
            copies=copy_table,
            find_columns=make_finder(lambda job: _apply_settings(job, arguments, given)),
        )
        jobs, warnings = list(script.jobs), script.warnings
        for text in script.printed:
            print(text)
    else:
        from penstock.ingest import lower, parse_pipeline

        pipeline = parse_pipeline(text, file=path.name, variables=variables)
        notes: list[str] = []
        jobs = [lower(pipeline, default_name=path.stem, warn=notes.append)]
        warnings = (*pipeline.warnings, *notes)
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return jobs


def _check_exists(path: Path) -> Path:
    if not path.is_file():
        raise DefinitionError((Problem("no such file", where=str(path), hint="check the path"),))
    return path
