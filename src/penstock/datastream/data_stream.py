"""Streams of values, from sources through functions to sinks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from penstock.common import SqlExpression, TypeInformation
from penstock.common.typeinfo import RowTypeInfo, of
from penstock.datastream.functions import FilterFunction, FlatMapFunction, MapFunction, RowCalls, function_of
from penstock.datastream.tables import built_table
from penstock.errors import Problem, SchemaError, UnsupportedError
from penstock.plan.nodes import Filter, MapRows, Node, Sink, project, row_of
from penstock.spi import TableDefinition, connectors, sink_spec

if TYPE_CHECKING:
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment


class SinkDefinition(Protocol):
    """What ``sink_to`` takes: the definition of a table that a stream of this type is written to."""

    def table(self, name: str, stream: TypeInformation, job_name: str) -> TableDefinition:
        """The table named ``name``. Raises DefinitionError when the stream's type does not fit."""
        ...


class PrintTo:
    """The sink of ``DataStream.print``."""

    def __init__(self, sink_identifier: str | None):
        self._identifier = sink_identifier

    def table(self, name: str, stream: TypeInformation, job_name: str) -> TableDefinition:
        """A ``print`` table of the stream's columns."""
        options = {"connector": "print"} | ({"print-identifier": self._identifier} if self._identifier else {})
        return built_table("sink", name, stream.row, options)


class DataStream:
    """A stream of values of one type. Environments make streams, which never change."""

    def __init__(self, environment: StreamExecutionEnvironment, node: Node, type_info: TypeInformation):
        self._environment = environment
        self._node = node
        self._type = type_info

    def get_type(self) -> TypeInformation:
        """The type of the values."""
        return self._type

    def map(
        self, func: Callable[[Any], Any] | MapFunction | SqlExpression, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Each value changed by ``func``: a Python function, or ``call_sql`` with a select list.

        A Python function needs ``output_type``; SQL has types of its own. Raises SqlError and UnsupportedError.
        """
        if isinstance(func, SqlExpression):
            return self._select(func, output_type)
        return self._call(func, "map", output_type)

    def flat_map(
        self, func: Callable[[Any], Any] | FlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Each value turned into any number of values by ``func``, which returns or yields them."""
        return self._call(func, "flat_map", output_type)

    def filter(self, func: Callable[[Any], bool] | FilterFunction | SqlExpression) -> DataStream:
        """The values for which ``func`` is true: a Python function, or ``call_sql`` with a condition."""
        if isinstance(func, SqlExpression):
            from penstock.sql import condition

            wanted = condition(func.text, self._node.schema)
            return DataStream(self._environment, Filter(self._node.schema, self._node, wanted), self._type)
        return self._call(func, "filter", self._type)

    def sink_to(self, sink: SinkDefinition) -> DataStreamSink:
        """Write the stream. The sink takes part in the next ``execute``."""
        return self._environment._add(DataStreamSink(self._node, self._type, sink))

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print every value as a line, with ``sink_identifier`` before it."""
        return self.sink_to(PrintTo(sink_identifier))

    def name(self, name: str) -> DataStream:
        """Has no effect: names of steps are not shown anywhere."""
        return self

    def uid(self, uid: str) -> DataStream:
        """Name the step before, so that a checkpoint finds it again after other steps of the job changed. The offsets
        of a source are found by its uid, by default its name."""
        return DataStream(self._environment, replace(self._node, uid=uid), self._type)

    def _select(self, func: SqlExpression, output_type: TypeInformation | None) -> DataStream:
        from penstock.sql import projection

        items = projection(func.text, self._node.schema)
        schema = row_of(items)
        if output_type is not None and [f.type for f in output_type.row.fields] != [f.type for f in schema.fields]:
            reason = f"the SQL gives {schema}, not {output_type}"
            raise SchemaError((Problem(reason, hint="leave output_type out, or CAST in the SQL"),))
        single = self._type.single and len(schema.fields) == 1
        made = of(schema.fields[0].type) if single else RowTypeInfo(schema)
        return DataStream(self._environment, project(self._node, items), output_type or made)

    def _call(self, func: Any, method: str, output_type: TypeInformation | None) -> DataStream:
        if output_type is None:
            hint = f"{method}(func, output_type=Types.STRING()), or {method}(call_sql('...'))"
            raise UnsupportedError(
                (Problem(f"{method} needs the type of the values that the function returns", hint=hint),)
            )
        calls = RowCalls(function_of(func, method), method, self._type, output_type)
        schema = self._node.schema if method == "filter" else output_type.row
        return DataStream(self._environment, MapRows(schema, self._node, calls), output_type)


class DataStreamSink:
    """A stream that is written."""

    def __init__(self, node: Node, type_info: TypeInformation, sink: SinkDefinition):
        self._node = node
        self._type = type_info
        self._sink = sink
        self._name: str | None = None

    def name(self, name: str) -> DataStreamSink:
        """Name the sink: in plans, in messages, and in a derived transactional id."""
        self._name = name
        return self

    def uid(self, uid: str) -> DataStreamSink:
        """Has no effect: a job finds its progress by its name and the checkpoint directory."""
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """Has no effect: the environment's parallelism applies."""
        return self

    def lower(self, position: int, job_name: str) -> Sink:
        """The plan's sink; the ``position``-th of its job. Raises DefinitionError."""
        table = self._sink.table(self._name or f"sink-{position}", self._type, job_name)
        connector = table.options["connector"]
        spec = sink_spec(connectors.get(connector), table)
        return Sink(table.written, self._node, table.name, connector, spec)
