"""What the pages on the design say of the code: places, tests, cells, and properties that can be compared."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from penstock import errors
from penstock.kafka import transactions
from tests.faults.cells import CELLS
from tests.faults.mutants import MUTANTS
from tests.simulation.mutations import MUTATIONS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"
DESIGN = sorted(path.name for path in (ROOT / "docs" / "design").iterdir())


def page(name: str) -> str:
    """A page, each of its lists and paragraphs on one line."""
    return re.sub(r"\n +", " ", (ROOT / "docs" / "design" / name).read_text("utf-8"))


def quoted(text: str) -> list[str]:
    """What stands in quotation marks."""
    return re.findall(r'"([^"]+)"', text)


def anchor(title: str) -> str:
    """The anchor of a title, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


#: By their names, what the book says of each.
RULES = {
    title[0].lower() + title[1:]: body
    for title, body in re.findall(r"^## (.+)\n((?:(?!#).*\n?)*)", page("rules.md"), re.MULTILINE)
}


@pytest.mark.parametrize("name", DESIGN)
def test_code_that_is_named_exists(name):
    text = re.sub(r"(formats/lines|connectors/count)/\w+\.py", "", page(name))  # made up, to show where files go
    named = re.findall(r"(?<![\w/])[a-z]+/[\w/]+\.py", text)
    assert named
    assert [path for path in named if not ((SOURCE / path).is_file() or (ROOT / path).is_file())] == []
    for symbols, path in re.findall(r"((?:`\w+`(?:, | and )?)+) in\s+`((?:[a-z_]+/)+\w+\.py|errors\.py)`", page(name)):
        code = (SOURCE / path).read_text("utf-8")
        for symbol in re.findall(r"\w+", symbols.replace(" and ", " ")):
            assert re.search(rf"^\s*(def|class) {symbol}\b|^{symbol}\b", code, re.MULTILINE), f"{symbol} in {path}"


def test_columns_that_are_named_are_declared():
    declared = {match for path in SOURCE.rglob("*.py") for match in re.findall(r'"(__\w+)"', path.read_text("utf-8"))}
    named = {match for name in DESIGN for match in re.findall(r"`(__\w+)`", page(name))}
    assert "__hash" in named
    assert named <= declared


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_has_a_reason_a_place_and_tests(rule):
    parts = dict(re.findall(r"^- \*\*(\w+):\*\* (.*)$", RULES[rule], re.MULTILINE))
    assert parts.keys() == {"Why", "Code", "Tests"}
    assert re.search(r"`[\w/]+\.py`", parts["Code"])
    assert re.search(r"`tests/[\w/]+\.py`", parts["Tests"])
    assert quoted(parts["Tests"]) == [name for name in quoted(parts["Tests"]) if name in {*CELLS, *MUTANTS, *MUTATIONS}]


def test_every_mutant_belongs_to_a_rule():
    text = page("rules.md")
    assert [name for name in MUTANTS if f'"{name}"' not in text] == []
    assert [name for name, each in MUTATIONS.items() if f'"{name}"' not in RULES[each.rule]] == []


def test_rules_are_referred_to_by_their_names():
    """In code, tests and pages: ``rule "tasks run once"``."""
    files = [*SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    named = [name for path in files for name in re.findall(r'\brules?(?:\s+\[?|\()"([^"]+)"', path.read_text("utf-8"))]
    assert named
    named = [re.sub(r"\s+(# )?", " ", name) for name in named]  # perhaps over the end of a line
    named += [
        name for row in re.findall(r"^\| [\d and to]+ \|.*", page("batch.md"), re.MULTILINE) for name in quoted(row)
    ]
    assert [name for name in named if name not in RULES] == []


@pytest.mark.parametrize(
    "document", sorted(str(each.relative_to(ROOT)) for each in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))
)
def test_links_into_pages_meet_a_title(document):
    text = (ROOT / document).read_text("utf-8")
    for target in re.findall(r"\]\(([^)\s]*#[^)\s]+)\)", text):
        path, _, wanted = target.partition("#")
        if path.startswith("https://"):
            continue
        there = ((ROOT / document).parent / path).resolve() if path else ROOT / document
        titles = re.findall(r"^#+ (.+)$", there.read_text("utf-8"), re.MULTILINE)
        assert wanted in {anchor(title) for title in titles}, target


def test_the_list_of_faults_is_that_of_the_matrix():
    listed = re.findall(r"^\| (F\d+) \|", page("faults.md"), re.MULTILINE)
    assert listed == sorted({cell.fault for cell in CELLS.values()}, key=lambda fault: int(fault[1:]))


def test_the_states_that_are_drawn_are_those_of_the_client():
    drawing = (ROOT / "docs" / "design" / "batch.md").read_text("utf-8").split("stateDiagram-v2")[1].split("```")[0]
    drawn = re.findall(r"^  (\w+) --> (\w+)", drawing, re.MULTILINE)
    names = {"failed": transactions.State.FAILED, "unknown": transactions.State.UNKNOWN}
    states = {state.name.lower(): state for state in transactions.State} | names
    assert {name for pair in drawn for name in pair} == set(states)
    assert [pair for pair in drawn if states[pair[1]] not in transactions._LEGAL[states[pair[0]]]] == []


def test_what_is_said_of_errors_is_what_their_classes_say():
    rows = re.findall(r"^\| ([\w, ]+Error) \| (yes|no) \| (yes|no) \|$", page("error.md"), re.MULTILINE)
    said = {name: pair for names, *pair in rows for name in names.split(", ")}
    running = [
        each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, errors.ExecutionError)
    ]
    answer = {True: "yes", False: "no"}
    assert said == {each.__name__: [answer[each.retriable], answer[each.restartable]] for each in running}
