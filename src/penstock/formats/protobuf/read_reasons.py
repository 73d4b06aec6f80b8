"""The reasons for which the loop refuses a message, by number."""

from __future__ import annotations

#: LEFT is not a refusal: the exact reader decides about the message.
LEFT, CUT_SHORT, TOO_LONG, BAD_LENGTH, BAD_TAG, BAD_GROUP, NOT_TEXT = 1, 2, 3, 4, 5, 6, 7

READ_REASONS = {
    CUT_SHORT: "the message ends inside this value",
    TOO_LONG: "a number has more bytes than protobuf allows",
    BAD_LENGTH: "a length is larger than the rest of the message, or does not fit the values in it",
    BAD_TAG: "expected the number and the wire type of a field",
    BAD_GROUP: "a group ends that was not started, or has no end",
    NOT_TEXT: "not well-formed UTF-8",
}
