"""Options, declared once: a frozen dataclass per component, one ``opt()`` per field."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, ClassVar, Self

from penstock.errors import OptionsError, Problem
from penstock.options.codec import MAP, Codec

__all__ = [
    "Option",
    "OptionSet",
    "Origin",
    "Properties",
    "Rule",
    "nearest",
    "opt",
    "properties_of",
    "unknown_keys",
]


@dataclass(frozen=True)
class Origin:
    """Where options were written: ``name`` such as ``table 't'``, ``places[key]`` such as ``line 3, column 5``."""

    name: str = ""
    places: Mapping[str, str] = field(default_factory=dict, compare=False, hash=False)

    def of(self, key: str) -> str:
        """The place of one key, or of the whole."""
        return ", ".join(part for part in (self.name, self.places.get(key, "")) if part)


@dataclass(frozen=True)
class Option:
    """What was declared about one option."""

    key: str
    codec: Codec
    doc: str
    example: str = ""
    aliases: tuple[str, ...] = ()
    secret: bool = False
    required: bool = False
    default: Any = None
    default_text: str = ""

    @property
    def all_keys(self) -> tuple[str, ...]:
        """The key, and the older names that still work."""
        return self.key, *self.aliases

    @property
    def shown_default(self) -> str:
        """The default as the user would write it; ``(none)`` when there is none."""
        if self.default_text:
            return self.default_text
        return "(none)" if self.default in (None, ()) else self.codec.show(self.default)


def opt(
    key: str,
    codec: Codec,
    *,
    doc: str,
    default: Any = MISSING,
    example: str = "",
    aliases: tuple[str, ...] = (),
    secret: bool = False,
    default_text: str = "",
) -> Any:
    """Declare an option: ``dataclasses.field`` with what is needed to parse, check and document it.

    Without ``default`` the option is required. ``aliases`` are older names that still work; ``default_text`` says
    in the reference what the default is where it is not one value.
    """
    option = Option(
        key,
        codec,
        doc,
        example,
        aliases,
        secret,
        default is MISSING,
        None if default is MISSING else default,
        default_text,
    )
    return field(default=default, metadata={"option": option}, repr=not secret, kw_only=True)


Rule = Callable[[Any], Iterable[Problem]]


@dataclass(frozen=True, kw_only=True)
class OptionSet:
    """The options of one component. Subclasses declare fields with :func:`opt` and cross-field checks in ``rules``.

    A rule takes the bound set and yields problems whose ``key`` names an option; the place is filled in.
    """

    rules: ClassVar[tuple[Rule, ...]] = ()

    @classmethod
    def declared(cls) -> dict[str, Option]:
        """Field name to option, in the order of declaration."""
        return {each.name: each.metadata["option"] for each in dataclasses.fields(cls) if "option" in each.metadata}

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """Every key that is understood, older names included."""
        return tuple(key for option in cls.declared().values() for key in option.all_keys)

    @classmethod
    def prefixes(cls) -> tuple[str, ...]:
        """What stands before the keys of single entries of options that are maps."""
        return tuple(f"{key}." for option in cls.declared().values() if option.codec is MAP for key in option.all_keys)

    @classmethod
    def from_text(cls, given: Mapping[str, str], origin: Origin | None = None, prefix: str = "", **extra: Any) -> Self:
        """Bind text. ``prefix`` stands before every key in ``given``; ``extra`` sets fields that are no options.

        Keys that are not declared here are left alone (see :func:`unknown_keys`). Raises OptionsError with every
        problem found, each with its place.
        """
        origin = origin or Origin()
        values: dict[str, Any] = dict(extra)
        problems: list[Problem] = []
        for name, option in cls.declared().items():
            key = next((prefix + key for key in option.all_keys if prefix + key in given), None)
            entries = _entries(option, given, prefix)
            if key is None and not entries:
                if option.required:
                    hint = f"for example '{prefix}{option.key}' = '{option.example}'" if option.example else ""
                    problems.append(Problem("is required", prefix + option.key, origin.of(""), hint))
                continue
            try:
                values[name] = option.codec.parse(given[key]) if key is not None else ()
                if entries:
                    values[name] = tuple(sorted((dict(values[name]) | entries).items()))
            except ValueError as error:
                shown = "" if option.secret or key is None else f", not '{given[key]}'"
                problems.append(Problem(f"{error}{shown}", key or "", origin.of(key or "")))
        if problems:
            raise OptionsError(tuple(problems))
        bound = cls(**values)
        bound.check(origin, prefix)
        return bound

    @classmethod
    def expect(cls, options: OptionSet) -> Self:
        """``options``, which are of this class. Raises TypeError when they are not."""
        if not isinstance(options, cls):
            raise TypeError(f"expected {cls.__name__}, not {type(options).__name__}")
        return options

    def check(self, origin: Origin | None = None, prefix: str = "") -> None:
        """Run the cross-field rules. Raises OptionsError with every problem found."""
        origin = origin or Origin()
        problems = tuple(
            dataclasses.replace(
                problem, key=prefix + problem.key, where=problem.where or origin.of(prefix + problem.key)
            )
            for rule in self.rules
            for problem in rule(self)
        )
        if problems:
            raise OptionsError(problems)

    def to_text(self, prefix: str = "") -> dict[str, str]:
        """The options that differ from their defaults, as text that binds to an equal set. Secrets included."""
        return {
            prefix + option.key: option.codec.show(getattr(self, name))
            for name, option in self.declared().items()
            if option.required or getattr(self, name) != option.default
        }


def _entries(option: Option, given: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The entries of a map that are written as options of their own."""
    if option.codec is not MAP:
        return {}
    return {key: value for start in option.all_keys for key, value in properties_of(given, f"{prefix}{start}.")}


def nearest(key: str, known: Iterable[str]) -> str:
    """A hint naming the known key that is closest to ``key``, or nothing."""
    found = difflib.get_close_matches(key, list(known), n=1, cutoff=0.6)
    return f"did you mean '{found[0]}'?" if found else ""


def unknown_keys(
    given: Mapping[str, str], known: Iterable[str], prefixes: tuple[str, ...], origin: Origin
) -> tuple[Problem, ...]:
    """One problem for each given key that is neither known nor under one of the prefixes."""
    understood = set(known)
    return tuple(
        Problem("unknown option", key, origin.of(key), nearest(key, understood))
        for key in given
        if key not in understood and not key.startswith(prefixes)
    )


#: Client properties: sorted pairs, so that equal properties compare and hash equal.
Properties = tuple[tuple[str, str], ...]


def properties_of(given: Mapping[str, str], prefix: str = "properties.") -> Properties:
    """The entries under ``prefix``, with the prefix removed, sorted by key."""
    return tuple(sorted((key[len(prefix) :], value) for key, value in given.items() if key.startswith(prefix)))
