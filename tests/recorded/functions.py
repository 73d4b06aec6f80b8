"""Rewrites ``functions.json``, what Flink makes of the expressions of :mod:`grid` on its rows, and
``functions_in_zone.json``, what it makes of those that depend on the session's zone in one where clocks change.

    python tests/recorded/functions.py ENVIRONMENT [PATTERN]

``ENVIRONMENT`` is the virtual environment that :mod:`flink` describes; its Python runs this script. Answers that are
there are kept, unless ``PATTERN``, a regular expression, finds their expression: so recording can be stopped at any
time and go on later.

An answer has the type and a value for each row, or what Flink says as it refuses the expression (``error``), or as it
fails while it computes (``fails``). Decimals and floating-point numbers are texts.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grid
from flink import gateway, reason
from py4j.protocol import Py4JJavaError

HERE = Path(__file__).parent
AT_ONCE = 100

Answer = dict[str, Any]


class Tables:
    """Flink's SQL over the rows of the grid, on a cluster within this process."""

    def __init__(self, java: Any, folder: Path, zone: str):
        self._java, self._folder, self._jobs = java, folder, 0
        given = folder / "rows"
        given.mkdir()
        lines = (json.dumps({"place": number, **row}) for number, row in enumerate(grid.rows()))
        (given / "rows.json").write_text("\n".join(lines))
        api = java.org.apache.flink.table.api
        self._tables = api.TableEnvironment.create(api.EnvironmentSettings.newInstance().inBatchMode().build())
        settings = java.org.apache.flink.configuration.Configuration()
        for key, value in {"rest.port": "0", "rest.bind-port": "0", "taskmanager.memory.managed.size": "64m"}.items():
            settings.setString(key, value)
        runtime = java.org.apache.flink.runtime.minicluster
        shape = runtime.MiniClusterConfiguration.Builder().setConfiguration(settings)
        self._cluster = runtime.MiniCluster(shape.setNumTaskManagers(1).setNumSlotsPerTaskManager(4).build())
        self._cluster.start()
        address = self._cluster.getRestAddress().get()
        for key, value in {
            "execution.target": "remote",
            "rest.address": address.getHost(),
            "rest.port": str(address.getPort()),
            "parallelism.default": "1",
            "table.local-time-zone": zone,
        }.items():
            self._tables.getConfig().set(key, value)
        self._create("grid", f"place INT, {grid.COLUMNS}", given)

    def answers(self, expressions: Sequence[str]) -> dict[str, Answer]:
        """The answer to each expression."""
        found: dict[str, Answer] = {}
        known = []
        for sql in expressions:
            try:
                (column,) = (
                    self._tables.sqlQuery(f"SELECT {sql} AS c FROM grid").getResolvedSchema().getColumnDataTypes()
                )
                known.append((sql, column.getLogicalType().asSummaryString()))
            except Py4JJavaError as error:
                found[sql] = {"error": reason(error.java_exception)}
        found.update(self._computed(known))
        return {sql: found[sql] for sql in expressions}

    def _computed(self, expressions: Sequence[tuple[str, str]]) -> dict[str, Answer]:
        """Computed together; apart if one of them fails."""
        if not expressions:
            return {}
        try:
            rows = self._run(expressions)
        except Py4JJavaError as error:
            if len(expressions) == 1:
                ((sql, data_type),) = expressions
                return {sql: {"type": data_type, "fails": reason(error.java_exception)}}
            half = len(expressions) // 2
            return self._computed(expressions[:half]) | self._computed(expressions[half:])
        return {
            sql: {"type": data_type, "values": [row.get(f"c{number}") for row in rows]}
            for number, (sql, data_type) in enumerate(expressions)
        }

    def _run(self, expressions: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        self._jobs += 1
        name, folder = f"made_{self._jobs}", self._folder / f"made_{self._jobs}"
        columns = ", ".join(f"c{i} {type_.replace(' NOT NULL', '')}" for i, (_, type_) in enumerate(expressions))
        self._create(name, f"place INT, {columns}", folder)
        selected = ", ".join(f"{sql} AS c{number}" for number, (sql, _) in enumerate(expressions))
        job = self._tables.executeSql(f"INSERT INTO {name} SELECT place, {selected} FROM grid")
        getattr(job, "await")()
        lines = [line for path in folder.rglob("*") if path.is_file() for line in path.read_text().splitlines()]
        return sorted((json.loads(line, parse_float=str) for line in lines), key=lambda row: row["place"])

    def _create(self, name: str, columns: str, folder: Path) -> None:
        options = {
            "connector": "filesystem",
            "path": folder.as_uri(),
            "format": "json",
            "json.encode.decimal-as-plain-number": "true",
        }
        shown = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        self._tables.executeSql(f"CREATE TABLE {name} ({columns}) WITH ({shown})")


@contextmanager
def tables(environment: Path, zone: str) -> Iterator[Tables]:
    """Flink of the virtual environment, in sessions of this zone."""
    with gateway(environment) as started, tempfile.TemporaryDirectory() as folder:
        yield Tables(started.jvm, Path(folder), zone)


def main(environment: Path, pattern: str = "(?!)") -> None:
    """Ask Flink what is not known yet."""
    record(environment, "functions.json", "UTC", grid.expressions(), pattern)
    record(environment, "functions_in_zone.json", grid.ZONE, grid.local_expressions(), pattern)


def record(environment: Path, name: str, zone: str, expressions: Sequence[str], pattern: str) -> None:
    """Ask Flink what a file lacks."""
    path = HERE / name
    before = json.loads(path.read_text("utf-8")) if path.exists() else {}
    known = {sql: answer for sql, answer in before.items() if re.search(pattern, sql) is None}
    missing = [sql for sql in expressions if sql not in known]
    with tables(environment, zone) as flink:
        for start in range(0, len(missing), AT_ONCE):
            known.update(flink.answers(missing[start : start + AT_ONCE]))
            write(path, {sql: known[sql] for sql in expressions if sql in known})
            print(f"{name}: {len(known)} of {len(expressions)}", flush=True)


def write(path: Path, answers: dict[str, Answer]) -> None:
    """One answer per line."""
    lines = [f"{json.dumps(sql)}: {json.dumps(each, separators=(',', ':'))}" for sql, each in answers.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
