"""What the meaning of a step's state depends on, and which changes of it the state survives.

An identity is kept beside the state, so its form is part of the format of checkpoints: names, types and texts, and
nothing about how penstock computes. :data:`VERSION` counts its forms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.types.casts import is_alike
from penstock.types.parse import parse_type

#: The version of the form of identities.
VERSION = 1
#: The sides of a step with two inputs; the side of a step with one input has no name.
SIDES = ("left", "right")
#: The subjects of facts that are treated specially.
TIME_ZONE, KIND_OF_ROWS = "time zone", "kind of rows that it takes"


@dataclass(frozen=True)
class Fact:
    """Something about a step: its ``meaning``, which is compared, and the text that users read."""

    meaning: str
    shown: str

    @classmethod
    def from_text(cls, text: str) -> Fact:
        """A fact whose text for users is its meaning."""
        return cls(text, text)


@dataclass(frozen=True)
class Column:
    """A column that a step keeps: its name in the state, its type, what it is made of, and how users read that."""

    name: str
    type: str
    meaning: str
    shown: str


@dataclass(frozen=True, kw_only=True)
class StepIdentity:
    """The identity of a step with state.

    ``facts``, by subject, must stay the same; ``notes`` may change. ``keys`` are the columns that its state is found
    by, and ``rows`` those of the rows that it keeps, by the side of the step. ``aggregates`` are the columns of the
    state of groups, ``tables`` those of its tables that have values, and ``calls`` the aggregates that users wrote.
    Columns may be added to the rows of the sides in ``growing``: they are NULL in earlier rows. This last field is not
    stored.
    """

    step: str
    facts: Mapping[str, Fact] = field(default_factory=dict)
    keys: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    rows: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    aggregates: tuple[Column, ...] = ()
    tables: tuple[Column, ...] = ()
    calls: str = ""
    notes: Mapping[str, Fact] = field(default_factory=dict)
    growing: frozenset[str] = field(default=frozenset(), compare=False)

    def to_json(self) -> dict[str, Any]:
        """The identity as a JSON object."""
        return {
            "version": VERSION,
            "step": self.step,
            "facts": _facts_to_json(self.facts),
            "keys": _sides_to_json(self.keys),
            "rows": _sides_to_json(self.rows),
            "aggregates": _columns_to_json(self.aggregates),
            "tables": _columns_to_json(self.tables),
            "calls": self.calls,
            "notes": _facts_to_json(self.notes),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> StepIdentity | None:
        """The identity that :meth:`to_json` gave; None for a form of a later version."""
        if document["version"] > VERSION:
            return None
        return cls(
            step=document["step"],
            facts={name: Fact(*each) for name, each in document["facts"].items()},
            keys={side: _read_columns(each) for side, each in document["keys"].items()},
            rows={side: _read_columns(each) for side, each in document["rows"].items()},
            aggregates=_read_columns(document["aggregates"]),
            tables=_read_columns(document["tables"]),
            calls=document["calls"],
            notes={name: Fact(*each) for name, each in document["notes"].items()},
        )


@dataclass(frozen=True)
class Comparison:
    """What has changed between two identities: the changes that the state does not survive, and those that it does.
    Both are clauses of a sentence."""

    refused: tuple[str, ...]
    noted: tuple[str, ...]


def compare_identities(before: StepIdentity, now: StepIdentity) -> Comparison:
    """What has changed of a step since its state was written."""
    if before.step != now.step:
        return Comparison((f"it was {before.step}, and is {now.step}",), ())
    refused = [
        *_describe_changes(before.facts, now.facts),
        *_compare_keys(before, now),
        *_compare_aggregates(before, now),
    ]
    noted = list(_describe_changes(before.notes, now.notes))
    for side in now.rows:
        ill, well = _compare_rows(
            before.rows.get(side, ()), now.rows[side], _name_side(side), growing=side in now.growing
        )
        refused += ill
        noted += well
    return Comparison(tuple(refused), tuple(noted))


def stored_names(before: StepIdentity, now: StepIdentity) -> dict[str, dict[str, str]]:
    """The names that columns have in the state where they have other ones now, by side and by their present names."""
    found = {}
    for side in {*now.keys, *now.rows}:
        pairs = [
            *zip(now.keys.get(side, ()), before.keys.get(side, ()), strict=False),
            *_match_columns(before.rows.get(side, ()), now.rows.get(side, ())),
            *_match_columns(before.aggregates, now.aggregates),
        ]
        names = {each.name: old.name for each, old in pairs if old is not None and old.name != each.name}
        if names:
            found[side] = names
    return found


def table_names(before: StepIdentity, now: StepIdentity) -> dict[str, str]:
    """The present names of tables that had other ones, by these."""
    pairs = _match_columns(before.tables, now.tables)
    return {old.name: each.name for each, old in pairs if old is not None and old.name != each.name}


def rename_identity(now: StepIdentity, names: Mapping[str, Mapping[str, str]]) -> StepIdentity:
    """The identity with the names that columns have in the state, by side and by their present names."""

    def rename(columns: tuple[Column, ...], side: str) -> tuple[Column, ...]:
        own = names.get(side, {})
        return tuple(replace(each, name=own.get(each.name, each.name)) for each in columns)

    return replace(
        now,
        keys={side: rename(columns, side) for side, columns in now.keys.items()},
        rows={side: rename(columns, side) for side, columns in now.rows.items()},
        aggregates=rename(now.aggregates, ""),
    )


def _describe_changes(before: Mapping[str, Fact], now: Mapping[str, Fact]) -> Iterator[str]:
    for about in dict.fromkeys((*before, *now)):
        was, is_ = before.get(about, Fact.from_text("")), now.get(about, Fact.from_text(""))
        if was.meaning == is_.meaning or (about in _MAY_BE_UNKNOWN and "" in (was.meaning, is_.meaning)):
            continue
        if was.shown == is_.shown:  # the difference is in what the columns are made of
            was, is_ = Fact.from_text(was.meaning), Fact.from_text(is_.meaning)
        yield f"the {about} was {was.shown or 'not set'}, and is {is_.shown or 'not set'}"


#: Facts that are compared only where both are known: otherwise they do not matter, or follow from the aggregates.
_MAY_BE_UNKNOWN = frozenset({TIME_ZONE, KIND_OF_ROWS})


def _compare_keys(before: StepIdentity, now: StepIdentity) -> Iterator[str]:
    for side, columns in now.keys.items():
        former, of = before.keys.get(side, ()), _name_side(side)
        if [each.meaning for each in former] != [each.meaning for each in columns]:
            yield f"the key{of} was {_list_columns(former, columns)}, and is {_list_columns(columns, former)}"
            continue
        for old, new in zip(former, columns, strict=True):
            if not _same_type(old.type, new.type):
                yield f"the key {new.shown}{of} was {old.type}, and is {new.type}"


def _compare_aggregates(before: StepIdentity, now: StepIdentity) -> Iterator[str]:
    """Earlier groups have no value for a new aggregate. A removed one leaves the others as they are."""
    if before.calls == now.calls and len({each.facts.get(KIND_OF_ROWS) for each in (before, now)} - {None}) > 1:
        return  # which says it
    pairs = [*_match_columns(before.aggregates, now.aggregates), *_match_columns(before.tables, now.tables)]
    new = next((each for each, old in pairs if old is None), None)
    if new is not None and before.calls == now.calls:
        yield f"{new.meaning} is new"
    elif new is not None:
        yield f"the aggregates were {before.calls or 'none'}, and are {now.calls}"
        return
    for each, old in pairs:
        if old is not None and not _same_type(old.type, each.type):
            yield f"{each.shown}, which is aggregated, was {old.type}, and is {each.type}"
            return


def _compare_rows(
    before: tuple[Column, ...], now: tuple[Column, ...], of: str, *, growing: bool
) -> tuple[list[str], list[str]]:
    refused, noted = [], []
    pairs, former = _match_columns(before, now), {each.name: each for each in before}
    taken = {old.name for _, old in pairs if old is not None}
    for each, old in pairs:
        title, other = f"the column '{each.name}'{of}", former.get(each.name)
        if old is not None and not _same_type(old.type, each.type):
            refused.append(f"{title} was {old.type}, and is {each.type}")
        elif old is None and other is not None:
            taken.add(other.name)
            same = other.shown == each.shown
            was, is_ = (other.meaning, each.meaning) if same else (other.shown, each.shown)
            refused.append(f"{title} was {was}, and is {is_}")
        elif old is None and growing:
            noted.append(f"{title} is new, and NULL in earlier rows")
        elif old is None:
            refused.append(f"{title} is new, and the kept rows do not have it")
    refused += [f"the column '{each.name}'{of} is gone" for each in before if each.name not in taken]
    return refused, noted


def _match_columns(before: tuple[Column, ...], now: tuple[Column, ...]) -> list[tuple[Column, Column | None]]:
    """Each column with its former one: with the same meaning, and the same name if there are several."""
    left = list(before)
    found: dict[str, Column] = {}
    for same_name in (True, False):
        for each in now:
            old = next((x for x in left if x.meaning == each.meaning and (x.name == each.name or not same_name)), None)
            if each.name not in found and old is not None:
                found[each.name] = old
                left.remove(old)
    return [(each, found.get(each.name)) for each in now]


def _same_type(before: str, now: str) -> bool:
    """Whether two types have the same values in the state: lengths do not matter."""
    return before == now or is_alike(parse_type(before), parse_type(now))


def _list_columns(columns: tuple[Column, ...], others: tuple[Column, ...]) -> str:
    """The columns of a key, as users read them."""
    texts = [each.shown for each in columns]
    if texts == [each.shown for each in others]:
        texts = [each.meaning for each in columns]
    return ", ".join(texts) or "none"


def _name_side(side: str) -> str:
    return f" of the {side} side" if side else ""


def _facts_to_json(facts: Mapping[str, Fact]) -> dict[str, list[str]]:
    return {name: [each.meaning, each.shown] for name, each in facts.items()}


def _sides_to_json(sides: Mapping[str, tuple[Column, ...]]) -> dict[str, list[list[str]]]:
    return {side: _columns_to_json(each) for side, each in sides.items()}


def _columns_to_json(columns: tuple[Column, ...]) -> list[list[str]]:
    return [[each.name, each.type, each.meaning, each.shown] for each in columns]


def _read_columns(columns: list[list[str]]) -> tuple[Column, ...]:
    return tuple(Column(*each) for each in columns)
