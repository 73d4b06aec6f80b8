"""Looking at processes that do not wait for it."""

from __future__ import annotations

import signal
import subprocess
import sys

from penstock.machine.processes import Identity
from tests.waiting import eventually

#: Starts and ends threads without end.
RESTLESS = """
import threading
while True:
    threads = [threading.Thread(target=int) for _ in range(5)]
    for each in threads: each.start()
    for each in threads: each.join()
"""


def test_threads_that_end_while_they_are_looked_at_are_no_error() -> None:
    with subprocess.Popen([sys.executable, "-c", RESTLESS]) as process:
        try:
            identity = eventually(lambda: Identity.of(process.pid))
            assert not any(identity.frozen() for _ in range(3000))
            assert identity.signal(signal.SIGSTOP)
            eventually(identity.frozen)
        finally:
            process.kill()
    assert not identity.alive()
    assert not identity.frozen()
