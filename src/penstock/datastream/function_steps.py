"""One user-defined function of a chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.common import TypeInformation
from penstock.datastream.output_tag import OutputTag

_KINDS = ("map", "flat_map", "filter", "process", "present", "timestamps", "watermarks", "repeat", "check")


@dataclass(frozen=True)
class Step:
    """A user-defined function. ``kind`` says what its results are:

    ``map`` one value, ``flat_map`` any number, ``filter`` whether the value stays, ``process`` any number, with values
    of the side outputs ``tags`` among them, ``present`` one value, or None for none, ``timestamps`` the value's
    timestamp, ``check`` nothing. With ``repeat`` the function is the number of times that each value comes, with
    ``watermarks`` it makes a generator of watermarks.

    ``method`` is that of function objects; ``made`` the type of the results.
    """

    kind: str
    function: Any
    made: TypeInformation
    method: str = ""
    name: str = ""
    tags: tuple[OutputTag, ...] = ()

    def __hash__(self) -> int:
        # A user's object need not have a hash: dataclasses have none.
        return hash((self.kind, self.method, self.name, self.tags))

    def __post_init__(self) -> None:
        assert self.kind in _KINDS, self.kind  # noqa: S101
