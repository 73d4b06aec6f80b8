"""``tests/durations.txt`` has a line for each file of tests that ``make test`` runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import durations
from tests.durations import FILE, Duration, find_test_files, read_durations, update_durations


@pytest.mark.skipif(not FILE.exists(), reason="`make durations` has not been run yet")
def test_the_durations_are_those_of_the_files_that_are_there():
    listed, files = set(read_durations(FILE)), set(find_test_files())
    assert sorted(files - listed) == [], "run them by `make durations ARGS='FILE ..'`"
    assert sorted(name for name in listed if not (durations.ROOT / name).exists()) == [], "run `make durations`"


def test_files_whose_tests_are_all_slow_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(durations, "ROOT", tmp_path)
    (tmp_path / "tests").mkdir()
    texts = {
        "quick": "def test_it(): ...",
        "mixed": "@pytest.mark.slow\ndef test_it(): ...\ndef test_another(): ...",
        "some": "@pytest.mark.parametrize('n', [pytest.param(1, marks=pytest.mark.slow), 2])\ndef test_it(n): ...",
        "slow": "@pytest.mark.rule('a')\n@pytest.mark.slow\ndef test_it(): ...",
        "module": "pytestmark = pytest.mark.slow\ndef test_it(): ...",
        "marks": "pytestmark = [pytest.mark.spark, pytest.mark.slow]\ndef test_it(): ...",
    }
    for name, text in texts.items():
        (tmp_path / "tests" / f"test_{name}.py").write_text(text)
    assert find_test_files() == [f"tests/test_{name}.py" for name in ("mixed", "quick", "some")]


def test_files_that_were_not_run_keep_their_durations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "ROOT", tmp_path)
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.py").touch()
    file = tmp_path / "durations.txt"
    update_durations(file, {"a.py": Duration(1.0, 2), "b.py": Duration(20.0, 3), "gone.py": Duration(5.0, 1)})
    update_durations(file, {"a.py": Duration(30.04, 4), "c.py": Duration(0.01, 1)})
    assert file.read_text().splitlines() == [
        "   50.0 s     8 tests",
        "   30.0 s     4 tests  a.py",
        "   20.0 s     3 tests  b.py",
        "    0.0 s     1 tests  c.py",
    ]
