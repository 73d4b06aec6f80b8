"""The committed reference is what the code declares."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.cli import reference
from penstock.cli.main import main
from penstock.settings.given import KEYS, WITHOUT_EFFECT
from penstock.settings.refused import REFUSED
from penstock.spi import ChangeFormat, connectors, formats

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PAGES = reference.render_pages()


def test_no_page_is_missing_or_left_over():
    assert {path.name for path in FOLDER.iterdir()} == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_the_committed_page_is_up_to_date(name):
    assert (FOLDER / name).read_text("utf-8") == PAGES[name], "run: penstock reference docs/reference"


def test_every_option_of_every_plug_in_is_in_it():
    text = "".join(PAGES.values())
    known = [
        key
        for name, _ in connectors.built_in
        for options in connectors.get(name).options.values()
        for key in options.keys()  # noqa: SIM118 - a method of option sets, not a mapping's
    ]
    known += [f"{name}.{key}" for name, _ in formats.built_in for key in formats.get(name).options.keys()]  # noqa: SIM118
    assert [key for key in known if f"`{key}`" not in text] == []


def test_every_metadata_column_of_a_format_is_in_it():
    found = [formats.get(name) for name, _ in formats.built_in]
    keys = [
        f"`value.{key}` | `{kind}`"
        for fmt in found
        if isinstance(fmt, ChangeFormat)
        for key, kind in fmt.metadata.items()
    ]
    assert len(keys) == 21
    assert [key for key in keys if key not in PAGES["formats.md"]] == []


def test_every_setting_of_a_job_is_in_it():
    assert [key for key in (*KEYS, *WITHOUT_EFFECT, *REFUSED) if f"`{key}`" not in PAGES["settings.md"]] == []


def test_tables_are_whole():
    """Every row has the cells of its title: a bar in a text would make one more."""
    for text in PAGES.values():
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1, table
            assert r"\\|" not in table  # escaped twice


def test_the_command_writes_checks_and_names_what_differs(tmp_path, capsys):
    assert main(["reference", "--check", str(tmp_path)]) == 1
    assert main(["reference", str(tmp_path)]) == 0
    assert main(["reference", "--check", str(tmp_path)]) == 0
    capsys.readouterr()

    (tmp_path / "formats.md").write_text("something else")
    assert main(["reference", "--check", str(tmp_path)]) == 1
    complaint = capsys.readouterr().err
    assert "formats.md" in complaint
    assert "kafka.md" not in complaint
    assert (tmp_path / "formats.md").read_text() == "something else"


def test_a_folder_that_is_not_there_is_an_error(tmp_path, capsys):
    assert main(["reference", str(tmp_path / "nowhere")]) == 2
    assert "no such folder" in capsys.readouterr().err
