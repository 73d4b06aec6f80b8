"""The suite itself: a plug-in is in it as soon as it is registered, and one that is not what it declares fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

# Another run of pytest is started, which takes its time on a busy machine.
pytestmark = pytest.mark.timeout(660)

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

#: By the name of the plug-in in ``site/acme.py``: the tests that find out about it.
LIES = {
    "acme-nulls": {"test_null_comes_back", "test_null_in_a_column_that_is_not_null_is_seen"},
    "acme-places": {"test_a_malformed_message_is_refused_by_its_index_and_spoils_no_other"},
    "acme-raises": {"test_a_malformed_message_is_refused_by_its_index_and_spoils_no_other"},
    "acme-gullible": {"test_a_malformed_message_is_refused_by_its_index_and_spoils_no_other"},
    "acme-kinds": {"test_only_changes_have_kinds", "test_changes_that_were_written_make_up_the_same_table"},
    "acme-insertions": {"test_only_changes_have_kinds"},
    "acme-positions": {"test_some_columns_are_read_as_all_are"},
    "acme-metadata": {"test_metadata_are_columns_of_the_declared_types"},
    "acme-random": {"test_equal_rows_give_equal_messages"},
    "acme-local": {"test_specs_and_what_is_made_of_them_are_pickled"},
    "acme-lenient": {
        "test_every_unknown_option_is_refused_with_the_nearest_one",
        "test_an_option_is_refused_even_where_there_are_none",
    },
    "acme-open": {"test_no_secret_is_shown"},
    "acme-promising": {"test_a_guarantee_is_given_or_refused", "test_exactly_once_names_what_is_committed"},
    "acme-transactional": {"test_exactly_once_names_what_is_committed"},
    "acme-deletions": {
        "test_capabilities_are_declared",
        "test_kinds_that_a_sink_does_not_take_are_refused_by_its_name",
    },
    "acme-handles": {"test_specs_are_values"},
    "acme-write-only": {"test_its_runtime_has_the_sides_that_the_connector_has"},
    "acme-scattered": {"test_equal_sinks_are_written_by_one_committer"},
}
HONEST = ("acme-pairs", "acme-list")


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bool]]:
    """Whether each test of the suite passes, by plug-in, where the package ``acme`` is installed."""
    report = tmp_path_factory.mktemp("suite") / "report.xml"
    tests = [str(HERE / name) for name in ("test_formats.py", "test_connectors.py")]
    command = [sys.executable, "-m", "pytest", *tests, "-k", "acme", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    paths = [str(HERE / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [*command, f"--junitxml={report}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found: dict[str, dict[str, bool]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        test, _, subject = case.attrib["name"].rstrip("]").partition("[")
        plug_in = subject.removesuffix("-scan").removesuffix("-sink")
        passed = found.setdefault(plug_in, {})
        passed[test] = passed.get(test, True) and case.find("failure") is None and case.find("error") is None
    return found


def test_every_plug_in_of_the_package_is_in_the_suite(outcome: dict[str, dict[str, bool]]) -> None:
    assert outcome.keys() == {*LIES, *HONEST}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_plug_in_passes(name: str, outcome: dict[str, dict[str, bool]]) -> None:
    assert len(outcome[name]) > 10
    assert [test for test, passed in outcome[name].items() if not passed] == []


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_found_out(name: str, outcome: dict[str, dict[str, bool]]) -> None:
    assert {test for test, passed in outcome[name].items() if not passed} == LIES[name]
