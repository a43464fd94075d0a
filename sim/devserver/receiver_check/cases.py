"""The cases of the receiver check: each sends one kind of callback and says how a good receiver responds."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import orjson

from leyden.devserver.receiver_check.session import CheckSession, Message, TestRequest, signature_of

# What a case expects of the responses.
ACCEPTED, REJECTED, IGNORED, UNREADABLE, ANSWERED = "taken", "refused", "endured", "unreadable", "either"

CRITICAL, SERIOUS, MINOR = SEVERITIES = ("critical", "serious", "minor")

VALID, ADDITIONS, REPEATED, FORGED, MALFORMED = (
    "Valid messages",
    "Additions",
    "Repeated and out of order",
    "Forgeries",
    "Malformed messages",
)

EXPECTED_BEHAVIOUR = {
    ACCEPTED: "answers 2xx within the time limit",
    REJECTED: "answers 4xx and does nothing else",
    IGNORED: "answers 2xx and changes nothing",
    UNREADABLE: "answers 4xx, or 2xx if it keeps the message for a person to look at; it does not crash",
    ANSWERED: "answers 2xx or 4xx",
}
_ACTS_ONCE = "answers 2xx to each message within the time limit, and acts once"


@dataclass(frozen=True, slots=True)
class Case:
    """One check. `build` returns its requests; they are sent one after another, or all at once if `together`.

    `fix` is the advice after a failure; `expects` is the condition for a pass, and `good` says it where a request must
    not be acted on, too.
    """

    name: str
    group: str
    title: str
    severity: str
    expects: str
    build: Callable[[CheckSession], list[TestRequest]]
    fix: str
    together: bool = False
    good: str = ""

    @property
    def expected_behaviour(self) -> str:
        """The behaviour of a correct receiver."""
        return self.good or EXPECTED_BEHAVIOUR[self.expects]


def _bytes(session: CheckSession, body: bytes) -> Message:
    return Message(session.new_id(), "charge.completed", body)


def _reformatted(session: CheckSession) -> list[TestRequest]:
    message = session.paid()
    text = orjson.dumps(dict(reversed(message.json.items())), option=orjson.OPT_INDENT_2)
    return [session.request(replace(message, body=text.replace(b"/", b"\\/") + b"\n"))]


def _large(session: CheckSession) -> list[TestRequest]:
    fields: dict[str, Any] = {"description": "\U0001f9fe" * 639}
    if not session.has_internal_id:
        fields["internalId"] = "\u20bf" * 255
    return [session.request(session.paid(**fields))]


def _duplicate(session: CheckSession) -> list[TestRequest]:
    message = session.paid()
    return [session.request(message), session.request(message, attempt=2, must_ignore=True)]


def _day_later(session: CheckSession) -> list[TestRequest]:
    message = session.paid()
    late = session.request(message, attempt=7, later_ms=86_400_000, must_ignore=True)
    return [session.request(message), late]


def _other_id(session: CheckSession) -> list[TestRequest]:
    message = session.paid()
    return [session.request(message), session.request(session.changed(message), must_ignore=True)]


def _simultaneous(session: CheckSession) -> list[TestRequest]:
    return [session.request(session.paid())] * 5


def _reordered(session: CheckSession) -> list[TestRequest]:
    return [session.request(tip) for tip in reversed(session.static_payments(2))]


def _contradicted(session: CheckSession) -> list[TestRequest]:
    message = session.paid()
    other = session.changed(message, "charge.expired", status="expired", confirmedAt=None)
    return [session.request(message), session.request(other, must_ignore=True)]


def _other_amount(session: CheckSession) -> list[TestRequest]:
    message = session.paid()
    other = session.changed(message, amount=message.charge["amount"] + "0")
    return [session.request(message), session.request(other, must_ignore=True)]


def _changed_body(session: CheckSession) -> list[TestRequest]:
    message = session.paid()
    richer = session.changed(message, amount=message.charge["amount"] + "0")
    return [session.request(replace(richer, id=message.id), signed=message)]


def _changed_id(session: CheckSession) -> list[TestRequest]:
    message = session.paid()
    return [session.request(replace(message, id=session.new_id()), signed=message)]


def _changed_timestamp(session: CheckSession) -> list[TestRequest]:
    message = session.paid()
    old = signature_of(session.secret, message.id, str(session.now_s - 86_400), message.body)
    return [session.request(message, signature=f"v1,{old}")]


def _valid_signature(session: CheckSession, message: Message) -> str:
    return signature_of(session.secret, message.id, str(session.now_s), message.body)


def _other_versions(session: CheckSession) -> list[TestRequest]:
    message = session.paid()
    good = _valid_signature(session, message)
    return [session.request(message, signature=f"v2,{good[::-1]} v1a,{good} v1,{good}")]


def _only_unknown(session: CheckSession) -> list[TestRequest]:
    message = session.paid()
    return [session.request(message, signature=f"v2,{_valid_signature(session, message)}")]


def _cut_signature(session: CheckSession) -> list[TestRequest]:
    message = session.paid()
    return [session.request(message, signature=f"v1,{_valid_signature(session, message)[:8]}")]


def _bad_signature(session: CheckSession) -> list[TestRequest]:
    return [session.request(session.paid(), signature="v1," + base64.b64encode(bytes(32)).decode())]


def _wrong_types(session: CheckSession) -> list[TestRequest]:
    message = session.paid()
    return [
        session.request(
            session.changed(message, amount=int(message.charge["amount"]), status=["completed"], invoice="none")
        )
    ]


def _unknown_charge(session: CheckSession) -> list[TestRequest]:
    message = session.changed(session.paid(), id=session.new_id())
    return [session.request(message)]


VERIFY_BYTES = "Verify over the bytes as they came in, before anything parses them; do not parse and print them again."
ONCE = (
    "Keep what you have acted on, under a unique key, in the same transaction as the effect; "
    "when it is there already, do nothing and answer 200."
)
VERIFY_FIRST = "Verify the signature before you look at the body, and answer 401 when none of its parts is right."
CLOCK = (
    "Read webhook-timestamp as whole seconds, compare it with your own clock, and refuse what is more than five "
    "minutes off, either way."
)
_DIFFERENCE = "Allow five minutes' difference in either direction, as Standard Webhooks says: clocks are wrong."
_COVERS = "The signature covers id.timestamp.body, not the body alone: else old messages return as new ones."
_AFTER = "Check what the body says before you use it, and answer 400 when you cannot use it; log it, and do not crash."

CASES: tuple[Case, ...] = (
    # ------------------------------------------------------------------ valid messages
    Case("completed", VALID, "A Charge was paid", CRITICAL, ACCEPTED, lambda s: [s.request(s.paid())],
         "Look at the answer: a 4xx usually means another secret, or a signature made "
         "over a body that was parsed and printed again."),
    Case("expired", VALID, "A Charge expired", SERIOUS, ACCEPTED, lambda s: [s.request(s.expired())],
         "Take charge.expired too: close the order, answer 200. It has no confirmedAt."),
    Case("failed", VALID, "A Charge failed", SERIOUS, ACCEPTED, lambda s: [s.request(s.failed())],
         "Take charge.error too: it is rare, and the only way to learn that a Charge can no longer be paid."),
    Case("static-payment", VALID, "A Static Charge was paid", SERIOUS, ACCEPTED,
         lambda s: [s.request(s.static_payments(1)[0])],
         "A payment of a Static Charge has the paid Charge's own id, and staticChargeId, slots and allowedSlots "
         "besides. Find the Static Charge by staticChargeId."),
    Case("no-internal-id", VALID, "internalId is null", SERIOUS, ACCEPTED,
         lambda s: [s.request(s.paid(internalId=None))],
         "internalId is null when none was given. Allow for it."),
    Case("unicode", VALID, "Emoji, right-to-left text and line breaks", SERIOUS, ACCEPTED,
         lambda s: [s.request(s.paid(description="\u05e7\u05e4\u05d4 \u2615 \U0001f468\u200d\U0001f469\u200d\U0001f467 "
                                               "e\u0301 \u202eright\u202c <b>&amp;</b> '; --\n\tend"))],
         "Bodies are UTF-8. Read the signed bytes as such, and store texts where four-byte characters fit."),
    Case("large", VALID, "Every text as long as it may be", SERIOUS, ACCEPTED, _large,
         "A description may have 639 characters of four bytes each, and internalId 255: make room for them."),
    Case("spelled-otherwise", VALID, "The same JSON with other spaces, order and escapes", SERIOUS, ACCEPTED,
         _reformatted, VERIFY_BYTES),
    Case("header-case", VALID, "Header names in capitals", SERIOUS, ACCEPTED,
         lambda s: [s.request(s.paid(), header_case=str.title)],
         "Header names mean the same in capitals and small letters (RFC 9110, 5.1), and proxies change them."),
    Case("charset", VALID, "The content type says charset=utf-8", MINOR, ACCEPTED,
         lambda s: [s.request(s.paid(), headers={"content-type": "application/json; charset=utf-8"})],
         "Compare the media type without its parameters."),
    Case("clock-behind", VALID, "Our clock is four minutes behind yours", MINOR, ACCEPTED,
         lambda s: [s.request(s.paid(), timestamp=s.now_s - 240)],
         _DIFFERENCE),
    Case("clock-ahead", VALID, "Our clock is four minutes ahead of yours", MINOR, ACCEPTED,
         lambda s: [s.request(s.paid(), timestamp=s.now_s + 240)],
         _DIFFERENCE),
    Case("two-signatures", VALID, "Two signatures, and yours is the second", SERIOUS, ACCEPTED,
         lambda s: [s.request(s.paid(), secrets=[s.unknown_secret, s.secret])],
         "webhook-signature is a list with spaces between: one right part is enough, whatever the other parts are. "
         "While a secret is changed, old and new sign."),
    Case("other-versions", VALID, "Signatures of unknown versions beside the right one", SERIOUS, ACCEPTED,
         _other_versions,
         "Pass over the parts of webhook-signature that do not begin with v1, and go on with the next."),
    Case("slow-sender", VALID, "The body takes a second to arrive", MINOR, ACCEPTED,
         lambda s: [s.request(s.paid(), over_ms=1_000)],
         "Wait for the whole body (Content-Length says how much) before you verify it."),
    # ------------------------------------------------------------------ additions
    Case("unknown-field", ADDITIONS, "An unknown field", SERIOUS, ACCEPTED,
         lambda s: [s.request(s.changed(s.paid(), feePolicy={"tier": "gold"}))],
         "Pass over fields you do not know. A service may add some, and payments must not stop when it does."),
    Case("unknown-status", ADDITIONS, "An unknown status", MINOR, ACCEPTED,
         lambda s: [s.request(s.changed(s.paid(), "charge.refunded", status="refunded"), must_ignore=True)],
         "Answer 200 and do nothing: any other answer is a failed delivery. Never take an unknown status for paid.",
         good=EXPECTED_BEHAVIOUR[IGNORED]),
    Case("unknown-event", ADDITIONS, "An event about something else", MINOR, ACCEPTED,
         lambda s: [s.request(Message(s.new_id(), "wallet.updated", b'{"unit":"msats"}'), must_ignore=True)],
         "Answer 200 to events that are not for you, and do nothing.", good=EXPECTED_BEHAVIOUR[IGNORED]),
    Case("unknown-charge", ADDITIONS, "An unknown Charge", MINOR, IGNORED, _unknown_charge,
         "When you cannot find the Charge, log the message, answer, and go on."),
    # ------------------------------------------------------------------ repeated and out of order
    Case("duplicate", REPEATED, "The same message twice", SERIOUS, ACCEPTED, _duplicate,
         f"Deliveries are made at least once. {ONCE} The key is webhook-id.", good=_ACTS_ONCE),
    Case("a-day-later", REPEATED, "The same message again a day later", SERIOUS, ACCEPTED, _day_later,
         f"Keep the webhook-ids you have acted on for longer than deliveries are tried, by default three days. {ONCE}",
         good=_ACTS_ONCE),
    Case("another-id", REPEATED, "The same event under another webhook-id", SERIOUS, ACCEPTED, _other_id,
         f"A Charge is paid once, however often you hear of it. {ONCE} The key is the Charge's id.", good=_ACTS_ONCE),
    Case("at-once", REPEATED, "The same message five times at the same moment", SERIOUS, ACCEPTED, _simultaneous,
         "Let the database decide who was first, with a unique key: looking first and writing then is too late when "
         "two do it at once. Whoever was second answers 200.", together=True, good=_ACTS_ONCE),
    Case("burst", REPEATED, "Ten messages at the same moment", MINOR, ACCEPTED,
         lambda s: [s.request(s.paid()) for _ in range(10)],
         "Write the message down and answer; do the work afterwards. Up to eight deliveries come at a time.",
         together=True),
    Case("out-of-order", REPEATED, "The second payment of a Static Charge arrives before the first", MINOR, ACCEPTED,
         _reordered, "Act on each payment by itself, and read slots as of that moment, not as the latest."),
    Case("contradiction", REPEATED, "A paid Charge is reported as expired", SERIOUS, IGNORED, _contradicted,
         "Paid is final: write no other state over it. Ask GET /v0/charges/{id} when messages contradict each other."),
    Case("another-amount", REPEATED, "A paid Charge is reported again with ten times the amount", SERIOUS, IGNORED,
         _other_amount, "Compare the amount with what you asked for when you created the Charge, and act once."),
    # ------------------------------------------------------------------ forgeries
    Case("bad-signature", FORGED, "A signature of 32 zero bytes", CRITICAL, REJECTED, _bad_signature, VERIFY_FIRST),
    Case("foreign-secret", FORGED, "Signed with somebody else's secret", CRITICAL, REJECTED,
         lambda s: [s.request(s.paid(), secrets=[s.unknown_secret])], VERIFY_FIRST),
    Case("empty-secret", FORGED, "Signed with an empty secret", CRITICAL, REJECTED,
         lambda s: [s.request(s.paid(), secrets=["whsec_"])],
         "Refuse to start without a secret: an unset variable becomes an empty key, which anybody can sign with."),
    Case("changed-body", FORGED, "The amount was changed after signing", CRITICAL, REJECTED, _changed_body,
         f"{VERIFY_FIRST} {VERIFY_BYTES}"),
    Case("changed-id", FORGED, "The webhook-id was changed after signing", CRITICAL, REJECTED, _changed_id,
         _COVERS),
    Case("changed-timestamp", FORGED, "A message of yesterday under today's timestamp", CRITICAL, REJECTED,
         _changed_timestamp, _COVERS),
    Case("no-signature", FORGED, "The signature is missing", CRITICAL, REJECTED,
         lambda s: [s.request(s.paid(), drop=["webhook-signature"])],
         "A message without webhook-signature is not authenticated: answer 401 before you read the body."),
    Case("no-headers", FORGED, "All webhook headers are missing", CRITICAL, REJECTED,
         lambda s: [s.request(s.paid(), drop=["webhook-id", "webhook-timestamp", "webhook-signature"])],
         "A message without the three webhook headers is not authenticated: answer 401 before you read the body."),
    Case("empty-signature", FORGED, "The signature is empty", CRITICAL, REJECTED,
         lambda s: [s.request(s.paid(), signature="")],
         "An empty list of signatures has no right one: require at least one that matches."),
    Case("cut-signature", FORGED, "Only the first letters of the signature", CRITICAL, REJECTED, _cut_signature,
         "Compare whole signatures, in constant time (hmac.compare_digest, crypto.timingSafeEqual). The beginning of "
         "a signature, an empty one and a missing one are none: answer 401."),
    Case("unknown-version", FORGED, "The only signature is of an unknown version", SERIOUS, REJECTED, _only_unknown,
         "Count v1 parts only. You cannot know what a v2 signature covers."),
    Case("stale", FORGED, "A message of an hour ago, correctly signed", SERIOUS, REJECTED,
         lambda s: [s.request(s.paid(), timestamp=s.now_s - 3_600)], CLOCK),
    Case("future", FORGED, "A message from an hour ahead, correctly signed", SERIOUS, REJECTED,
         lambda s: [s.request(s.paid(), timestamp=s.now_s + 3_600)], CLOCK),
    Case("not-a-time", FORGED, "A timestamp that is not a number", SERIOUS, REJECTED,
         lambda s: [s.request(s.paid(), timestamp="yesterday")],
         "Read webhook-timestamp as whole seconds, and answer 400 when it is anything else."),
    # ------------------------------------------------------------------ malformed messages, correctly signed
    Case("truncated", MALFORMED, "Half of the JSON", MINOR, UNREADABLE,
         lambda s: [s.request((lambda m: replace(m, body=m.body[: len(m.body) // 2]))(s.paid()))], _AFTER),
    Case("empty-body", MALFORMED, "No body", MINOR, UNREADABLE, lambda s: [s.request(_bytes(s, b""))], _AFTER),
    Case("not-an-object", MALFORMED, "A list in place of an object", MINOR, UNREADABLE,
         lambda s: [s.request(_bytes(s, b'["charge.completed"]'))], _AFTER),
    Case("not-utf-8", MALFORMED, "Bytes that are not UTF-8", MINOR, UNREADABLE,
         lambda s: [s.request(_bytes(s, b'{"id":"\xff\xfe","status":"completed"}'))], _AFTER),
    Case("wrong-types", MALFORMED, "A number, a list and a text where other things belong", MINOR, UNREADABLE,
         _wrong_types, _AFTER),
    Case("content-type", MALFORMED, "A valid body with content type text/plain", MINOR, ANSWERED,
         lambda s: [s.request(s.paid(), headers={"content-type": "text/plain"})],
         "Read the body as JSON all the same, or answer 415."),
)  # fmt: skip
