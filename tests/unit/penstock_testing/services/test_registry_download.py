from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ServiceError
from penstock.machine.folders import cache_folder
from penstock.machine.java import Java
from penstock_testing.services.registry import cached_registry, fetch_registry

# Stands for `java -jar ivy.jar ...`, and brings a file that is not what was published.
IVY = """#!/usr/bin/env python3
import pathlib, sys
folder = pathlib.Path(sys.argv[sys.argv.index("-retrieve") + 1]).parent
folder.mkdir(parents=True)
(folder / "apicurio-registry-app-3.3.3-all.tar.gz").write_bytes(b"something else")
"""


def test_programs_that_are_not_what_was_published_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = tmp_path / "java"
    program.write_text(IVY)
    program.chmod(0o755)
    with pytest.raises(ServiceError, match=r"checksum [0-9a-f]{64}, not 8bc6751c"):
        fetch_registry(Java(program, "21.0.1", tmp_path, "PATH"))
    assert cached_registry() is None
    assert [path.name for path in cache_folder().iterdir()] == ["registry-3.3.3.lock"]
