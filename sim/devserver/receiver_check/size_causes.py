"""The cause of refusals that follow the size of a message: a limit of the body, in the program or in a proxy."""

from __future__ import annotations

from collections.abc import Sequence

from leyden.devserver.receiver_check.cases import ACCEPTED, IGNORED, VALID
from leyden.devserver.receiver_check.cause import Cause
from leyden.devserver.receiver_check.findings import Exchange, Finding, is_status

_TOO_LARGE = 413  # "Content Too Large" (RFC 9110, 15.5.14)
# Their texts or their form may be the reason as well: they are larger than others, and different.
_OTHERWISE = frozenset({"unicode", "large", "spelled-otherwise"})


def too_large(url: str, findings: Sequence[Finding], left: Sequence[Finding]) -> Cause | None:
    """Every refused message is larger than every accepted one, and the status or several refusals say that this is the
    reason."""
    accepted = [one for finding in findings for one in finding.exchanges if is_status(2, one.answer.status)]
    most = max(map(_size, accepted), default=0)
    refused = [finding for finding in findings if any(_is_too_large(one) for one in finding.exchanges)]
    by_status = bool(refused)
    if not by_status:
        valid = [finding for finding in findings if finding.case.expects in (ACCEPTED, IGNORED)]
        refused = [finding for finding in valid if any(_is_refused(one) for one in finding.exchanges)]
        is_accepted = any(
            is_status(2, one.answer.status)
            for finding in valid
            for one in finding.exchanges
            if finding.case.group == VALID
        )
        if not is_accepted or len({finding.case.name for finding in refused} - _OTHERWISE) < 2:
            return None
    is_one = _is_too_large if by_status else _is_refused
    exchanges = [one for finding in refused for one in finding.exchanges if is_one(one)]
    least = min(map(_size, exchanges))
    if least <= most:
        return None
    statuses = " and ".join(dict.fromkeys(str(one.answer.status) for one in exchanges))
    found = f"it answered {statuses} to messages of {least} bytes and more"
    if accepted:
        found += f", and accepted those of up to {most} bytes"
    largest = max(map(_size, exchanges))
    return Cause(
        f"{found}: it limits the size of the body",
        f"Raise the limit of the body for the callbacks' path, in the program and in the proxy in front of it, to more "
        f"than the {largest} bytes of the largest message that was sent here; 64 kB are enough.",
        [finding for finding in left if finding in refused],
        is_common=True,
    )


def _size(exchange: Exchange) -> int:
    return len(exchange.sent.request.body)


def _is_too_large(exchange: Exchange) -> bool:
    return exchange.answer.status == _TOO_LARGE


def _is_refused(exchange: Exchange) -> bool:
    return is_status(4, exchange.answer.status)
