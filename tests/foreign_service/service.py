"""A small charge service written from the documents alone, with mistakes that can be switched on.

It validates bodies with the published document. Invoices are signed by the codec of Leyden, because BOLT 11 is not what
the harness is tested with. Its receiver is a list; its node settles every payment at once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from leyden.lightning.bolt11.codec import InvoiceSigner
from leyden.server.charges.lnurl import bech32_encode
from leyden.world.config import packaged_contract

START_S = 1_893_456_000.0
DAY_S = 86_400
# What each mistake does. Those of the second table need something that no adapter can do.
MISTAKES = {
    "bad-signature": "callbacks are signed with another secret",
    "seconds-as-ms": "webhook-timestamp is in milliseconds",
    "wrong-event": "an expired Charge is announced as charge.completed",
    "told-twice": "each callback is sent twice",
    "told-early": "a callback is sent on creation",
    "never-told": "nothing is sent when a Charge expires",
    "new-field": "callbacks have a field of their own",
    "same-id": "all callbacks have one webhook-id",
    "late-expiry": "a Charge expires 30 s late",
    "key-forgotten": "an Idempotency-Key is forgotten after an hour",
    "trimmed": "descriptions are trimmed",
    "paid-after-expiry": "an invoice can be paid after it expired",
    "free-slots": "a Static Charge accepts one payment more than it has slots",
    "double-amount": "invoices ask for twice the amount",
    "old-secret-lost": "after a rotation the former secret does not sign",
    "error-is-expired": "a Charge that failed at the node is shown as expired",
    "plain-error": "errors are plain text",
}
UNSEEN = {
    "balance-off": "the balance is one too high",
    "no-retries": "an attempt that failed is not repeated",
}
_ERRORS = {
    400: "invalid_request", 401: "unauthorized", 404: "not_found", 405: "method_not_allowed", 406: "not_acceptable",
    409: "not_possible", 413: "payload_too_large", 415: "unsupported_media_type",
}  # fmt: skip
_SCHEMAS = {"charges": "ChargeRequest", "static-charges": "StaticChargeRequest", "patch": "StaticChargeChanges"}


class Refused(Exception):
    """An error response: its status, its code, and the invalid fields."""

    def __init__(self, status: int, code: str = "", *fields: str) -> None:
        super().__init__(status)
        self.status, self.code = status, code or _ERRORS[status]
        self.places = [name if "." in name else f"/{name}" for name in fields]


def iso(at_s: float) -> str:
    return f"{datetime.fromtimestamp(round(at_s * 1_000) / 1_000, UTC).isoformat(timespec='milliseconds')[:-6]}Z"


class Service:
    """The state, and the methods of the adapter (`Adapter`)."""

    callback_url = "http://shop.example/hook"

    def __init__(self, mistake: str = "") -> None:
        self.mistake = mistake
        self.url = ""
        self.now_s = START_S
        self.charges: dict[str, dict[str, Any]] = {}
        self.statics: dict[str, dict[str, Any]] = {}
        self.received: list[tuple[str, dict[str, str], str]] = []
        self.lock = threading.RLock()
        self._secrets: list[tuple[str, float]] = [(_new_secret(), float("inf"))]
        self._signer = InvoiceSigner(b"\x07" * 32)
        self._responses: dict[Any, tuple[float, bytes, tuple[int, dict[str, str], bytes]]] = {}

    # The adapter

    def now(self) -> float:
        return self.now_s

    def secret(self) -> str:
        return self._secrets[0][0]

    def rotate(self) -> None:
        kept = (
            []
            if self.mistake == "old-secret-lost"
            else [(one, min(end, self.now_s + DAY_S)) for one, end in self._secrets]
        )
        self._secrets = [(_new_secret(), float("inf")), *kept]

    def advance(self, seconds: float) -> None:
        with self.lock:
            end = round(self.now_s + seconds, 3)
            late = 30 if self.mistake == "late-expiry" else 0
            pending = [one for one in self.charges.values() if one["status"] == "pending"]
            for one in sorted(pending, key=lambda one: one["_end"]):
                if one["_end"] + late <= end:
                    self.now_s = max(self.now_s, one["_end"] + late)
                    one["status"], one["_open"] = "expired", self.mistake == "paid-after-expiry"
                    if one["staticChargeId"] is None and self.mistake != "never-told":
                        self._tell(one, "completed" if self.mistake == "wrong-event" else "expired")
            self.now_s = end
            for static in self.statics.values():
                if static["_end"] is not None and static["_end"] <= end:
                    static["status"] = "expired"
                    self._close(static)

    def pay(self, request: str) -> None:
        with self.lock:
            one = next(one for one in self.charges.values() if one["invoice"]["request"] == request)
            static = self.statics.get(one["staticChargeId"] or "")
            if not one["_open"]:
                return
            one.update(status="completed", confirmedAt=iso(self.now_s), _open=False)
            if static is not None:
                static["slots"] += 1
                extra = 1 if self.mistake == "free-slots" else 0
                if static["allowedSlots"] is not None and static["slots"] >= static["allowedSlots"] + extra:
                    static["status"] = "disabled"
                    self._close(static)
            self._tell(one, "completed")

    def fail(self, charge_id: str) -> None:
        with self.lock:
            one = self.charges[charge_id]
            if one["status"] == "pending" and one["_open"]:
                one.update(status="expired" if self.mistake == "error-is-expired" else "error", _open=False)
                if one["staticChargeId"] is None:
                    self._tell(one, "error")

    def inbox(self, url: str) -> list[tuple[dict[str, str], str]]:
        return [(headers, body) for to, headers, body in self.received if to == url]

    def _close(self, static: dict[str, Any]) -> None:
        for one in self.charges.values():
            if one["staticChargeId"] == static["id"]:
                one["_open"] = False

    # Callbacks

    def _tell(self, one: dict[str, Any], event: str) -> None:
        if not one["callbackUrl"]:
            return
        data = shown(one)
        del data["staticChargeId"]
        data["invoice"] = {"request": data["invoice"]["request"]}
        if data["confirmedAt"] is None:
            del data["confirmedAt"]
        if one["staticChargeId"]:
            static = self.statics[one["staticChargeId"]]
            data |= {"staticChargeId": static["id"], "slots": static["slots"], "allowedSlots": static["allowedSlots"]}
        if self.mistake == "new-field":
            data["colour"] = "blue"
        body = json.dumps(data)
        name = "msg_1" if self.mistake == "same-id" else f"msg_{uuid.uuid4().hex}"
        stamp = str(int(self.now_s) * (1_000 if self.mistake == "seconds-as-ms" else 1))
        keys = [one for one, end in self._secrets if self.now_s < end][:3]
        if self.mistake == "bad-signature":
            keys = [_new_secret()]
        signed = f"{name}.{stamp}.{body}".encode()
        marks = [hmac.digest(base64.b64decode(key[6:]), signed, "sha256") for key in keys]
        headers = {
            "Content-Type": "application/json", "webhook-id": name, "webhook-timestamp": stamp,
            "webhook-signature": " ".join(f"v1,{base64.b64encode(mark).decode()}" for mark in marks),
            "leyden-event": f"charge.{event}", "leyden-attempt": "1", "leyden-time": iso(self.now_s),
        }  # fmt: skip
        self.received += [(one["callbackUrl"], headers, body)] * (2 if self.mistake == "told-twice" else 1)

    # Requests

    def answer(
        self, method: str, target: str, headers: Mapping[str, str], raw: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        with self.lock:
            path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
            parts = path.removeprefix("/").split("/")
            if parts[:2] == [".well-known", "lnurlp"] and len(parts) == 3:
                users = {str(one["identifier"]).partition("@")[0]: name for name, one in self.statics.items()}
                parts = ["lnurlp", users.get(parts[2], "")]
            allowed = _methods(parts)
            methods = {"Allow": ", ".join(allowed)}
            if parts[0] == "lnurlp":
                methods |= {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "*",
                            "Access-Control-Allow-Methods": methods["Allow"]}  # fmt: skip
            if allowed and method == "OPTIONS":
                return 204, methods, b""
            if allowed and method not in allowed:
                status, sent, body = self._problem(Refused(405), [])
                return status, {**sent, **methods}, body
            if method == "HEAD":
                return self.answer("GET", target, headers, raw)
            is_long = len(raw) > packaged_contract("charges").body_limit
            if is_long or (parts[0] == "lnurlp" and not _accepts_json(headers.get("accept", "*/*"))):
                status, sent, body = self._problem(Refused(413 if is_long else 406), [])
                return status, sent if is_long else {**sent, "Access-Control-Allow-Origin": "*"}, body
            if parts[0] == "lnurlp":
                try:
                    body = self._wallet(parts[1:], query)
                except (Refused, KeyError, ValueError):
                    body = {"status": "ERROR", "reason": "this cannot be paid"}
                return (
                    200,
                    {"Content-Type": "application/json", "Access-Control-Allow-Origin": "*"},
                    json.dumps(body).encode(),
                )
            try:
                if method == "GET":
                    _check_query(parts, urlsplit(target).query)
                return self._api(method, parts, headers, raw)
            except Refused as error:
                if self.mistake == "plain-error":
                    return error.status, {"Content-Type": "text/plain"}, b"no"
                is_of_body = error.status == 400 and not error.places
                return self._problem(error, self._places(method, parts, raw) if is_of_body else error.places)

    @staticmethod
    def _problem(error: Refused, places: list[str]) -> tuple[int, dict[str, str], bytes]:
        text = "the request was refused"
        problem = {
            "type": f"urn:leyden:problem:{error.code}", "title": "Refused", "status": error.status,
            "detail": text, "code": error.code, "message": text, "success": False,
            "request_id": secrets.token_hex(8),
            "errors": [{"pointer": one, "detail": "invalid"} for one in places],
        }  # fmt: skip
        more = {"WWW-Authenticate": "apikey"} if error.status == 401 else {}
        return error.status, {"Content-Type": "application/problem+json", **more}, json.dumps(problem).encode()

    def _places(self, method: str, parts: list[str], raw: bytes) -> list[str]:
        """The invalid places of a body, as JSON pointers."""
        try:
            body = _strict_json(raw)
        except ValueError:
            return [""]
        schema = packaged_contract("charges").schemas[_SCHEMAS["patch" if method == "PATCH" else parts[1]]]
        found = []
        for error in schema.validator.iter_errors(body):
            missing = re.match(r'"(\w+)" is a required', error.message)
            found.append("/".join(["", *map(str, error.instance_path), *(missing.groups() if missing else ())]))
        return found

    def _api(
        self, method: str, parts: list[str], headers: Mapping[str, str], raw: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        if headers.get("apikey") != "key-1":
            raise Refused(401)
        if parts[:1] != ["v0"]:
            raise Refused(404)
        if method in ("POST", "PATCH") and not _is_json(headers.get("content-type", "")):
            raise Refused(415)
        if not _accepts_json(headers.get("accept", "*/*")):
            raise Refused(406)
        found = {"charges": self.charges, "static-charges": self.statics}.get(parts[1])
        body = self._body("patch", raw) if method == "PATCH" else {}
        data: Any = None
        more: dict[str, Any] = {}
        if parts[1] == "wallet":
            paid = sum(int(one["amount"]) for one in self.charges.values() if one["status"] == "completed")
            data = {"unit": "msats", "balance": str(paid + (self.mistake == "balance-off"))}
        elif found is None or (len(parts) > 2 and parts[2] not in found):
            raise Refused(404)
        elif method == "POST":
            return self._once(parts[1], headers.get("idempotency-key"), raw)
        elif method == "PATCH":
            data = shown(self._change(found[parts[2]], body))
        elif len(parts) == 3:
            data = shown(found[parts[2]])
        else:
            rows = self.charges if len(parts) == 4 else found
            data = [
                shown(one) for one in reversed(rows.values()) if len(parts) == 2 or one["staticChargeId"] == parts[2]
            ]
            data, more = data[:100], {"next": None}
        return 200, {"Content-Type": "application/json"}, _success(data, **more)

    def _once(self, kind: str, key: str | None, raw: bytes) -> tuple[int, dict[str, str], bytes]:
        is_valid = key is None or re.fullmatch(r"[!-~]{1,255}", key)
        body = self._body(kind, raw, *(() if is_valid else ("header.idempotency-key",)))
        canonical = json.dumps(body, sort_keys=True).encode()
        kept_s = 3_600 if self.mistake == "key-forgotten" else DAY_S
        known = self._responses.get((kind, key)) if key else None
        headers = {"Content-Type": "application/json"}
        if known is not None and self.now_s < known[0] + kept_s:
            if known[1] != canonical:
                raise Refused(409, "idempotency_key_reused")
            status, of_first, response = known[2]
            return status, {**of_first, "Idempotent-Replayed": "true"}, response
        status = 200
        try:
            one = self._new_charge(body) if kind == "charges" else self._new_static(body)
            response = _success(shown(one))
        except Refused as error:
            if error.status != 409 or key is None:
                raise
            status, headers, response = self._problem(error, error.places)
        self._responses[kind, key] = (self.now_s, canonical, (status, headers, response))
        return status, headers, response

    def _body(self, kind: str, raw: bytes, *wrong_headers: str) -> dict[str, Any]:
        """The body. A wrong header counts after what is no JSON object, and before the fields."""
        try:
            body: dict[str, Any] = _strict_json(raw)
        except ValueError:
            raise Refused(400) from None
        if wrong_headers and isinstance(body, dict):
            raise Refused(400, "", *wrong_headers)
        if not packaged_contract("charges").schemas[_SCHEMAS[kind]].validator.is_valid(body):
            raise Refused(400)
        decimals = [name for name in ("expiresIn", "allowedSlots") if isinstance(body.get(name), float)]
        if decimals and (kind, decimals) != ("patch", ["expiresIn"]):
            raise Refused(409, "", *decimals)
        return body

    def _new_charge(self, body: dict[str, Any], static: dict[str, Any] | None = None) -> dict[str, Any]:
        created_s = int(self.now_s)
        lifetime_s = int(body.get("expiresIn") or 600)
        text = body["description"].strip() if self.mistake == "trimmed" else body["description"]
        described: dict[str, Any] = {"description": text}
        if static is not None:
            described = {"description_hash": hashlib.sha256(_metadata(static).encode()).digest()}
        elif len(text.encode()) > 639:
            described = {"description_hash": hashlib.sha256(text.encode()).digest()}
        preimage = secrets.token_bytes(32)
        request = self._signer.sign(
            amount_msat=int(body["amount"]) * (2 if self.mistake == "double-amount" else 1), timestamp_s=created_s,
            payment_hash=hashlib.sha256(preimage).digest(), payment_secret=secrets.token_bytes(32), expiry_s=lifetime_s,
            **described,
        )  # fmt: skip
        end = created_s + lifetime_s
        one = {
            "id": str(uuid.uuid4()), "unit": "msats", "amount": body["amount"], "status": "pending",
            "description": text, "internalId": body.get("internalId"), "callbackUrl": body.get("callbackUrl"),
            "createdAt": iso(created_s), "expiresAt": iso(end), "confirmedAt": None,
            "staticChargeId": static and static["id"],
            "invoice": {"request": request, "uri": f"lightning:{request}", "expiresAt": iso(end)},
            "_end": end, "_open": True, "_preimage": preimage.hex(),
        }  # fmt: skip
        self.charges[one["id"]] = one
        if self.mistake == "told-early":
            self._tell(one, "completed")
        return one

    def _new_static(self, body: dict[str, Any]) -> dict[str, Any]:
        if int(body["minAmount"]) > int(body["maxAmount"]):
            raise Refused(409)
        end = self.now_s + body["expiresIn"] if body.get("expiresIn") else None
        name = str(uuid.uuid4())
        url = f"{self.url}/lnurlp/{name}".encode()
        groups = -(-8 * len(url) // 5)
        link = bech32_encode("lnurl", int.from_bytes(url, "big") << (5 * groups - 8 * len(url)), groups)
        static = {
            "id": name, "unit": "msats", "slots": 0, "minAmount": body["minAmount"], "maxAmount": body["maxAmount"],
            "createdAt": iso(self.now_s), "expiresAt": end and iso(end), "internalId": body.get("internalId"),
            "description": body["description"], "callbackUrl": body.get("callbackUrl"),
            "allowedSlots": body.get("allowedSlots") or None, "successMessage": body.get("successMessage"),
            "identifier": body.get("identifier"), "status": "active",
            "invoice": {"request": link, "uri": f"lightning:{link}"}, "_end": end,
        }  # fmt: skip
        self.statics[name] = static
        return static

    def _change(self, static: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        changed = {**static, **body}
        slots = changed["allowedSlots"] = changed["allowedSlots"] or None
        if static["status"] == "expired":
            raise Refused(409, "conflict")
        if int(changed["minAmount"]) > int(changed["maxAmount"]) or (slots is not None and slots < static["slots"]):
            raise Refused(409)
        full = slots is not None and static["slots"] >= slots
        static.update({name: changed[name] for name in static}, status="disabled" if full else "active")
        if full:
            self._close(static)
        return static

    def _wallet(self, parts: list[str], query: dict[str, list[str]]) -> dict[str, Any]:
        static = self.statics[parts[0]]
        place = f"{self.url}/lnurlp/{static['id']}"
        if parts[1:2] == ["verify"]:
            children = [one for one in self.charges.values() if one["staticChargeId"] == static["id"]]
            [one] = [one for one in children if _hash_of(one) == parts[2]]
            settled, pr = one["status"] == "completed", one["invoice"]["request"]
            return {"status": "OK", "settled": settled, "preimage": one["_preimage"] if settled else None, "pr": pr}
        if static["status"] != "active":
            raise Refused(409)
        if len(parts) == 1:
            return {
                "tag": "payRequest",
                "callback": f"{place}/invoice",
                "minSendable": int(static["minAmount"]),
                "maxSendable": int(static["maxAmount"]),
                "metadata": _metadata(static),
                "commentAllowed": 150,
            }
        [amount] = query["amount"]
        comments = query.get("comment", [""])
        if (
            not (amount.isascii() and amount.isdigit())
            or amount[0] == "0"
            or len(comments) > 1
            or len(comments[0]) > 150
            or not int(static["minAmount"]) <= int(amount) <= int(static["maxAmount"])
        ):
            raise Refused(409)
        lifetime_s = 300 if static["_end"] is None else min(300, int(static["_end"] - int(self.now_s)))
        if lifetime_s < 1:
            raise Refused(409)
        one = self._new_charge({**static, "amount": amount, "expiresIn": lifetime_s}, static)
        answer = {"pr": one["invoice"]["request"], "routes": [], "disposable": static["allowedSlots"] == 1,
                  "verify": f"{place}/verify/{_hash_of(one)}"}  # fmt: skip
        if static["successMessage"]:
            answer["successAction"] = {"tag": "message", "message": static["successMessage"]}
        return answer


def _strict_json(raw: bytes) -> Any:
    """The value of a JSON text. Raises `ValueError` for one with a repeated name, a number that no double has, half a
    character, or more levels than the document allows."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise ValueError("a name is repeated")
        return dict(pairs)

    value = json.loads(raw.decode(), object_pairs_hook=once)
    if _depth(value) > packaged_contract("charges").depth_limit:
        raise ValueError("the value is too deep")
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return value


def _depth(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if parts is None else 1 + max(map(_depth, parts), default=0)


def _methods(parts: list[str]) -> list[str]:
    """The methods of a path; empty for an unknown one."""
    by_path = {
        ("charges", 2): ["GET", "HEAD", "OPTIONS", "POST"], ("charges", 3): ["GET", "HEAD", "OPTIONS"],
        ("static-charges", 2): ["GET", "HEAD", "OPTIONS", "POST"],
        ("static-charges", 3): ["GET", "HEAD", "OPTIONS", "PATCH"],
        ("static-charges", 4): ["GET", "HEAD", "OPTIONS"], ("wallet", 2): ["GET", "HEAD", "OPTIONS"],
    }  # fmt: skip
    if parts[0] == "lnurlp":
        return ["GET", "HEAD", "OPTIONS"]
    return by_path.get((parts[1], len(parts)), []) if parts[0] == "v0" and len(parts) > 1 else []


def _check_query(parts: list[str], text: str) -> None:
    """Raise `Refused` for a parameter that is unknown, repeated, or not as the document has it."""
    query = parse_qs(text, keep_blank_values=True)
    lists = parts[1:2] in (["charges"], ["static-charges"]) and len(parts) in (2, 4)
    operation = packaged_contract("charges").operations["listCharges" if lists else "getWallet"]
    known = {one.name: one for one in operation.parameters}
    for name, values in query.items():
        one = known.get(name)
        value = int(values[0]) if name == "limit" and re.fullmatch("[1-9][0-9]{0,5}", values[0]) else values[0]
        if one is None or len(values) > 1 or not one.rule.validator.is_valid(value):
            raise Refused(400, "", f"query.{name}")


def _is_json(content_type: str) -> bool:
    kind, *parameters = (part.strip().lower() for part in content_type.split(";"))
    charsets = {part.removeprefix("charset=").strip('"') for part in parameters if part.startswith("charset=")}
    return kind == "application/json" and charsets <= {"utf-8", "utf8"}


def _accepts_json(accept: str) -> bool:
    """Whether the header allows JSON, in one of its ranges whose weight is not 0."""
    for one in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in one.split(";"))
        weights = [part.removeprefix("q=") for part in parameters if part.startswith("q=")]
        if kind in ("*/*", "application/*", "application/json") and not (weights and float(weights[0]) == 0):
            return True
    return False


def shown(one: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name[0] != "_"}


def _hash_of(one: dict[str, Any]) -> str:
    return hashlib.sha256(bytes.fromhex(one["_preimage"])).hexdigest()


def _metadata(static: dict[str, Any]) -> str:
    return json.dumps([["text/plain", static["description"]]])


def _success(data: Any, **more: Any) -> bytes:
    return json.dumps({"success": True, "message": "done", "data": data, **more}).encode()


def _new_secret() -> str:
    return f"whsec_{base64.b64encode(secrets.token_bytes(24)).decode()}"


@contextmanager
def foreign_service(mistake: str = "") -> Iterator[Service]:
    """The service on a free port of this machine, at `url`, with a mistake or none. It is its own adapter."""
    service = Service(mistake)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 65_536  # head and body in one segment

        def respond(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, sent, body = service.answer(self.command, self.path, headers, raw)
            self.send_response(status)
            for name, value in {**sent, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_HEAD = do_OPTIONS = do_PUT = do_DELETE = do_TRACE = respond

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    service.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
