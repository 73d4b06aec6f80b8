"""How long a job that was killed takes, with the state of many keys, until its first batch is committed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from bench.gate.queries import Query, Source, script
from bench.gate.topics import Topics, single_amounts

_POLL_SECONDS = 0.01
#: Records that arrive while the job is down.
_MORE = 1000


def seconds_to_commit(topics: Topics, keys: int, rounds: int, limit: float) -> list[float]:
    """Seconds from starting ``penstock run`` until committed readers see the totals of records that waited; once for
    each round. The job was ended by SIGKILL while it was idle; files may still be in the memory of the system.

    Raises TimeoutError after ``limit`` seconds, AssertionError if the totals do not go on from the state.
    """
    source, target = topics.create(), topics.create()
    documents = single_amounts(keys)
    topics.fill(source, keys, documents)
    query = Query(
        "",
        [Source("src", "user_id BIGINT, amount DOUBLE", source)],
        keys,
        "user_id",
        "user_id BIGINT, n BIGINT, s DOUBLE",
        "SELECT user_id, COUNT(*), SUM(amount) FROM src GROUP BY user_id",
        keys,
    )
    more = min(_MORE, keys)
    found = []
    with tempfile.TemporaryDirectory(prefix="penstock-gate-") as folder:
        file = Path(folder, "job.sql")
        settings = {"execution.checkpointing.dir": f"{folder}/checkpoints", "pipeline.name": "gate"}
        file.write_text(script(settings, query.statements(topics.bootstrap, target, {}, {})))
        with running(file, folder) as process:
            wait_until(partial(reaches, topics, target, keys), process, limit)
            wait_until(lambda: idle(Path(folder, "checkpoints", "gate")), process, limit)
        for number in range(rounds):
            before = topics.ends(target)
            length = sum(before.values()) + more
            topics.fill(source, more, documents, first=keys)
            grown = partial(reaches, topics, target, length)
            begun = time.perf_counter()
            with running(file, folder) as process:
                wait_until(grown, process, limit)
                found.append(time.perf_counter() - begun)
                counts = topics.rows(target, before).column("n").to_pylist()
                assert counts == [number + 2] * more, "the totals do not go on from those before"
                wait_until(lambda: idle(Path(folder, "checkpoints", "gate")), process, limit)
    for topic in (source, target):
        topics.drop(topic)
    return found


@contextmanager
def running(file: Path, folder: str) -> Iterator[subprocess.Popen[bytes]]:
    """``penstock run`` of a file, until it is killed with all its processes. Its log is in ``folder``."""
    with Path(folder, "log").open("ab") as log:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("penstock")), "run", str(file)],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    except TimeoutError as error:
        raise TimeoutError(f"{error}: {Path(folder, 'log').read_text()[-2000:]}") from error
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_until(met: Callable[[], bool], process: subprocess.Popen[bytes], limit: float) -> None:
    """Wait. Raises TimeoutError after ``limit`` seconds, or if the process ends."""
    end = time.monotonic() + limit
    while not met():
        if process.poll() is not None:
            raise TimeoutError(f"the job ended by itself with {process.returncode}")
        if time.monotonic() > end:
            raise TimeoutError(f"nothing happened for {limit:.0f} s")
        time.sleep(_POLL_SECONDS)


def reaches(topics: Topics, name: str, length: int) -> bool:
    """Whether committed readers see so many offsets of a topic."""
    return topics.length(name) >= length


def idle(checkpoint: Path) -> bool:
    """Whether Spark has logged as done all that it has planned, which is a moment after readers see it."""
    done, planned = (
        max((int(each.name) for each in (checkpoint / log).glob("[0-9]*")), default=-1)
        for log in ("commits", "offsets")
    )
    return -1 < done == planned
