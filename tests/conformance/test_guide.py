"""The format and the connector of the guide are added as it says, and are what they declare."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

# Another run of pytest is started, which takes its time on a busy machine.
pytestmark = pytest.mark.timeout(660)

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GUIDE = (ROOT / "docs" / "design" / "adding.md").read_text("utf-8")
#: The files, by the section of the guide that has their texts in this order.
FILES = {
    "A format": ["formats/lines/factory.py"],
    "A connector": ["connectors/count/factory.py", "connectors/count/spark.py"],
}
#: A plug-in of pytest: the folders are where the guide has them, and the registry has a line for each.
ADDED = """
from pathlib import Path

import penstock.connectors
import penstock.formats
from penstock.spi.plugin import registry

here = Path(__file__).parent
for package, known, line in (
    (penstock.formats, registry.formats, ("lines", "penstock.formats.lines.factory:FORMAT")),
    (penstock.connectors, registry.connectors, ("count", "penstock.connectors.count.factory:CountConnector")),
):
    package.__path__.append(str(here / package.__name__.rpartition(".")[2]))
    object.__setattr__(known, "built_in", (*known.built_in, line))
"""


def test_a_format_and_a_connector_are_added_as_the_guide_says(tmp_path: Path) -> None:
    for section, names in FILES.items():
        text = GUIDE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        for name, code in zip(names, re.findall(r"```python\n(.*?)```", text, re.DOTALL), strict=True):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(code)
    (tmp_path / "added.py").write_text(ADDED)
    tests = [str(HERE / name) for name in ("test_formats.py", "test_connectors.py")]
    options = ["-p", "added", "-k", "[lines or [count", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    report = tmp_path / "report.xml"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *tests, *options, f"--junitxml={report}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = Counter(
        case.attrib["name"].rstrip("]").partition("[")[2].partition("-")[0]
        for case in ElementTree.parse(report).iter("testcase")
        if case.find("skipped") is None
    )
    assert passed.keys() == {"lines", "count"}
    assert min(passed.values()) > 10
