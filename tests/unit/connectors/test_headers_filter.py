"""The header filter over whole columns, against the same rule told record by record."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.kafka.table.header_filter import HEADER_FILTER, HeaderTerm, match_headers
from penstock.kafka.columns import HEADERS_TYPE

KEYS, VALUES = ("depart", "env"), ("toy", "book", "")

entries = st.tuples(st.sampled_from(KEYS), st.sampled_from(VALUES).map(str.encode) | st.none() | st.just(b"\xff"))
records = st.lists(st.lists(entries, max_size=4), max_size=12)
terms = st.lists(
    st.builds(HeaderTerm, st.sampled_from(KEYS), st.sampled_from(VALUES), st.booleans(), st.sampled_from("&|")),
    min_size=1,
    max_size=4,
).map(lambda found: (HeaderTerm(found[0].key, found[0].value, found[0].negated), *found[1:]))


def column(lists):
    return pa.array([[{"key": key, "value": value} for key, value in each] for each in lists], HEADERS_TYPE)


def keeps(filter_terms, headers):
    kept = False
    for term in filter_terms:
        result = ((term.key, term.value.encode()) in headers) != term.negated
        kept = (kept and result) if term.joined == "&" else (kept or result)
    return kept


@settings(deadline=None)
@given(terms, records)
def test_every_record_is_judged_by_its_own_headers(filter_terms, lists):
    found = match_headers(filter_terms, column(lists))

    assert found.dtype == np.bool_
    assert found.tolist() == [keeps(filter_terms, each) for each in lists]


@settings(deadline=None)
@given(terms, records, st.data())
def test_a_slice_of_a_column_is_judged_like_the_column(filter_terms, lists, data):
    start = data.draw(st.integers(0, len(lists)))
    stop = data.draw(st.integers(start, len(lists)))

    assert match_headers(filter_terms, column(lists)[start:stop]).tolist() == [
        keeps(filter_terms, each) for each in lists[start:stop]
    ]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("depart:toy", [0, 2]),
        ("!depart:toy", [1, 3]),
        ("depart:toy|depart:book", [0, 1, 2]),
        ("depart:toy|depart:book&!env:test", [0, 1]),  # from left to right: no operator binds tighter
        ("!env:test&depart:book|env:test", [1, 2]),
    ],
)
def test_terms_are_read_from_left_to_right(text, kept):
    headers = column(
        [
            [("depart", b"toy")],
            [("depart", b"book"), ("env", b"live")],
            [("depart", b"toy"), ("env", b"test")],
            [],
        ]
    )

    assert np.flatnonzero(match_headers(HEADER_FILTER.parse(text), headers)).tolist() == kept
