"""Causes of accepted forgeries, and which failures have the cause of another: each mistake is named once.

An endpoint that accepts a signature which nobody made verifies none: what its other forgeries have in common is that,
and not a finer mistake, such as a secret that is empty or a timestamp that is not signed. In the same way a finer
mistake explains others (`_EXPLAINED`).
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from leyden.devserver.receiver_check.cases import CLOCK, FORGED, IGNORED, MALFORMED, VERIFY_FIRST
from leyden.devserver.receiver_check.cause import Cause
from leyden.devserver.receiver_check.findings import EFFECT, NOTICE, Finding, is_status

# Signatures that nobody made with the endpoint's secret: whoever accepts them verifies none.
_INVENTED = frozenset({"bad-signature", "foreign-secret"})
_TIMES = frozenset({"stale", "future"})

# Checks that fail in the same way as all of the first, and because of the same mistake: the correction of the first
# corrects them too. In this order.
_EXPLAINED: tuple[tuple[tuple[str, ...], frozenset[str]], ...] = (
    # Who compares beginnings finds an empty signature in every other one, and a missing one is often read as empty.
    (("cut-signature",), frozenset({"empty-signature", "no-signature", "no-headers"})),
    # Who verifies only where there is a signature.
    (("no-signature",), frozenset({"empty-signature", "no-headers"})),
    # Who never looks at the time.
    (("stale", "future"), frozenset({"not-a-time"})),
    # Who parses and prints the JSON again prints these otherwise, too.
    (("spelled-otherwise",), frozenset({"unicode", "large"})),
    # Who compares the header as a whole.
    (("two-signatures",), frozenset({"other-versions"})),
    # Who reads bodies in another encoding than UTF-8: the large one has such texts, too.
    (("unicode",), frozenset({"large"})),
)


_REFUSES_RIGHTLY = (
    "It is right not to act on this message. Answer 200 all the same, and log it: a refusal is a failed attempt."
)


def corrected_by(finding: Finding, failed: Sequence[Finding]) -> str:
    """The correction of a finding: of its own case, or of another one among those that `failed` and explains it."""
    if _refuses_rightly(finding):
        return _REFUSES_RIGHTLY
    by_name = {one.case.name: one for one in failed if one.verdict == finding.verdict}
    for names, explained in _EXPLAINED:
        firsts = [by_name[name] for name in names if name in by_name]
        if (
            finding.case.name in explained
            and len(firsts) == len(names)
            and all(_responses(first) == _responses(finding) for first in firsts)
        ):
            return firsts[0].case.fix
    return finding.case.fix


def _refuses_rightly(finding: Finding) -> bool:
    """Whether it refused a message that it must not act on, after one that it took."""
    statuses = [exchange.answer.status for exchange in finding.exchanges]
    is_other = finding.verdict == NOTICE and not finding.about and finding.case.expects == IGNORED
    taken, last = statuses[:-1], statuses[-1] if statuses else None
    return is_other and bool(taken) and all(is_status(2, status) for status in taken) and is_status(4, last)


def _responses(finding: Finding) -> set[str]:
    """The kinds of responses, where all of 2xx are one kind."""
    return {"2xx" if outcome.startswith("2") else outcome for outcome in finding.outcomes}


def nothing_verified(url: str, findings: Sequence[Finding], left: Sequence[Finding]) -> Cause | None:
    """Forged messages are accepted: all of them, or those with an invented signature among others."""
    forged = [finding for finding in findings if finding.case.group == FORGED and finding.exchanges]
    accepted = [finding for finding in forged if is_accepted(finding)]
    invented = [finding for finding in forged if finding.case.name in _INVENTED and not finding.is_right]
    is_all = len(accepted) == len(forged)
    if len(accepted) < 2 or not (is_all or (invented and all(one in accepted for one in invented))):
        return None
    answers = [exchange.answer for finding in accepted for exchange in finding.exchanges]
    effects = [exchange.effect for finding in accepted for exchange in finding.exchanges]
    only_answers = all(effect == "ignored" for effect in effects)
    malformed = [finding for finding in findings if finding.case.group == MALFORMED and finding.exchanges]
    takes_all = is_all and all(map(is_accepted, malformed))
    explained = [
        finding
        for finding in left
        if finding in (accepted if only_answers else forged)
        or (takes_all and finding in malformed and finding.verdict == NOTICE)
    ]
    page = any("html" in answer.headers.get("content-type", "") for answer in answers)
    statuses = " and ".join(dict.fromkeys(str(answer.status) for answer in answers))
    is_every = len(forged) == sum(finding.case.group == FORGED for finding in findings)
    if not is_all:
        messages = f"{len(accepted)} of {len(forged)} forged messages, with invented signatures too"
    elif is_every:
        messages = "every forged message"
    else:
        messages = f"each of the {len(forged)} forged messages that were sent"
    found = f"it answered {statuses} to {messages}{', with an HTML page' if page else ''}"
    more, fix = _acceptance(effects)
    if not only_answers and any(finding.case.name in _TIMES for finding in explained):
        fix = f"{fix} {CLOCK}"
    fix = " ".join([fix, *dict.fromkeys(one.case.fix for one in explained if one in malformed)])
    if page:
        fix = f"A page for people answers at {urlsplit(url).path or '/'}: check the path of the URL. Then: {fix}"
    return Cause(found + more, fix, explained, is_common=True)


def is_accepted(finding: Finding) -> bool:
    """Whether it was sent, and every answer is a 2xx."""
    statuses = [exchange.answer.status for exchange in finding.exchanges]
    return bool(statuses) and all(is_status(2, status) for status in statuses)


def _acceptance(effects: Sequence[str]) -> tuple[str, str]:
    """The meaning of a 2xx to forged messages, given the reported effects, and the correction."""
    if all(effect == "applied" for effect in effects):
        return f": it verifies nothing, as its {EFFECT} says", VERIFY_FIRST
    if all(effect == "ignored" for effect in effects):
        return "", (
            f"Answer 4xx to what does not verify. It does not act on these messages, as its {EFFECT} says, but the "
            "sender cannot see that: to the sender they count as accepted."
        )
    return "", f"Answer 4xx to what does not verify. {VERIFY_FIRST}"
