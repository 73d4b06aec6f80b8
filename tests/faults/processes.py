"""A job as users run it, ``penstock run FILE``, in processes that can be killed, stopped and looked at."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.jvm import UNOPTIMISED
from tests.waiting import eventually

__all__ = ["JobProcess"]

_MUTANT = Path(__file__).with_name("mutated_penstock.py")
_POLL_SECONDS = 0.02


class JobProcess:
    """``penstock run`` of one SQL file with one checkpoint directory, started as often as the test likes.

    The driver, its JVM and all Python workers are one session (setsid) and die together with :meth:`kill`.
    """

    def __init__(
        self,
        folder: Path,
        sql: str,
        checkpoint: Path,
        *,
        name: str = "copy",
        mutation: str | None = None,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        file: str = "job.sql",
    ):
        """``name`` is the job's; ``mutation`` one of mutated_penstock.py; ``arguments`` go to ``penstock run``.
        ``file`` is the name of the file with ``sql``, which may be a pipeline."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.checkpoint, self.name, self.mutation = folder, checkpoint, name, mutation
        self.sql = sql
        self.starts = 0
        self._file = folder / file
        self._file.write_text(sql)
        self._arguments = tuple(arguments)
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None

    # --- life ------------------------------------------------------------------------------------------------

    def start(self) -> JobProcess:
        """Start the job (again). Returns at once."""
        assert not self.running, "the job runs already"
        self.starts += 1
        program = [str(_MUTANT), self.mutation] if self.mutation else ["-m", "penstock.cli.main"]
        scratch = self.folder / "scratch"  # what killed processes leave behind goes with the test's folder
        scratch.mkdir(exist_ok=True)
        environment = {
            **os.environ,
            "TMPDIR": str(scratch),
            "SPARK_LOCAL_DIRS": str(scratch),
            "SPARK_DRIVER_MEMORY": "1g",
            "SPARK_SUBMIT_OPTS": UNOPTIMISED,
            **self._environment,
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, *program, "run", str(self._file), "--checkpoint-dir", str(self.checkpoint),
                 *self._arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=self.folder,
                start_new_session=True,
            )  # fmt: skip
        return self

    @property
    def started(self) -> bool:
        """Whether it was started, though it may have ended."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """The driver's process, and the id of its session."""
        assert self._process is not None, "the job was never started"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the driver runs."""
        return self._process is not None and self._process.poll() is None

    def wait(self, seconds: float) -> int:
        """Wait for the driver's end; its exit status. Fails with the end of its log when it does not end."""
        assert self._process is not None
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the job has not ended in {seconds:g} s:\n{self.text[-3000:]}") from None

    def finish(self, seconds: float) -> None:
        """Wait for the driver's end, which must be in order."""
        status = self.wait(seconds)
        assert status == 0, f"the job ended with status {status}:\n{self.text[-3000:]}"

    def ask_to_stop(self) -> None:
        """SIGTERM to the driver, as supervisors send it. Returns at once."""
        assert self._process is not None
        self._process.terminate()

    def stop(self, seconds: float = 240) -> None:
        """Ask the driver to stop; it must do so in order."""
        self.ask_to_stop()
        self.finish(seconds)

    # --- faults ----------------------------------------------------------------------------------------------

    def processes(self) -> list[int]:
        """All processes of the session: driver, JVM, Python workers. Zombies are none."""
        return [pid for pid, state in self._states() if state not in "ZX"]

    def programs(self) -> list[str]:
        """What these run, by the names of the files."""
        return [program for _, program in self.programs_by_pid()]

    def programs_by_pid(self) -> list[tuple[int, str]]:
        """The number of each of these processes, and what it runs."""
        found = []
        for pid in self.processes():
            with suppress(OSError):
                found.append((pid, os.path.basename(os.readlink(f"/proc/{pid}/exe"))))
        return found

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every process of the session."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """Kill everything (SIGKILL), as a machine that fails would, and return when it is gone."""
        if self._process is None:
            return

        def gone() -> bool:
            self.signal(signal.SIGKILL)  # again, since a worker may have been forked meanwhile
            self._process.poll()
            return not self.processes()

        eventually(gone)
        self._process.wait()

    def kill_driver(self) -> None:
        """Kill the driver's Python process alone; JVM and workers find out by themselves."""
        os.kill(self.pid, signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def kill_jvm(self) -> None:
        """Kill the driver's JVM alone, and return when it is gone; Python finds out by itself."""

        def gone() -> bool:
            found = [pid for pid, program in self.programs_by_pid() if program == "java"]
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not found

        eventually(gone)

    def pause(self) -> None:
        """Stop every process of the session (SIGSTOP), and return when all stand still."""

        def still() -> bool:
            self.signal(signal.SIGSTOP)
            return all(state in "TtZX" for _, state in self._states())

        eventually(still)

    def resume(self) -> None:
        """Let all stopped processes go on."""
        self.signal(signal.SIGCONT)

    def left_over(self, seconds: float = 60) -> int:
        """How many processes outlive the driver by so many seconds."""
        until = time.monotonic() + seconds
        while (left := len(self.processes())) and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        return left

    # --- what it says and keeps ------------------------------------------------------------------------------

    @property
    def log(self) -> Path:
        """What the last start printed."""
        return self.folder / f"job-{self.starts}.log"

    @property
    def text(self) -> str:
        """What the last start has printed so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def error(self) -> str:
        """The message that ended the last start (the line that begins with ``error:``); empty when there is none."""
        found = re.findall(r"^error: (.*)$", self.text, re.MULTILINE)
        return found[-1] if found else ""

    def wait_for(self, text: str, seconds: float = 240) -> None:
        """Wait until the job has printed ``text``. Fails when it ends without."""
        self.until(lambda: text in self.text, seconds)

    def until(self, condition: Callable[[], object], seconds: float = 240) -> None:
        """Wait for ``condition`` while the driver runs. Fails with the end of its log when that ends first."""

        def met() -> bool:
            running = self.running  # asked first: what it has done last counts
            if condition():
                return True
            assert running, f"the job ended before:\n{self.text[-3000:]}"
            return False

        eventually(met, seconds, lambda: f"and the job says:\n{self.text[-3000:]}")

    def planned(self) -> int:
        """The last batch in Spark's offset log, -1 for none."""
        return self._last("offsets")

    def done(self) -> int:
        """The last batch in Spark's commit log, -1 for none."""
        return self._last("commits")

    def _states(self) -> list[tuple[int, str]]:
        """Process ids and states of the session (proc(5): state is field 3, session field 6).

        Whoever works elsewhere has the number of a session that ended long ago.
        """
        found = []
        for each in Path("/proc").iterdir():
            if each.name.isdigit():
                with suppress(OSError):
                    fields = (each / "stat").read_text().rpartition(")")[2].split()
                    if int(fields[3]) == self.pid and os.readlink(each / "cwd").startswith(str(self.folder)):
                        found.append((int(each.name), fields[0]))
        return found

    def _last(self, log: str) -> int:
        folder = self.checkpoint / self.name / log
        names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
        return max((int(name) for name in names if name.isdigit()), default=-1)
