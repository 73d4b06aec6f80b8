"""What Flink answers: recorded by ``python -m tests.nexmark.answers PYTHON [QUERY ...]`` with a Python that has PyFlink
2.2. Without queries all are asked; the answers to others stay."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from bench.gate.sides import Side, SideError, flink
from bench.nexmark.queries import QUERIES, TABLES, statements
from penstock.types import DataType, DecimalType, TimestampType
from tests.nexmark.programs import COUNT, EVENTS, answer_types, ordinals
from tests.programs import shown

#: Queries of which no answer is recorded: their result depends on time, or on a table that there is not.
UNANSWERED = {"q12", "q13"}
_RECORDED = Path(__file__).with_name("answers.json")
#: Longer results are recorded as a digest only.
_MOST_ROWS = 20
_SETTINGS = {"parallelism.default": "1", "table.local-time-zone": "UTC"}


def recorded() -> dict[str, Any]:
    """Flink's answers, by query: those of :func:`answer`, or why there is none."""
    found: dict[str, Any] = json.loads(_RECORDED.read_text("utf-8"))["answers"]
    return found


def answer(rows: Iterable[str]) -> dict[str, Any]:
    """Rows, as Flink prints them, in the form in which they are recorded."""
    lines = sorted(rows)
    found: dict[str, Any] = {"rows": len(lines), "digest": hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]}
    return found | ({"lines": lines} if len(lines) <= _MOST_ROWS else {})


def record(python: str, queries: Sequence[str]) -> None:
    """Ask Flink, and write its answers."""
    side, answers = flink(python), recorded() if _RECORDED.exists() else {}
    with tempfile.TemporaryDirectory(prefix="nexmark-") as folder:
        for table in TABLES:
            documents = EVENTS.documents(table, ordinals(table)).to_pylist()
            (Path(folder) / table).write_bytes(b"".join(each + b"\n" for each in documents))
        for query in queries or [each for each in QUERIES if each not in UNANSWERED]:
            answers[query] = _asked(side, query, Path(folder))
            print(query, answers[query], file=sys.stderr)
            document = {"flink": "2.2.0", "events": COUNT, "answers": dict(sorted(answers.items(), key=_number))}
            _RECORDED.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    side.close()


def _number(item: tuple[str, Any]) -> int:
    return int(item[0].removeprefix("q"))


def _asked(side: Side, query: str, folder: Path) -> dict[str, Any] | str:
    """The answer to a query, whose changes Flink writes to files, or its refusal."""
    options = {table: _files(folder / table, "json") for table in TABLES}
    into = folder / query
    options |= {"answer": _files(into, "debezium-json"), "side_input": options["bid"]}
    try:
        side.run({"settings": _SETTINGS, "statements": statements(query, options)})
    except SideError as error:
        return str(error).partition("Caused by: ")[2].partition("\n")[0] or str(error)
    types = answer_types(query)
    rows: Counter[str] = Counter()
    for path in into.rglob("*"):
        for change in map(_parsed, path.read_text("utf-8").splitlines() if path.is_file() else ()):
            for image, weight in (("before", -1), ("after", 1)):
                if change[image] is not None:
                    rows[_line(change[image], types)] += weight
    assert all(count >= 0 for count in rows.values()), f"{query}: more rows are taken back than were given"
    return answer(rows.elements())


def _parsed(line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line, parse_float=Decimal)
    return found


def _files(path: Path, form: str) -> dict[str, str]:
    return {"connector": "filesystem", "path": f"file://{path}", "format": form}


def _line(row: Mapping[str, Any], types: Mapping[str, DataType]) -> str:
    return f"[{', '.join(shown(_value(row[name], each), each) for name, each in types.items())}]"


def _value(given: Any, type_: DataType) -> Any:
    """A value of a document."""
    match type_:
        case DecimalType(scale=scale):
            return Decimal(given).quantize(Decimal(1).scaleb(-scale))
        case TimestampType():
            return datetime.fromisoformat(given)
    return given


if __name__ == "__main__":
    record(sys.argv[1], sys.argv[2:])
