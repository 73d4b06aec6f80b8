"""Flink's own formats, called in a Java process: what they make of messages and of rows.

Needs the jars of Flink 2.2 in a virtual environment of their own, and Java 17:

    python -m venv flink && flink/bin/pip install --no-deps apache-flink-libraries==2.2.0 py4j==0.10.9.7

The rows that Flink reads are written down as its JSON format writes them, decimals plain, so that text can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

__all__ = ["Flink", "gateway", "reason", "started"]

_FACTORIES = {
    "json": "org.apache.flink.formats.json.JsonFormatFactory",
    "csv": "org.apache.flink.formats.csv.CsvFormatFactory",
    "debezium-json": "org.apache.flink.formats.json.debezium.DebeziumJsonFormatFactory",
    "canal-json": "org.apache.flink.formats.json.canal.CanalJsonFormatFactory",
    "maxwell-json": "org.apache.flink.formats.json.maxwell.MaxwellJsonFormatFactory",
    "ogg-json": "org.apache.flink.formats.json.ogg.OggJsonFormatFactory",
}
_LONGEST_REASON = 160

Answer = dict[str, Any]


@contextmanager
def gateway(environment: Path) -> Iterator[JavaGateway]:
    """A Java process with the jars of the virtual environment, which ends with the block."""
    (jars,) = environment.glob("lib/python*/site-packages/pyflink/lib")
    (py4j,) = environment.glob("lib/python*/site-packages/py4j/../../../../share/py4j/py4j*.jar")
    # Java would leave out the texts of errors that come often, and compile for longer than it runs.
    options = ["-XX:-OmitStackTraceInFastThrow", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    port = launch_gateway(classpath=f"{jars}/*", jarpath=str(py4j), die_on_exit=True, javaopts=options)
    started = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    try:
        yield started
    finally:
        started.shutdown()


@contextmanager
def started(environment: Path) -> Iterator[Flink]:
    """Flink's formats, in a Java process that ends with the block."""
    with gateway(environment) as found:
        yield Flink(found)


class Flink:
    """Decoders and encoders of Flink's formats."""

    def __init__(self, gateway: JavaGateway):
        self._java = gateway.jvm
        self._gateway = gateway

    def decoded(
        self, name: str, options: Mapping[str, str], columns: str, metadata: Sequence[str], messages: Sequence[bytes]
    ) -> list[Answer]:
        """Rows as (kind, JSON text) for each message, and the error if there is one."""
        java = self._java
        physical = self._type(columns)
        decoding = self._format(name, options, decoding=True)
        produced = columns
        if metadata:
            known = decoding.listReadableMetadata()
            decoding.applyReadableMetadata(list(metadata))
            produced += "".join(f", `{key}` {known[key].getLogicalType().asSerializableString()}" for key in metadata)
        context = java.org.apache.flink.table.runtime.connector.source.ScanRuntimeProviderContext.INSTANCE
        schema = decoding.createRuntimeDecoder(context, physical)
        schema.open(None)
        show = self._json_writer(produced)
        answers = []
        for message in messages:
            found = java.java.util.ArrayList()
            collector = java.org.apache.flink.api.common.functions.util.ListCollector(found)
            answer: Answer = {}
            try:
                schema.deserialize(message, collector)
            except Py4JJavaError as error:
                answer["error"] = reason(error.java_exception)
            answer["rows"] = [
                [row.getRowKind().shortString(), _text(show.serialize(row))] for row in found if row is not None
            ]
            answers.append(answer)
        return answers

    def encoded(
        self, name: str, options: Mapping[str, str], columns: str, rows: Sequence[tuple[str, str]]
    ) -> list[Answer]:
        """The message for each row, given as (kind, JSON text)."""
        java = self._java
        physical = self._type(columns)
        read = self._format("json", {}, decoding=True).createRuntimeDecoder(
            java.org.apache.flink.table.runtime.connector.source.ScanRuntimeProviderContext.INSTANCE, physical
        )
        read.open(None)
        context = java.org.apache.flink.table.runtime.connector.sink.SinkRuntimeProviderContext(False)
        schema = self._format(name, options, decoding=False).createRuntimeEncoder(context, physical)
        schema.open(None)
        kinds = {kind.shortString(): kind for kind in java.org.apache.flink.types.RowKind.values()}
        answers: list[Answer] = []
        for kind, text in rows:
            found = java.java.util.ArrayList()
            read.deserialize(text.encode(), java.org.apache.flink.api.common.functions.util.ListCollector(found))
            row = found[0]
            row.setRowKind(kinds[kind])
            try:
                answers.append({"message": _text(schema.serialize(row))})
            except Py4JJavaError as error:
                answers.append({"error": reason(error.java_exception)})
        return answers

    def metadata(self, name: str) -> dict[str, str]:
        """The metadata columns of a format and their types."""
        known = self._format(name, {}, decoding=True).listReadableMetadata()
        return {key: known[key].getLogicalType().asSummaryString() for key in known}

    def options(self, name: str) -> dict[str, str]:
        """The optional options of a format and their defaults."""
        found = self._instance(name).optionalOptions()
        return {each.key(): str(each.defaultValue()) for each in found}

    def _instance(self, name: str) -> Any:
        return self._java.java.lang.Class.forName(_FACTORIES[name]).newInstance()

    def _format(self, name: str, options: Mapping[str, str], *, decoding: bool) -> Any:
        factory = self._instance(name)
        bound = self._java.org.apache.flink.configuration.Configuration.fromMap(dict(options))
        return factory.createDecodingFormat(None, bound) if decoding else factory.createEncodingFormat(None, bound)

    def _type(self, columns: str) -> Any:
        java = self._java
        loader = java.java.lang.Thread.currentThread().getContextClassLoader()
        parse = java.org.apache.flink.table.types.logical.utils.LogicalTypeParser.parse
        return java.org.apache.flink.table.types.utils.TypeConversions.fromLogicalToDataType(
            parse(f"ROW<{columns}> NOT NULL", loader)
        )

    def _json_writer(self, columns: str) -> Any:
        java = self._java
        formats = java.org.apache.flink.formats
        writer = formats.json.JsonRowDataSerializationSchema(
            self._type(columns).getLogicalType(),
            formats.common.TimestampFormat.SQL,
            formats.json.JsonFormatOptions.MapNullKeyMode.LITERAL,
            "null",
            True,
            False,
        )
        writer.open(None)
        return writer


def _text(message: bytes) -> str:
    return bytes(message).decode()


def reason(error: Any) -> str:
    """The innermost cause, which says what was wrong."""
    while error.getCause() is not None:
        error = error.getCause()
    return str(error.toString())[:_LONGEST_REASON]
