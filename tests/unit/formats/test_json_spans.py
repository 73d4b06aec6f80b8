"""Spans of parts of JSON messages."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from penstock.formats.json.spans import TextSpans


def spans(*messages: str | None) -> TextSpans:
    return TextSpans.from_messages(
        pa.array([each if each is None else each.encode() for each in messages], pa.binary())
    )


def texts(found: TextSpans) -> list[tuple[int, str]]:
    return [
        (int(message), found.text[start:end].tobytes().decode())
        for message, start, end in zip(found.message, found.starts, found.ends, strict=True)
    ]


def test_members_are_found_at_any_place_and_with_any_spelling():
    found = spans(
        '{"a": 1, "b": {"c": [1, 2]}}',
        None,
        "",
        ' { "\\u0062" : "x" , "bb": 2 } ',
        '{"b": null}',
        "{}",
        '{"b": 1, "b": "last"}',
        '{"b": 1, "b": null}',
    )
    assert texts(found.members("b")) == [(0, '{"c": [1, 2]}'), (3, '"x"'), (6, '"last"')]
    assert not found.members("b").unread


def test_characters_that_are_written_as_surrogate_pairs_are_read():
    found = spans(
        '{"\\uD83C\\uDF88": 1, "a": "\\ud83d\\ude00", "b": 2}', '{"a": "\\ud83d", "b": 3}', '{"b": "\\uDBFF\\uDFFF"}'
    )
    assert texts(found.members("🎈")) == [(0, "1")]
    assert texts(found.members("b")) == [(0, "2"), (2, '"\\uDBFF\\uDFFF"')]
    assert found.members("b").unread == {1}


def test_a_path_leads_through_objects():
    found = spans('{"p": {"after": {"id": 1}}}', '{"p": {"after": null}}', '{"p": 1}', '{"p": {}}').members(
        "p", "after"
    )
    assert texts(found) == [(0, '{"id": 1}')]
    assert found.unread == {2}


@pytest.mark.parametrize(
    "text", ["[]", "1", "{", '{"a"', '{"a": ', '{"a": 1', '{"a": 1,}', '{"a" 1}', '{"b": 1; "a": 2}', "x"]
)
def test_messages_that_are_not_objects_are_named(text: str):
    found = spans('{"a": 1}', text, '{"a": 2}').members("a")
    assert texts(found) == [(0, "1"), (2, "2")]
    assert found.unread == {1}


def test_elements_of_arrays():
    found = spans('{"d": [{"x": 1}, null, [2, 3], "e"]}', '{"d": []}', '{"d": [ ]}', '{"d": {}}', '{"d": [1 , 2 ]}')
    assert texts(found.members("d").elements()) == [
        (0, '{"x": 1}'),
        (0, "[2, 3]"),
        (0, '"e"'),
        (4, "1"),
        (4, "2"),
    ]
    assert found.members("d").elements().unread == {3}


def random_document(random: random.Random, depth: int = 3) -> Any:
    if depth and random.random() < 0.4:
        return {
            random.choice("abcd") + '"é'[: random.randrange(3)]: random_document(random, depth - 1) for _ in range(3)
        }
    if depth and random.random() < 0.3:
        return [random_document(random, depth - 1) for _ in range(random.randrange(4))]
    return random.choice([None, True, 1.5, -7, "text", 'qu"ote\\', "ü"])


@pytest.mark.parametrize("seed", range(10))
def test_random_documents_beside_a_plain_recomputation(seed: int):
    generator = random.Random(seed)
    documents = [{"a": random_document(generator), "b": [random_document(generator)] * 2} for _ in range(100)]
    found = spans(*(json.dumps(each, ensure_ascii=generator.random() < 0.5) for each in documents))
    read = [(message, json.loads(text)) for message, text in texts(found.members("a"))]
    assert read == [(at, each["a"]) for at, each in enumerate(documents) if each["a"] is not None]
    elements = [(message, json.loads(text)) for message, text in texts(found.members("b").elements())]
    assert elements == [(at, part) for at, each in enumerate(documents) for part in each["b"] if part is not None]
    for name in "abcd":
        inner = [(at, each["a"]) for at, each in enumerate(documents) if isinstance(each["a"], dict)]
        wanted = [(at, each[name]) for at, each in inner if each.get(name) is not None]
        assert [(message, json.loads(text)) for message, text in texts(found.members("a", name))] == wanted
