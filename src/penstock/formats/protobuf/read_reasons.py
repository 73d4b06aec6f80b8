"""Why the loop that reads refuses a message, by number."""

from __future__ import annotations

__all__ = [
    "BAD_GROUP",
    "BAD_LENGTH",
    "BAD_TAG",
    "CUT_SHORT",
    "LEFT",
    "NOT_TEXT",
    "READ_REASONS",
    "TOO_LONG",
]

#: LEFT is no refusal: the message is for the exact path.
LEFT, CUT_SHORT, TOO_LONG, BAD_LENGTH, BAD_TAG, BAD_GROUP, NOT_TEXT = 1, 2, 3, 4, 5, 6, 7

READ_REASONS = {
    CUT_SHORT: "the message ends inside this value",
    TOO_LONG: "a number has more bytes than protobuf allows",
    BAD_LENGTH: "a length is larger than what the message has left, or does not fit the values in it",
    BAD_TAG: "what should be the number and the kind of a field is neither",
    BAD_GROUP: "a group ends that did not begin, or does not end where it should",
    NOT_TEXT: "not well-formed UTF-8",
}
