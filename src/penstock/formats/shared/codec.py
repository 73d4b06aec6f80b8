"""The parts that formats, and their decoders and encoders, have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Generic, TypeVar

from penstock.columns.nested import Shape
from penstock.options import OptionSet
from penstock.spi import Decoder, Encoder
from penstock.types import RowType

OptionsT = TypeVar("OptionsT", bound=OptionSet)


@dataclass(frozen=True)
class Picklable:
    """A dataclass that is pickled without its cached properties."""

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True)
class TableCodec(Picklable, Generic[OptionsT]):
    """Decodes messages into rows of ``schema``, or encodes rows of it, by a format's options."""

    schema: RowType
    options: OptionsT

    def __post_init__(self) -> None:
        self._check()

    def _check(self) -> None:
        """Raise SchemaError, or OptionsError, if the format cannot hold the schema with these options."""

    @property
    def ignores_errors(self) -> bool:
        """Whether refused messages are skipped: only if the format has the option, and the user set it."""
        return False

    @cached_property
    def _shape(self) -> Shape:
        return Shape.from_row_type(self.schema)


@dataclass(frozen=True)
class RowFormat:
    """A format as the registry knows it: its name and options, and its decoder and encoder of rows."""

    identifier: str
    options: type[OptionSet]
    reads: Callable[[RowType, Any], Decoder]
    writes: Callable[[RowType, Any], Encoder]
    by_name: bool
    doc: str | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", self.doc)

    def decoder(self, schema: RowType, options: OptionSet) -> Decoder:
        """A decoder for rows of ``schema``. Raises SchemaError for columns that the format cannot hold."""
        return self.reads(schema, self.options.expect(options))

    def encoder(self, schema: RowType, options: OptionSet) -> Encoder:
        """An encoder for rows of ``schema``. Raises SchemaError for columns that the format cannot hold."""
        return self.writes(schema, self.options.expect(options))
