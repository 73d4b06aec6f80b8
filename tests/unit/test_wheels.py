"""The two distributions: what each of them brings, and what penstock says where it is installed alone."""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from tests.wheels import KIT, RUNTIME, build_wheel, make_environment


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """That of penstock and that of its test kit."""
    folder = tmp_path_factory.mktemp("wheels")
    return build_wheel(RUNTIME, folder), build_wheel(KIT, folder)


@pytest.fixture(scope="module")
def alone(wheels, tmp_path_factory):
    """A Python with penstock and without the kit."""
    return make_environment(tmp_path_factory.mktemp("alone") / "venv", wheels[0])


@pytest.fixture(scope="module")
def both(wheels, tmp_path_factory):
    """A Python with both."""
    return make_environment(tmp_path_factory.mktemp("both") / "venv", *wheels)


def penstock(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs ``penstock``, with the state of its servers in ``folder``."""
    command = [str(python), "-m", "penstock.cli.main", *arguments]
    environment = {**os.environ, "XDG_STATE_HOME": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def folders(wheel: Path) -> set[str]:
    """The packages in a wheel, with the packages right below them."""
    names = [name.split("/") for name in zipfile.ZipFile(wheel).namelist() if name.endswith("/__init__.py")]
    return {"/".join(parts[:-1][:2]) for parts in names}


def metadata(wheel: Path):
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_bytes(archive.read(name))


def test_penstock_has_no_test_kit_and_the_kit_has_nothing_else(wheels):
    runtime, kit = wheels
    source = {path.parent.name for path in (RUNTIME / "src" / "penstock").glob("*/__init__.py")}
    assert folders(runtime) == {"penstock", *(f"penstock/{name}" for name in source)}
    assert source.isdisjoint({"services", "testing"})
    assert folders(kit) == {"penstock_testing", "penstock_testing/commands", "penstock_testing/services"}
    assert {"penstock/py.typed", "penstock/examples/flights.sql"} <= set(zipfile.ZipFile(runtime).namelist())
    assert "penstock_testing/py.typed" in zipfile.ZipFile(kit).namelist()


def test_the_kit_fits_one_version_of_penstock_whose_extra_brings_it(wheels):
    runtime, kit = map(metadata, wheels)
    assert kit["Version"] == runtime["Version"]
    assert kit.get_all("Requires-Dist") == [f"penstock=={runtime['Version']}"]
    named = [each for each in runtime.get_all("Requires-Dist") if each.startswith("penstock-testing")]
    assert [re.sub(r"\s", "", each) for each in named] == ["penstock-testing;extra=='demo'"]


@pytest.mark.parametrize("arguments", [("broker", "start", "--port", "9"), ("registry", "--help"), ("demo",)])
def test_a_command_of_the_kit_says_how_to_get_it(arguments, alone, tmp_path):
    done = penstock(alone, tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    told = f"error: `penstock {arguments[0]}` is part of penstock-testing, which is not installed; "
    assert done.stderr == told + "run `pip install 'penstock[demo]'`\n"


def test_other_commands_do_without_the_kit(alone, tmp_path):
    listed = penstock(alone, tmp_path, "--help").stdout
    assert re.search(r"^    broker +needs penstock-testing: pip install 'penstock\[demo\]'$", listed, re.MULTILINE)
    examined = penstock(alone, tmp_path, "doctor")
    assert examined.returncode == 0, examined
    assert re.search(r"^  ok  penstock-testing +not installed +.*penstock\[demo\]", examined.stdout, re.MULTILINE)


def test_with_the_kit_its_commands_are_there(both, tmp_path):
    done = penstock(both, tmp_path, "broker", "status")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("no broker runs")
    assert re.search(r"^  ok  broker jars ", penstock(both, tmp_path, "doctor").stdout, re.MULTILINE)
