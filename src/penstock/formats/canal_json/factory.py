"""The ``canal-json`` format as the registry knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.formats.canal_json.decode import METADATA, CanalJsonDecoder
from penstock.formats.canal_json.options import CanalJsonOptions
from penstock.formats.changes.encode import ChangeJsonEncoder, Frame
from penstock.formats.changes.metadata import checked
from penstock.options import OptionSet
from penstock.types import DataType, RowType

__all__ = ["CanalJsonFormat"]

_INSERT = Frame(b'{"data":[', b'],"type":"INSERT"}')
_DELETE = Frame(b'{"data":[', b'],"type":"DELETE"}')


class CanalJsonFormat:
    """Changes as Canal writes them, by Flink's rules."""

    identifier = "canal-json"
    options: type[OptionSet] = CanalJsonOptions
    by_name = True
    metadata: Mapping[str, DataType] = {key: each.type for key, each in METADATA.items()}

    def decoder(self, schema: RowType, options: OptionSet, metadata: Sequence[str] = ()) -> CanalJsonDecoder:
        """A decoder for rows of ``schema``. Raises SchemaError for maps with keys other than text, and for metadata
        that is not known."""
        return CanalJsonDecoder(schema, CanalJsonOptions.expect(options), checked(metadata, METADATA, self.identifier))

    def encoder(self, schema: RowType, options: OptionSet) -> ChangeJsonEncoder:
        """An encoder for changes of rows of ``schema``. Raises SchemaError for maps with keys other than text."""
        given = CanalJsonOptions.expect(options)
        return ChangeJsonEncoder(self.identifier, schema, given, _INSERT, _DELETE)
