"""The JVM that Spark's driver runs in."""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.find_spark_home import _find_spark_home

from penstock.errors import ExecutionError

#: The JVM prints this at every start, because Spark asks for the vector module.
_NOISE = b"WARNING: Using incubator modules: "
_CHECK_EVERY_SECONDS = 0.02


class Jvm:
    """A JVM that was started with spark-submit, and may still be starting.

    It has its own process group, so that Ctrl-C and other signals to our group reach this process only, which can let
    the JVM finish its work. The JVM reads from a pipe that closes when this process ends, and then ends too. Its
    standard error passes through this process, so it prints nothing after this process is killed.
    """

    def __init__(self, configuration: Mapping[str, str]):
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-"))
        self._answer = self._folder / "gateway"
        settings = [each for key, value in configuration.items() for each in ("--conf", f"{key}={value}")]
        submit = str(Path(_find_spark_home()) / "bin" / "spark-submit")
        given = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))  # as PySpark itself gives them
        try:
            self._process = subprocess.Popen(
                [submit, *settings, *given],
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._answer)},
                process_group=0,
            )
        except OSError as error:
            reason = f"'{submit}' cannot be started: {error}; reinstall PySpark, or correct SPARK_HOME"
            raise ExecutionError(reason) from error
        self._reader = threading.Thread(target=self._pass_on, name="penstock-jvm", daemon=True)
        self._reader.start()
        atexit.register(self._abandon)

    def gateway(self) -> Any:
        """The connection to the JVM, as soon as it listens. Raises ExecutionError if it ends before."""
        from pyspark.java_gateway import launch_gateway

        try:
            while not self._answer.exists():
                if self._process.poll() is not None:
                    self._reader.join()  # it has printed why
                    raise ExecutionError(
                        f"Spark's JVM ended with status {self._process.returncode} before it was ready; look at the "
                        "lines above, and run `penstock doctor` to check Java"
                    )
                time.sleep(_CHECK_EVERY_SECONDS)
            port, secret = _connection(self._answer.read_bytes())
        except BaseException:
            self._abandon()
            raise
        self._forget()
        # PySpark connects to a JVM that is running when these are set, as under spark-submit.
        os.environ.update(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret)
        try:
            gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
        gateway.proc = self._process
        return gateway

    def _pass_on(self) -> None:
        """Copy the JVM's standard error to our own."""
        for line in self._process.stderr or ():
            if not line.startswith(_NOISE):
                with contextlib.suppress(OSError):
                    os.write(2, line)

    def _forget(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        atexit.unregister(self._abandon)

    def _abandon(self) -> None:
        """End a JVM that nobody has connected to: it would complain that its folder is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._forget()


def _connection(answer: bytes) -> tuple[int, str]:
    """Port and secret from the file that Spark writes: a number, a length and text."""
    port, length = struct.unpack_from(">ii", answer)
    return port, answer[8 : 8 + length].decode()
