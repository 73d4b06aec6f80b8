"""Nexmark's events: of fifty, one is a person, three are auctions and 46 are bids.

Every event follows from its number, so that any part of the stream can be made anywhere and again. Shares, hot keys and
sizes are those of Nexmark's own generator, which draws at random; a bidder's number is raised by 1,000 once instead of
twice, so that every bidder is a person.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]

#: Of fifty events in turn, by table.
SHARES: Mapping[str, int] = {"person": 1, "auction": 3, "bid": 46}
_ROUND = sum(SHARES.values())
_FIRST: Mapping[str, int] = {"person": 0, "auction": 1, "bid": 4}

_FIRST_ID = 1000
_FIRST_CATEGORY, _CATEGORIES = 10, 5
#: A bid goes to one of the last auctions, and a person acts who is one of the last.
_LIVE_AUCTIONS, _LIVE_PERSONS, _AHEAD = 100, 1000, 10
#: One of so many follows the rule above; the others are about a hot key, which changes after so many numbers.
_COLD_AUCTIONS, _COLD_BIDDERS, _COLD_SELLERS, _HOT = 2, 4, 4, 100

_STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
_CITIES = [
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
    *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
]
_GIVEN = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
_FAMILY = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
_HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
_CHANNELS = 10_000
_TEXTS = 8192


@dataclass(frozen=True)
class Events:
    """The events by table. ``per_second`` of event time follow one another from ``begin`` on, in ms since 1970."""

    per_second: int = 10_000
    begin: int = 1_763_640_000_000

    def rows(self, table: str, ordinals: Numbers) -> pa.RecordBatch:
        """The rows of a table with these ordinals, from 0."""
        share = SHARES[table]
        numbers = ordinals // share * _ROUND + _FIRST[table] + ordinals % share
        make = {"person": self._persons, "auction": self._auctions, "bid": self._bids}[table]
        return make(numbers)

    def documents(self, table: str, ordinals: Numbers) -> pa.BinaryArray:
        """The same rows as JSON."""
        return _json(self.rows(table, ordinals))

    def _persons(self, numbers: Numbers) -> pa.RecordBatch:
        draws = _Draws(numbers, "person")
        return pa.RecordBatch.from_pydict(
            {
                "id": numbers // _ROUND + _FIRST_ID,
                "name": draws.draw_text(_NAMES),
                "emailAddress": draws.draw_text(_EMAILS),
                "creditCard": draws.draw_text(_CARDS),
                "city": draws.draw_text(pa.array(_CITIES)),
                "state": draws.draw_text(pa.array(_STATES)),
                "dateTime": self._times(numbers),
                "extra": draws.draw_text(_PERSON_EXTRAS),
            }
        )

    def _auctions(self, numbers: Numbers) -> pa.RecordBatch:
        draws = _Draws(numbers, "auction")
        initial = draws.prices()
        cold = draws.draw_below(_COLD_SELLERS) == 0
        seller = np.where(cold, _live_person(numbers, draws), numbers // _ROUND // _HOT * _HOT)
        while_open = _LIVE_AUCTIONS * _ROUND // SHARES["auction"]
        horizon = self._millis(numbers + while_open) - self._millis(numbers)
        return pa.RecordBatch.from_pydict(
            {
                "id": _last_auction(numbers) + _FIRST_ID,
                "itemName": draws.draw_text(_ITEMS),
                "description": draws.draw_text(_DESCRIPTIONS),
                "initialBid": initial,
                "reserve": initial + draws.prices(),
                "dateTime": self._times(numbers),
                "expires": _instants(self._millis(numbers) + 1 + draws.draw_below(np.maximum(horizon * 2, 1))),
                "seller": seller + _FIRST_ID,
                "category": draws.draw_below(_CATEGORIES) + _FIRST_CATEGORY,
                "extra": draws.draw_text(_AUCTION_EXTRAS),
            }
        )

    def _bids(self, numbers: Numbers) -> pa.RecordBatch:
        draws = _Draws(numbers, "bid")
        last = _last_auction(numbers)
        oldest = np.maximum(last - _LIVE_AUCTIONS, 0)
        live = oldest + draws.draw_below(last - oldest + 1 + _AHEAD)
        auction = np.where(draws.draw_below(_COLD_AUCTIONS) == 0, live, last // _HOT * _HOT)
        cold = draws.draw_below(_COLD_BIDDERS) == 0
        bidder = np.where(cold, _live_person(numbers, draws), numbers // _ROUND // _HOT * _HOT + 1)
        hot = draws.draw_below(2) == 0
        channel = np.where(hot, draws.draw_below(len(_HOT_CHANNELS)), len(_HOT_CHANNELS) + draws.draw_below(_CHANNELS))
        return pa.RecordBatch.from_pydict(
            {
                "auction": auction + _FIRST_ID,
                "bidder": bidder + _FIRST_ID,
                "price": draws.prices(),
                "channel": _CHANNEL_NAMES.take(pa.array(channel)),
                "url": _URLS.take(pa.array(channel)),
                "dateTime": self._times(numbers),
                "extra": draws.draw_text(_BID_EXTRAS),
            }
        )

    def _millis(self, numbers: Numbers) -> Numbers:
        return self.begin + numbers * 1000 // self.per_second

    def _times(self, numbers: Numbers) -> pa.Array:
        return _instants(self._millis(numbers))


def _instants(millis: Numbers) -> pa.Array:
    return pa.array(millis).cast(pa.timestamp("ms"))


def _last_auction(numbers: Numbers) -> Numbers:
    """The ordinal of the last auction up to each event."""
    share = SHARES["auction"]
    return numbers // _ROUND * share + np.clip(numbers % _ROUND - _FIRST["auction"], -1, share - 1)


def _live_person(numbers: Numbers, draws: _Draws) -> Numbers:
    """The ordinal of one of the last persons, or of one of the next."""
    persons = numbers // _ROUND + 1
    live = np.minimum(persons, _LIVE_PERSONS)
    return persons - live + draws.draw_below(live + _AHEAD)


class _Draws:
    """Numbers that look drawn at random, and follow from those of the events. Each call draws others."""

    def __init__(self, numbers: Numbers, table: str):
        self._seeds = numbers.astype(np.uint64) * np.uint64(len(SHARES)) + np.uint64(list(SHARES).index(table))
        self._calls = 0

    def _bits(self) -> npt.NDArray[np.uint64]:
        """64 bits for each event: those of SplitMix64."""
        self._calls += 1
        with np.errstate(over="ignore"):
            bits = self._seeds * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(self._calls) * np.uint64(0x9E3779B97F4A7C15)
            bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return bits ^ (bits >> np.uint64(31))

    def draw_below(self, most: int | Numbers) -> Numbers:
        """Whole numbers from 0, less than ``most``."""
        return (self._bits() % np.asarray(most).astype(np.uint64)).astype(np.int64)

    def prices(self) -> Numbers:
        """From 100 to 100,000,000, as many of each order of magnitude."""
        return _PRICES[self.draw_below(len(_PRICES))]

    def draw_text(self, texts: pa.StringArray) -> pa.StringArray:
        """One of the texts each."""
        return texts.take(pa.array(self.draw_below(len(texts))))


# --- texts ---------------------------------------------------------------------------------------------------


def _texts(seed: int, shortest: int, longest: int, blank: str = "", count: int = _TEXTS) -> pa.StringArray:
    """Texts of small letters, one of thirteen of which is ``blank`` if that is given."""
    random = np.random.Generator(np.random.PCG64(seed))
    lengths = shortest + _integers(random, longest - shortest + 1, count)
    letters = (ord("a") + _integers(random, 26, int(lengths.sum()))).astype(np.uint8)
    if blank:
        letters[_integers(random, 13, len(letters)) == 0] = ord(blank)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pc.utf8_trim(
        pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(letters.tobytes())), characters=" "
    )


def _integers(random: np.random.Generator, most: int, count: int) -> Numbers:
    """Whole numbers below ``most``: from raw bits, which all versions of numpy draw alike."""
    return (random.bit_generator.random_raw(count) % np.uint64(most)).astype(np.int64)


def _join_texts(*parts: pa.StringArray | str) -> pa.StringArray:
    return pc.binary_join_element_wise(*parts, "")


def _extras(average: int, others: int, seed: int) -> pa.StringArray:
    """Texts that fill a row, whose ``others`` take so many bytes, up to the average."""
    size = average - others
    spread = round(size * 0.2)
    return _texts(seed, size - spread, size + spread - 1)


def _digits(seed: int) -> pa.StringArray:
    random = np.random.Generator(np.random.PCG64(seed))
    return pc.utf8_lpad(pa.array(_integers(random, 10_000, _TEXTS)).cast(pa.string()), 4, "0")


def _channel_urls() -> pa.StringArray:
    count = len(_HOT_CHANNELS) + _CHANNELS
    folders = [part for seed in (21, 22, 23) for part in (_texts(seed, 3, 4, "_", count), "/")]
    url = _join_texts("https://www.nexmark.com/", *folders, "item.htm?query=1")
    channel = np.arange(count) - len(_HOT_CHANNELS)
    number = pa.array(np.maximum(channel, 0) * 214_748 % 2_147_483_648).cast(pa.string())
    named = (channel >= 0) & (channel % 10 != 0)
    return _join_texts(url, pc.if_else(pa.array(named), _join_texts("&channel_id=", number), ""))


_NAMES = pa.array([f"{given} {family}" for given in _GIVEN for family in _FAMILY])
_EMAILS = _join_texts(_texts(1, 3, 6), "@", _texts(2, 3, 4), ".com")
_CARDS = _join_texts(_digits(3), " ", _digits(4), " ", _digits(5), " ", _digits(6))
_ITEMS, _DESCRIPTIONS = _texts(7, 3, 19, " "), _texts(8, 3, 99, " ")
_PERSON_EXTRAS, _AUCTION_EXTRAS, _BID_EXTRAS = _extras(200, 70, 9), _extras(500, 110, 10), _extras(100, 32, 11)
_CHANNEL_NAMES = pa.array([*_HOT_CHANNELS, *(f"channel-{number}" for number in range(_CHANNELS))])
_URLS = _channel_urls()
_PRICES = np.round(10.0 ** (np.arange(1 << 16) / (1 << 16) * 6) * 100).astype(np.int64)

# --- JSON ----------------------------------------------------------------------------------------------------


def _json(rows: pa.RecordBatch) -> pa.BinaryArray:
    """Rows as JSON. No text has a character that needs an escape."""
    parts: list[pa.StringArray | str] = []
    before = "{"
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        number = pa.types.is_integer(column.type)
        text = _clock(column) if pa.types.is_timestamp(column.type) else column.cast(pa.string())
        parts += [f'{before}"{name}":' + ("" if number else '"'), text]
        before = "," if number else '",'
    return _join_texts(*parts, "}" if before == "," else '"}').cast(pa.binary())


_THOUSANDTHS = pc.utf8_lpad(pa.array(range(1000)).cast(pa.string()), 3, "0")


def _clock(times: pa.TimestampArray) -> pa.StringArray:
    """Timestamps as the format json reads them. Many have the same second."""
    millis = times.cast(pa.int64()).to_numpy()
    seconds, at = np.unique(millis // 1000, return_inverse=True)
    text = pc.strftime(pa.array(seconds).cast(pa.timestamp("s")), "%Y-%m-%d %H:%M:%S").take(pa.array(at))
    return _join_texts(text, ".", _THOUSANDTHS.take(pa.array(millis % 1000)))
