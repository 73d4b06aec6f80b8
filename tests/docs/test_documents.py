"""What the documents say can be done: their code is understood, their commands exist, their links lead somewhere."""

from __future__ import annotations

import re
import shlex
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.cli.main import main
from penstock.connectors.kafka.dead_letters import HEADERS
from penstock.connectors.kafka.sink.encoding import RowEncoder
from penstock.datastream import execution
from penstock.flow.rows.calc import Calc, calc_of
from penstock.ingest import copy_table, lower, parse_pipeline
from penstock.kafka.record_batches import scan
from penstock.plan.dead_letter_sinks import with_dead_letters
from penstock.plan.explain import explain
from penstock.plan.flink_sql import flink_sql
from penstock.plan.nodes import Filter, Ingest, Job, Scan
from penstock.plan.planning import plan_job
from penstock.spi import HIDDEN, KIND, Task, formats
from penstock.sql import parse_script
from penstock.types import RowKind, arrow_schema, parse_columns
from tests import changed_queries

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.name for path in (ROOT / "examples").iterdir() if path.is_file())
DOCUMENTS = sorted(
    str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")) if path.is_file()
)
VARIABLES = ("--var", "bootstrap=localhost:9092", "--var", "topic_prefix=")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text(document: str) -> str:
    return (ROOT / document).read_text("utf-8")


def blocks(document: str, language: str) -> list[str]:
    return [code for found, code in BLOCK.findall(text(document)) if found == language]


@pytest.mark.filterwarnings("ignore:.* has no effect here:UserWarning")
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_a_plan(name, capsys):
    path = ROOT / "examples" / name
    variables = () if path.suffix == ".py" else VARIABLES
    assert main(["check", str(path), *variables]) == 0
    shown = capsys.readouterr()
    assert "kafka sink" in shown.out
    assert shown.err == ""


def readme_jobs() -> dict[str, Job]:
    """The README's job by the language that it is written in."""
    (_, sql), (yaml,), (python,) = (blocks("README.md", language) for language in ("sql", "yaml", "python"))
    script, pipeline, programmed = parse_script(sql), parse_pipeline(yaml), list[Job]()
    assert script.warnings == pipeline.warnings == ()
    with execution.runner(programmed.append):
        exec(compile(python, "README.md", "exec"), {"__name__": "__main__"})
    (from_sql,), (from_python,) = script.jobs, programmed
    return {"sql": from_sql, "yaml": lower(pipeline), "python": from_python}


def test_the_job_of_the_readme_is_one_job_in_three_languages():
    for language, job in readme_jobs().items():
        explain(job)
        (sink,) = job.sinks
        assert job.name == "late-flights"
        assert sink.spec.topics == ("flights-late",)
        assert (sink.spec.guarantee.value, sink.spec.transactional_id_prefix) == ("exactly-once", "late")
        assert sink.input.input.spec.options.topic == ("flights",)
        if language == "yaml":
            (rule,) = sink.input.tables_work.programs.binder.rules
            assert (rule.source_table, rule.filter) == ("flights", "dep_delay > 60")
        else:
            assert isinstance(sink.input, Filter)
            assert flink_sql(sink.input.condition) == "`dep_delay` > 60"


def test_the_copy_of_the_readme_is_exactly_once_and_loses_nothing_of_a_record():
    script = parse_script(blocks("README.md", "sql")[0])
    assert not script.warnings
    (sink,) = script.jobs[0].sinks
    assert sink.spec.guarantee.value == "exactly-once"
    assert isinstance(sink.input, Scan)
    assert sink.input.spec.options.property("isolation.level") == "read_committed"
    for spec in (sink.spec, sink.input.spec):
        assert (spec.value.identifier, spec.value_columns) == ("raw", ("record_value",))
        assert {column.key for column in spec.metadata} == {"__raw_key__", "header-list", "timestamp"}


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_every_command_that_is_shown_exists(document, capsys):
    for command in sorted(set(re.findall(r"[`/]penstock ([a-z]+)", text(document)))):
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert ended.value.code == 0, f"penstock {command}"
    capsys.readouterr()
    targets = set(re.findall(r"^([a-z]+):", text("Makefile"), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z]+)", text(document), re.MULTILINE)) <= targets


def test_every_table_of_the_guide_to_security_is_understood():
    tables = blocks("docs/security.md", "sql") + blocks("docs/kerberos.md", "sql")
    assert len(tables) == 4
    variables = dict.fromkeys(("TRUSTSTORE_PASSWORD", "PASSWORD", "CLIENT_SECRET"), "hush")
    for table in tables:
        rest = "CREATE TABLE seen (id BIGINT) WITH ('connector' = 'blackhole'); INSERT INTO seen SELECT id FROM orders;"
        script = parse_script(table + rest, variables=variables)
        assert not script.warnings
        assert "hush" not in "".join(map(explain, script.jobs))


def test_the_table_of_the_guide_to_schema_registries_is_read_and_written():
    (table,) = blocks("docs/schema-registry.md", "sql")
    copy = table.replace("orders (", "copies (")
    script = parse_script(f"{table}{copy}INSERT INTO copies SELECT * FROM orders;")
    assert not script.warnings
    (sink,) = script.jobs[0].sinks
    assert (sink.spec.key.options.subject, sink.spec.value.options.subject) == ("orders-key", "orders-value")


def test_the_queries_of_the_guide_to_sql_are_planned():
    turnover, correlated, lateral, baskets, clicks, largest, newest, around, hinted = blocks("docs/sql.md", "sql")
    takes = "CREATE TABLE per_minute (page STRING, `minute` TIMESTAMP(3), clicks BIGINT) WITH ('connector' = 'print');"
    sold = "CREATE TABLE sold (id BIGINT, sku STRING, quantity INT) WITH ('connector' = 'print');"
    assert "rows of each element of `items0`" in explain(plan_job(parse_script(sold + baskets).jobs[0]))
    script = parse_script(takes + clicks)
    assert not script.warnings
    assert "window `window_start`, `window_end`" in explain(plan_job(script.jobs[0]))
    assert "forgets the left rows 24 h after" in explain(plan_job(parse_script(turnover + hinted).jobs[1]))
    script = parse_script(turnover)
    assert not script.warnings
    shown = explain(plan_job(script.jobs[0]))
    assert "as 'turnover: join(orders, customers)'" in shown
    late = "CREATE TABLE late (id BIGINT, customer BIGINT, orders BIGINT) WITH ('connector' = 'print');"
    shown = explain(plan_job(parse_script(turnover[: turnover.index("CREATE VIEW")] + late + correlated).jobs[0]))
    assert [shown.count(f"left join on `{each}`") for each in ("customer", "note")] == [2, 2], shown
    takes = (
        "CREATE TABLE largest_of_each (customer BIGINT, id BIGINT, amount DECIMAL(10, 2)) WITH ('connector' = 'print');"
    )
    shown = explain(plan_job(parse_script(turnover[: turnover.index("CREATE VIEW")] + takes + lateral).jobs[0]))
    assert "rows 1 to 3 of each `customer`, by" in shown
    columns = "city STRING, place BIGINT, id BIGINT, amount DECIMAL(10, 2)"
    takes = f"CREATE TABLE largest ({columns}) WITH ('connector' = 'print');"
    tables = turnover[: turnover.index("CREATE VIEW")] + takes
    shown = explain(plan_job(parse_script(tables + largest).jobs[0]))
    assert "rows 1 to 3 of each `city`, by `amount` DESC, numbered `place`" in shown
    tables = (
        "CREATE TABLE states (id BIGINT, status STRING, changed TIMESTAMP(3), WATERMARK FOR changed AS changed) WITH "
        "('connector' = 'kafka', 'topic' = 's', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');"
        "CREATE TABLE newest (id BIGINT, status STRING) WITH ('connector' = 'print');"
    )
    assert "the last row by `changed` of each `id`" in explain(plan_job(parse_script(tables + newest).jobs[0]))
    columns = "id BIGINT, customer BIGINT, amount DECIMAL(10, 2), paid TIMESTAMP(3)"
    tables = (
        f"CREATE TABLE payments ({columns}, WATERMARK FOR paid AS paid) WITH "
        "('connector' = 'kafka', 'topic' = 's', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');"
        f"CREATE TABLE payments_with_sums ({columns}, last_hour DECIMAL(38, 2), payments BIGINT) "
        "WITH ('connector' = 'print');"
    )
    shown = explain(plan_job(parse_script(tables + around).jobs[0]))
    assert "functions over RANGE BETWEEN 3600000 PRECEDING AND CURRENT ROW (milliseconds) of each `customer`" in shown


def test_the_functions_of_their_guide_are_called(tmp_path):
    (python,), (sql,) = (blocks("docs/functions.md", language) for language in ("python", "sql"))
    (tmp_path / "prices.py").write_text(python)
    (job,) = parse_script(sql, folder=str(tmp_path)).jobs
    (sink,) = plan_job(job).sinks
    calc = calc_of(sink.input)
    assert isinstance(calc, Calc)
    made = calc.batch(pa.record_batch({"name": [" ann ", "BOB"], "net": [10.0, 1.0]}))
    assert [list(row.values()) for row in made.to_pylist()] == [["Ann", 11.9]]
    lower(parse_pipeline(blocks("docs/functions.md", "yaml")[0]))


def test_the_copies_of_the_guide_to_statements_follow_topics():
    one, every = blocks("docs/sql-statements.md", "sql")[2:4]
    script = parse_script(one + every, variables={"secret_values.password": "secret"}, copies=copy_table)
    assert [sink.table for job in script.jobs for sink in job.sinks] == ["warehouse.sales.orders", "warehouse.sales"]
    assert all(isinstance(job.sinks[0].input, Ingest) for job in script.jobs)


def test_the_statements_of_their_guide_print_a_table():
    statements, made, *_ = blocks("docs/sql-statements.md", "sql")
    script = parse_script(statements + made)
    (shown,) = script.printed
    assert [job.name for job in script.jobs] == ["insert-into_reasons"]
    assert re.findall(r"^\| +(\w+) \|", shown, re.MULTILINE) == ["name", "id", "note", "reason", "moved"]


def test_the_python_beside_flinks_examples_is_that_of_the_programs():
    programs = "".join(text(f"examples/{name}") for name in EXAMPLES if name.startswith("pyflink"))
    indented = re.findall(r"^   ```python\n(.*?)^   ```$", text("docs/upgrading.md"), re.MULTILINE | re.DOTALL)
    assert len(indented) == 2
    shown = blocks("docs/pyflink-examples.md", "python") + blocks("docs/upgrading.md", "python")
    shown += [re.sub("^   ", "", each, flags=re.M) for each in indented]
    assert len(shown) > 10
    assert [code for code in shown if code not in programs] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)\s]+)\)", text(document)):
        if not target.startswith(("https://", "#")):
            assert ((ROOT / document).parent / target.partition("#")[0]).exists(), target


def test_the_messages_that_are_explained_are_those_that_are_raised():
    """Every fragment in the table of errors is part of a message in the code."""
    table = re.search(r"^\| error \|.*?\n\n", text("docs/exactly-once.md"), re.MULTILINE | re.DOTALL)
    assert table is not None
    fragments = [each for row in table[0].split("\n")[2:-2] for each in re.findall(r"`([^`]+)`", row.split("|")[2])]
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src" / "penstock").rglob("*.py"))
    messages = re.sub(r'"\s*\n\s*f?"', "", source)
    assert len(fragments) > 10
    assert [each for each in fragments if each not in messages] == []


def test_the_table_of_changed_queries_is_that_of_the_tests():
    """Each of its rows is tested in tests/unit/flow/test_changed_queries.py."""
    assert changed_queries.table() in text("docs/changed-queries.md")


def test_the_table_of_the_guide_to_bad_records_keeps_dead_letters():
    (table,) = blocks("docs/bad-records.md", "sql")
    rest = "CREATE TABLE seen (id BIGINT) WITH ('connector' = 'blackhole'); INSERT INTO seen SELECT id FROM orders;"
    (job,) = parse_script(table + rest).jobs
    assert [sink.table for sink in with_dead_letters(job).sinks] == ["seen", "orders.dead-letters"]
    shown = text("docs/bad-records.md").split("| header |")[1].split("\n\n")[0]
    assert [f"penstock.dead-letter.{name}" for name in re.findall(r"\.(\w+)`", shown)] == list(HEADERS)


def test_the_table_of_the_guide_to_change_data_is_read_with_its_changes():
    (table,) = blocks("docs/change-data.md", "sql")
    rest = "CREATE TABLE seen (id BIGINT) WITH ('connector' = 'print'); INSERT INTO seen SELECT id FROM products;"
    script = parse_script(table + rest)
    assert not script.warnings
    assert "value.source.timestamp" in explain(script.jobs[0])


def test_the_message_of_the_guide_to_change_data_becomes_the_rows_that_are_shown(tmp_path, capfd):
    (command,), (message, rows) = (blocks("docs/change-data.md", language) for language in ("sh", "json"))
    (tmp_path / "messages").write_text(message)
    assert main([*shlex.split(command.replace("\\\n", ""))[1:], str(tmp_path / "messages")]) == 0
    assert capfd.readouterr().out == rows


def test_the_operations_of_the_guide_to_change_data_are_those_that_are_read():
    table = text("docs/change-data.md").split("| format |")[1].split("\n\n")[0]
    for row in table.split("\n")[2:]:
        name, *cells = (re.findall(r"`([^`]+)`", cell) for cell in row.split("|")[1:-1])
        fmt, kinds = formats.get(name[0]), {"+I": 0, "-U": 1, "-D": 2, "": 3, "refused": 4}
        field = cells[0][0]
        for kind, found in zip(kinds, cells, strict=True):
            for operation in {*found} - {"op", "type", "op_type", "data", "old"}:
                image = "[{}]" if name == ["canal-json"] else "{}"
                message = ",".join(f'"{each}":{image}' for each in ("before", "after", "data", "old"))
                decoded = fmt.decoder(parse_columns("a INT"), fmt.options()).decode(
                    pa.array([f'{{{message},"{field}":"{operation}"}}'.encode()])
                )
                first = RowKind(decoded.kinds[0]).short if decoded.rows.num_rows else "refused" if decoded.bad else ""
                assert first == kind, (name, operation)


def test_the_tables_of_the_guide_to_upsert_kafka_are_written_and_read():
    script = parse_script("".join(blocks("docs/upsert-kafka.md", "sql")), default_name="products")
    assert not script.warnings
    written, copied = (sink for job in script.jobs for sink in job.sinks)
    assert (written.spec.upsert_keys, written.spec.guarantee.value) == (("id",), "exactly-once")
    assert isinstance(copied.input, Scan)
    assert copied.input.spec.upserts


def test_the_messages_of_the_guide_to_upsert_kafka_are_those_that_are_written():
    """Each change alone, so that no later one has its key."""
    script = parse_script("".join(blocks("docs/upsert-kafka.md", "sql")), default_name="products")
    spec = script.jobs[0].sinks[0].spec
    encoder = RowEncoder(spec, spec.client_config, lambda _: 1, {}, Task(0, 1))
    row = pa.RecordBatch.from_pylist([{"id": 1, "name": "a", "weight": None}], arrow_schema(spec.schema))
    table = text("docs/upsert-kafka.md").split("| change |")[1].split("\n\n")[0]
    said = {cells[1].strip()[:2]: cells[2] for cells in (each.split("|") for each in table.split("\n")[2:])}
    assert list(said) == [kind.short for kind in RowKind]
    for kind in RowKind:
        hidden = pa.RecordBatch.from_pydict(
            {HIDDEN.names[0]: [0], HIDDEN.names[1]: [0], KIND: pa.array([int(kind)], pa.int8())}
        )
        ((_, batch),) = encoder.encode(row, hidden)
        (value,) = scan(batch.data, start_offset=0, end_offset=1).values.to_pylist()
        assert ("key and value" in said[kind.short], "without a value" in said[kind.short]) == (bool(value), not value)


def test_the_table_of_the_guide_to_protobuf_is_read_and_written(tmp_path):
    (table,), (definition,) = (blocks("docs/protobuf.md", language) for language in ("sql", "proto"))
    (tmp_path / "orders.proto").write_text(definition)
    table = table.replace("'orders.proto'", f"'{tmp_path / 'orders.proto'}'")
    copy = table.replace("orders (", "copies (")
    script = parse_script(f"{table}{copy}INSERT INTO copies SELECT * FROM orders;")
    assert not script.warnings
    (sink,) = script.jobs[0].sinks
    assert sink.spec.value.options.loaded_definition.name == "shop.Order"


def test_the_types_of_the_guide_to_protobuf_are_those_that_fit(tmp_path):
    table = text("docs/protobuf.md").split("| field | column |")[1].split("\n\n")[0]
    pairs = []
    for row in table.split("\n")[2:]:
        fields, column = row.split("|")[1:-1]
        types = re.findall(r"\b(?:[A-Z]{3,})\b", column)
        named = re.findall(r"`(\w+)`", fields) if fields.strip() != "enum" else ["E"]
        pairs += zip(named, types, strict=True) if len(named) == len(types) else product(named, types)
    pairs = [(field, kind) for field, kind in pairs if field not in {"repeated", "map"}]
    assert len(pairs) == 20
    lines = "".join(
        f"{kind} f{at} = {at + 1}; repeated {kind} r{at} = {at + 101};" for at, (kind, _) in enumerate(pairs)
    )
    (tmp_path / "all.proto").write_text(f'syntax = "proto3"; enum E {{ A = 0; }} message All {{ {lines} }}')
    fmt = formats.get("protobuf")
    options = fmt.options.from_text({"proto-file": str(tmp_path / "all.proto"), "message-class-name": "All"})
    schema = parse_columns(", ".join(f"f{at} {kind}, r{at} ARRAY<{kind}>" for at, (_, kind) in enumerate(pairs)))
    fmt.decoder(schema, options)
    fmt.encoder(schema, options)
