"""Rows on their way through Spark, for the engine and the runtimes of connectors: data sources, tasks and the errors
that they raise. Nothing here imports PySpark."""

from __future__ import annotations

import base64
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, ParamSpec, TypeVar

import pyarrow as pa

from penstock.errors import BatchError, ExecutionError, PenstockError, RecordError, from_wire, to_wire
from penstock.spi.plugin.envelope import HIDDEN, REPORT
from penstock.spi.plugin.tasks import INSTRUCTIONS, SentStage, Stage, Task
from penstock.types import RowType, arrow_schema, quote_name, spark_ddl

_P = ParamSpec("_P")
_T = TypeVar("_T")
#: The option of data sources with what their readers must know. Spark does not show options of such names.
_SPEC = "secret.spec"
_ONE_MACHINE = re.compile(r"local(\[[^]]*\])?")


def on_one_machine(master: object) -> bool:
    """Whether a Spark master runs all tasks in the driver's process, so that files of this machine reach them."""
    return _ONE_MACHINE.fullmatch(str(master)) is not None


_RAISED = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)(?:: .*)?$", re.MULTILINE)
_CALL = "An error occurred while calling "


def cause_of(text: str) -> str:
    """The most informative line of Spark's report: the first error that Python raised, else the first line that is not
    Py4J's on which Java call failed."""
    raised = _RAISED.findall(text)
    lines = [line.strip(": ") for line in (raised or text.splitlines()) if line.strip()]
    return next((line for line in lines if not line.startswith(_CALL)), "".join(lines[:1]))


def failure_of(job: Exception) -> PenstockError:
    """The error of a Spark job: the one that a task raised (:func:`guard_errors`), else BatchError, since a worker or
    an executor was lost, or the user's own code failed."""
    return from_wire(str(job)) or BatchError(cause_of(str(job)))


class ScanDataSource:
    """What the data sources of connectors have in common, which derive from it and from PySpark's ``DataSource``. Spark
    knows them as ``format``. Their stream reader is a ``reader_class`` of the spec that :func:`read_frame` was given.
    """

    format: ClassVar[str]
    reader_class: ClassVar[type[Any]]
    options: MutableMapping[str, str]

    @classmethod
    def name(cls) -> str:
        """The name under which Spark knows it."""
        return cls.format

    def schema(self) -> str:
        """Not asked for: :func:`read_frame` gives the schema."""
        raise ExecutionError(f"a scan of '{self.format}' has no schema")

    def streamReader(self, schema: Any) -> Any:
        """The reader that plans and reads."""
        return self.reader_class(*unpickle_text(self.options[_SPEC]))


def read_frame(spark: Any, source: type[ScanDataSource], schema: Any, spec: Any, stage: SentStage | None = None) -> Any:
    """The streaming DataFrame of a data source, with this ``schema``, or the result of ``stage`` on it. The reader gets
    the ``spec``, and the text of a stage."""
    spark.dataSource.register(source)
    given = (spec,) if stage is None else (spec, stage.text)
    columns = schema if stage is None else stage.columns
    return spark.readStream.format(source.format).schema(columns).option(_SPEC, pickle_text(given)).load()


def frame_schema(schema: RowType, *more: str) -> str:
    """The columns of a source's frame, as DDL: its table's ``schema``, :data:`HIDDEN`, ``more``, and :data:`REPORT`."""
    return ", ".join(filter(None, [spark_ddl(schema), spark_ddl(HIDDEN), *more, f"{quote_name(REPORT)} BINARY"]))


def place_rows(columns: Sequence[pa.Array], schema: RowType, partition: int, offsets: pa.Int64Array) -> pa.RecordBatch:
    """Rows of a ``partition``: the ``columns`` of a table's ``schema``, then those of :data:`HIDDEN`."""
    fields = [*arrow_schema(schema), *arrow_schema(HIDDEN)]
    hidden = [pa.repeat(pa.scalar(partition, pa.int32()), len(offsets)), offsets]
    return pa.RecordBatch.from_arrays([*columns, *hidden], schema=pa.schema(fields))


def add_empty_reports(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches with the column :data:`REPORT`, of a source that has nothing to report."""
    for each in batches:
        yield each.append_column(pa.field(REPORT, pa.binary()), pa.nulls(each.num_rows, pa.binary()))


def origin_of(batch: pa.RecordBatch, row: int) -> tuple[int, int]:
    """The number of the partition, and the offset, that a row of ``batch`` came from: -1 for both unless the batch has
    the columns :data:`HIDDEN`."""
    if not set(HIDDEN.names) <= set(batch.schema.names):
        return -1, -1
    partition, offset = (batch.column(name)[row].as_py() for name in HIDDEN.names)
    return partition, offset


def locate_error(error: RecordError, batch: pa.RecordBatch, row: int) -> RecordError:
    """``error``, which is about a ``row`` of ``batch``, with the partition and the offset that the row came from."""
    return type(error)(error.reason, "", *origin_of(batch, row), error.format, error.field, error.hint, error.place)


def guard_errors(run: Callable[_P, Iterator[_T]]) -> Callable[_P, Iterator[_T]]:
    """``run``, a generator function for tasks, with penstock's errors as text that reaches the driver."""

    def guard(*args: _P.args, **kwargs: _P.kwargs) -> Iterator[_T]:
        try:
            yield from run(*args, **kwargs)
        except PenstockError as error:
            raise RuntimeError(to_wire(error)) from None

    return guard


def run_stage(
    text: str, task: Task, context: Any, batches: Iterator[pa.RecordBatch]
) -> tuple[Iterator[pa.RecordBatch], pa.Schema]:
    """The result of a :class:`SentStage` on the rows that a ``task`` reads, and its schema. ``context`` is PySpark's
    TaskContext, which has the instructions; None outside of tasks."""
    stage: Stage = unpickle_text(text)
    if context is not None:
        instructions = context.getLocalProperty(INSTRUCTIONS) or ""
        task = replace(task, instructions=instructions, attempt=context.attemptNumber())
    return guard_errors(stage.run)(task, batches), stage.schema


def map_batches(frame: _T, run: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: Any) -> _T:
    """The batches of a DataFrame after ``run``, with :func:`guard_errors`. PySpark reads a dot in the name of a column
    as a field, so such columns have other names in ``run``."""
    given: Any = frame
    names = given.columns

    def rename(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from run(each.rename_columns(names) for each in batches)

    work = run
    if any("." in name or "`" in name for name in names):
        given, work = given.toDF(*(f"c{at}" for at in range(len(names)))), rename
    found: _T = given.mapInArrow(guard_errors(work), schema)
    return found


def pickle_text(value: Any) -> str:
    """``value`` as text for options and properties of Spark."""
    return base64.b64encode(pickle.dumps(value)).decode("ascii")


def unpickle_text(text: str) -> Any:
    """The value of a text of :func:`pickle_text`, which must come from the driver of the same job."""
    return pickle.loads(base64.b64decode(text))  # noqa: S301
