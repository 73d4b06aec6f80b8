"""The settings of a job, each declared once for ``SET``, YAML, Python and the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from zoneinfo import ZoneInfo

from penstock.options import BOOLEAN, COMMA_LIST, DURATION, LIST, Codec, OptionSet, number, one_of, opt
from penstock.settings.codecs import FILLED, restrict
from penstock.settings.kerberos import KerberosSettings
from penstock.settings.restart import RestartStrategy


def _check_zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise ValueError("expected a time zone such as 'UTC' or 'Europe/Berlin'") from None
    return text


#: The values of ``execution.runtime-mode``.
STREAMING, BATCH, AUTOMATIC = "STREAMING", "BATCH", "AUTOMATIC"
#: The values of ``table.exec.sink.upsert-materialize``.
AUTO, NONE, FORCE = "AUTO", "NONE", "FORCE"
#: Values of ``table.exec.sink.not-null-enforcer`` and ``table.exec.sink.type-length-enforcer``.
ERROR, DROP, IGNORE, TRIM_PAD = "ERROR", "DROP", "IGNORE", "TRIM_PAD"
TRY_RESOLVE = "TRY_RESOLVE"
#: Values of ``penstock.overflow`` and ``penstock.null-event-time``.
WRAP, FAIL, LATE = "WRAP", "FAIL", "LATE"

_INTERVAL = restrict(DURATION, lambda value: value > timedelta(0), "a duration longer than 0 ms")
_TIMEOUT = replace(DURATION, parse=lambda text: DURATION.parse(text) or None)


@dataclass(frozen=True, kw_only=True)
class Settings(OptionSet):
    """How a job runs. None means that the engine's default applies.

    Other fields are ``checkpointing``: whether there is a checkpoint; ``restart``: when a failed job is restarted, None
    for never; ``kerberos``: the login of tables that use Kerberos and name none; and ``start_time``: where sources
    without a checkpoint start, by the timestamps of their records in ms since 1970, None for each source's own start.
    """

    checkpoint_interval: timedelta | None = opt(
        "execution.checkpointing.interval",
        _INTERVAL,
        default=None,
        default_text="none: a batch starts when the one before it is done",
        doc="In Flink the time between two checkpoints, without which nothing is checkpointed. Here the time between "
        "the starts of two batches; every batch is a checkpoint and, with exactly-once, a transaction.",
        example="10 s",
    )
    checkpoint_dir: str | None = opt(
        "execution.checkpointing.dir",
        FILLED,
        default=None,
        default_text="`$XDG_STATE_HOME/penstock/checkpoints`, else under `~/.local/state`",
        doc="The directory or URI of checkpoints, as in Flink. Each job has its own folder in it.",
        example="s3a://bucket/checkpoints",
        aliases=("state.checkpoints.dir", "state.backend.fs.checkpointdir"),
    )
    savepoint: str | None = opt(
        "execution.state-recovery.path",
        FILLED,
        default=None,
        default_text="(none)",
        doc="The savepoint that a new job starts from, as in Flink. A job that has a checkpoint continues from it.",
        example="/savepoints/orders",
        aliases=("execution.savepoint.path",),
    )
    ignore_unclaimed_state: bool = opt(
        "execution.state-recovery.ignore-unclaimed-state",
        BOOLEAN,
        default=False,
        doc="Whether a job starts from a savepoint with state that it has no step for, as in Flink.",
        example="true",
        aliases=("execution.savepoint.ignore-unclaimed-state",),
    )
    savepoint_dir: str | None = opt(
        "execution.checkpointing.savepoint-dir",
        FILLED,
        default=None,
        default_text="(none)",
        doc="The directory in which programs make savepoints that name none, as in Flink.",
        example="/savepoints",
        aliases=("state.savepoints.dir", "savepoints.state.backend.fs.dir"),
    )
    parallelism: int | None = opt(
        "parallelism.default",
        number(1),
        default=None,
        default_text="as many as Spark has cores",
        doc="In Flink the number of parallel instances of an operator, 1 unless it is set. Here the number of tasks of "
        "a batch that run at a time.",
        example="4",
    )
    runtime_mode: str = opt(
        "execution.runtime-mode",
        one_of(STREAMING, BATCH, AUTOMATIC, fold=str.upper),
        default=STREAMING,
        doc="Whether a job is a stream or, with `BATCH`, computes all rows of tables that end in one batch and gives "
        "the final result alone ([batch](../batch.md)). `AUTOMATIC` is `STREAMING` here.",
        example="BATCH",
    )
    python_files: tuple[str, ...] = opt(
        "python.files",
        COMMA_LIST,
        default=(),
        default_text="(none)",
        doc="Files and folders with the modules of functions in Python, as in Flink: `.py` files, folders and `.zip` "
        "files, separated by commas, relative to the SQL file. Its own folder is searched anyway. What is imported "
        "from there goes to the tasks with the functions ([functions](../functions.md)).",
        example="lib/functions.py,lib/more.zip",
    )
    session_time_zone: str | None = opt(
        "table.local-time-zone",
        Codec("String", _check_zone),
        default=None,
        default_text="the machine's",
        doc="The zone in which TIMESTAMP_LTZ becomes text, a date or a TIMESTAMP, as in Flink.",
        example="Europe/Berlin",
    )
    upsert_materialize: str = opt(
        "table.exec.sink.upsert-materialize",
        one_of(AUTO, NONE, FORCE, fold=str.upper),
        default=AUTO,
        doc="Whether a step before a table with a PRIMARY KEY keeps all rows of each key and gives the last one, as in "
        "Flink: `AUTO` where the rows of the query have another key, `FORCE` always, `NONE` never. Without it, which "
        "of several rows of one key the table ends with depends on the order in which they are written.",
        example="NONE",
    )
    nondeterministic_updates: str = opt(
        "table.optimizer.non-deterministic-update.strategy",
        one_of(TRY_RESOLVE, IGNORE, fold=str.upper),
        default=TRY_RESOLVE,
        doc="Random values, such as those of `RAND()` and of functions in Python that are not deterministic, of rows "
        "that are updated or deleted: with `TRY_RESOLVE` a step keeps them where a row has to be found again by them, "
        "so that a retraction has the values of its row; rows without a key are refused. With `IGNORE`, Flink's "
        "default, it has other values, and what would need them in a step with state is refused.",
        example="IGNORE",
    )
    not_null_enforcer: str = opt(
        "table.exec.sink.not-null-enforcer",
        one_of(ERROR, DROP, fold=str.upper),
        default=ERROR,
        doc="What happens to a row with NULL in a column of its table that is NOT NULL, as in Flink: `ERROR` fails the "
        "job, `DROP` leaves the row out. The columns of a PRIMARY KEY are NOT NULL.",
        example="DROP",
    )
    type_length_enforcer: str = opt(
        "table.exec.sink.type-length-enforcer",
        one_of(IGNORE, TRIM_PAD, ERROR, fold=str.upper),
        default=IGNORE,
        doc="What happens to values that are written into CHAR(n), VARCHAR(n), BINARY(n) and VARBINARY(n), as in "
        "Flink: `IGNORE` writes them as they are, `TRIM_PAD` cuts what is too long, and fills what is too short for "
        "CHAR and BINARY, `ERROR` fails the job where the length differs from the column's.",
        example="TRIM_PAD",
    )
    require_on_conflict: bool = opt(
        "table.exec.sink.require-on-conflict",
        BOOLEAN,
        default=False,
        doc="Whether INSERT INTO needs ON CONFLICT DO DEDUPLICATE where several rows of a query may have one PRIMARY "
        "KEY of the table. Flink 2.2 never asks for it, later versions do by default.",
        example="true",
    )
    cdc_events_duplicate: bool = opt(
        "table.exec.source.cdc-events-duplicate",
        BOOLEAN,
        default=False,
        doc="Whether sources of changes may repeat them, as in Flink: the last row of each key is kept, and what comes "
        "twice is left out. Such tables need a PRIMARY KEY.",
        example="true",
    )
    idle_timeout: timedelta | None = opt(
        "table.exec.source.idle-timeout",
        _TIMEOUT,
        default=None,
        default_text="0 ms: forever",
        doc="How long watermarks wait for a partition without new rows, as in Flink.",
        example="30 s",
    )
    overflow: str = opt(
        "penstock.overflow",
        one_of(WRAP, FAIL, fold=str.upper),
        default=WRAP,
        doc="Not in Flink, which has `WRAP` alone: integers that are too large for their type keep their lowest bits, "
        "and decimals become NULL. `FAIL` ends the job with the record's place, in expressions, casts and sums. See "
        "[overflow](../sql.md#overflow).",
        example="fail",
    )
    state_ttl: timedelta | None = opt(
        "table.exec.state.ttl",
        _TIMEOUT,
        default=None,
        default_text="0 ms: forever",
        doc="How long steps keep rows that no batch has written since, as in Flink. A STATE_TTL hint replaces it for a "
        "join or a GROUP BY. Windows do not take it: they forget with the watermark.",
        example="36 h",
    )
    progress_topic: str = opt(
        "penstock.progress-topic",
        FILLED,
        default="__penstock_progress",
        doc="Not in Flink. The compacted topic in which exactly-once jobs keep their progress, in the same "
        "transactions as their records.",
        example="team_a_progress",
    )
    null_event_time: str = opt(
        "penstock.null-event-time",
        one_of(FAIL, LATE, fold=str.upper),
        default=FAIL,
        doc="Not in Flink. What happens to a row whose event time is NULL where windows, and steps in the order of"
        " time, need it: with `FAIL` it ends the job, or is a bad record for its table ([event "
        "time](../event-time.md#rows-without-an-event-time)); with `LATE` it is dropped and counted as late.",
        example="LATE",
    )
    available_now: bool = opt(
        "penstock.available-now",
        BOOLEAN,
        default=False,
        doc="Not in Flink; Spark's trigger of that name. Whether a job reads what is there when it starts, and ends: "
        "each start continues from the checkpoint to the ends of the logs that it finds. It has no effect in batch "
        "mode, in which tables end by themselves.",
        example="true",
    )
    driver_records: int = opt(
        "penstock.driver.max-records",
        number(0),
        default=2000,
        doc="Not in Flink. The most records of a batch that the driver reads, computes and writes by itself, in a job "
        "with one source that is a Kafka table and without Python functions: Spark takes longer to start tasks. With 0 "
        "all batches are computed by tasks.",
        example="0",
    )
    reset_state: tuple[str, ...] = opt(
        "penstock.reset-state",
        LIST,
        default=(),
        default_text="(none)",
        doc="Not in Flink. The names of steps, with `;` between them, that begin empty where their state does not fit "
        "the job, and of those whose state is left out because the job does not have them. State that fits is kept.",
        example="totals: group(orders)",
    )
    adopt_progress: bool = opt(
        "penstock.adopt-progress",
        BOOLEAN,
        default=False,
        doc="Not in Flink. Whether a job continues from its checkpoint where the progress topic was lost or is behind. "
        "The last batch may then be published twice.",
        example="true",
    )
    take_over: bool = opt(
        "penstock.take-over",
        BOOLEAN,
        default=False,
        doc="Not in Flink. Whether a start takes the place of a copy of the job that still runs, and ends it. Without "
        "it, the start is refused ([restarts](../restarts.md#a-second-start)).",
        example="true",
    )
    checkpointing: bool = True
    restart: RestartStrategy | None = None
    kerberos: KerberosSettings | None = None
    start_time: int | None = None

    @property
    def lenient(self) -> bool:
        """Whether rows without an event time are late, instead of failing the job."""
        return self.null_event_time == LATE

    @property
    def strict(self) -> bool:
        """Whether an overflow fails the job."""
        return self.overflow == FAIL

    @property
    def batch(self) -> bool:
        """Whether all rows are computed in one batch."""
        return self.runtime_mode == BATCH

    @property
    def once(self) -> bool:
        """Whether each start reads what is there then, and a later one continues. A batch job has all rows: none
        continues."""
        return self.available_now and not self.batch
