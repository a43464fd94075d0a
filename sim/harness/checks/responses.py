"""Checks: one answer held against one promise. Each raises `Broken` with the promise that was not kept."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from standardwebhooks.webhooks import Webhook

from leyden.harness.checks.violations import Broken, difference
from leyden.harness.model.records import Attempt, Charge, Delivery, Received, Static
from leyden.harness.model.rules import iso
from leyden.harness.runs.adapters import Answer
from leyden.lightning.bolt11.codec import Bolt11, decode

UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_PROBLEM = ("type", "title", "status", "detail", "code", "message", "success", "errors", "request_id")
_BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
FEATURES = frozenset({8, 14, 17})
FINAL_CLTV = 80


def media(answer: Answer, wanted: str, where: str) -> None:
    """The media type of an answer with a body."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != wanted:
        check = "errors_are_problems" if "problem" in wanted else "lifecycle"
        raise Broken(check, "DECISIONS errors", f"{where}: content-type", wanted, kind)


def problem(answer: Answer, status: int, code: str, clause: str, where: str) -> dict[str, Any]:
    """A refusal: the status, and a problem document that says the same [errors]. Returns the document."""
    if answer.status != status:
        seen = f"{answer.status} {answer.body[:200].decode('utf-8', 'replace')}"
        raise Broken("errors_are_problems", clause, f"{where}: status", status, seen)
    media(answer, "application/problem+json", where)
    body = answer.json
    if not isinstance(body, dict) or set(body) != set(_PROBLEM):
        raise Broken("errors_are_problems", "DECISIONS errors", f"{where}: members", sorted(_PROBLEM), body)
    promised: dict[str, Any] = {
        "type": f"urn:leyden:problem:{body['code']}",
        "status": status,
        "success": False,
        "message": body["detail"],
        "code": code or body["code"],
    }
    found = {name: body[name] for name in promised}
    if found != promised or body["success"] is not False:
        raise Broken("errors_are_problems", clause, f"{where}: problem", *difference(promised, found))
    texts = all(isinstance(body[name], str) and body[name] for name in ("title", "detail", "code", "request_id"))
    faults = isinstance(body["errors"], list) and all(
        isinstance(one, dict)
        and set(one) == {"pointer", "detail"}
        and all(isinstance(text, str) for text in one.values())
        for one in body["errors"]
    )
    if not texts or not faults or (status == 400 and not body["errors"]):
        raise Broken("errors_are_problems", "DECISIONS errors", f"{where}: members", "texts and a list of places", body)
    if status == 401 and not answer.headers.get("www-authenticate"):
        raise Broken("errors_are_problems", "DECISIONS statuses", f"{where}: WWW-Authenticate", "a challenge", None)
    if status == 429 and not answer.headers.get("retry-after", "").isdigit():
        raise Broken("errors_are_problems", "DECISIONS statuses", f"{where}: Retry-After", "seconds", answer.headers)
    return body


def success(answer: Answer, clause: str, where: str) -> Any:
    """A 200 with the envelope [envelope]; returns `data`."""
    if answer.status != 200:
        seen = f"{answer.status} {answer.body[:300].decode('utf-8', 'replace')}"
        raise Broken("lifecycle", clause, f"{where}: status", 200, seen)
    media(answer, "application/json", where)
    body = answer.json
    members = {"success", "message", "data"} | ({"next"} if where.startswith("list") else set())
    if not isinstance(body, dict) or set(body) != members or body["success"] is not True:
        raise Broken("echo", "DECISIONS envelope", where, "success: true, message and data", body)
    if not isinstance(body["message"], str) or not body["message"]:
        raise Broken("echo", "DECISIONS envelope", f"{where}: message", "a sentence", body["message"])
    return body["data"]


def same(promised: Any, seen: Any, check: str, clause: str, where: str) -> None:
    """Two JSON values are the same, the numbers' spelling included."""
    if promised == seen and _kinds(promised) == _kinds(seen):
        return
    if isinstance(promised, Mapping):
        promised, seen = difference(promised, seen)
    raise Broken(check, clause, where, promised, seen)


def _kinds(value: Any) -> Any:
    # Python's 1, 1.0 and True are equal; JSON's are not.
    if isinstance(value, dict):
        return {name: _kinds(item) for name, item in value.items() if not isinstance(item, str)}
    return [_kinds(item) for item in value] if isinstance(value, list) else type(value)


def identifier(value: Any, known: Mapping[str, object], where: str) -> str:
    """A new id: a version 4 UUID that nothing else has [ids]."""
    if not isinstance(value, str) or not UUID4.fullmatch(value):
        raise Broken("echo", "DECISIONS ids", f"{where}: id", "a version 4 UUID in lower case", value)
    if value in known:
        raise Broken("isolation", "DECISIONS ids", f"{where}: id", "an id of its own", f"{value}, which is another's")
    return value


def invoice(charge: Charge, request: Any, node: bytes | None, hashes: Mapping[str, object], where: str) -> Bolt11:
    """The invoice says what its Charge says [invoices, timestamps, description]; returns it decoded."""
    clause = "DECISIONS invoices"
    try:
        found = decode(request)
    except (ValueError, TypeError, AttributeError) as error:
        raise Broken("invoice_agrees", clause, f"{where}: invoice", "a BOLT11 text", f"{request}: {error}") from None
    text = charge.description
    hashed = None
    if charge.parent is not None:
        text, hashed = "", hashlib.sha256((charge.metadata or "").encode()).digest()
    elif len(text.encode()) > 639:
        hashed = hashlib.sha256(text.encode()).digest()
    promised = {
        "network": "bcrt",
        "amount_msat": charge.amount_msat,
        "timestamp": charge.created_at,
        "expires": charge.expires_at,
        "description": None if hashed is not None else text,
        "description_hash": hashed,
        "min_final_cltv": FINAL_CLTV,
        "features": FEATURES,
        "payee": found.payee if node is None else node,
    }
    seen = {
        "network": found.currency,
        "amount_msat": found.amount_msat,
        "timestamp": found.timestamp_s * 1_000,
        "expires": (found.timestamp_s + found.expiry_s) * 1_000,
        "description": found.description,
        "description_hash": found.description_hash,
        "min_final_cltv": found.min_final_cltv,
        "features": found.features,
        "payee": found.payee,
    }
    if promised != seen:
        raise Broken("invoice_agrees", clause, f"{where}: invoice", *difference(promised, seen))
    if request != request.lower() or not request.startswith("lnbcrt"):
        raise Broken("invoice_agrees", clause, f"{where}: invoice", "lnbcrt in lower case", request)
    if found.payment_hash.hex() in hashes:
        raise Broken("invoice_agrees", clause, f"{where}: payment hash", "one of its own", found.payment_hash.hex())
    return found


def lnurl(static: Static, request: Any, base_url: str, where: str) -> None:
    """The LNURL leads to the link of this Static Charge [lnurl-pay]."""
    wanted = f"{base_url}/lnurlp/{static.id}"
    seen = bech32_text(request) if isinstance(request, str) else None
    if seen != wanted or request != request.lower():
        raise Broken("invoice_agrees", "DECISIONS lnurl-pay", f"{where}: LNURL", wanted, seen or request)


def bech32_text(text: str) -> str | None:
    """The text in an LNURL, read after BIP 173 by itself; None when it is none."""
    part, _, data = text.lower().rpartition("1")
    places = [_BECH32.find(character) for character in data]
    if part != "lnurl" or len(places) < 6 or -1 in places:
        return None
    check = 1
    for value in (*(ord(c) >> 5 for c in part), 0, *(ord(c) & 31 for c in part), *places):
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            check ^= generator if top >> bit & 1 else 0
    bits = "".join(f"{place:05b}" for place in places[:-6])
    raw = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8))
    return raw.decode("utf-8", "replace") if check == 1 else None


def metadata(text: Any, static: Static, where: str) -> None:
    """LUD-06: a JSON array in a string, with exactly one text/plain, and the address if there is one."""
    wanted = [["text/plain", static.description]]
    if static.identifier:
        wanted.append(["text/identifier", static.identifier])
    try:
        seen = json.loads(text)
    except (TypeError, ValueError):
        seen = text
    if not isinstance(text, str) or sorted(map(str, seen)) != sorted(map(str, wanted)):
        raise Broken("invoice_agrees", "DECISIONS lnurl-pay", f"{where}: metadata", wanted, text)


# Callbacks


@lru_cache(maxsize=64)
def _signer(secret: str) -> Webhook:
    return Webhook(secret)


def signature(secrets: Sequence[str], message_id: str, stamp_s: int, body: str) -> str:
    """What the standard's own package signs: one text for each secret that signs now, the newest first."""
    moment = datetime.fromtimestamp(stamp_s, UTC)
    return " ".join(_signer(secret).sign(message_id, moment, body) for secret in secrets)


def headers(seen: Mapping[str, str], delivery: Delivery, attempt: Attempt, body: str, where: str) -> None:
    """The headers of one attempt [callback-signature]."""
    stamp_s = attempt.at // 1_000
    wanted = {
        "content-type": "application/json",
        "webhook-id": delivery.id,
        "webhook-timestamp": str(stamp_s),
        "webhook-signature": signature(attempt.secrets, delivery.id or "", stamp_s, body),
        "leyden-event": delivery.event,
        "leyden-attempt": str(attempt.number),
        "leyden-time": iso(attempt.at),
    }
    lower = {name.lower(): value for name, value in seen.items()}
    found = {name: lower.get(name) for name in wanted}
    if found != wanted:
        raise Broken("callback_contract", "DECISIONS callback-signature", where, *difference(wanted, found))


def post(got: Mapping[str, Any], wanted: Received, where: str) -> None:
    """One post as a receiver got it. What a fault was to spoil is only looked at as far as it stays whole."""
    delivery = wanted.delivery
    attempt = delivery.attempts[wanted.number - 1]
    promised = {"at": iso(wanted.at), "url": delivery.url}
    seen = {"at": got["at"], "url": got["url"]}
    if promised != seen:
        raise Broken("callback_contract", "DECISIONS callback-delivery", where, promised, seen)
    if wanted.fault is not None and wanted.fault not in {"duplicate", "duplicate_new_id", "simultaneous", "redeliver"}:
        return
    if got["body"] != delivery.text:
        raise Broken("callback_contract", "DECISIONS callback-body", f"{where}: body", delivery.text, got["body"])
    if wanted.copy:
        other = got["headers"].get("webhook-id") != delivery.id
        if other != wanted.renamed:
            raise Broken("callback_contract", "DECISIONS faults", f"{where}: webhook-id", "that of the copy", got)
        return
    headers(got["headers"], delivery, attempt, got["body"], where)


def proof(preimage: Any, payment_hash: str | None, where: str) -> None:
    """A preimage belongs to its payment hash (BOLT 4)."""
    good = isinstance(preimage, str) and len(preimage) == 64
    if not good or hashlib.sha256(bytes.fromhex(preimage)).hexdigest() != payment_hash:
        raise Broken("invoice_agrees", "DECISIONS lnurl-pay", f"{where}: preimage", f"that of {payment_hash}", preimage)


def secret_is_sound(text: str) -> bool:
    """Whether this is a secret after Standard Webhooks: `whsec_` and 24 to 64 bytes."""
    return text.startswith("whsec_") and 24 <= len(base64.b64decode(text[6:])) <= 64
