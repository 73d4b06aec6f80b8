"""The reasons for which the loop refuses a message, by number."""

from __future__ import annotations

CUT_SHORT, TOO_LONG, BAD_LENGTH, NO_BRANCH, NO_SYMBOL, NOT_TEXT = 1, 2, 3, 4, 5, 6
OUT_OF_RANGE, UNFIT, NO_DIGITS, TOO_EMPTY, REPEATS = 7, 8, 9, 10, 11

READ_REASONS = {
    CUT_SHORT: "the message ends inside this value",
    TOO_LONG: "a number has more bytes than its type allows",
    BAD_LENGTH: "a length is negative, or larger than the rest of the message",
    NO_BRANCH: "the union has no such branch",
    NO_SYMBOL: "the enum has no such symbol",
    NOT_TEXT: "not well-formed UTF-8",
    OUT_OF_RANGE: "out of the range of the column's type",
    UNFIT: "the branch of the union does not fit the column",
    NO_DIGITS: "the decimal has no digits",
    TOO_EMPTY: "more than 1000 items that take no bytes",
    REPEATS: "a map may have a key twice, and the message cannot be normalized",
}
