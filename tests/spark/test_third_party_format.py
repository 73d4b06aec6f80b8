"""A format of somebody else's, installed as a package: found by its entry point in every process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import penstock
from penstock.engine.session.workers import fork_server, launcher
from tests.waiting import eventually

#: Messages are lines such as ``+U 7 apple``; several rows are joined by ``;``.
LEDGER = """
    from dataclasses import dataclass

    import numpy as np
    import pyarrow as pa

    from penstock.options import TEXT, OptionSet, opt
    from penstock.spi import BadRecord, Decoded
    from penstock.types import INT, RowKind, arrow_schema

    KINDS = {kind.short: kind for kind in RowKind}


    @dataclass(frozen=True, kw_only=True)
    class LedgerOptions(OptionSet):
        separator: str = opt("separator", TEXT, default=";", doc="Stands between the rows of a message.")


    @dataclass(frozen=True)
    class Decoder:
        schema: object
        options: LedgerOptions
        metadata: tuple
        ignores_errors = False

        def decode(self, messages):
            rows, kinds, origin, bad = [], [], [], []
            for index, message in enumerate(messages.to_pylist()):
                lines = [] if message is None else message.decode().split(self.options.separator)
                try:
                    found = [line.split(" ") for line in lines]
                    made = [{"id": int(id_), "name": name} for _, id_, name in found]
                except ValueError as error:
                    bad.append(BadRecord(index, str(error)))
                    continue
                rows += [row | dict.fromkeys(self.metadata, len(lines)) for row in made]
                kinds += [KINDS[op] for op, *_ in found]
                origin += [index] * len(made)
            fields = [*arrow_schema(self.schema), *(pa.field(key, pa.int32()) for key in self.metadata)]
            return Decoded(
                pa.RecordBatch.from_pylist(rows, schema=pa.schema(fields)),
                np.array(origin, np.int64),
                np.array(kinds, np.int8),
                tuple(bad),
            )


    class Encoder:
        def encode(self, rows, kinds=None):
            kinds = [RowKind.INSERT] * rows.num_rows if kinds is None else kinds.tolist()
            texts = [
                f"{RowKind(kind).short} {row['id']} {row['name']}"
                for kind, row in zip(kinds, rows.to_pylist(), strict=True)
            ]
            return pa.array([text.encode() for text in texts], pa.binary())


    class LedgerFormat:
        identifier = "ledger"
        options = LedgerOptions
        by_name = False
        metadata = {"rows": INT}

        def decoder(self, schema, options, metadata=()):
            return Decoder(schema, options, tuple(metadata))

        def encoder(self, schema, options):
            return Encoder()
"""
COLUMNS = "id INT, name STRING"


@pytest.fixture
def parent(tmp_path):
    """What the environment has of a program that runs jobs of its own, where the package is not installed."""
    socket = tmp_path / "forks"
    with fork_server(str(socket)) as server:
        eventually(socket.exists)
        yield {"PENSTOCK_FORKSERVER": str(socket), "PYSPARK_PYTHON": str(launcher())}
        server.stdin.close()


@pytest.fixture
def run(tmp_path, parent):
    """Runs the command where the package is installed; gives its status, output and errors."""
    site = tmp_path / "site"
    about = site / "ledger-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "ledger.py").write_text(textwrap.dedent(LEDGER))
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: ledger\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[penstock.formats]\nledger = ledger:LedgerFormat\n")
    paths = (str(Path(penstock.__file__).parents[1]), str(site))
    environment = {**os.environ, **parent, "PYTHONPATH": os.pathsep.join(paths), "XDG_STATE_HOME": str(tmp_path)}

    def command(*arguments, text=""):
        return subprocess.run(
            [sys.executable, "-m", "penstock.cli.main", *map(str, arguments)],
            input=text,
            env=environment,
            capture_output=True,
            text=True,
            timeout=180,
            cwd=tmp_path,
            check=False,
        )

    return command


def test_messages_are_decoded_and_encoded(run):
    decoded = run("decode", "--format", "ledger", "--schema", COLUMNS, text="+I 1 apple;-D 2 pear\n+U 3\n-U 4 plum\n")
    assert decoded.stdout.splitlines() == [
        '{"op": "+I", "row": {"id":1,"name":"apple"}}',
        '{"op": "-D", "row": {"id":2,"name":"pear"}}',
        '{"op": "-U", "row": {"id":4,"name":"plum"}}',
    ]
    assert decoded.stderr.startswith("line 2: ")
    assert decoded.returncode == 1


SCRIPT = """
    SET 'execution.checkpointing.dir' = 'checkpoints';
    CREATE TABLE s ({columns}, n INT METADATA FROM 'value.rows' VIRTUAL, place BIGINT METADATA FROM 'offset' VIRTUAL)
    WITH ('connector' = 'kafka', 'topic' = '{source}', 'properties.bootstrap.servers' = '{bootstrap}',
          'format' = 'ledger', 'ledger.separator' = '/', 'scan.startup.mode' = 'earliest-offset',
          'scan.bounded.mode' = 'latest-offset', 'scan.dead-letter.topic' = '{dead}');
    CREATE TABLE t ({columns})
    WITH ('connector' = 'kafka', 'topic' = '{sink}', 'properties.bootstrap.servers' = '{bootstrap}',
          'format' = '{format}', 'sink.delivery-guarantee' = 'exactly-once',
          'sink.transactional-id-prefix' = 'tx-{sink}');
    CREATE TABLE seen (id INT, place BIGINT, n INT)
    WITH ('connector' = 'print', 'sink.delivery-guarantee' = 'at-least-once');
    {inserts}
"""
ALL = "INSERT INTO t SELECT id, name FROM s;"
UPPER = "INSERT INTO t SELECT id, UPPER(name) FROM s WHERE id > 1;"


@pytest.mark.parametrize(
    ("inserts", "written", "printed"),
    [
        pytest.param(
            ALL,
            ["+I 1 apple", "-U 2 pear", "+U 2 plum", "-D 3 fig", "+I 4 kiwi"],
            [],
            id="as they are read",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            f"EXECUTE STATEMENT SET BEGIN {UPPER} INSERT INTO seen SELECT id, place, n FROM s WHERE id < 4; END;",
            ["-U 2 PEAR", "+U 2 PLUM", "-D 3 FIG", "+I 4 KIWI"],
            ["+I[1, 0, 1]", "-U[2, 1, 2]", "+U[2, 1, 2]", "-D[3, 3, 2]"],
            id="in a statement set",
        ),
    ],
)
def test_kinds_go_with_their_rows_from_source_to_sink(run, kafka, topics, topic, tmp_path, inserts, written, printed):
    source, sink, dead = topic(1), topic(1), topic(1)
    topics.write(source, [b"+I 1 apple", b"-U 2 pear/+U 2 plum", b"oops", b"-D 3 fig/+I 4 kiwi"])
    names = {"source": source, "sink": sink, "dead": dead, "bootstrap": kafka.bootstrap, "columns": COLUMNS}
    file = tmp_path / "job.sql"
    file.write_text(textwrap.dedent(SCRIPT).format(**names, inserts=inserts, format="ledger"))
    done = run("run", file)
    assert done.returncode == 0, done.stderr
    assert [message.value.decode() for message in topics.read(sink)] == written
    assert [line for line in done.stdout.splitlines() if "[" in line[:3]] == printed
    assert [message.value for message in topics.read(dead)] == [b"oops"]


def test_a_table_for_insertions_refuses_changes(run, kafka, tmp_path):
    names = {"source": "a", "sink": "b", "dead": "c", "bootstrap": kafka.bootstrap, "columns": COLUMNS}
    file = tmp_path / "job.sql"
    file.write_text(textwrap.dedent(SCRIPT).format(**names, inserts=ALL, format="json"))
    done = run("check", file)
    assert done.returncode == 2
    assert "table 't'" in done.stderr
    assert "takes insertions only, and table 's' gives updates and deletions too" in done.stderr
