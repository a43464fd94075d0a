"""Checks of responses, invoices, LNURLs and callbacks. Each function raises `ContractViolation`."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, reduce
from operator import xor
from typing import Any

from standardwebhooks.webhooks import Webhook

from leyden.harness.checks.clauses import ANSWERS
from leyden.harness.checks.violations import ContractViolation, difference, same_json
from leyden.harness.constants import CREDENTIAL
from leyden.harness.model.model import ANYWHERE, EITHER
from leyden.harness.model.records import Charge, StaticCharge
from leyden.harness.model.rules import iso
from leyden.harness.targets.target import Response
from leyden.lightning.bolt11.codec import Bolt11, decode
from leyden.world.config import packaged_contract

UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)  # BIP 173
_BECH32_CHECKS = [reduce(xor, (one for bit, one in enumerate(_GENERATOR) if top >> bit & 1), 0) for top in range(32)]
FEATURES = frozenset({8, 14, 17})
FINAL_CLTV = 80


def status(response: Response, wanted: int, check: str, rule: str, where: str) -> None:
    """The status of a response is `wanted`; otherwise the beginning of its body is reported. Another success than the
    declared one violates `answers_are_declared`, whatever `check` and `rule` are."""
    if response.status != wanted:
        if 200 <= wanted <= 299 and 200 <= response.status <= 399:
            check, rule = "answers_are_declared", ANSWERS
        observed = f"{response.status} {response.body[:300].decode('utf-8', 'replace')}"
        raise ContractViolation(check, rule, f"{where}: status", wanted, observed)


def media(response: Response, wanted: str, where: str) -> None:
    """The media type of a response is `wanted`."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != wanted:
        is_problem = "problem" in wanted
        check, rule = ("errors_are_problems", "errors") if is_problem else ("answers_are_declared", ANSWERS)
        raise ContractViolation(check, rule, f"{where}: content-type", wanted, kind or "none")


def problem(response: Response, wanted: int, code: str, rule: str, where: str) -> Any:
    """An error response: its status, and a problem document that agrees with it [errors]. Returns the document."""
    status(response, wanted, "errors_are_problems", rule, where)
    media(response, "application/problem+json", where)
    body = response.json
    valid = packaged_contract("charges").schemas["Problem"].validator.is_valid(body)
    if not valid or not all(body[name] for name in ("title", "detail", "request_id")):
        raise ContractViolation("errors_are_problems", "errors", f"{where}: members", "those of a Problem", body)
    expected = {
        "type": f"urn:leyden:problem:{body['code']}",
        "status": wanted,
        "message": body["detail"],
        "code": body["code"] if code == EITHER else code,
    }
    same(expected, {name: body[name] for name in expected}, "errors_are_problems", rule, f"{where}: problem")
    if wanted == 400 and not body["errors"]:
        raise ContractViolation("errors_are_problems", "errors", f"{where}: errors", "at least one pointer", body)
    if (wanted == 401 and not response.headers.get("www-authenticate")) or (
        wanted == 429 and not response.headers.get("retry-after", "").isdigit()
    ):
        name = "WWW-Authenticate, a challenge" if wanted == 401 else "Retry-After, in seconds"
        raise ContractViolation("errors_are_problems", "statuses", f"{where}: headers", name, response.headers)
    return body


def pointers(wanted: frozenset[str], body: Any, where: str) -> None:
    """`errors` of a problem document names the wanted places and no others [errors]."""
    if wanted != ANYWHERE:
        observed = sorted({one["pointer"] for one in body["errors"]})
        same(sorted(wanted), observed, "errors_are_problems", "errors", f"{where}: pointers")


def success(response: Response, rule: str, where: str) -> Any:
    """A 200 with the envelope [envelope]. Returns its `data`."""
    status(response, 200, "lifecycle", rule, where)
    media(response, "application/json", where)
    body = response.json
    members = {"success", "message", "data"} | ({"next"} if where.startswith("list") else set())
    if not isinstance(body, dict) or set(body) != members or body["success"] is not True:
        wanted = "success: true, message and data" + (", and next" if "next" in members else "")
        raise ContractViolation("answers_are_declared", "envelope", where, wanted, body)
    if not isinstance(body["message"], str) or not body["message"]:
        raise ContractViolation(
            "answers_are_declared", "envelope", f"{where}: message", "a non-empty text", body["message"]
        )
    return body["data"]


def wallet_response(response: Response, error: bool, where: str) -> dict[str, Any] | None:
    """A response of LNURL: its status is always 200. Returns its body, or None for a status ERROR that is expected."""
    rule = "lnurl-pay"
    status(response, 200, "errors_are_problems", rule, where)
    media(response, "application/json", where)
    body = response.json
    observed = isinstance(body, dict) and body.get("status") == "ERROR"
    if observed != error:
        raise ContractViolation("lifecycle", rule, where, "status ERROR" if error else "no status ERROR", body)
    if error and (set(body) != {"status", "reason"} or not isinstance(body["reason"], str) or not body["reason"]):
        raise ContractViolation("errors_are_problems", rule, where, "the members status and reason", body)
    return None if error else body


def same(expected: Any, observed: Any, check: str, rule: str, where: str) -> None:
    """Two JSON values are equal, including the types of numbers."""
    if same_json(expected, observed):
        return
    if isinstance(expected, Mapping):
        expected, observed = difference(expected, observed)
    raise ContractViolation(check, rule, where, expected, observed)


def identifier(value: Any, known: Mapping[str, object], where: str) -> str:
    """A new id is a version 4 UUID that no other resource has [ids]. Returns it."""
    if not isinstance(value, str) or not UUID4.fullmatch(value):
        raise ContractViolation("echo", "ids", f"{where}: id", "a version 4 UUID in lower case", value)
    if value in known:
        raise ContractViolation(
            "isolation", "ids", f"{where}: id", "a unique id", f"{value}, which another resource has"
        )
    return value


def lower_case(request: Any, rule: str, where: str) -> None:
    """The text of an invoice or an LNURL is in lower case [invoices], so that its URI is, too."""
    if isinstance(request, str) and request != request.lower():
        raise ContractViolation("invoice_agrees", rule, f"{where}: invoice.request", request.lower(), request)


def created_with(data: Any, where: str) -> None:
    """`createdAt` of a Charge is the timestamp of its invoice [timestamps]. An unreadable one is found elsewhere."""
    try:
        at = iso(decode(data["invoice"]["request"]).timestamp_s * 1_000)
    except (ValueError, TypeError, AttributeError, LookupError):
        return
    same({"createdAt": at}, {"createdAt": data.get("createdAt")}, "echo", "timestamps", f"{where}: as in its invoice")


def invoice(charge: Charge, request: Any, node: bytes | None, hashes: Mapping[str, object], where: str) -> Bolt11:
    """The invoice agrees with its Charge [invoices, timestamps, description]. Returns it decoded."""
    rule = "invoices"
    try:
        found = decode(request)
    except (ValueError, TypeError, AttributeError) as error:
        raise ContractViolation(
            "invoice_agrees", rule, f"{where}: invoice", "a BOLT11 text", f"{request}: {error}"
        ) from None
    text = charge.description
    hashed = None
    if charge.parent is not None:
        text, hashed = "", hashlib.sha256((charge.metadata or "").encode()).digest()
    elif len(text.encode()) > 639:
        hashed = hashlib.sha256(text.encode()).digest()
    expected = {
        "currency": "bcrt",
        "amount_msat": charge.amount_msat,
        "description": None if hashed is not None else text,
        "description_hash": hashed,
        "min_final_cltv": FINAL_CLTV,
        "features": FEATURES,
        "payee": found.payee if node is None else node,
    }
    observed = {name: getattr(found, name) for name in expected}
    expected |= {"timestamp": charge.created_at, "expires": charge.expires_at}
    observed |= {"timestamp": found.timestamp_s * 1_000, "expires": (found.timestamp_s + found.expiry_s) * 1_000}
    same(expected, observed, "invoice_agrees", rule, f"{where}: invoice")
    if bech32_data(request) is None:
        raise ContractViolation("invoice_agrees", rule, f"{where}: invoice", "a valid checksum (BIP 173)", request)
    if request != request.lower() or not request.startswith("lnbcrt"):
        raise ContractViolation("invoice_agrees", rule, f"{where}: invoice", "lnbcrt in lower case", request)
    if found.payment_hash.hex() in hashes:
        raise ContractViolation(
            "invoice_agrees", rule, f"{where}: payment hash", "a unique payment hash", found.payment_hash.hex()
        )
    return found


def lnurl(static: StaticCharge, request: Any, base_url: str, where: str) -> None:
    """The LNURL contains the URL of this Static Charge [lnurl-pay]."""
    wanted = f"{base_url}/lnurlp/{static.id}"
    observed = bech32_text(request) if isinstance(request, str) else None
    if observed != wanted or request != request.lower():
        raise ContractViolation("invoice_agrees", "lnurl-pay", f"{where}: LNURL", wanted, observed or request)


def no_password(response: Response, where: str) -> None:
    """No error text shows the password of a URL [statuses]."""
    if CREDENTIAL.encode() in response.body:
        observed = response.body.decode("utf-8", "replace")
        raise ContractViolation("errors_are_problems", "statuses", where, "a text without the password", observed)


def bech32_text(text: str) -> str | None:
    """The URL in an LNURL, decoded by BIP 173; None if it is invalid."""
    places = bech32_data(text)
    if places is None or text.lower().rpartition("1")[0] != "lnurl":
        return None
    bits = "".join(f"{place:05b}" for place in places)
    if len(bits) % 8 >= 5 or "1" in bits[len(bits) // 8 * 8 :]:
        return None  # more padding than the last character needs
    raw = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8))
    return raw.decode("utf-8", "replace")


def bech32_data(text: str) -> list[int] | None:
    """The values of five bits in a text of BIP 173, without its checksum; None if that is wrong."""
    part, _, data = text.lower().rpartition("1")
    places = [_BECH32.find(character) for character in data]
    if len(places) < 6 or -1 in places:
        return None
    check = 1
    for value in (*(ord(c) >> 5 for c in part), 0, *(ord(c) & 31 for c in part), *places):
        check = (check & 0x1FFFFFF) << 5 ^ value ^ _BECH32_CHECKS[check >> 25]
    return places[:-6] if check == 1 else None


def bech32(part: str, places: Sequence[int]) -> str:
    """The text of BIP 173 with this human-readable part and these values of five bits."""
    check = 1
    for value in (*(ord(c) >> 5 for c in part), 0, *(ord(c) & 31 for c in part), *places, *(0,) * 6):
        check = (check & 0x1FFFFFF) << 5 ^ value ^ _BECH32_CHECKS[check >> 25]
    check ^= 1
    checksum = [check >> 5 * (5 - place) & 31 for place in range(6)]
    return f"{part}1{''.join(_BECH32[value] for value in (*places, *checksum))}"


def five_bits(raw: bytes) -> list[int]:
    """Bytes as values of five bits, the last one with zeros."""
    bits = "".join(f"{byte:08b}" for byte in raw)
    return [int(bits[at : at + 5].ljust(5, "0"), 2) for at in range(0, len(bits), 5)]


def metadata(text: Any, static: StaticCharge, where: str) -> None:
    """LUD-06: the metadata is a JSON array in a string, with one text/plain and any Lightning address."""
    wanted = [["text/plain", static.description]]
    if static.identifier:
        wanted.append(["text/identifier", static.identifier])
    try:
        observed = json.loads(text)
    except (TypeError, ValueError):
        observed = text
    if not isinstance(text, str) or sorted(map(str, observed)) != sorted(map(str, wanted)):
        raise ContractViolation("invoice_agrees", "lnurl-pay", f"{where}: metadata", wanted, text)


# Callbacks


@lru_cache(maxsize=64)
def _signer(secret: str) -> Webhook:
    return Webhook(secret)


def signature(secrets: Sequence[str], message_id: str, stamp_s: int, body: str) -> str:
    """The webhook-signature header by the package of Standard Webhooks: one signature for each secret, newest first."""
    return " ".join(_signed(secret, message_id, stamp_s, body) for secret in secrets)


@lru_cache(maxsize=1_024)
def _signed(secret: str, message_id: str, stamp_s: int, body: str) -> str:
    text: str = _signer(secret).sign(message_id, datetime.fromtimestamp(stamp_s, UTC), body)
    return text


def proof(preimage: Any, payment_hash: str | None, where: str) -> None:
    """The SHA-256 of the preimage is the payment hash (BOLT 4)."""
    good = isinstance(preimage, str) and len(preimage) == 64
    if not good or hashlib.sha256(bytes.fromhex(preimage)).hexdigest() != payment_hash:
        raise ContractViolation(
            "invoice_agrees", "lnurl-pay", f"{where}: preimage", f"the preimage of {payment_hash}", preimage
        )


def new_secret(text: Any, known: Sequence[str]) -> None:
    """A new secret of Standard Webhooks: `whsec_` and 24 to 64 bytes [callback-signature]."""
    try:
        is_good = text not in known and text.startswith("whsec_") and 24 <= len(base64.b64decode(text[6:])) <= 64
    except (AttributeError, ValueError):  # no text, or no Base64
        is_good = False
    if not is_good:
        expected = "another secret of 24 to 64 bytes"
        raise ContractViolation("callback_contract", "callback-signature", "webhook secret", expected, text)
