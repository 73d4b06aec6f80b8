"""What was declared about the Kafka connector's options."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.kafka.table.header_filter import HEADER_FILTER, HeaderTerm
from penstock.connectors.kafka.table.offsets import OFFSETS, format_offsets
from penstock.connectors.kafka.table.options import KafkaSinkOptions, KafkaSourceOptions
from penstock.options import OptionSet

DECLARED = [
    pytest.param(cls, option, id=f"{cls.__name__}-{option.key}")
    for cls in (KafkaSourceOptions, KafkaSinkOptions)
    for option in cls.declared_options().values()
]


@pytest.mark.parametrize(("cls", "option"), DECLARED)
def test_every_option_has_a_sentence_and_an_example_that_binds(cls: type[OptionSet], option):
    assert option.doc.endswith(".")
    assert option.codec.show(option.codec.parse(option.example)) == option.example


@given(
    st.dictionaries(
        st.tuples(st.from_regex(r"[a-zA-Z0-9._-]{0,9}", fullmatch=True), st.integers(0, 999)),
        st.integers(0, 2**63 - 1),
        min_size=1,
    )
)
def test_offsets_read_what_they_show(offsets: dict[tuple[str, int], int]):
    expected = tuple(sorted(offsets.items()))

    assert OFFSETS.parse(format_offsets(offsets)) == expected
    assert OFFSETS.show(expected) == format_offsets(offsets)


def test_a_header_filter_keeps_the_order_of_its_terms():
    assert HEADER_FILTER.parse("depart:toy|depart:book&!env:test") == (
        HeaderTerm("depart", "toy"),
        HeaderTerm("depart", "book", joined="|"),
        HeaderTerm("env", "test", negated=True, joined="&"),
    )
    assert HEADER_FILTER.parse("url:http://x") == (HeaderTerm("url", "http://x"),)


@pytest.mark.parametrize("text", ["", "depart", "a:b|", "&a:b", "!:x"])
def test_a_header_filter_without_key_and_colon_is_refused(text):
    with pytest.raises(ValueError, match="key:value"):
        HEADER_FILTER.parse(text)


@pytest.mark.parametrize("text", ["(a:b|c:d)&e:f", "e:f&(a:b|c:d)", "!(a:b)", "!!a:b"])
def test_a_header_filter_that_groups_its_terms_is_refused(text):
    """The seed has no parentheses; taken for parts of a header's key they would never match."""
    with pytest.raises(ValueError, match="cannot be used there: a term is negated once, and terms are not grouped"):
        HEADER_FILTER.parse(text)
