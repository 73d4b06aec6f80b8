"""The steps of the programs that the compiled loops run."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.loops.program import ProgramStep

#: The columns of a step. ``NODE`` is the node that it fills or writes, or SKIP. For a union of null and one type,
#: ``NULL_AT`` is the branch of null and ``VALUE_AT`` the other one; otherwise both are SKIP.
STEP, NODE, NEXT, WIRE, CONVERT, A, B, NULL_AT, VALUE_AT = range(9)
SKIP = -1

#: VALUE is a single value. STRUCT starts a row and LIST an array or map, which may be null; NEXT of a LIST is its
#: BLOCK. BLOCK ends an item and continues with the next item or after the list. END ends the program.
VALUE, STRUCT, LIST, BLOCK, END = range(5)
#: Only for reading. UNION selects one of A branches with the table from B on. JUMP continues at NEXT. PAD adds a null
#: that is not in the message. DEFAULT reads the B bytes at A of the constants instead of the message, until RESTORE.
#: REFUSE refuses the message for reason A.
UNION, JUMP, PAD, DEFAULT, RESTORE, REFUSE = range(5, 11)
#: Only for writing: the B bytes at A of the constants, once for each value of NODE.
CONSTANT = 11

#: The encoding of a value.
WIRE_BOOLEAN, WIRE_INT, WIRE_LONG, WIRE_FLOAT, WIRE_DOUBLE, WIRE_BYTES, WIRE_FIXED, WIRE_ENUM = range(8)

#: The conversion between the encoded value and the column's. KEEP: none. SCALE_UP and SCALE_DOWN: multiply or divide by
#: A, rounding down. TO_TIME: a time of day, multiplied or divided by A. TO_FLOAT, TO_DOUBLE: round. TEXT and RAW: a
#: string or bytes. TO_DECIMAL: a decimal of A digits. SYMBOL: an enum's symbol from the table.
KEEP, SCALE_UP, SCALE_DOWN, TO_TIME, TO_FLOAT, TO_DOUBLE, TEXT, RAW, TO_DECIMAL, SYMBOL = range(10)

#: Limits: the depth of arrays and maps, the branches of a written union, and the steps. A named type adds its steps
#: wherever it is used.
DEEPEST = 64
WIDEST_UNION = 64
MOST_STEPS = 20_000


@dataclass
class AvroStep(ProgramStep):
    """A step, with a value for each column."""

    node: int = SKIP
    wire: int = 0
    convert: int = 0
    a: int = 0
    b: int = 0
    null_at: int = SKIP
    value_at: int = SKIP
