"""The variables of SQL and YAML files."""

from __future__ import annotations

import argparse

import pytest

from penstock.cli.main import main
from penstock.cli.variables import add_variables, read_variables
from penstock.errors import DefinitionError

PIPELINE = """source:
  type: kafka
  topic: ${orders.topic}
  properties.bootstrap.servers: h:9092
  value.format: json
  properties.sasl.jaas.config: ${secret_values.login}
  scan.startup.mode: earliest-offset
sink:
  type: print
"""


@pytest.fixture
def variables(tmp_path):
    """Reads the variables of these options; ``files`` are written before."""

    def read(*arguments, environ=None, **files):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        parser = argparse.ArgumentParser()
        add_variables(parser)
        paths = [str(tmp_path / each) if each in files else each for each in arguments]
        return read_variables(parser.parse_args(paths), environ or {})

    return read


def test_the_command_line_goes_before_files_and_files_before_the_environment(variables):
    found = variables(
        "--var-file", "first", "--var", "a=line", "--var-file", "last",
        first="a=first\nb=first\nc=first\n", last="b=last\n",
        environ={f"PENSTOCK_VAR_{each}": "env" for each in "ABCD"},
    )  # fmt: skip

    assert [found[each] for each in "abcd"] == ["line", "last", "first", "env"]
    assert "e" not in found


def test_names_in_the_environment_are_upper_case_without_dots(variables):
    found = variables(environ={"PENSTOCK_VAR_SECRET_VALUES_AK_ID": "me", "PATH": "/bin"})

    assert found["secret_values.ak_id"] == "me"
    assert "PATH" not in found


def test_files_have_comments_quotes_and_values_with_equals_signs(variables):
    text = "\ufeff# servers\n\n kafka.topic = orders \npassword=\"a=b \"\nempty=\nname='x'\n"

    assert dict(variables("--var-file", "vars", vars=text)) == {
        "kafka.topic": "orders", "password": "a=b ", "empty": "", "name": "x",
    }  # fmt: skip


def test_all_that_is_wrong_with_variables_is_told_at_once_and_no_value_is_shown(variables):
    with pytest.raises(DefinitionError) as error:
        variables("--var", "hunter2", "--var-file", "vars", "--var-file", "missing", vars="a=1\n=hunter2\nhunter3\n")

    *_, second, third, missing = found = str(error.value).splitlines()
    assert len(found) == 4
    assert second.endswith("vars, line 2: expected KEY=VALUE, or '#' and a comment")
    assert third.endswith("vars, line 3: expected KEY=VALUE, or '#' and a comment")
    assert missing == "--var-file missing: cannot be read: No such file or directory"
    assert "hunter3" not in str(error.value)


def test_a_pipeline_takes_its_topic_and_its_secrets_from_a_file(tmp_path, capsys, monkeypatch):
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (tmp_path / "secrets").write_text("secret_values.login=hunter2\n")
    monkeypatch.setenv("PENSTOCK_VAR_ORDERS_TOPIC", "orders")

    assert main(["check", str(tmp_path / "p.yaml"), "--var-file", str(tmp_path / "secrets")]) == 0
    shown = capsys.readouterr()
    assert "topic: orders" in shown.out
    assert "hunter2" not in shown.out + shown.err


def test_variables_that_are_not_defined_are_told_once_each(tmp_path, capsys):
    (tmp_path / "p.yaml").write_text(PIPELINE + "route:\n  - source-table: ${from}\n    sink-table: ${to}\n")

    assert main(["check", str(tmp_path / "p.yaml"), "--var", "orders.topics=t"]) != 0
    assert capsys.readouterr().err.splitlines() == [
        "error: p.yaml, line 3, column 10: 'topic': variable 'orders.topic' is not defined "
        "(did you mean 'orders.topics'?)",
        *(
            f"error: p.yaml, line {line}, column {column}: '{key}': variable '{name}' is not defined "
            f"(define it with --var {name}=VALUE, or in a file given by --var-file)"
            for line, column, key, name in (
                (6, 32, "properties.sasl.jaas.config", "secret_values.login"),
                (11, 19, "source-table", "from"),
                (12, 17, "sink-table", "to"),
            )
        ),
    ]
