"""Wheels of this repository's distributions, and environments in which they are installed."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUNTIME, KIT = ROOT, ROOT / "testing"


def build_wheel(project: Path, folder: Path) -> Path:
    """Builds the wheel of the ``pyproject.toml`` in ``project``, as pip would, by the hatchling of this environment."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / project.name)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    (wheel,) = (folder / project.name).glob("*.whl")
    return wheel


def make_environment(folder: Path, *wheels: Path) -> Path:
    """The Python of a new environment with wheels, and with this environment's libraries but not its editable installs:
    they are in ``.pth`` files, which only an environment's own folder may have."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    return folder / "bin" / "python"
