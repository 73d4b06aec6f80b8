"""penstock as `pip install penstock` brings it, without the test kit."""

from __future__ import annotations

import os
import subprocess

from tests.wheels import RUNTIME, build_wheel, make_environment

JOB = """
SET 'pipeline.name' = 'even';
SET 'execution.checkpointing.dir' = '{folder}/checkpoints';
SET 'penstock.driver.max-records' = '0';

CREATE TABLE numbers (n BIGINT) WITH (
  'connector' = 'datagen',
  'fields.n.kind' = 'sequence',
  'fields.n.start' = '1',
  'fields.n.end' = '10'
);

CREATE TABLE even (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}/even', 'format' = 'csv');

INSERT INTO even SELECT n FROM numbers WHERE MOD(n, 2) = 0;
"""


def test_a_job_runs_without_the_kit(tmp_path):
    python = make_environment(tmp_path / "venv", build_wheel(RUNTIME, tmp_path))
    (tmp_path / "job.sql").write_text(JOB.format(folder=tmp_path))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
        return subprocess.run(
            [str(python), *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    found = run("-c", "import penstock; print(penstock.__file__)").stdout
    assert found.startswith(str(tmp_path / "venv"))
    assert "No module named 'penstock_testing'" in run("-c", "import penstock_testing").stderr
    done = run("-m", "penstock.cli.main", "run", "job.sql")
    assert done.returncode == 0, done.stderr
    lines = [line for path in (tmp_path / "even").rglob("*.csv") for line in path.read_text().split()]
    assert sorted(map(int, lines)) == [2, 4, 6, 8, 10]
