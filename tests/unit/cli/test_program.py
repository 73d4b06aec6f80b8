"""Python programs that use names that penstock lacks, or start no job."""

from __future__ import annotations

import textwrap

import pytest

from penstock.cli.main import main


@pytest.fixture
def program(tmp_path):
    """Writes a program and returns its path."""

    def write(text):
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(text))
        return str(path)

    return write


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize(
    ("text", "line", "reason", "hint"),
    [
        (
            "from penstock.datastream import RestartCounter",
            1,
            "'penstock.datastream' has no 'RestartCounter'",
            "there are: ",
        ),
        (
            "from penstock.datastream import MapFunktion",
            1,
            "'penstock.datastream' has no 'MapFunktion'",
            "did you mean 'MapFunction'?",
        ),
        (
            "\nfrom penstock.table import StreamTableEnvironment",
            2,
            "'penstock.table' has no 'StreamTableEnvironment': there is no Table API",
            ".sql file",
        ),
        (
            "import penstock.table.table_environment",
            1,
            "'penstock.table' has no 'table_environment': there is no Table API",
            ".sql file",
        ),
        ("import penstock.datastream.status.more", 1, "'penstock.datastream' has no 'status'", "connectors"),
        (
            "from penstock.datastream.connectors.files import FileSource",
            1,
            "'penstock.datastream.connectors' has no 'files'",
            "kafka",
        ),
        (
            """
            from penstock.datastream import StreamExecutionEnvironment

            def build():
                environment = StreamExecutionEnvironment.get_execution_environment()
                return environment.from_colection([1, 2])

            build()
            """,
            6,
            "StreamExecutionEnvironment has no 'from_colection'",
            "from_collection",
        ),
        (
            "import penstock.datastream\npenstock.datastream.DataStreem",
            2,
            "'penstock.datastream' has no 'DataStreem'",
            "DataStream",
        ),
        (
            "from pyflink.datastream import StreamExecutionEnvironment",
            1,
            "there is no module 'pyflink'",
            "import it from 'penstock' instead of 'pyflink'",
        ),
        (
            "\nfrom penstock.datastream.connectors.file_system import FileSource",
            2,
            "'connectors.file_system.FileSource': is not supported",
            "use the connector filesystem in SQL",
        ),
        ("from penstock.datastream import KeyedStream", 1, "'KeyedStream': is not supported yet", "GROUP BY"),
        (
            """
            from penstock.datastream import StreamExecutionEnvironment

            environment = StreamExecutionEnvironment.get_execution_environment()
            environment.from_collection([1, 2]).key_by(
                abs
            )
            """,
            5,
            "'key_by': is not supported yet",
            "GROUP BY",
        ),
        (
            """
            from penstock.datastream import StreamExecutionEnvironment

            def main():
                environment = StreamExecutionEnvironment.get_execution_environment()
                environment.from_collection([1, 2]).sink_to("a topic")

            main()
            """,
            6,
            "'sink_to': str is not a sink",
            "",
        ),
    ],
)
def test_a_name_that_is_not_there_is_one_line(program, command, text, line, reason, hint, capsys):
    assert main([command, program(text)]) == 2
    shown = capsys.readouterr()
    (error,) = shown.err.splitlines()
    assert error.startswith(f"error: program.py, line {line}: {reason} (")
    assert hint in error
    assert shown.out == ""


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("import no_such_module_of_mine", ModuleNotFoundError),
        ("from json import lods", ImportError),
        ("[].push(1)", AttributeError),
        ("class Mine: pass\nMine().name", AttributeError),
    ],
)
def test_mistakes_of_the_program_s_own_keep_their_traceback(program, text, kind):
    with pytest.raises(kind):
        main(["check", program(text)])


def test_a_program_that_starts_no_job_says_so(program, capsys):
    path = program("from penstock.datastream import StreamExecutionEnvironment\nprint('done')")
    assert main(["check", path]) == 2
    told = f"{path}: the program has started no job (end it with execute()"
    assert capsys.readouterr().err.startswith(f"error: {told}")
    assert main(["run", path]) == 0
    shown = capsys.readouterr()
    assert shown.out == "done\n"
    assert shown.err.startswith(f"warning: {told}")
