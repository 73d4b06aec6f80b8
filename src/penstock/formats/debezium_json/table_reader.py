"""Tables of ``debezium-json`` messages whose columns are inferred."""

from __future__ import annotations

from typing import Any, ClassVar

from penstock.formats.changes.decode import ChangeDecoder
from penstock.formats.changes.table_reader import ChangeTableReader
from penstock.formats.debezium_json.decode import DebeziumJsonDecoder
from penstock.formats.debezium_json.options import DebeziumJsonOptions
from penstock.formats.json.inference_options import InferenceOptions
from penstock.formats.json.spans import TextSpans


class DebeziumTableReader(ChangeTableReader[DebeziumJsonOptions, InferenceOptions]):
    """Tables are named by ``source``: its ``db``, its ``schema`` where the database has any, and its ``table``."""

    reads: ClassVar[type[ChangeDecoder[Any]]] = DebeziumJsonDecoder

    @property
    def _outer(self) -> tuple[str, ...]:
        return ("payload",) if self.options.schema_include else ()

    @property
    def table_paths(self) -> tuple[tuple[str, ...], ...]:
        """The paths of the fields that name a message's table."""
        return tuple((*self._outer, "source", name) for name in ("db", "schema", "table"))

    def find_rows(self, envelopes: TextSpans) -> TextSpans:
        """The rows ``before`` and ``after`` the changes of messages."""
        return envelopes.members(*self._outer, "before").join(envelopes.members(*self._outer, "after"))
