"""What Flink answers: recorded by ``python -m tests.nexmark.answers PYTHON [QUERY ...]`` with a Python that has PyFlink
2.2. Without queries all are asked; the answers to others stay."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.gate.sides import Side, flink
from bench.nexmark.queries import QUERIES, TABLES, statements
from penstock.types import DataType, DecimalType, RowKind, TimestampType, arrow_type
from tests.nexmark.programs import COUNT, EVENTS, answer_schema, ordinals, program
from tests.programs import Table

#: Queries of which no answer is recorded: Flink refuses the first, the second depends on the time of the day, and the
#: last on a table that there is not.
UNANSWERED = {"q6", "q12", "q13"}
_RECORDED = Path(__file__).with_name("answers.json")
#: Longer results are recorded as a digest only.
_MOST_ROWS = 20
_SETTINGS = {"parallelism.default": "1", "table.local-time-zone": "UTC"}


def recorded() -> dict[str, Any]:
    """Flink's answers, by query, in the form of :func:`answer`."""
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


def _asked(side: Side, query: str, folder: Path) -> dict[str, Any]:
    """The answer to a query, whose changes Flink writes to files. Raises SideError for one that it refuses."""
    options = {table: _files(folder / table, "json") for table in TABLES}
    into = folder / query
    options |= {"answer": _files(into, "debezium-json"), "side_input": options["bid"]}
    side.run({"settings": _SETTINGS, "statements": statements(query, options)})
    (sink,) = program(query, {})["sinks"]
    table, schema = Table(sink["primary_key"] or ()), answer_schema(query)
    for path in sorted(into.rglob("part-*"), key=lambda path: int(path.name.rpartition("-")[2])):
        changes = list(map(_parsed, path.read_text("utf-8").splitlines()))
        kinds = [RowKind.DELETE if each["after"] is None else RowKind.INSERT for each in changes]
        rows = [each["after"] or each["before"] for each in changes]
        columns = [
            pa.array([_value(row[each.name], each.type) for row in rows], arrow_type(each.type))
            for each in schema.fields
        ]
        table.apply(pa.RecordBatch.from_arrays(columns, names=list(schema.names)), kinds, schema)
    return answer(table.rows.elements())


def _parsed(line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line, parse_float=Decimal)
    return found


def _files(path: Path, form: str) -> dict[str, str]:
    return {"connector": "filesystem", "path": f"file://{path}", "format": form}


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
