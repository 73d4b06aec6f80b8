"""The sides of the gate: each a process that stays, runs one job after the other and tells the seconds."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPLY = "GATE "
_HERE = Path(__file__).parent
_TICKS = os.sysconf("SC_CLK_TCK")


class SideError(Exception):
    """A side that failed, or took too long."""


@dataclass(frozen=True)
class Run:
    """A job: seconds from its start until it ended; processor seconds of all processes of its side, and the bytes of
    memory of its Python processes and of its JVM, once a second. The broker's are not among them."""

    seconds: float
    cpu: float
    samples: Sequence[tuple[int, int]] = ()

    @property
    def memory(self) -> int:
        """The most bytes of all processes."""
        return max(map(sum, self.samples), default=0)


@dataclass(eq=False)
class Side:
    """A process that runs jobs. ``command`` reads a task in JSON per line and answers ``{"seconds": ...}`` after
    :data:`REPLY`. A job that takes longer than ``limit`` seconds ends the side."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    limit: float = 900.0
    _process: subprocess.Popen[str] | None = None
    _log: Any = None

    def run(self, task: Mapping[str, Any]) -> Run:
        """Run one job. Raises SideError."""
        process = self._start()
        before = _cpu_seconds(process.pid)
        with _MemoryWatch(process.pid) as watch:
            answer = self._ask(process, task)
        if "seconds" not in answer:
            raise SideError(f"{self.name}: {answer.get('error', 'no answer')}")
        return Run(answer["seconds"], max(0.0, _cpu_seconds(process.pid) - before), watch.samples)

    def close(self) -> None:
        """End the process and those that it started."""
        if self._process is not None:
            _kill(self._process)
            self._process = None
        if self._log is not None:
            self._log.close()

    def _start(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._log = tempfile.TemporaryFile("w+", prefix="penstock-gate-")  # noqa: SIM115 - until the side is closed
            self._process = subprocess.Popen(
                self.command,
                env={**os.environ, **self.environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                start_new_session=True,
            )
        return self._process

    def _ask(self, process: subprocess.Popen[str], task: Mapping[str, Any]) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(self.limit, _kill, [process])
        timer.start()
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps(task) + "\n")
                process.stdin.flush()
            for line in process.stdout:
                if line.startswith(REPLY):
                    answer: dict[str, Any] = json.loads(line[len(REPLY) :])
                    return answer
        finally:
            timer.cancel()
        self._log.seek(0)
        raise SideError(
            f"{self.name}: its process ended, or was ended after {self.limit:.0f} s: {self._log.read()[-800:]}"
        )


def penstock_side(module: str = "bench.gate.penstock_side") -> Side:
    """This penstock."""
    return Side("penstock", [sys.executable, "-m", module])


def flink_side(script: Path = _HERE / "flink_side.py") -> Side | str:
    """PyFlink, which runs ``script``, or what is missing for it."""
    python, jar = os.environ.get("BENCH_FLINK_PYTHON"), os.environ.get("BENCH_FLINK_KAFKA_JAR")
    if not python or not jar:
        return "set BENCH_FLINK_PYTHON (a Python with apache-flink 2.2) and BENCH_FLINK_KAFKA_JAR (its SQL connector)"
    return flink(python, jar, script=script)


def flink(python: str, *jars: str, script: Path = _HERE / "flink_side.py") -> Side:
    """PyFlink of a Python, with these jars, which runs ``script``."""
    path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"  # where PyFlink's workers find their Python
    return Side("flink", [python, str(script), *jars], {"PATH": path})


def spark_side() -> Side | str:
    """Spark with its own connector for Kafka, or what is missing for it."""
    python, jars = os.environ.get("BENCH_SPARK_PYTHON"), os.environ.get("BENCH_SPARK_KAFKA_JARS")
    if not python or not jars:
        return "set BENCH_SPARK_PYTHON (a Python with pyspark) and BENCH_SPARK_KAFKA_JARS (a folder: its Kafka jars)"
    return Side("spark", [python, str(_HERE / "spark_side.py"), jars], {"PYSPARK_PYTHON": python})


def _kill(process: subprocess.Popen[Any]) -> None:
    """End a process that leads a session, and all of that session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class _MemoryWatch:
    """The memory of a process and of all below it, looked at once a second: that of Python and of Java. Pages that
    processes share are counted once."""

    def __init__(self, root: int):
        self.samples: list[tuple[int, int]] = []
        self._root = root
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            python = java = 0
            for each in _family(self._root):
                if _is_java(each):
                    java += _memory(each)
                else:
                    python += _memory(each)
            self.samples.append((python, java))
            if self._done.wait(1):
                return


def _is_java(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text().strip() == "java"
    return False


def _memory(process: int) -> int:
    with suppress(OSError):
        found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{process}/smaps_rollup").read_text(), re.MULTILINE)
        return int(found[1]) << 10 if found else 0
    return 0


def _cpu_seconds(root: int) -> float:
    """Processor seconds of a process and of all below it, those that ended among them."""
    return sum(_family(root).values()) / _TICKS


def _family(root: int) -> dict[int, int]:
    """A process and all below it, each with the ticks that it and its ended children have used."""
    parents, used = {}, {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = place.read_text().rpartition(")")[2].split()
            number = int(place.parent.name)
            parents[number] = int(fields[1])
            used[number] = sum(map(int, fields[11:15]))
    found, level = set[int](), {root}
    while level:
        found |= level
        level = {each for each, parent in parents.items() if parent in level}
    return {each: used[each] for each in found if each in used}
