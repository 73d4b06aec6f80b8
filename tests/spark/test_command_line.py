"""``penstock`` as users start it: on a terminal and with signals, in processes of its own; all else in this process,
where the jobs share the Spark of the other tests."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

import penstock
from penstock.cli.main import main
from tests.jvm import UNOPTIMISED
from tests.waiting import eventually

EXAMPLES = Path(__file__).parents[2] / "examples"
SECRET = "correct-horse-battery"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="{SECRET}";'
#: For a job to be started, or stopped, on a slow machine.
PATIENCE = 120


class Penstock:
    """Runs the command with a home of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "COLUMNS": "80"}
        self.environment["PYTHONPATH"] = str(Path(penstock.__file__).parents[1])
        self.environment.pop("SPARK_MASTER", None)

    def __call__(self, *arguments, **environment):
        """Runs to the end in this process: status, standard output, standard error."""
        command = [str(each) for each in arguments]
        with (
            pytest.MonkeyPatch.context() as patch,
            redirect_stdout(io.StringIO()) as out,
            redirect_stderr(io.StringIO()) as err,
        ):
            patch.chdir(self.folder)
            for name, text in {**environment, "XDG_STATE_HOME": self.environment["XDG_STATE_HOME"]}.items():
                patch.setenv(name, text)
            try:
                status = main(command)
            except SystemExit as end:
                status = end.code
        return subprocess.CompletedProcess(command, status, out.getvalue(), err.getvalue())

    def process(self, *arguments, **environment):
        """Runs to the end in a process of its own: status, standard output, standard error."""
        return self.execute(self.command(*arguments), **environment)

    def execute(self, command, **environment):
        """Runs a command to the end: status, standard output, standard error."""
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=self.environment | environment,
            cwd=self.folder,
            check=False,
        )

    def start(self, *arguments):
        """Starts it in a process group of its own, as a shell does; everything it prints goes to a pipe."""
        return subprocess.Popen(
            self.command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
            cwd=self.folder,
            start_new_session=True,
        )

    def on_a_terminal(self, *arguments):
        """Runs to the end on a terminal of 80 columns: status and what it showed."""
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            self.command(*arguments),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=self.environment,
            cwd=self.folder,
            start_new_session=True,
        ) as process:
            os.close(theirs)
            shown = b""
            with suppress(OSError):  # the last one has closed it
                while chunk := os.read(ours, 65536):
                    shown += chunk
            status = process.wait(PATIENCE)
        os.close(ours)
        return status, shown.decode().replace("\r\n", "\n")

    @staticmethod
    def command(*arguments):
        return [sys.executable, "-m", "penstock.cli.main", *map(str, arguments)]

    def file(self, name, text):
        """Writes a file and returns its path."""
        path = self.folder / name
        path.write_text(text)
        return path


@pytest.fixture
def cli(tmp_path):
    return Penstock(tmp_path)


def until(condition, process, said):
    """Waits for ``condition`` while the process runs."""

    def met():
        found = condition()
        assert found or process.poll() is None, f"it ended with status {process.returncode}: {''.join(said)}"
        return found

    eventually(met, PATIENCE, lambda: "".join(said))


def listen(process):
    """Collects what the process prints."""
    said = []
    thread = threading.Thread(target=lambda: said.extend(process.stdout), daemon=True)
    thread.start()
    return said, thread


def end(process, listener):
    """Waits for the process; its status."""
    try:
        status = process.wait(PATIENCE)
        listener.join(PATIENCE)
        return status
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


# --- no Spark ------------------------------------------------------------------------------------------------


def test_the_version_and_the_help(cli):
    done = cli.process("--version")
    assert (done.returncode, done.stdout) == (0, f"penstock {penstock.__version__}\n")
    done = cli("--help")
    assert done.returncode == 0
    assert all(f"\n    {command} " in done.stdout for command in ("run", "check", "broker", "doctor", "demo"))
    assert "--adopt-progress" in cli("run", "--help").stdout
    assert cli("frobnicate").returncode == 2


def script(bootstrap, source, sink, *, options="", name="", inserts="INSERT INTO t SELECT * FROM s;"):
    return f"""
SET 'pipeline.name' = '{name or "copy"}';
CREATE TABLE s (id INT) WITH (
  'connector' = 'kafka', 'topic' = '{source}', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset'{options}
);
CREATE TABLE t (id INT) WITH (
  'connector' = 'kafka', 'topic' = '{sink}', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'tx-{sink}'
);
{inserts}
"""


def test_check_prints_the_plan_and_no_secret(cli):
    """Nothing is connected to, so the addresses may be wrong."""
    options = f", 'properties.sasl.jaas.config' = '{JAAS}', 'properties.security.protocol' = 'SASL_PLAINTEXT'"
    options += ", 'properties.sasl.mechanism' = 'PLAIN'"
    sql = cli.file("copy.sql", script("localhost:1", "in", "out", options=options))
    done = cli("check", sql)
    assert (done.returncode, done.stderr) == (0, "")
    for shown in ("job 'copy'", "kafka scan 's'", "kafka sink 't'", "topic: in", "exactly-once as 'tx-out'"):
        assert shown in done.stdout
    assert "sasl.jaas.config=******" in done.stdout
    assert SECRET not in done.stdout


def test_check_tells_every_mistake_with_its_place(cli):
    text = script("localhost:1", "in", "out", inserts="INSERT INTO t SELECT idd FROM s;")
    text = text.replace("'scan.startup.mode'", "'scan.startup.mod'").replace("'exactly-once'", "'exactly-twice'")
    done = cli("check", cli.file("copy.sql", text))
    assert (done.returncode, done.stdout) == (2, "")
    one, two, three = done.stderr.splitlines()
    assert "copy.sql, line 5, column 3: 'scan.startup.mod': unknown option" in one
    assert "did you mean 'scan.startup.mode'?" in one
    assert "copy.sql, line 9, column 3" in two
    assert "exactly-twice" in two
    assert "copy.sql, line 11, column 22" in three
    assert "idd" in three


def test_secrets_are_not_in_errors_about_them(cli):
    options = f", 'properties.sasl.jaas.config' = 'PlainLoginModule {SECRET}', 'properties.sasl.mechanism' = 'PLAIN'"
    options += f", 'properties.security.protocol' = 'SASL_SSL', 'properties.ssl.keystore.passwort' = '{SECRET}'"
    options += f", 'properties.ssl.truststore.password' = '{SECRET}', 'value.fields-include' = '${{it}}'"
    sql = cli.file("copy.sql", script("localhost:1", "in", "out", options=options))
    for command in ("check", "run"):
        done = cli(command, sql, "--var", f"it={SECRET}")
        assert done.returncode == 2
        assert done.stderr.startswith("error: copy.sql, line ")
        assert "sasl.jaas.config" in done.stderr
        assert SECRET not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["check", "run"])
def test_files_and_variables_that_do_not_fit(cli, command):
    sql = cli.file("copy.sql", script("${where}", "in", "out"))
    for arguments, wanted in {
        ("nowhere.sql",): "nowhere.sql: no such file",
        (cli.file("notes.txt", ""),): "expected a .sql, .yaml or .py file",
        (cli.folder,): "no such file",
        (cli.file("bytes.sql", "").rename(cli.folder / "latin.sql"), "--var", "where"): "expected KEY=VALUE",
        (sql,): "variable 'where' is not defined",
        (sql, "--var", "=x"): "expected KEY=VALUE",
        (cli.file("program.py", "raise SystemExit(9)"), "--var", "a=b"): "--var: replaces ${KEY}",
    }.items():
        done = cli(command, *arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert done.stderr.startswith("error: "), done.stderr
        assert wanted in done.stderr
        assert "Traceback" not in done.stderr


def test_a_file_that_is_no_text(cli):
    path = cli.folder / "latin.sql"
    path.write_bytes("-- é".encode("latin-1"))
    done = cli("check", path)
    assert done.returncode == 2
    assert "cannot be read" in done.stderr


def test_a_program_finds_its_neighbours_and_no_arguments(cli):
    cli.file("neighbour.py", "WORD = 'found'\n")
    cli.file("program.py", "import sys, neighbour\nprint(neighbour.WORD, len(sys.argv))\n")
    done = cli.process("run", cli.folder / "program.py")
    assert (done.returncode, done.stdout) == (0, "found 1\n")


# --- bounded jobs --------------------------------------------------------------------------------------------


def test_a_sql_file_on_a_terminal(cli, kafka, topics, topic):
    """Two INSERTs outside a statement set are two jobs; a password that no connection uses is told to nobody."""
    source, sink, second = topic(1), topic(1), topic(1)
    topics.write(source, [{"id": i} for i in range(100)])
    name = "my jöb/№ 1: ../copy"
    options = f", 'scan.bounded.mode' = 'latest-offset', 'properties.sasl.jaas.config' = '{JAAS}'"
    text = script(kafka.bootstrap, source, sink, options=options, name=name, inserts="")
    text += f"""
CREATE TABLE u (id INT) WITH (
  'connector' = 'kafka', 'topic' = '{second}', 'properties.bootstrap.servers' = '{kafka.bootstrap}', 'format' = 'json'
);
INSERT INTO t SELECT * FROM s;
INSERT INTO u SELECT id * 2 FROM s;
"""
    status, shown = cli.on_a_terminal("run", cli.file("copy.sql", text), "--checkpoint-dir", "progress")
    assert status == 0, shown
    assert topics.read_ids(sink) == list(range(100))
    assert topics.read_ids(second) == list(range(0, 200, 2))
    for job in (name, f"{name}-u"):
        assert f"job '{job}': starting\n" in shown
        assert f"job '{job}': finished: 100 records read, 100 written in 1 batch and" in shown
    # The progress is one line that is written again and again, and ended before anything else is said.
    assert re.search(r"\n\r(no batch yet|[\d,]+ read \()[^\n]*\n", shown)
    assert all(len(part) < 80 for line in shown.splitlines() for part in line.split("\r") if " read (" in part)
    places = [path.relative_to(cli.folder) for path in cli.folder.rglob("penstock/job.json")]
    assert len(places) == 2
    assert {path.parts[0] for path in places} == {"progress"}
    assert {len(path.parts) for path in places} == {4}
    assert SECRET not in shown
    kept = [path for path in cli.folder.rglob("*") if path.is_file() and path.name != "copy.sql"]
    assert [path for path in kept if SECRET.encode() in path.read_bytes()] == []


def test_a_yaml_file_on_a_pipe(cli, kafka, topics, topic):
    prefix = topic(1)
    source, sink = f"{prefix}flights", f"{prefix}flights-delayed"
    flights = [{"carrier": "UA", "flight": i, "dep_delay": i, "time_hour": "2013-01-01 05:00:00Z"} for i in range(100)]
    topics.write(source, flights)
    done = cli(
        "run", EXAMPLES / "flights.yaml", "--var", f"bootstrap={kafka.bootstrap}", "--var", f"topic_prefix={prefix}"
    )
    assert done.returncode == 0, done.stderr
    assert sorted(message.json["flight"] for message in topics.read(sink)) == list(range(61, 100))
    assert done.stdout == ""
    assert "\r" not in done.stderr
    lines = done.stderr.splitlines()
    assert lines[0][20:] == "job 'flights-delayed': starting"
    checkpoint = f"job 'flights-delayed': checkpoint {cli.folder}/state/penstock/checkpoints/flights-delayed"
    assert checkpoint in [each[20:] for each in lines]
    assert re.fullmatch(
        r"job 'flights-delayed': finished: 100 records read, 39 written in 1 batch and \d+\.\d s", lines[-1][20:]
    )


PARTITIONER = """
class ByRemainder:
    def partition(self, record, key, value, target_topic, partitions):
        return partitions[record.id % len(partitions)]
"""


@pytest.mark.slow
def test_a_partitioner_of_ones_own_is_found_by_the_tasks(cli, kafka, topics, topic):
    source, sink = topic(partitions=2), topic(partitions=3)
    topics.write(source, [{"id": number} for number in range(30)])
    cli.file("mine.py", PARTITIONER)
    text = script(kafka.bootstrap, source, sink, options=", 'scan.bounded.mode' = 'latest-offset'")
    text = text.replace("'sink.delivery", "'sink.partitioner' = 'mine.ByRemainder', 'sink.delivery")
    paths = os.pathsep.join([str(cli.folder), cli.environment["PYTHONPATH"]])
    done = cli.process("run", cli.file("job.sql", text), PYTHONPATH=paths)
    assert done.returncode == 0, done.stderr
    assert sorted((each.partition, each.json["id"]) for each in topics.read(sink)) == sorted(
        (number % 3, number) for number in range(30)
    )


def test_a_program(cli, kafka, topics, topic):
    prefix = topic(1)
    topics.write(f"{prefix}words", [b"hey", b"", b"you"])
    environment = {"BOOTSTRAP": kafka.bootstrap, "TOPIC_PREFIX": prefix}
    done = cli("run", EXAMPLES / "shout.py", "--checkpoint-dir", cli.folder / "progress", **environment)
    assert done.returncode == 0, done.stderr
    assert sorted(message.value for message in topics.read(f"{prefix}shouts")) == [b"HEY!", b"YOU!"]
    assert "job 'shout': finished: 3 records read, 2 written" in done.stderr
    assert (cli.folder / "progress" / "shout" / "offsets" / "0").exists()


def test_a_broker_that_refuses_the_password_is_told_without_it(cli, kafka, topic):
    """The broker speaks plain text and no SASL."""
    source, sink = topic(1), topic(1)
    options = f", 'properties.sasl.jaas.config' = '{JAAS}', 'properties.security.protocol' = 'SASL_PLAINTEXT'"
    options += ", 'properties.sasl.mechanism' = 'PLAIN'"
    done = cli("run", cli.file("copy.sql", script(kafka.bootstrap, source, sink, options=options)))
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert kafka.bootstrap in done.stderr
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stdout + done.stderr


# --- signals -------------------------------------------------------------------------------------------------


@pytest.mark.rule("look before taking over")
@pytest.mark.parametrize(
    "interrupted", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["Ctrl-C", "SIGTERM to the group"]
)
def test_signals_end_a_job_and_leave_nothing_open(cli, kafka, topics, topic, interrupted):
    """One in the middle of work, to every process of the terminal's group; SIGTERM to the process at rest. Until then
    it answers Prometheus, and goes on as if nothing had been where a second start of it is refused."""
    source, sink = topic(2), topic(2)
    count = 6_000
    topics.write(source, [{"id": i} for i in range(count)])
    most = ", 'scan.max-records-per-trigger' = '10'"  # so that there is more to do than a slow signal leaves time for
    at_work = cli.file("at-work.sql", script(kafka.bootstrap, source, sink, options=most))
    at_rest = cli.file("at-rest.sql", script(kafka.bootstrap, source, sink))

    def last(log):
        folder = cli.folder / "progress" / "copy" / log
        return max((int(path.name) for path in folder.glob("[0-9]*")), default=-1)

    def all_done():
        return len(topics.read(sink)) == count and last("commits") == last("offsets")

    def stopped(sql, condition, number, send):
        process = cli.start("run", sql, "--checkpoint-dir", "progress", "--metrics-port", "127.0.0.1:0")
        said, listener = listen(process)
        until(condition, process, said)
        (address,) = re.findall(r"^.{20}metrics: (http://127.0.0.1:\d+/metrics)$", "".join(said), re.MULTILINE)
        with urlopen(address) as answer:
            assert 'penstock_operator_numRecordsOut{job="copy",operator="' in answer.read().decode()
        refused = cli("run", sql, "--checkpoint-dir", "progress")
        assert refused.returncode == 4
        assert re.search(
            rf"^error: job 'copy' runs already, .*: process {process.pid} on ", refused.stderr, re.MULTILINE
        )
        send(process.pid, number)
        status = end(process, listener)
        text = "".join(said)
        assert status == 0, text
        assert "job 'copy': stopped: " in text
        assert "was aborted" not in text  # the signal reaches no process of Spark, so the current batch was completed
        assert "\r" not in text
        assert "Traceback" not in text
        assert not topics.open_transactions(sink)
        ids = topics.read_ids(sink)
        assert len(ids) == len(set(ids))
        return ids

    number = signal.SIGINT if interrupted else signal.SIGTERM
    first = stopped(at_work, lambda: last("commits") > 0, number, os.killpg)
    assert 0 < len(first) < count
    assert stopped(at_rest, all_done, signal.SIGTERM, os.kill) == list(range(count))


@pytest.mark.slow
def test_nothing_is_printed_after_a_job_was_killed(cli, kafka, topics, topic):
    """Its JVM ends by itself, in the middle of a batch, and would show what failed by that."""
    source, sink = topic(2), topic(2)
    topics.write(source, [{"id": i} for i in range(6_000)])
    text = script(kafka.bootstrap, source, sink, options=", 'scan.max-records-per-trigger' = '10'")
    process = cli.start("run", cli.file("copy.sql", text), "--checkpoint-dir", "progress")
    said, listener = listen(process)
    commits = cli.folder / "progress" / "copy" / "commits"
    until(lambda: len(list(commits.glob("[0-9]*"))) > 10, process, said)
    process.kill()
    assert end(process, listener) == -signal.SIGKILL  # the JVM has closed its end of the pipe
    assert not listener.is_alive()
    usual = re.compile(r".{20}job 'copy': (starting|checkpoint |table |no batch|[\d,]+ read )")
    assert [line for line in said if not usual.match(line)] == []


@pytest.mark.slow
@pytest.mark.rule("look before taking over")
def test_a_second_start_is_refused_and_may_take_over(cli, kafka, topics, topic):
    """In processes of their own, which end one another; the fault matrix has more such starts."""
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    sql = cli.file("copy.sql", script(kafka.bootstrap, source, sink))
    first = cli.start("run", sql)
    said, listener = listen(first)
    until(lambda: topics.read_ids(sink) == list(range(10)), first, said)
    refused = cli.process("run", sql)
    assert refused.returncode == 4
    assert re.search(
        rf"^error: job 'copy' runs already, .*: process {first.pid} on \S+, since .* UTC\.", refused.stderr, re.M
    )
    topics.write_ids(source, 10, start=10)
    until(lambda: topics.read_ids(sink) == list(range(20)), first, said)
    second = cli.start("run", sql, "--take-over")
    told, ear = listen(second)
    assert end(first, listener) == 3
    assert re.search(rf"^error: .* was taken over by .*process {second.pid} on ", "".join(said), re.M)
    topics.write_ids(source, 10, start=20)
    until(lambda: topics.read_ids(sink) == list(range(30)), second, told)
    assert f"warning: job 'copy': takes over from process {first.pid} on" in "".join(told)
    second.terminate()
    assert end(second, ear) == 0
    assert "restart" not in "".join(said + told)


@pytest.mark.slow
def test_spark_starts_from_an_archive_of_the_classes_of_the_job_before(cli, kafka, topics, topic):
    """With a real JVM; tests/unit/engine/test_shared_classes.py holds what is made of the lists of classes."""
    source, sink, cache, log = topic(1), topic(1), cli.folder / "cache", cli.folder / "classes.log"
    topics.write(source, [{"id": 1}])
    sql = cli.file("copy.sql", script(kafka.bootstrap, source, sink, options=", 'scan.bounded.mode' = 'latest-offset'"))
    done = cli.process("run", sql, "--checkpoint-dir", "first", XDG_CACHE_HOME=str(cache))
    assert done.returncode == 0, done.stderr
    # It is made at the lowest priority: other work of the machine comes first.
    eventually(lambda: list((cache / "penstock" / "spark-classes").glob("*.jsa")), 5 * PATIENCE)
    options = f"{UNOPTIMISED} -Xlog:class+load:file={log}"
    done = cli.process("run", sql, "--checkpoint-dir", "second", XDG_CACHE_HOME=str(cache), SPARK_SUBMIT_OPTS=options)
    assert done.returncode == 0, done.stderr
    loaded = [line for line in log.read_text().splitlines() if " org.apache.spark.sql." in line]
    shared = [line for line in loaded if "source: shared objects file" in line]
    assert 2 * len(shared) > len(loaded) > 1000


@pytest.mark.slow
def test_a_program_that_is_stopped_does_not_go_on_to_its_next_job(cli, kafka, topics, topic):
    source, sink = topic(1), topic(1)
    topics.write(source, [{"id": 1}])
    prefix = script(kafka.bootstrap, source, sink)
    program = cli.file(
        "program.py",
        f"""
from penstock.datastream import execution
from penstock.sql import parse_script

(job,) = parse_script({prefix!r}).jobs
print("first", flush=True)
execution.run(job)
print("second", flush=True)
execution.run(job)
""",
    )
    process = cli.start("run", program, "--checkpoint-dir", "progress")
    said, listener = listen(process)
    until(lambda: topics.read(sink), process, said)
    process.terminate()
    assert end(process, listener) == 0, "".join(said)
    assert "first\n" in said
    assert "second\n" not in said


# --- failures ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_restarts_are_told(cli, kafka, topics, topic):
    source, sink = topic(1), topic(1)
    topics.write(source, [{"id": i} for i in range(10)])
    options = ", 'scan.bounded.mode' = 'latest-offset'"
    program = cli.file(
        "program.py",
        f"""
from dataclasses import replace
from pathlib import Path

from penstock.datastream import execution
from penstock.plan.nodes import MapRows
from penstock.settings import FixedDelay
from penstock.sql import parse_script

(job,) = parse_script({script(kafka.bootstrap, source, sink, options=options)!r}).jobs
mark = Path({str(cli.folder / "failures")!r})


def rows(given):
    with mark.open("a") as file:
        file.write(".")
    if mark.stat().st_size <= 3:  # every attempt at the first run's batch
        raise ValueError("the service cannot be reached")
    yield from given


(sink,) = job.sinks
sink = replace(sink, input=MapRows(sink.input.schema, sink.input, rows))
execution.run(replace(job, sinks=(sink,), settings=replace(job.settings, restart=FixedDelay(attempts=2))))
""",
    )
    done = cli("run", program, "--checkpoint-dir", "progress")
    assert done.returncode == 0, done.stderr
    assert "warning: job 'copy': restart 1 of at most 2 in 1 s: ValueError: the service cannot be reach" in done.stderr
    assert re.fullmatch(
        r"job 'copy': finished: 10 records read, 10 written in 1 batch and \d+\.\d s, after 1 restart",
        done.stderr.splitlines()[-1][20:],
    )
    assert topics.read_ids(sink) == list(range(10))


@pytest.mark.rule("terminal errors end the job")
def test_a_failure_that_would_repeat_has_a_status_of_its_own(cli, kafka, topics, topic):
    source, sink = topic(1), topic(1)
    topics.write(source, [{"id": 1}, b"{"])
    text = "SET 'restart-strategy.type' = 'exponential-delay';" + script(kafka.bootstrap, source, sink)
    done = cli("run", cli.file("copy.sql", text))
    assert done.returncode == 3
    error, note, _ = done.stderr.splitlines()[-3:]
    assert error.startswith(f"error: topic '{source}', partition 0, offset 1: ")
    assert note.startswith("note: the restart strategy ends here, after 0 restarts: a restart would not help")
    assert topics.read(sink) == []


LINES = "CREATE TABLE s (id INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
BATCH = "SET 'execution.runtime-mode' = 'BATCH';\n"


def one_line(done, status, error):
    """Checks that a run has said this error, and where the reports of Spark and Python are, and nothing of these."""
    said = done.stderr
    assert done.returncode == status
    assert not any(word in said for word in ("Traceback", "SparkException", "\tat "))
    *_, shown, note = said.splitlines()
    assert shown == error
    path = note.removeprefix("note: what Spark and Python reported is in '").partition("'")[0]
    assert "Traceback (most recent call last):" in Path(path).read_text()


@pytest.mark.parametrize(
    ("settings", "sink", "query"),
    [
        ("", "print", "SELECT id FROM s"),
        pytest.param("", "blackhole", "SELECT id, COUNT(*) FROM s GROUP BY id", marks=pytest.mark.slow),
        pytest.param(BATCH, "print", "SELECT id FROM s", marks=pytest.mark.slow),
        pytest.param(BATCH, "blackhole", "SELECT id, COUNT(*) FROM s GROUP BY id", marks=pytest.mark.slow),
    ],
)
def test_a_line_that_cannot_be_read_is_told_of_in_a_line(cli, settings, sink, query):
    (cli.folder / "in").mkdir()
    (cli.folder / "in" / "a.json").write_text('{"id": 1}\n{"id": 2}\n{"id":\n')
    columns = "id INT" if "COUNT" not in query else "id INT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED"
    table = f"CREATE TABLE t ({columns}) WITH ('connector' = '{sink}');\n"
    done = cli("run", cli.file("lines.sql", f"{settings}{LINES}{table}INSERT INTO t {query};"))
    one_line(
        done,
        3,
        f"error: file '{cli.folder}/in/a.json', line 3: format 'json': the text ends before the JSON value does (look "
        "at the line; 'json.ignore-parse-errors' = 'true' leaves lines like it out)",
    )


@pytest.mark.parametrize("penstock_runs", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_function_that_fails_is_told_of_in_a_line(cli, penstock_runs):
    """Also where Python runs the program, which the test before a topic holds too."""
    program = cli.file(
        "program.py",
        "from penstock.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1, 0]).map(lambda x: 1 // x).print()\n"
        "env.execute('program')\n",
    )
    if penstock_runs:
        done, place = cli("run", program), ""
    else:
        done, place = cli.execute([sys.executable, program]), "program.py, line 4: "
    one_line(
        done,
        1,
        f"error: {place}table 'Collection Source', row 2: the function raised ZeroDivisionError (program.py, line 3): "
        "integer division or modulo by zero (in step 'Map')",
    )


SINKS = {
    "kafka": "'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}', "
    "'format' = 'json'",
    "postgres": "'connector' = 'postgres', 'url' = '{url}', 'table-name' = 't', 'username' = '{user}', "
    "'password' = '{password}'",
    "filesystem": "'connector' = 'filesystem', 'path' = 'out', 'format' = 'json'",
    "values": "'connector' = 'values', 'data-id' = 'rows'",
}
SINKS["kafka, exactly once"] = (
    SINKS["kafka"] + ", 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'tx-{topic}'"
)
SINKS["upsert-kafka"] = (
    SINKS["kafka"].replace("'kafka'", "'upsert-kafka'").replace("'format'", "'key.format' = 'json', 'value.format'")
)
SINKS["postgres, at least once"] = SINKS["postgres"] + ", 'sink.delivery-guarantee' = 'at-least-once'"


#: Those that are tried each time; what the others say has the same ways.
QUICK = ("kafka, exactly once", "postgres")


@pytest.fixture(params=[pytest.param(each, marks=[] if each in QUICK else pytest.mark.slow) for each in SINKS])
def sink(request, kafka, topic):
    """A table ``t`` with the columns ``id`` and ``n`` for each kind of sink."""
    places = {"topic": topic(1) if "kafka" in request.param else "", "bootstrap": kafka.bootstrap}
    if "postgres" in request.param:
        db = request.getfixturevalue("db")
        db.rows("CREATE TABLE t (id int PRIMARY KEY, n int)")
        places |= {"url": db.url, "user": db.server.user, "password": db.server.password}
    key = ", PRIMARY KEY (id) NOT ENFORCED" if "upsert" in request.param else ""
    return f"CREATE TABLE t (id INT, n INT{key}) WITH ({SINKS[request.param].format(**places)});\n"


#: What ends a job at the second message: how the text of the error goes on behind the place.
BAD_MESSAGES = {
    b"{": "format 'json': the text ends before the JSON value does (look at the record; 'json.ignore-parse-errors' = "
    "'true' leaves records like it out, 'scan.dead-letter.topic' keeps them in a separate topic)",
    b'{"id": 0}': "[DIVIDE_BY_ZERO] division by zero (leave such rows out with WHERE, or use CASE or TRY_CAST)",
}


@pytest.mark.parametrize("message", [b"{", pytest.param(b'{"id": 0}', marks=pytest.mark.slow)])
def test_a_record_that_ends_a_job_is_told_of_in_a_line_whatever_the_sink(cli, kafka, topics, topic, sink, message):
    source = topic(1)
    topics.write(source, [{"id": 1}, message])
    table = script(kafka.bootstrap, source, "").partition("CREATE TABLE t")[0]
    done = cli("run", cli.file("copy.sql", f"{table}{sink}INSERT INTO t SELECT id, 1 / id FROM s;"))
    one_line(done, 3, f"error: topic '{source}', partition 0, offset 1: {BAD_MESSAGES[message]}")


@pytest.mark.parametrize("guarantee", ["EXACTLY_ONCE", pytest.param("AT_LEAST_ONCE", marks=pytest.mark.slow)])
def test_a_function_that_fails_before_a_topic_is_told_of_in_a_line(cli, kafka, topic, guarantee):
    sink = topic(1)
    program = cli.file(
        "program.py",
        f"""
from penstock.common import SimpleStringSchema, Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink

serializer = KafkaRecordSerializationSchema.builder().set_topic({sink!r})
serializer = serializer.set_value_serialization_schema(SimpleStringSchema()).build()
sink = KafkaSink.builder().set_bootstrap_servers({kafka.bootstrap!r}).set_record_serializer(serializer)
sink = sink.set_delivery_guarantee(DeliveryGuarantee.{guarantee}).set_transactional_id_prefix("tx-{sink}").build()
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 0]).map(lambda x: str(1 // x), Types.STRING()).sink_to(sink)
env.execute("program")
""",
    )
    done = cli.execute([sys.executable, program])
    one_line(
        done,
        1,
        "error: program.py, line 13: table 'Collection Source', row 2: the function raised ZeroDivisionError "
        "(program.py, line 12): integer division or modulo by zero (in step 'Map')",
    )


@pytest.mark.slow
def test_a_job_whose_jvm_is_killed_ends_and_leaves_nothing_open(cli, kafka, topics, topic):
    """There is no Spark to restart it in: that is for whoever started the process."""
    source, sink = topic(2), topic(2)
    count = 6_000
    topics.write(source, [{"id": i} for i in range(count)])
    options = ", 'scan.max-records-per-trigger' = '10'"
    text = "SET 'restart-strategy.type' = 'exponential-delay';" + script(kafka.bootstrap, source, sink, options=options)
    process = cli.start("run", cli.file("copy.sql", text), "--checkpoint-dir", "progress")
    said, listener = listen(process)
    commits = cli.folder / "progress" / "copy" / "commits"
    until(lambda: len(list(commits.glob("[0-9]*"))) > 10, process, said)
    (jvm,) = children(process.pid, "java")
    os.kill(jvm, signal.SIGKILL)
    assert end(process, listener) == 1
    text = "".join(said)
    assert any(line.startswith("error: job 'copy': Spark has ended under it") for line in text.splitlines()), text
    assert "restart 1" not in text
    ids = topics.read_ids(sink)
    assert 100 < len(ids) == len(set(ids)) < count
    assert not topics.open_transactions(sink)


def started_in(folder):
    """The processes, by id, whose environment has this folder, with their commands: those that a command of
    :class:`Penstock` has started, and what they have started, in whichever process group."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(folder).encode() in (path / "environ").read_bytes():  # empty for one that has ended
                found[int(path.name)] = (path / "comm").read_text().strip()
    return found


@pytest.mark.slow
def test_a_demonstration_that_is_ended_leaves_nothing_behind(cli):
    """Neither its job, which has a process group of its own, nor its broker, nor what these have started."""
    process = cli.start("demo")
    said, listener = listen(process)
    try:

        def job_runs():
            """The job has its query, and there are its JVM and the broker's."""
            running = list(started_in(cli.folder).values())
            return running.count("java") == 2 and any(": checkpoint /" in line for line in said)

        until(job_runs, process, said)
        (folder,) = {found[1] for line in said if (found := re.search(r": checkpoint (/.*/penstock-demo-\w+)/", line))}
        assert Path(folder).exists()
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM
        eventually(lambda: not started_in(cli.folder), PATIENCE, lambda: f"{started_in(cli.folder)}: {''.join(said)}")
        assert not Path(folder).exists()
    finally:
        for pid in started_in(cli.folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        listener.join(PATIENCE)


def children(parent, name):
    """The processes of this name that a process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            head, _, rest = path.read_text().rpartition(")")
            if int(rest.split()[1]) == parent and head.endswith(f"({name}"):
                found.append(int(path.parent.name))
    return found
