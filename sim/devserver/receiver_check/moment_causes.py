"""The cause of refusals of messages that differ in nothing from those that were accepted: a state of the endpoint."""

from __future__ import annotations

from collections.abc import Sequence

from leyden.devserver.receiver_check.cases import FORGED, MALFORMED, REPEATED
from leyden.devserver.receiver_check.cause import Cause
from leyden.devserver.receiver_check.findings import ACTED, Exchange, Finding, is_status

_LEAST = 3  # fewer checks have their own corrections


def unlike_before(url: str, findings: Sequence[Finding], left: Sequence[Finding]) -> Cause | None:
    """An ordinary message about a Charge that was paid is refused, and another such message was accepted: neither the
    signature nor the body is the reason."""
    first = next((finding for finding in findings if finding.case.name == "completed"), None)
    if first is None or not all(is_status(2, one.answer.status) for one in first.exchanges):
        return None
    ordinary = [
        finding.exchanges[0]
        for finding in findings
        if finding.case.group == REPEATED and finding.exchanges and _begins_ordinarily(finding)
    ]
    statuses = {one.answer.status for one in ordinary if _is_refused(one)}
    refused = [finding for finding in findings if _is_refused_with(finding, statuses)]
    explained = [finding for finding in left if finding in refused and finding.about != ACTED]
    if len(explained) < _LEAST:
        return None
    sent = sum(bool(finding.exchanges) for finding in findings)
    shown = " or ".join(str(status) for status in sorted(statuses, key=lambda status: status or 0))
    return Cause(
        f"it answered {shown} wrongly in {len(refused)} of {sent} checks, first in {refused[0].case.name}, also to "
        "messages about paid Charges such as the first one, which it accepted",
        "Look in the log of the endpoint for what it answered so: what the messages say is not the reason, but perhaps "
        "their number, the time, or what it has kept of earlier ones, such as other Charges with the same internalId.",
        explained,
        is_common=True,
    )


def _begins_ordinarily(finding: Finding) -> bool:
    """Whether its first message is about a paid Charge, and alone at that moment."""
    return not finding.case.together and finding.case.name != "out-of-order"


def _is_refused(exchange: Exchange) -> bool:
    return exchange.answer.status is not None and not is_status(2, exchange.answer.status) and not exchange.is_declined


def _is_refused_with(finding: Finding, statuses: set[int | None]) -> bool:
    """Whether it has such a status, which is not what a good endpoint answers to the message."""
    is_wrong = finding.case.group not in (FORGED, MALFORMED)
    return any(
        one.answer.status in statuses and (is_wrong or not is_status(4, one.answer.status)) for one in finding.exchanges
    )
