"""Names of side outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.common import TypeInformation, Types
from penstock.common.typeinfo import expect_type

__all__ = ["OutputTag"]


class OutputTag:
    """The name of a side output, and the type of its values: pickled Python values unless it says so.

    A process function yields ``tag, value``; ``get_side_output(tag)`` of its stream is the stream of these values.
    """

    def __init__(self, tag_id: str, type_info: TypeInformation | Sequence[Any] | None = None):
        if not tag_id:
            raise ValueError("OutputTag needs a 'tag_id' that is not empty")
        self.tag_id = tag_id
        if not isinstance(type_info, Sequence):
            expect_type(type_info, "OutputTag")
        if type_info is None:
            self.type_info = Types.PICKLED_BYTE_ARRAY()
        elif isinstance(type_info, TypeInformation):
            self.type_info = type_info
        else:
            self.type_info = Types.ROW(list(type_info))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and other.tag_id == self.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r}, {self.type_info})"
