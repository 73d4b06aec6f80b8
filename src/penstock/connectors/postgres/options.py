"""The options of the ``postgres`` connector, with the names of Flink's JDBC connector where it has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.connectors.postgres.address import Address, parse_address
from penstock.errors import Problem
from penstock.options import TEXT, OptionSet, Rule, choice, opt
from penstock.spi import Guarantee


def _check_url(options: PostgresSinkOptions) -> Iterator[Problem]:
    try:
        parse_address(options.url, options.username, options.password)
    except ValueError as error:
        yield Problem(str(error), "url")


def _check_table(options: PostgresSinkOptions) -> Iterator[Problem]:
    if not options.table_name.strip():
        yield Problem("must not be empty", "table-name", hint="for example 'orders', or 'shop.orders'")


def check_guarantee(options: Any) -> Iterator[Problem]:
    """The problem of a guarantee that there is not."""
    if options.guarantee is Guarantee.NONE:
        reason = "'none' is not supported: every row is written, at least once"
        yield Problem(reason, "sink.delivery-guarantee", hint="set it to at-least-once, or leave it out")


@dataclass(frozen=True, kw_only=True)
class PostgresSinkOptions(OptionSet):
    """Options of writing."""

    url: str = opt(
        "url",
        TEXT,
        doc=(
            "Address of the database; `jdbc:` may precede it. Parameters: user, password, sslmode, sslrootcert, "
            "sslcert, sslkey, application_name, connect_timeout."
        ),
        example="postgresql://localhost:5432/shop",
        secret=True,
    )
    table_name: str = opt(
        "table-name",
        TEXT,
        doc=(
            "The table to write, which must exist. As in SQL, case does not matter without double quotes, and "
            "the schema may precede the name. In pipelines it may be left out: then it is the last part of the "
            "table's id, and the part before that is the schema."
        ),
        example="shop.orders",
    )
    username: str | None = opt(
        "username", TEXT, default=None, doc="The user who connects; may also be in the URL.", example="penstock"
    )
    password: str | None = opt(
        "password", TEXT, default=None, doc="The user's password; may also be in the URL.", secret=True
    )
    guarantee: Guarantee = opt(
        "sink.delivery-guarantee",
        choice(Guarantee),
        default=Guarantee.EXACTLY_ONCE,
        doc=(
            "exactly-once: the job's progress is kept in the table `penstock_progress` of the same database; "
            "at-least-once: a batch that is retried after a failure is written again, so that rows of tables without a "
            "PRIMARY KEY repeat. none is refused."
        ),
        example="at-least-once",
    )

    rules: ClassVar[tuple[Rule, ...]] = (_check_url, _check_table, check_guarantee)

    @property
    def address(self) -> Address:
        """Where the database is, with its credentials."""
        return parse_address(self.url, self.username, self.password)
