"""Every error that penstock raises, in one tree.

    PenstockError
     ├─ DefinitionError             what the user wrote is not valid: SQL, YAML, options, types
     │   ├─ SqlError                a statement: line and column
     │   ├─ OptionsError            options: every problem at once
     │   ├─ PipelineError           a YAML pipeline: line and column
     │   ├─ SchemaError             columns and types that do not fit together
     │   ├─ ArgumentError           an argument of a call in Python is of another type; also a TypeError
     │   └─ UnsupportedError        valid in Flink, not supported here: names the alternative
     ├─ PluginError                 a connector or format that is missing, ambiguous or broken
     ├─ ServiceError                a server for development could not be started
     └─ ExecutionError              a running job
         ├─ RecordError             one record cannot be read or written: names its position
         │   └─ FunctionError       a user-defined function raised an error for a record
         ├─ BatchError              an attempt at a batch failed, which may succeed in another one
         │   └─ AbortableError      the transaction must be aborted, the batch may be redone; also a KafkaError
         │       ├─ StaleEpochError its epoch is refused: it expired, or another instance took over its id
         │       └─ SequenceError   the batches of a partition have a gap: perhaps two tasks write to it
         ├─ KafkaError              Kafka refused or could not be reached
         │   ├─ RetriableError      a retry may succeed
         │   ├─ AuthorizationError  a right is missing; never retried
         │   └─ AuthenticationError wrong credentials or an untrusted certificate; never retried
         ├─ DatabaseError           a database refused
         │   └─ DatabaseUnavailableError  it could not be reached, or a retry may succeed
         ├─ SchemaRegistryError     a schema registry refused
         │   └─ SchemaRegistryUnavailableError  it could not be reached, or did not answer in time
         ├─ FencedError             another instance took over the transactional id; terminal
         │   └─ UnclaimedIdError    another program did, or a late request of the former run
         ├─ AlreadyRunningError     the job runs already, elsewhere; nothing was done to it
         ├─ QueryStoppedError       the job's query was stopped from outside; terminal
         ├─ TransactionExpiredError the broker aborted the transaction on time-out; the batch is redone
         ├─ UnknownOutcomeError     the outcome of a transaction is not known; the next start finds out
         ├─ PossibleDataLossError   positions that cannot be reconciled; terminal
         └─ CheckpointError         the checkpoint is unreadable, foreign or older than what was published; terminal
             ├─ AnotherCopyError    another copy of the job writes it too; the newer one continues
             └─ CheckpointUnavailableError  its storage cannot be read or written at present

A class's constructor arguments are its ``args``, so that errors survive pickling between the processes of a
Spark job; messages are derived from them. A message ends with what to check next.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self


class PenstockError(Exception):
    """The root of all errors that penstock raises."""

    #: Whether trying the same thing again may succeed. A property of the type, never of a message.
    retriable: bool = False
    #: Whether a restart strategy may start the job again. If not, a restart would fail in the same way, or be harmful:
    #: two copies that are restarted whenever they are fenced would fence each other forever.
    restartable: bool = False


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a definition.

    ``where`` names the place (``line 3, column 5``; ``table 'flights'``), ``key`` the option or element,
    ``reason`` what was expected, ``hint`` what to do next.
    """

    reason: str
    key: str = ""
    where: str = ""
    hint: str = ""

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.where, f"'{self.key}'" if self.key else "") if part)
        text = f"{place}: {self.reason}" if place else self.reason
        return f"{text} ({self.hint})" if self.hint else text


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint with the known name that is closest to ``name``; empty if none is close."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean '{found[0]}'?" if found else ""


def undefined_variable(name: str, known: Iterable[str]) -> tuple[str, str]:
    """What is wrong with a variable that is not defined, and what to do."""
    hint = nearest(name, known) or f"define it with --var {name or 'NAME'}=VALUE, or in a file given by --var-file"
    return f"variable '{name}' is not defined", hint


class DefinitionError(PenstockError):
    """What the user wrote is not valid. Carries every problem that was found, in order."""

    def __init__(self, problems: tuple[Problem, ...] | str):
        self.problems: tuple[Problem, ...] = (Problem(problems),) if isinstance(problems, str) else tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class SqlError(DefinitionError):
    """A SQL statement that cannot be parsed or resolved."""


class OptionsError(DefinitionError):
    """Options that are unknown, missing, malformed or contradict one another."""


class PipelineError(DefinitionError):
    """A YAML pipeline that cannot be parsed or resolved."""


class SchemaError(DefinitionError):
    """Columns or types that do not fit together."""


class ArgumentError(DefinitionError, TypeError):
    """An argument of a call in a Python program is not of the type that the call takes. Also a TypeError, as Python
    programs expect."""


class UnsupportedError(DefinitionError):
    """A Flink feature that penstock does not have (yet); the hint names the alternative."""


class PluginError(PenstockError):
    """A connector, format or catalog that is missing, ambiguous, of the wrong kind or fails to load."""


class ServiceError(PenstockError):
    """A server for development and tests that could not be installed, started or stopped."""


class ExecutionError(PenstockError):
    """A running job failed."""

    restartable = True


class RecordError(ExecutionError):
    """One record cannot be decoded, encoded or written. Names its position, so that it can be inspected.

    ``offset`` and ``partition`` are -1 if the record has no position. A record that is not of a topic is in a ``place``
    such as "file 'a.json', line 3". Never restarted: the job would fail at the same record again.
    """

    restartable = False

    def __init__(
        self,
        reason: str,
        topic: str = "",
        partition: int = -1,
        offset: int = -1,
        format: str = "",
        field: str = "",
        hint: str = "",
        place: str = "",
    ):
        super().__init__(reason, topic, partition, offset, format, field, hint, place)
        self.reason, self.topic, self.partition, self.offset = reason, topic, partition, offset
        self.format, self.field, self.hint, self.place = format, field, hint, place

    def __str__(self) -> str:
        at = f"topic '{self.topic}', partition {self.partition}, offset {self.offset}" if self.topic else self.place
        names = {"format": self.format, "field": self.field}
        where = ", ".join(f"{key} '{name}'" for key, name in names.items() if name)
        text = ": ".join(filter(None, (at, where, self.reason)))
        return f"{text} ({self.hint})" if self.hint else text

    def found_at(self, partition: tuple[str, int] | None, place: str = "") -> Self:
        """The same error with its topic and partition, or with its ``place`` in a source without topics."""
        topic, number = partition or (self.topic, self.partition)
        return type(self)(self.reason, topic, number, self.offset, self.format, self.field, self.hint, place)


class FunctionError(RecordError):
    """A user-defined function raised an error for a record. A restart may help if the cause was outside."""

    restartable = True


class BatchError(ExecutionError):
    """An attempt at a batch failed, and another one may succeed: a worker or an executor was lost, or what tasks wrote
    is not all there. Nothing of the batch was committed."""

    retriable = True


class KafkaError(ExecutionError):
    """Kafka answered with an error, or could not be reached in time."""


class RetriableError(KafkaError):
    """A temporary error: a moved leader, a lost connection, a time-out."""

    retriable = True


class AbortableError(BatchError, KafkaError):
    """The transaction cannot be committed any more; abort it and redo the batch."""


class StaleEpochError(AbortableError):
    """The brokers refuse the epoch of the records. Either the transaction expired or its id has another owner; ending
    the transaction shows which."""


class SequenceError(AbortableError):
    """A batch does not follow the one before it: a batch was lost, or another task writes to the same partition."""


class AuthorizationError(KafkaError):
    """The principal lacks a right. Never retried."""

    restartable = False


class AuthenticationError(KafkaError):
    """Wrong credentials, or a certificate that is not trusted. Never retried."""

    restartable = False


class DatabaseError(ExecutionError):
    """A database answered with an error: a statement is wrong, not allowed, or violates a constraint."""

    restartable = False


class DatabaseUnavailableError(DatabaseError):
    """A temporary error of a database: a lost connection, a restart, a deadlock, a lock time-out."""

    retriable = True
    restartable = True


class SchemaRegistryError(ExecutionError):
    """A schema registry answered with an error: a request is wrong, not allowed, or a schema is incompatible."""

    restartable = False


class SchemaRegistryUnavailableError(SchemaRegistryError):
    """A temporary error of a schema registry: it could not be reached, or did not answer in time."""

    retriable = True
    restartable = True


class FencedError(ExecutionError):
    """Another instance has taken over the job. Terminal: restarting would fence the other one. ``winner`` is its
    process, as ``process 7 on host``; empty if that is not known."""

    restartable = False

    def __init__(self, reason: str, winner: str = ""):
        super().__init__(reason, winner)
        self.winner = winner

    def __str__(self) -> str:
        return str(self.args[0])


class UnclaimedIdError(FencedError):
    """The transactional id was taken over without a claim, which each run of a job writes: by another program, or by a
    late request of the job's former run. A restart takes the id over again, and reads progress first."""

    restartable = True


class AlreadyRunningError(ExecutionError):
    """Another process runs the job, as its checkpoint says. Nothing was done to that. A later start succeeds when the
    other one has ended, so a supervisor may try again; the job's own restart strategy does not."""

    restartable = False


class QueryStoppedError(ExecutionError):
    """The job's query was not stopped by penstock, but by a call of ``stop()`` on it, or by another session of the
    process that started the same job. Terminal: two sessions with restart strategies would stop each other forever."""

    restartable = False


class TransactionExpiredError(ExecutionError):
    """The broker aborted the transaction because it exceeded its time-out. Nothing of it was published."""

    retriable = True


class UnknownOutcomeError(ExecutionError):
    """Whether a transaction was committed is not known, and could not be found out in time. Nothing was written since
    then. The job's next start finds out by reading progress."""


class PossibleDataLossError(ExecutionError):
    """Positions that cannot be reconciled: to continue could lose or repeat records. Names both positions."""

    restartable = False


class CheckpointError(ExecutionError):
    """The checkpoint is unreadable, belongs to another job, or is older than what was published."""

    restartable = False


class AnotherCopyError(CheckpointError):
    """Another copy of the job has written what this one was about to write to the checkpoint. Nothing is lost: the copy
    that has the checkpoint's lease continues from what is there, the other one ends."""


class CheckpointUnavailableError(CheckpointError):
    """The storage of the checkpoint cannot be read or written, for example because a disk is full or an object store is
    busy. A restart may succeed; the content of the checkpoint is not in doubt."""

    restartable = True


# --- what a user sees --------------------------------------------------------------------------------------------

#: The environment variable with which everything behind an error is shown on the terminal.
VERBOSE = "PENSTOCK_VERBOSE"


def verbose() -> bool:
    """Whether tracebacks and Spark's reports go to the terminal, and not to a file."""
    return os.environ.get(VERBOSE, "").lower() not in {"", "0", "false", "no", "off"}


# --- crossing process boundaries -----------------------------------------------------------------------------
# A task runs in a Python worker, and Spark passes only the text of its error to the driver. So the error is sent as one
# marked line of JSON inside that text.

_MARK = "penstock-error:"


def to_wire(error: PenstockError) -> str:
    """One line of text from which :func:`from_wire` rebuilds ``error``."""
    args: list[Any] = list(error.args)
    if isinstance(error, DefinitionError):
        args = [{"problems": [[p.reason, p.key, p.where, p.hint] for p in error.problems]}]
    return _MARK + json.dumps({"type": type(error).__name__, "args": args}, separators=(",", ":"))


def from_wire(text: str) -> PenstockError | None:
    """The first error that :func:`to_wire` put into ``text``; None if there is none."""
    start = text.find(_MARK)
    if start < 0:
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(text, start + len(_MARK))
    except ValueError:
        return None
    cls = globals().get(found.get("type", ""))
    if not (isinstance(cls, type) and issubclass(cls, PenstockError)):
        return None
    args = [
        tuple(Problem(*fields) for fields in arg["problems"]) if isinstance(arg, dict) else arg for arg in found["args"]
    ]
    return cls(*args)
