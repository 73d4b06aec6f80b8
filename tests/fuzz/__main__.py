"""Run mutated messages through every format, each in a process of its own, and random changelogs through every operator
with state and through random queries, and run random pipelines, and print what came of it."""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.fuzz.mutations import mutated
from tests.fuzz.subjects import REFUSED, SUBJECTS

_BATCH = 250
#: Longer than any batch takes on the slowest machine: what takes longer hangs.
_HANGS_AFTER_SECONDS = 300
#: The tests of operators with random changelogs, which take their number from the environment (tests/changelogs.py).
_CHANGELOGS = tuple(
    f"tests/unit/flow/test_{each}.py"
    for each in (
        *("aggregate", "chains", "deduplicate", "join", "materialize", "normalize", "queries", "rank"),
        *("recorded_queries", "set_operation", "arrival_order"),
    )
)
#: The tests of pipelines, which take their number of them in the same way.
_RANDOM_PIPELINES = (
    "tests/unit/ingest/test_random_pipelines.py",
    "tests/unit/ingest/test_killed_runs.py",
    "tests/spark/test_killed_pipelines.py",
)
_OPERATORS, _PIPELINES = "operators", "pipelines"


def main() -> int:
    """Fuzz, and print a line for each format."""
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="over all formats (default: 1,000,000)")
    default = ",".join((*SUBJECTS, _OPERATORS, _PIPELINES))
    parser.add_argument("--only", default=default, help=f"comma-separated formats, {_OPERATORS} and {_PIPELINES}")
    parser.add_argument("--changelogs", type=int, default=1000, help="for each operator (default: 1,000)")
    parser.add_argument("--pipelines", type=int, default=300, help="random pipelines (default: 300)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers; a line that failed names its own")
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    names = [name for name in chosen if name not in (_OPERATORS, _PIPELINES)]
    if arguments.in_process:
        fuzz(names[0], arguments.inputs, arguments.seed)
        return 0
    failed = []
    if _OPERATORS in chosen and run_tests(_CHANGELOGS, arguments.changelogs, arguments.seed):
        failed.append(_OPERATORS)
    if _PIPELINES in chosen and run_tests(_RANDOM_PIPELINES, arguments.pipelines, arguments.seed):
        failed.append(_PIPELINES)
    for name in names:
        share = -(-arguments.inputs // len(names))
        command = [sys.executable, "-m", "tests.fuzz", "--in-process", "--only", name]
        command += ["--inputs", str(share), "--seed", str(arguments.seed)]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    print(f"differences in: {', '.join(failed)}" if failed else "no crash, no hang, no difference")
    return int(bool(failed))


def run_tests(files: Sequence[str], count: int, seed: int) -> int:
    """So many examples of each of these files; not 0 after a failure. Changelogs are cut into batches in three ways,
    the first of them in twenty."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "", f"--hypothesis-seed={seed}", "--timeout", "0"]
    command += ["-n", str(os.cpu_count() or 1), *files]
    environment = {**os.environ, "SEEDS": f"{(seed - 1) * count}:{seed * count}"}
    return subprocess.run(command, check=False, env=environment).returncode


def fuzz(name: str, inputs: int, seed: int) -> None:
    """So many inputs for one format. Raises AssertionError with the first message that is answered differently."""
    begun, refused, done = time.monotonic(), 0, 0
    while done < inputs:
        faulthandler.dump_traceback_later(_HANGS_AFTER_SECONDS, exit=True)
        refused += one_batch(name, f"{seed}-{done}")
        done += _BATCH
    faulthandler.cancel_dump_traceback_later()
    print(f"{name}: {done:,} inputs, {refused:,} refused, {time.monotonic() - begun:.0f} s", flush=True)


def one_batch(name: str, seed: str) -> int:
    """One batch of inputs under random options; how many were refused."""
    rng = random.Random(f"{name}-{seed}")
    subject = SUBJECTS[name](rng)
    good = subject.good(rng)
    messages = [mutated(rng, good, subject.tokens) for _ in range(_BATCH)]
    ours = subject.answers(messages)
    for message, answer in zip(messages, ours, strict=True):
        expected = subject.second(message)
        assert subject.same(message, answer, expected), (
            f"{name}, seed {seed}, {subject.options}\n  columns: {subject.schema}\n  message: {message!r}\n"
            f"  the format: {answer}\n  the second decoder: {expected}"
        )
    return sum(REFUSED in answer for answer in ours)


if __name__ == "__main__":
    sys.exit(main())
