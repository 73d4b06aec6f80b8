"""From the rules of ``transform`` to what they mean for one table."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypeVar
from weakref import WeakValueDictionary

from penstock.errors import DefinitionError, PipelineError, Problem, UnsupportedError, nearest
from penstock.flow.kernels.session import Session
from penstock.flow.rows.envelope import EVENT_TYPE, NAMESPACE_NAME, SCHEMA_NAME, TABLE_NAME
from penstock.ingest.definition import SOFT_DELETE, TransformDef
from penstock.ingest.transforms.derived_columns import DerivedColumns
from penstock.ingest.transforms.rules import choose_rule, unescape_stars
from penstock.ingest.transforms.table_transform import BoundRule, TableTransform
from penstock.plan.expressions import Call, ColumnRef, Expression, columns_of, fields_of, substitute
from penstock.plan.nodes import Item
from penstock.schemas import TableSchema
from penstock.sql import NO_FUNCTIONS, Dialect, UserFunctions, parse_condition, parse_projection
from penstock.types import STRING, Field, RowType

_T = TypeVar("_T")
_TEXT = STRING.with_nullability(False)
_EVENT = "__data_event_type__"
#: The columns that every table has, if they are named; a star leaves them out.
_METADATA = RowType(
    tuple(Field(name, _TEXT) for name in ("__namespace_name__", "__schema_name__", "__table_name__", _EVENT))
)


class DecimalPrecisionMode(enum.Enum):
    """How many digits a DECIMAL that a transform computes has at most. A value with more becomes NULL."""

    UP_TO_19 = 19
    UP_TO_38 = 38


@dataclass(frozen=True)
class TransformBinder:
    """Binds the ``rules`` of a pipeline to its tables. ``functions`` are those of the user, ``zone`` is the time zone
    of the session. Unless ``trim_keys``, a rule may not leave out columns of the primary key."""

    rules: tuple[TransformDef, ...]
    functions: UserFunctions = NO_FUNCTIONS
    zone: str = "UTC"
    decimals: DecimalPrecisionMode = DecimalPrecisionMode.UP_TO_19
    trim_keys: bool = False
    #: What is bound already, and still used, by the rule, the schema and the comments, which do not make two schemas.
    _bound: WeakValueDictionary[object, BoundRule] = field(
        default_factory=WeakValueDictionary, init=False, repr=False, compare=False
    )

    def __reduce__(self) -> tuple[Callable[..., TransformBinder], tuple[object, ...]]:
        return TransformBinder, (self.rules, self.functions, self.zone, self.decimals, self.trim_keys)

    def bind(self, table: str, schema: TableSchema, derived: DerivedColumns | None = None) -> TableTransform:
        """What the first rule that matches ``table``, a dotted id, does with a table of this ``schema``; without one,
        nothing. The rule may use ``derived`` columns like the others.

        Raises PipelineError with every problem of the rule, or UnsupportedError if all of them are features that
        penstock lacks.
        """
        rule = choose_rule(self.rules, table)
        key = rule, schema, tuple(each.comment for each in schema.row.fields), derived
        found = self._bound.get(key)
        if found is None:
            found = self._bound[key] = self._bind_rule(rule, schema, derived)
        return TableTransform(table, found)

    def _bind_rule(self, rule: TransformDef | None, schema: TableSchema, derived: DerivedColumns | None) -> BoundRule:
        session = Session(self.zone)
        read, values = schema, dict[str, Expression]()
        if derived is not None:
            read = replace(schema, row=derived.add_metadata(schema.row))
            schema, values = derived.show(schema), dict(derived.expressions)
        if rule is None:
            return BoundRule(read, schema, tuple(substitute(each, values) for each in fields_of(schema.row)), session)
        dialect = Dialect(transforms=True, decimal_digits=self.decimals.value)
        return _Binding(rule, schema, read, values, self.functions, dialect, session, self.trim_keys).bind()


@dataclass
class _Binding:
    """Binds a rule to a table, and collects problems. The rule sees the columns ``given``, of which ``derived`` ones
    are computed from those that are ``read``."""

    rule: TransformDef
    given: TableSchema
    read: TableSchema
    derived: Mapping[str, Expression]
    functions: UserFunctions
    dialect: Dialect
    session: Session
    trim_keys: bool
    errors: list[DefinitionError] = field(default_factory=list)

    def bind(self) -> BoundRule:
        """The rule. Raises PipelineError or UnsupportedError."""
        rule = self.rule
        items = self._attempt(self._bind_projection) if rule.projection.strip() else self._list_columns()
        values = [substitute(each.expression, {**self._metadata, **self.derived}) for each in items or ()]
        condition = None
        if rule.filter.strip():
            condition = self._attempt(partial(self._bind_filter, items or (), values))
        if rule.converter_after_transform not in ("", SOFT_DELETE):
            reason, hint = f"there is no converter '{rule.converter_after_transform}'", f"write {SOFT_DELETE}"
            self._add_problem("converter-after-transform", reason, hint)
        schema = self._make_schema(items) if items is not None else self.given
        self._check()
        assert items is not None  # noqa: S101 - or there is a problem
        soft = rule.converter_after_transform == SOFT_DELETE
        made = BoundRule(self.read, schema, tuple(values), self.session, condition, soft)
        self._attempt(made.compile)
        self._check()
        return made

    def _attempt(self, work: Callable[[], _T]) -> _T | None:
        try:
            return work()
        except DefinitionError as error:
            self.errors.append(error)
            return None

    def _add_problem(self, key: str, reason: str, hint: str) -> None:
        self.errors.append(PipelineError((Problem(reason, key, self.rule.origin.locate(key), hint),)))

    def _check(self) -> None:
        """Raises the problems, if there are any."""
        if self.errors:
            supported = any(not isinstance(each, UnsupportedError) for each in self.errors)
            problems = dict.fromkeys(problem for each in self.errors for problem in each.problems)
            raise (PipelineError if supported else UnsupportedError)(tuple(problems))

    def _find_place(self, key: str) -> str:
        """The place of an expression in the file, from which its own line and column are counted."""
        return f"{self.rule.origin.locate(key)}, {key}"

    # --- expressions -----------------------------------------------------------------------------------------

    def _list_columns(self) -> tuple[Item, ...]:
        return tuple(Item(each.name, ColumnRef(each.name, type=each.type)) for each in self.given.row.fields)

    def _bind_projection(self) -> tuple[Item, ...]:
        items = parse_projection(
            unescape_stars(self.rule.projection),
            self.given.row,
            origin=self._find_place("projection"),
            user_functions=self.functions,
            dialect=self.dialect,
            metadata=_METADATA,
        )
        for each in items:
            taken = each.name in _METADATA.names and self.given.row.field(each.name) is None
            if taken and not (isinstance(each.expression, ColumnRef) and each.expression.name == each.name):
                reason = f"'{each.name}' is the name of a metadata column"
                self._add_problem("projection", reason, "give the column another name")
        return items

    def _bind_filter(self, items: Sequence[Item], values: Sequence[Expression]) -> Expression:
        """The filter in terms of the columns of the source. A name is that of a column of the projection, or else of
        the source, as in Flink CDC."""
        computed = dict(zip((each.name for each in items), values, strict=True))
        others = tuple(each for each in self.given.row.fields if each.name not in computed)
        made = tuple(Field(name, each.type) for name, each in computed.items())
        condition = parse_condition(
            self.rule.filter,
            RowType((*made, *others)),
            origin=self._find_place("filter"),
            user_functions=self.functions,
            dialect=self.dialect,
            metadata=_METADATA,
        )
        return substitute(condition, {**self._metadata, **self.derived, **computed})

    @cached_property
    def _metadata(self) -> dict[str, Expression]:
        """The metadata columns that no column hides."""
        names = zip(_METADATA.names, (NAMESPACE_NAME, SCHEMA_NAME, TABLE_NAME, EVENT_TYPE), strict=True)
        return {name: ColumnRef(own, type=_TEXT) for name, own in names if self.given.row.field(name) is None}

    # --- the table -------------------------------------------------------------------------------------------

    def _make_schema(self, items: Sequence[Item]) -> TableSchema:
        rule, given = self.rule, self.given
        names = [each.name for each in items]
        key = rule.primary_keys or tuple(name for name in given.primary_key if name in names)
        self._check_keys(items, names)
        fields = tuple(
            replace(each, type=each.type.with_nullability(False)) if each.name in key else each
            for each in self._list_fields(items)
        )
        return TableSchema(
            replace(given.row, fields=fields),
            key,
            rule.partition_keys or tuple(name for name in given.partition_keys if name in names),
            rule.table_options or given.options,
            given.comment,
        )

    def _check_keys(self, items: Sequence[Item], names: Sequence[str]) -> None:
        rule = self.rule
        values = {each.name: each.expression for each in items}
        # Under another name, a column of the key is still there if the rule names its key.
        read = {each.name for each in values.values() if isinstance(each, ColumnRef)} if rule.primary_keys else set()
        for name in self.given.primary_key if not self.trim_keys else ():
            if name not in names and name not in read:
                reason = f"the projection leaves out '{name}', a column of the primary key"
                hint = "add it, or set 'transform.allow.trimming.pk-columns' to 'true'"
                self._add_problem("projection", reason, hint)
        for setting, columns in (("primary-keys", rule.primary_keys), ("partition-keys", rule.partition_keys)):
            for name in columns:
                if name not in names:
                    hint = nearest(name, names) or f"columns are {', '.join(names)}"
                    self._add_problem(setting, f"'{name}' is not a column", hint)
        for name in rule.primary_keys:
            if name in values and _EVENT in columns_of(values[name]):
                reason = f"'{name}' cannot be in the primary key: the two rows of an update differ in it"
                self._add_problem("primary-keys", reason, "leave it out")

    def _list_fields(self, items: Sequence[Item]) -> Iterator[Field]:
        for each in items:
            value = each.expression
            source = self.given.row.field(value.name) if isinstance(value, ColumnRef) else None
            if source is not None:
                yield replace(source, name=each.name)
            elif isinstance(value, ColumnRef):
                yield Field(each.name, value.type)
            else:  # as in Flink CDC, computed columns are nullable, but for IFNULL
                known = isinstance(value, Call) and value.function == "COALESCE"
                yield Field(each.name, value.type if known else value.type.with_nullability(True))
