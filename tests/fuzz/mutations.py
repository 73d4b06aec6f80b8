"""Broken messages out of good ones."""

from __future__ import annotations

import random
from collections.abc import Sequence

__all__ = ["mutated"]

_BYTES = (0, 1, 9, 10, 32, 34, 44, 45, 48, 57, 58, 92, 127, 128, 192, 237, 255)


def mutated(rng: random.Random, good: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    """One of ``good`` with some damage, now and then without; ``tokens`` are put in at any place."""
    data = bytearray(rng.choice(good))
    for _ in range(rng.choice((0, 0, 1, 1, 1, 1, 2, 3, 8))):
        at, other = rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)
        first, last = min(at, other), max(at, other)
        match rng.randrange(8):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(data):
                data[at] = rng.choice(_BYTES)
            case 2:
                data[at:at] = rng.choice(tokens)
            case 3:
                del data[first : min(last, first + rng.choice((1, 1, 2, 8, 1000)))]
            case 4:
                data[at:at] = data[first : min(last, first + 64)]
            case 5:
                del data[at:]
            case 6:
                data[first:last] = rng.choice(tokens)
            case 7:
                piece = rng.choice(good)
                start = rng.randrange(len(piece) + 1)
                data[at:] = piece[start:]
    return bytes(data)
