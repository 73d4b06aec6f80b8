"""The process that Spark starts on this machine: it asks the fork server for the real one, and ends with it.

The launcher of :mod:`penstock.engine.session.workers` runs this file, without site packages for a quick start:
``forkclient.py SOCKET PYTHON -m MODULE [ARGUMENT ...]``. Without a server it becomes ``PYTHON -m MODULE ...`` itself.
"""

import json
import os
import socket
import sys

__all__: list[str] = []


def main() -> int:
    """Ask for a fork, wait for its end, and return its exit code."""
    path, python, _, *argv = sys.argv[1:]
    try:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(path)
        request = json.dumps({"argv": argv, "env": dict(os.environ), "cwd": os.getcwd()}).encode() + b"\n"
        sent = socket.send_fds(connection, [request], [0, 1, 2])
        connection.sendall(request[sent:])
    except OSError:
        os.execv(python, [python, "-m", *argv])  # noqa: S606 - this process becomes Python
    for number in range(3):  # only the fork may hold them, so that Spark sees when it closes them
        os.close(number)
    code = connection.recv(1)
    return code[0] if code else 1


if __name__ == "__main__":
    sys.exit(main())
