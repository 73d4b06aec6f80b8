"""Options, declared once: a frozen dataclass per component, one ``opt()`` per field."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, ClassVar, Self

from penstock.errors import OptionsError, Problem, nearest
from penstock.options.codec import MAP, Codec


@dataclass(frozen=True)
class Origin:
    """Where options were written: ``name`` is for example ``table 't'``, ``places[key]`` ``line 3, column 5``."""

    name: str = ""
    places: Mapping[str, str] = field(default_factory=dict, compare=False, hash=False)

    def locate(self, key: str) -> str:
        """The place of ``key``; only the name if the place is not known."""
        return ", ".join(part for part in (self.name, self.places.get(key, "")) if part)


@dataclass(frozen=True)
class Option:
    """The declaration of one option."""

    key: str
    codec: Codec
    doc: str
    example: str = ""
    aliases: tuple[str, ...] = ()
    secret: bool = False
    required: bool = False
    default: Any = None
    default_text: str = ""
    #: Why it has no effect, if it is opt_without_effect only because Flink has it.
    without_effect: str = ""

    @property
    def all_keys(self) -> tuple[str, ...]:
        """The key, and the older names that still work."""
        return self.key, *self.aliases

    @property
    def shown_default(self) -> str:
        """The default as the user would write it; ``(none)`` without one."""
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
    """Declare an option: a ``dataclasses.field`` that knows how to parse, check and document itself.

    An option without ``default`` is required. ``aliases`` are older names that still work. ``default_text`` is shown in
    the reference if the default is not a single value.
    """
    required = default is MISSING
    option = Option(key, codec, doc, example, aliases, secret, required, None if required else default, default_text)
    return field(default=default, metadata={"option": option}, repr=not secret, kw_only=True)


def opt_without_effect(key: str, codec: Codec, why: str, *, example: str) -> Any:
    """Declare an option of Flink's that is checked and has no effect, because of ``why``; None unless it is given."""
    option = Option(key, codec, f"Accepted for compatibility: {why}.", example, without_effect=why)
    return field(default=None, metadata={"option": option}, kw_only=True)


def opt_like(options: type[OptionSet], name: str, **changes: Any) -> Any:
    """Declare an option as the field ``name`` of ``options`` does, with these parts of :class:`Option` changed."""
    option = dataclasses.replace(options.declared_options()[name], **changes)
    default = MISSING if option.required else option.default
    return field(default=default, metadata={"option": option}, repr=not option.secret, kw_only=True)


Rule = Callable[[Any], Iterable[Problem]]


@dataclass(frozen=True, kw_only=True)
class OptionSet:
    """The options of one component. Subclasses declare fields with :func:`opt` and cross-field checks in ``rules``.

    A rule takes the bound set and yields problems; the ``key`` of a problem names an option, and its place is added
    here.
    """

    rules: ClassVar[tuple[Rule, ...]] = ()

    @classmethod
    def declared_options(cls) -> dict[str, Option]:
        """Field name to option, in the order of declaration."""
        return {each.name: each.metadata["option"] for each in dataclasses.fields(cls) if "option" in each.metadata}

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """All known keys, including older names."""
        return tuple(key for option in cls.declared_options().values() for key in option.all_keys)

    @classmethod
    def prefixes(cls) -> tuple[str, ...]:
        """The prefixes of options that are entries of a map."""
        return tuple(
            f"{key}." for option in cls.declared_options().values() if option.codec is MAP for key in option.all_keys
        )

    @classmethod
    def from_text(cls, given: Mapping[str, str], origin: Origin | None = None, prefix: str = "", **extra: Any) -> Self:
        """Bind text. All keys in ``given`` start with ``prefix``; ``extra`` sets fields that are not options.

        Ignores keys that are not declared here (see :func:`unknown_keys`). Raises OptionsError with all problems and
        their places. If an option is missing or wrong, the rules that do not read it still run.
        """
        origin = origin or Origin()
        values: dict[str, Any] = dict(extra)
        problems: list[Problem] = []
        unread: set[str] = set()
        for name, option in cls.declared_options().items():
            key = next((prefix + key for key in option.all_keys if prefix + key in given), None)
            entries = _find_entries(option, given, prefix)
            if key is None and not entries:
                if option.required:
                    hint = f"for example '{prefix}{option.key}' = '{option.example}'" if option.example else ""
                    problems.append(Problem("is required", prefix + option.key, origin.locate(""), hint))
                    unread.add(name)
                continue
            try:
                values[name] = option.codec.read(given[key], secret=option.secret) if key is not None else ()
                if entries:
                    values[name] = tuple(sorted((dict(values[name]) | entries).items()))
            except ValueError as error:
                problems.append(Problem(str(error), key or "", origin.locate(key or "")))
                unread.add(name)
        if problems:
            raise OptionsError((*problems, *cls._check_without(values, unread, origin, prefix)))
        bound = cls(**values)
        bound.check(origin, prefix)
        return bound

    @classmethod
    def _check_without(
        cls, values: Mapping[str, Any], unread: set[str], origin: Origin, prefix: str
    ) -> tuple[Problem, ...]:
        """The problems that the rules find without the options ``unread``, which are missing or wrong."""

        def get_read(self: object, name: str) -> Any:
            if name in unread:
                raise _UnreadError(name)
            return object.__getattribute__(self, name)

        partial: Any = object.__new__(type(cls.__name__, (cls,), {"__getattribute__": get_read}))
        for each in dataclasses.fields(cls):
            if each.name in values or each.default is not MISSING:
                object.__setattr__(partial, each.name, values.get(each.name, each.default))
            else:
                unread.add(each.name)
        found: list[Problem] = []
        for rule in cls.rules:
            with suppress(_UnreadError):
                found += rule(partial)
        return tuple(dict.fromkeys(_add_place(problem, origin, prefix) for problem in found))

    @classmethod
    def expect(cls, options: OptionSet) -> Self:
        """``options`` if it is of this class. Raises TypeError otherwise."""
        if not isinstance(options, cls):
            raise TypeError(f"expected {cls.__name__}, not {type(options).__name__}")
        return options

    def check(self, origin: Origin | None = None, prefix: str = "") -> None:
        """Run the cross-field rules. Raises OptionsError with all problems."""
        origin = origin or Origin()
        problems = tuple(_add_place(problem, origin, prefix) for rule in self.rules for problem in rule(self))
        if problems:
            raise OptionsError(problems)

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """The keys of the options that are given and have no effect, and why."""
        return tuple(
            (option.key, option.without_effect)
            for name, option in self.declared_options().items()
            if option.without_effect and getattr(self, name) is not None
        )

    def to_text(self, prefix: str = "") -> dict[str, str]:
        """The options that differ from their defaults, as text that binds to an equal set. Secrets included."""
        return {
            prefix + option.key: option.codec.show(getattr(self, name))
            for name, option in self.declared_options().items()
            if option.required or getattr(self, name) != option.default
        }


class _UnreadError(Exception):
    """A rule asked for an option that is missing or wrong."""


def _add_place(problem: Problem, origin: Origin, prefix: str) -> Problem:
    key = prefix + problem.key
    return dataclasses.replace(problem, key=key, where=problem.where or origin.locate(key))


def _find_entries(option: Option, given: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The entries of a map that are given as separate options."""
    if option.codec is not MAP:
        return {}
    return {key: value for start in option.all_keys for key, value in select_properties(given, f"{prefix}{start}.")}


#: Options of other components that this one does not have: their names, in which * is any text, to a reason and a hint.
Absent = Mapping[str, tuple[str, str]]


def unknown_keys(
    given: Mapping[str, str],
    known: Iterable[str],
    prefixes: tuple[str, ...],
    origin: Origin,
    absent: Absent = MappingProxyType({}),
) -> tuple[Problem, ...]:
    """A problem for each given key that is neither known nor starts with one of the prefixes. Those of ``absent`` are
    refused with their reason."""
    understood = set(known)

    def problem(key: str) -> Problem:
        found = next((each for pattern, each in absent.items() if fnmatchcase(key, pattern)), None)
        reason, hint = found or ("unknown option", nearest(key, understood))
        return Problem(reason, key, origin.locate(key), hint)

    return tuple(problem(key) for key in given if key not in understood and not key.startswith(prefixes))


#: Client properties: sorted pairs, so that equal properties compare and hash equal.
Properties = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Property:
    """The declaration of a client property that has an effect: its codec, and its meaning for the reference."""

    codec: Codec
    doc: str
    secret: bool = False

    def read(self, text: str) -> Any:
        """The value of ``text``. Raises ValueError, which says what was expected."""
        return self.codec.read(text, secret=self.secret)


def prop(codec: Codec, doc: str, default: Any = None, *, secret: bool = False) -> Any:
    """Declare a client property: a ``dataclasses.field`` with the property's name, with ``_`` for ``.``."""
    return field(default=default, metadata={"property": Property(codec, doc, secret)}, repr=not secret)


def declared_properties(cls: type[Any], prefix: str = "") -> dict[str, Property]:
    """The client properties that a dataclass declares, by name, in the order of declaration."""
    declared = {each.name: each.metadata.get("property") for each in dataclasses.fields(cls)}
    return {prefix + name.replace("_", "."): each for name, each in declared.items() if each is not None}


def read_properties(declared: Mapping[str, Property], given: Mapping[str, str]) -> tuple[dict[str, Any], list[Problem]]:
    """The values of the properties that are declared, by name, and a problem for each that is malformed."""
    values, problems = dict[str, Any](), []
    for name, text in given.items():
        if name in declared:
            try:
                values[name] = declared[name].read(text)
            except ValueError as malformed:
                problems.append(Problem(str(malformed), name))
    return values, problems


def select_properties(given: Mapping[str, str], prefix: str = "properties.") -> Properties:
    """The entries under ``prefix``, with the prefix removed, sorted by key."""
    return tuple(sorted((key[len(prefix) :], value) for key, value in given.items() if key.startswith(prefix)))
