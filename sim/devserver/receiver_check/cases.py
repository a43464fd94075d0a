"""The catalogue of the receiver check: each trouble that callbacks bring, one by one, and what a good receiver does."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import orjson

from leyden.devserver.receiver_check.session import Bench, Message, Shot, mac

# What a check expects of the answers.
TAKEN, REFUSED, ENDURED, UNREADABLE, EITHER = "taken", "refused", "endured", "unreadable", "either"

CRITICAL, SERIOUS, MINOR = SEVERITIES = ("critical", "serious", "minor")

SOUND, NEW, AGAIN, FORGED, BROKEN = "Sound messages", "News", "Again and out of order", "Forgeries", "Broken messages"

GOOD = {
    TAKEN: "answers 2xx within the time limit",
    REFUSED: "answers 4xx and does nothing else",
    ENDURED: "answers 2xx and changes nothing",
    UNREADABLE: "answers 4xx, or 2xx if somebody will look at it later; it does not crash",
    EITHER: "answers 2xx or 4xx",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One trouble. `make` gives the requests, which are sent one after another, or all at once if `together`.

    `mend` tells those who fail what to do; `expects` says what counts as a pass.
    """

    name: str
    group: str
    title: str
    severity: str
    expects: str
    make: Callable[[Bench], list[Shot]]
    mend: str
    together: bool = False

    @property
    def good(self) -> str:
        """What a good receiver does."""
        return GOOD[self.expects]


def _bytes(bench: Bench, body: bytes) -> Message:
    return Message(bench.new_id(), "charge.completed", body)


def _spelled(bench: Bench) -> list[Shot]:
    message = bench.paid()
    text = orjson.dumps(dict(reversed(message.json.items())), option=orjson.OPT_INDENT_2)
    return [bench.shot(replace(message, body=text.replace(b"/", b"\\/") + b"\n"))]


def _large(bench: Bench) -> list[Shot]:
    fields: dict[str, Any] = {"description": "\U0001f9fe" * 639}
    if not bench.knows_its_orders:
        fields["internalId"] = "\u20bf" * 255
    return [bench.shot(bench.paid(**fields))]


def _again(bench: Bench) -> list[Shot]:
    message = bench.paid()
    return [bench.shot(message), bench.shot(message, attempt=2, must_ignore=True)]


def _day_later(bench: Bench) -> list[Shot]:
    message = bench.paid()
    late = bench.shot(message, attempt=7, later_ms=86_400_000, must_ignore=True)
    return [bench.shot(message), late]


def _other_id(bench: Bench) -> list[Shot]:
    message = bench.paid()
    return [bench.shot(message), bench.shot(bench.told(message), must_ignore=True)]


def _at_once(bench: Bench) -> list[Shot]:
    return [bench.shot(bench.paid())] * 5


def _reordered(bench: Bench) -> list[Shot]:
    return [bench.shot(tip) for tip in reversed(bench.tips(2))]


def _contradicted(bench: Bench) -> list[Shot]:
    message = bench.paid()
    other = bench.told(message, "charge.expired", status="expired", confirmedAt=None)
    return [bench.shot(message), bench.shot(other, must_ignore=True)]


def _other_amount(bench: Bench) -> list[Shot]:
    message = bench.paid()
    other = bench.told(message, amount=message.charge["amount"] + "0")
    return [bench.shot(message), bench.shot(other, must_ignore=True)]


def _changed(bench: Bench) -> list[Shot]:
    message = bench.paid()
    richer = bench.told(message, amount=message.charge["amount"] + "0")
    return [bench.shot(replace(richer, id=message.id), signed=message)]


def _renamed(bench: Bench) -> list[Shot]:
    message = bench.paid()
    return [bench.shot(replace(message, id=bench.new_id()), signed=message)]


def _restamped(bench: Bench) -> list[Shot]:
    message = bench.paid()
    old = mac(bench.secret, message.id, str(bench.now_s - 86_400), message.body)
    return [bench.shot(message, signature=f"v1,{old}")]


def _good_mac(bench: Bench, message: Message) -> str:
    return mac(bench.secret, message.id, str(bench.now_s), message.body)


def _beside(bench: Bench) -> list[Shot]:
    message = bench.paid()
    good = _good_mac(bench, message)
    return [bench.shot(message, signature=f"v2,{good[::-1]} v1a,{good} v1,{good}")]


def _only_unknown(bench: Bench) -> list[Shot]:
    message = bench.paid()
    return [bench.shot(message, signature=f"v2,{_good_mac(bench, message)}")]


def _cut(bench: Bench) -> list[Shot]:
    message = bench.paid()
    return [bench.shot(message, signature=f"v1,{_good_mac(bench, message)[:8]}")]


def _unsound(bench: Bench) -> list[Shot]:
    return [bench.shot(bench.paid(), signature="v1," + base64.b64encode(bytes(32)).decode())]


def _wrong_types(bench: Bench) -> list[Shot]:
    message = bench.paid()
    return [bench.shot(bench.told(message, amount=int(message.charge["amount"]), status=["completed"], invoice="none"))]


def _unknown_charge(bench: Bench) -> list[Shot]:
    message = bench.told(bench.paid(), id=bench.new_id())
    return [bench.shot(message)]


_KEEP_RAW = "Verify over the bytes as they came in, before anything parses them; do not parse and print them again."
_ONCE = (
    "Keep what you have acted on, under a unique key, in the same transaction as the effect; "
    "when it is there already, do nothing and answer 200."
)
_VERIFY = "Verify the signature before you look at the body, and answer 401 when none of its parts is right."
_CLOCK = "Compare webhook-timestamp with your own clock, and refuse what is more than five minutes off, either way."
_AFTER = "Check what the body says before you use it, and answer 400 when you cannot use it; log it, and do not crash."

CATALOGUE: tuple[Check, ...] = (
    # ------------------------------------------------------------------ sound messages
    Check("completed", SOUND, "A Charge was paid", CRITICAL, TAKEN, lambda b: [b.shot(b.paid())],
          "Nothing works before this does. Look at the answer: a 4xx usually means another secret, or a signature made "
          "over a body that was parsed and printed again."),
    Check("expired", SOUND, "A Charge expired", SERIOUS, TAKEN, lambda b: [b.shot(b.expired())],
          "Take charge.expired too: close the order, answer 200. It has no confirmedAt."),
    Check("failed", SOUND, "A Charge failed", SERIOUS, TAKEN, lambda b: [b.shot(b.failed())],
          "Take charge.error too: it is rare, and the only way to learn that a Charge can no longer be paid."),
    Check("static-payment", SOUND, "A Static Charge was paid", SERIOUS, TAKEN,
          lambda b: [b.shot(b.tips(1)[0])],
          "A payment of a Static Charge has the paid Charge's own id, and staticChargeId, slots and allowedSlots "
          "besides. Find the Static Charge by staticChargeId."),
    Check("no-internal-id", SOUND, "internalId is null", SERIOUS, TAKEN,
          lambda b: [b.shot(b.paid(internalId=None))],
          "internalId is null when none was given. Allow for it."),
    Check("unicode", SOUND, "Emoji, right-to-left text and line breaks", SERIOUS, TAKEN,
          lambda b: [b.shot(b.paid(description="\u05e7\u05e4\u05d4 \u2615 \U0001f468\u200d\U0001f469\u200d\U0001f467 "
                                               "e\u0301 \u202eright\u202c <b>&amp;</b> '; --\n\tend"))],
          "Bodies are UTF-8. Read the signed bytes as such, and store texts where four-byte characters fit."),
    Check("large", SOUND, "Every text as long as it may be", SERIOUS, TAKEN, _large,
          "A description may have 639 characters of four bytes each, and internalId 255: make room for them."),
    Check("spelled-otherwise", SOUND, "The same JSON with other spaces, order and escapes", SERIOUS, TAKEN, _spelled,
          _KEEP_RAW),
    Check("header-case", SOUND, "Header names in capitals", SERIOUS, TAKEN,
          lambda b: [b.shot(b.paid(), spell=str.title)],
          "Header names mean the same in capitals and small letters (RFC 9110, 5.1), and proxies change them."),
    Check("charset", SOUND, "The content type says charset=utf-8", MINOR, TAKEN,
          lambda b: [b.shot(b.paid(), headers={"content-type": "application/json; charset=utf-8"})],
          "Compare the media type without its parameters."),
    Check("clock-behind", SOUND, "Our clock is four minutes behind yours", MINOR, TAKEN,
          lambda b: [b.shot(b.paid(), stamp=b.now_s - 240)],
          "Allow five minutes' difference, as Standard Webhooks says: networks are slow and clocks are wrong."),
    Check("clock-ahead", SOUND, "Our clock is four minutes ahead of yours", MINOR, TAKEN,
          lambda b: [b.shot(b.paid(), stamp=b.now_s + 240)],
          "Allow five minutes' difference in either direction."),
    Check("two-signatures", SOUND, "Two signatures, and yours is the second", SERIOUS, TAKEN,
          lambda b: [b.shot(b.paid(), secrets=[b.foreign_secret, b.secret])],
          "webhook-signature is a list with spaces between: one right part is enough. While a secret is changed, old "
          "and new sign."),
    Check("other-versions", SOUND, "Signatures of unknown versions beside the right one", SERIOUS, TAKEN, _beside,
          "Pass over the parts of webhook-signature that do not begin with v1, and go on with the next."),
    Check("slow-sender", SOUND, "The body takes a second to arrive", MINOR, TAKEN,
          lambda b: [b.shot(b.paid(), over_ms=1_000)],
          "Wait for the whole body (Content-Length says how much) before you verify it."),
    # ------------------------------------------------------------------ news
    Check("unknown-field", NEW, "A field that did not use to be there", SERIOUS, TAKEN,
          lambda b: [b.shot(b.told(b.paid(), feePolicy={"tier": "gold"}))],
          "Pass over fields you do not know. A service may add some, and payments must not stop when it does."),
    Check("unknown-status", NEW, "A status that did not use to be there", MINOR, TAKEN,
          lambda b: [b.shot(b.told(b.paid(), "charge.refunded", status="refunded"), must_ignore=True)],
          "Answer 200 and do nothing: refused, it comes for three days. Never take an unknown status for paid."),
    Check("unknown-event", NEW, "An event about something else", MINOR, TAKEN,
          lambda b: [b.shot(Message(b.new_id(), "wallet.updated", b'{"unit":"msats"}'), must_ignore=True)],
          "Answer 200 to events that are not for you, and do nothing."),
    Check("unknown-charge", NEW, "A Charge that nobody here created", MINOR, ENDURED, _unknown_charge,
          "Treat a Charge that you cannot find as news for somebody else: log it, answer, and go on."),
    # ------------------------------------------------------------------ again and out of order
    Check("duplicate", AGAIN, "The same message twice", SERIOUS, TAKEN, _again,
          f"Deliveries are made at least once. {_ONCE} The key is webhook-id."),
    Check("a-day-later", AGAIN, "The same message again a day later", SERIOUS, TAKEN, _day_later,
          f"Keep the webhook-ids you have acted on for longer than deliveries are tried, which is three days. {_ONCE}"),
    Check("another-id", AGAIN, "The same news under another webhook-id", SERIOUS, TAKEN, _other_id,
          f"A Charge is paid once, however often you hear of it. {_ONCE} The key is the Charge's id."),
    Check("at-once", AGAIN, "The same message five times at the same moment", SERIOUS, TAKEN, _at_once,
          "Let the database decide who was first, with a unique key: looking first and writing then is too late when "
          "two do it at once. Whoever was second answers 200.", together=True),
    Check("burst", AGAIN, "Ten messages at the same moment", MINOR, TAKEN,
          lambda b: [b.shot(b.paid()) for _ in range(10)],
          "Write the message down and answer; do the work afterwards. Up to eight deliveries come at a time.",
          together=True),
    Check("out-of-order", AGAIN, "The second payment of a Static Charge is told before the first", MINOR, TAKEN,
          _reordered, "Act on each payment by itself, and read slots as of that moment, not as the latest."),
    Check("contradiction", AGAIN, "A paid Charge is said to have expired", SERIOUS, ENDURED, _contradicted,
          "Paid is final: write no other state over it. Ask GET /v0/charges/{id} when messages contradict each other."),
    Check("another-amount", AGAIN, "A paid Charge is told again with ten times the amount", SERIOUS, ENDURED,
          _other_amount, "Compare the amount with what you asked for when you created the Charge, and act once."),
    # ------------------------------------------------------------------ forgeries
    Check("bad-signature", FORGED, "A signature that signs nothing", CRITICAL, REFUSED, _unsound, _VERIFY),
    Check("foreign-secret", FORGED, "Signed with somebody else's secret", CRITICAL, REFUSED,
          lambda b: [b.shot(b.paid(), secrets=[b.foreign_secret])], _VERIFY),
    Check("empty-secret", FORGED, "Signed with an empty secret", CRITICAL, REFUSED,
          lambda b: [b.shot(b.paid(), secrets=["whsec_"])],
          "Refuse to start without a secret: an unset variable becomes an empty key, which anybody can sign with."),
    Check("changed-body", FORGED, "The amount was changed after signing", CRITICAL, REFUSED, _changed,
          f"{_VERIFY} {_KEEP_RAW}"),
    Check("changed-id", FORGED, "The webhook-id was changed after signing", CRITICAL, REFUSED, _renamed,
          "The signature covers id.timestamp.body, not the body alone: else old messages return under new ids."),
    Check("changed-timestamp", FORGED, "A message of yesterday under today's timestamp", CRITICAL, REFUSED, _restamped,
          "The signature covers id.timestamp.body, not the body alone: else old messages can be made new."),
    Check("no-signature", FORGED, "The signature is missing", CRITICAL, REFUSED,
          lambda b: [b.shot(b.paid(), drop=["webhook-signature"])],
          "Without webhook-signature a message is nobody's: answer 401 before you read the body."),
    Check("no-headers", FORGED, "All webhook headers are missing", CRITICAL, REFUSED,
          lambda b: [b.shot(b.paid(), drop=["webhook-id", "webhook-timestamp", "webhook-signature"])],
          "Without the three webhook headers a message is nobody's: answer 401 before you read the body."),
    Check("empty-signature", FORGED, "The signature is empty", CRITICAL, REFUSED,
          lambda b: [b.shot(b.paid(), signature="")],
          "An empty list of signatures has no right one: require at least one that matches."),
    Check("cut-signature", FORGED, "Only the first letters of the signature", CRITICAL, REFUSED, _cut,
          "Compare whole signatures, in constant time (hmac.compare_digest, crypto.timingSafeEqual)."),
    Check("unknown-version", FORGED, "The only signature is of an unknown version", SERIOUS, REFUSED, _only_unknown,
          "Count v1 parts only. You cannot know what a v2 signature covers."),
    Check("stale", FORGED, "A message of an hour ago, soundly signed", SERIOUS, REFUSED,
          lambda b: [b.shot(b.paid(), stamp=b.now_s - 3_600)], _CLOCK),
    Check("future", FORGED, "A message from an hour ahead, soundly signed", SERIOUS, REFUSED,
          lambda b: [b.shot(b.paid(), stamp=b.now_s + 3_600)], _CLOCK),
    Check("not-a-time", FORGED, "A timestamp that is no number", SERIOUS, REFUSED,
          lambda b: [b.shot(b.paid(), stamp="yesterday")],
          "Read webhook-timestamp as whole seconds, and answer 400 when it is anything else."),
    # ------------------------------------------------------------------ broken messages, soundly signed
    Check("truncated", BROKEN, "Half of the JSON", MINOR, UNREADABLE,
          lambda b: [b.shot((lambda m: replace(m, body=m.body[: len(m.body) // 2]))(b.paid()))], _AFTER),
    Check("empty-body", BROKEN, "No body", MINOR, UNREADABLE, lambda b: [b.shot(_bytes(b, b""))], _AFTER),
    Check("not-an-object", BROKEN, "A list in place of an object", MINOR, UNREADABLE,
          lambda b: [b.shot(_bytes(b, b'["charge.completed"]'))], _AFTER),
    Check("not-utf-8", BROKEN, "Bytes that are no text", MINOR, UNREADABLE,
          lambda b: [b.shot(_bytes(b, b'{"id":"\xff\xfe","status":"completed"}'))], _AFTER),
    Check("wrong-types", BROKEN, "A number, a list and a text where other things belong", MINOR, UNREADABLE,
          _wrong_types, _AFTER),
    Check("content-type", BROKEN, "A sound body under text/plain", MINOR, EITHER,
          lambda b: [b.shot(b.paid(), headers={"content-type": "text/plain"})],
          "Read the body as JSON all the same, or answer 415."),
)  # fmt: skip
