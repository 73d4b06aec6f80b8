"""Why brokers are not reached, as text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.kafka.faults import CLIENT_CODE, Fault, KafkaFault


@dataclass(frozen=True)
class _Reason:
    words: str
    hint: str


_NO_ANSWER = _Reason("no answer", "check the address, that no firewall is in between, and security.protocol")
#: The causes, by the client library's reports.
_REASONS: Sequence[tuple[str, _Reason]] = (
    (
        "ECONNREFUSED|Connection refused",
        _Reason("nothing listens there", "check bootstrap.servers, and that the broker is up"),
    ),
    ("DNS", _Reason("the name cannot be resolved", "check the host's name in bootstrap.servers, and DNS")),
    (
        "closed during TLS|SSL",
        _Reason("the connection is closed during TLS", "check security.protocol against the listener's"),
    ),
    (
        "closed by the broker|Connection ?[Rr]eset|ECONNRESET",
        _Reason("the connection is closed at once", "check security.protocol against the listener's"),
    ),
    (
        "EHOSTUNREACH|ENETUNREACH|ENETDOWN|EHOSTDOWN",
        _Reason("the network does not lead there", "check the address, and the network"),
    ),
    ("no answer|imed out|ETIMEDOUT|TimeoutError|in time", _NO_ANSWER),
)


def is_of_connection(fault: Fault) -> bool:
    """Whether a fault arose on the way to a broker, and not in its answer."""
    return fault.code == CLIENT_CODE


def explain_unreachable(faults: Mapping[str, KafkaFault | None]) -> str:
    """Why none of these addresses was reached, and what to check; ``faults`` has the last fault of each, None where
    nothing came back yet. One sentence, without addresses if there is one."""
    found = {address: _find_reason(fault) for address, fault in faults.items()}
    if len({each.words for each in found.values()}) == 1:
        words = next(iter(found.values())).words
    else:
        words = ", ".join(f"{address}: {each.words}" for address, each in found.items())
    return "; ".join((words, *dict.fromkeys(each.hint for each in found.values())))


def _find_reason(raised: KafkaFault | None) -> _Reason:
    if raised is None:
        return _NO_ANSWER
    fault, detail = raised.fault, raised.detail
    if fault.hint:  # not about the connection to the broker, but for example about a token's endpoint
        return _Reason(f"{fault.name} ({detail})" if detail else fault.name, fault.hint)
    text = f"{fault.name} {detail}".strip()
    for pattern, reason in _REASONS:
        if re.search(pattern, text):
            return reason
    return _Reason(text, "check that the broker is up and reachable from here")
