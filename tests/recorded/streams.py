"""Rewrites ``streams.json``: what PyFlink does with the programs of ``tests/streams``, on a broker.

    python -m tests.recorded.streams [NAME...]

The environment says where PyFlink is: ``FLINK_PYTHON`` is a Python with ``apache-flink`` 2.2, ``FLINK_JARS`` a folder
with ``flink-sql-connector-kafka`` and ``flink-sql-avro`` for it. With names only those programs are run again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock_testing.services import KafkaCluster
from tests.recorded.flink_streams import REPLY
from tests.streams.cases import CASES, PROGRAMS, RECORDED
from tests.streams.runs import run

_HOW = "Made by `python -m tests.recorded.streams`. Do not edit it."


def main() -> None:
    """Run the programs and write what came of them."""
    names = sys.argv[1:] or [case.name for case in CASES]
    known = json.loads(RECORDED.read_text("utf-8"))["programs"] if RECORDED.exists() else {}
    with KafkaCluster() as cluster, tempfile.TemporaryDirectory() as folder, _flink(Path(folder)) as ask:
        for case in CASES:
            if case.name not in names:
                continue
            environment = {"BOOTSTRAP": cluster.bootstrap}

            def call(name: str, prefix: str, environment: dict[str, str] = environment) -> str:
                answer = ask({"name": name, "environment": {**environment, "TOPIC_PREFIX": prefix}})
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                return str(answer["printed"])

            try:
                known[case.name] = run(case, cluster.bootstrap, call)
            except RuntimeError as error:
                print(f"{case.name}: {error}", flush=True)
                continue
            print(f"{case.name}: {sum(map(len, known[case.name]['records'].values()))} records", flush=True)
            found = {"how": _HOW, "programs": {each.name: known[each.name] for each in CASES if each.name in known}}
            RECORDED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


@contextmanager
def _flink(folder: Path) -> Iterator[Any]:
    """Asks the process that runs programs by PyFlink."""
    python = str(Path(os.environ["FLINK_PYTHON"]).absolute())
    (folder / "tests" / "streams").mkdir(parents=True)
    for path in PROGRAMS.glob("*.py"):
        renamed = re.sub(r"^(\s*from )penstock\b", r"\1pyflink", path.read_text("utf-8"), flags=re.MULTILINE)
        (folder / "tests" / "streams" / path.name).write_text(renamed, "utf-8")
    where = "import pyflink, pathlib; print(pathlib.Path(pyflink.__file__).parent)"
    package = Path(subprocess.run([python, "-c", where], check=True, capture_output=True, text=True).stdout.strip())
    home = folder / "flink"  # PyFlink's own, with more jars
    (home / "lib").mkdir(parents=True)
    for each in package.iterdir():
        if each.name != "lib":
            (home / each.name).symlink_to(each)
    for jar in [*(package / "lib").glob("*.jar"), *Path(os.environ["FLINK_JARS"]).glob("*.jar")]:
        shutil.copy(jar, home / "lib")
    path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"  # where its workers find their Python
    environment = {**os.environ, "FLINK_HOME": str(home), "PYTHONPATH": str(folder), "PATH": path}
    script = Path(__file__).parent / "flink_streams.py"
    with subprocess.Popen(
        [python, str(script), str(folder)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        given, taken = process.stdin, process.stdout

        def ask(task: dict[str, Any]) -> dict[str, Any]:
            given.write(json.dumps(task) + "\n")
            given.flush()
            for line in taken:
                if line.startswith(REPLY):
                    answer: dict[str, Any] = json.loads(line[len(REPLY) :])
                    return answer
            sys.exit("PyFlink's process ended")

        yield ask
        given.close()


if __name__ == "__main__":
    main()
