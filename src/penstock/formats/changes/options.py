"""The options of all change data formats."""

from __future__ import annotations

from dataclasses import dataclass, fields

from penstock.formats.json.options import JsonOptions, JsonTextOptions
from penstock.options import BOOLEAN, opt


@dataclass(frozen=True, kw_only=True)
class ChangeOptions(JsonTextOptions):
    """Options of a format of change data, with Flink's names and defaults."""

    ignore_parse_errors: bool = opt(
        "ignore-parse-errors",
        BOOLEAN,
        default=False,
        doc="Read a value that does not fit its column as NULL, and skip messages that are not changes, instead "
        "of failing.",
    )

    #: The table that messages are written with: the parts of its id, or nothing, and its primary key.
    table: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()
    #: Whether its messages contain their schema, in formats that have one.
    with_schema: bool = False

    @property
    def database(self) -> str | None:
        """The database of :attr:`table`."""
        return self.table[-2] if len(self.table) > 1 else None

    @property
    def json(self) -> JsonOptions:
        """The JSON options of a message. Flink reads change data with its tree parser."""
        shared = {each.name: getattr(self, each.name) for each in fields(JsonTextOptions)}
        return JsonOptions(**shared, ignore_parse_errors=self.ignore_parse_errors, json_parser=False)
