"""The ``maxwell-json`` format as the registry knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.formats.changes.encode import ChangeJsonEncoder, Frame
from penstock.formats.changes.metadata import checked
from penstock.formats.changes.options import ChangeOptions
from penstock.formats.maxwell_json.decode import METADATA, MaxwellJsonDecoder
from penstock.options import OptionSet
from penstock.types import DataType, RowType

_INSERT = Frame(b'{"data":', b',"type":"insert"}')
_DELETE = Frame(b'{"data":', b',"type":"delete"}')


class MaxwellJsonFormat:
    """Changes as Maxwell's daemon writes them, by Flink's rules."""

    identifier = "maxwell-json"
    options: type[OptionSet] = ChangeOptions
    by_name = True
    metadata: Mapping[str, DataType] = {key: each.type for key, each in METADATA.items()}

    def decoder(self, schema: RowType, options: OptionSet, metadata: Sequence[str] = ()) -> MaxwellJsonDecoder:
        """A decoder for rows of ``schema``. Raises SchemaError for maps with keys other than text, and for metadata
        that is not known."""
        return MaxwellJsonDecoder(schema, ChangeOptions.expect(options), checked(metadata, METADATA, self.identifier))

    def encoder(self, schema: RowType, options: OptionSet) -> ChangeJsonEncoder:
        """An encoder for changes of rows of ``schema``. Raises SchemaError for maps with keys other than text."""
        given = ChangeOptions.expect(options)
        return ChangeJsonEncoder(self.identifier, schema, given, _INSERT, _DELETE)
