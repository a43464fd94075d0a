"""Builds the messages and requests of a receiver check, with a sandbox of its own."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import orjson

from leyden.lightning.payer.payment_requests import fetch_lnurl_invoice
from leyden.rng import uuid4_from
from leyden.server.callbacks.url_parts import DEFAULT_PORTS, url_parts
from leyden.server.contract.types import Contract
from leyden.server.errors import LeydenError
from leyden.server.ports import CallbackRequest
from leyden.server.store.store import Store
from leyden.server.timestamps import to_iso
from leyden.server.version import VERSION
from leyden.world.config import body_type, world_config
from leyden.world.loopback import send_request
from leyden.world.world import World

KEY = "receiver-check"
CONNECT_TIMEOUT_MS = 3_000
_MESSAGES_SPAN_MS = 6 * 3_600_000  # the messages are about the last hours, never in the future


class CheckRefused(LeydenError):
    """The check cannot run with these arguments; the text says what to change."""

    exit_status = 2


@dataclass(frozen=True, slots=True)
class KnownIds:
    """Values that the endpoint knows: an `internalId`, the amount in msat that it expects, the id of a Charge."""

    internal_id: str | None = None
    amount: str = "250000"
    charge_id: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A callback as the service sends it: its id, its event and its exact bytes."""

    id: str
    event: str
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The parsed body."""
        value: dict[str, Any] = orjson.loads(self.body)
        return value

    @property
    def charge(self) -> dict[str, Any]:
        """The Charge in the body; in an envelope it is the member `data`."""
        value = self.json
        inner = value.get("data")
        return inner if isinstance(inner, dict) else value


@dataclass(frozen=True, slots=True)
class TestRequest:
    """One request of a check. `limit_ms` is the time limit of its response.

    `must_ignore`: the receiver must not act on it. `indistinct`: it must not, and whether it does cannot be judged,
    because other messages of the run are about the same Charge. `is_right`: it is signed with another secret that signs
    as the endpoint's own does.
    """

    request: CallbackRequest
    limit_ms: int
    must_ignore: bool = False
    indistinct: bool = False
    is_right: bool = False


class CheckSession:
    """Builds messages and requests for one endpoint.

    `now` returns the real time in ms, `secret` is the secret with which the endpoint verifies signatures. Every method
    that builds a message raises `CheckRefused` when the contract does not accept the URL as a `callbackUrl`.
    """

    def __init__(
        self,
        url: str,
        *,
        contract: Contract,
        secret: str,
        known: KnownIds,
        now: Callable[[], int],
        seed: int,
        timeout_ms: int,
    ) -> None:
        self.url = url
        self.secret = secret
        self._known = known
        self._now = now
        self._timeout_ms = timeout_ms
        self._contract = contract
        config = world_config(seed=seed, start_ms=now() - _MESSAGES_SPAN_MS, spec=contract, api_key=KEY, control=False)
        self._world = World(config, Store.memory())
        self._rng = self._world.streams.stream("receiver-check")
        self.unknown_secret = "whsec_" + base64.b64encode(self._rng.bytes(32)).decode()

    @property
    def now_s(self) -> int:
        """The real time in seconds, the unit of signature timestamps."""
        return self._now() // 1_000

    @property
    def has_internal_id(self) -> bool:
        """Whether messages need an `internalId` that the endpoint knows."""
        return self._known.internal_id is not None

    # Messages

    def paid(self, **fields: Any) -> Message:
        """The message about a Charge that is created and paid."""
        charge = self._create_charge(**fields)
        self._pay(charge["invoice"]["request"])
        return self._last_message()

    def expired(self) -> Message:
        """The message about a Charge that is created and expires."""
        self._create_charge(expiresIn=60)
        self._world.move(lambda clock: clock.advance(61_000))
        return self._last_message()

    def failed(self) -> Message:
        """The message about a Charge whose invoice the node loses."""
        charge = self._create_charge()
        world = self._world
        with world.exclusive():
            row = world.service.charges.find(world.config.project, charge["id"])
            world.node.fail_invoice(row["payment_hash"], "lost")
        world.catch_up()
        return self._last_message()

    def static_payments(self, count: int) -> list[Message]:
        """The messages about a Static Charge that is paid `count` times."""
        amount = self._known.amount
        static = self._request("createStaticCharge", minAmount=amount, maxAmount=amount, description="Tips")
        messages = []
        for _ in range(count):
            request, base_url = static["invoice"]["request"], self._world.public_url
            invoice = fetch_lnurl_invoice(request, None, "", self._fetch, base_url=base_url)
            self._pay(invoice)
            messages.append(self._last_message())
        return messages

    def changed(self, message: Message, event: str | None = None, **fields: Any) -> Message:
        """Another message like this one, with some fields of its Charge changed; None removes a field."""
        value = message.json
        charge = value["data"] if isinstance(value.get("data"), dict) else value
        for name, field in fields.items():
            charge[name] = field
            if field is None:
                del charge[name]
        if charge is not value and event is not None and "type" in value:
            value["type"] = event
        return Message(self.new_id(), event or message.event, orjson.dumps(value))

    def new_id(self) -> str:
        """A new id."""
        return uuid4_from(self._rng)

    # Requests

    def request(
        self,
        message: Message,
        *,
        secrets: Sequence[str] | None = None,
        timestamp: str | int | None = None,
        signed: Message | None = None,
        signature: str | None = None,
        headers: Mapping[str, str] | None = None,
        drop: Sequence[str] = (),
        header_case: Callable[[str], str] = str,
        attempt: int = 1,
        later_ms: int = 0,
        over_ms: int = 0,
        must_ignore: bool = False,
    ) -> TestRequest:
        """The message as a request, signed with `secrets` (default: the endpoint's) for `timestamp` (default: now).

        `signed` is the message that the signature covers, if not this one; `signature` replaces the signature.
        `headers` replace the default headers of the same names, `drop` lists the headers to leave out, `header_case`
        changes the case of header names. `later_ms` is the lead of the sandbox's clock over real time; `over_ms` is
        the time that sending takes, in ms, added to the timeout.
        """
        timestamp = str(self.now_s if timestamp is None else timestamp)
        covered = signed or message
        if signature is None:
            keys = [self.secret] if secrets is None else secrets
            signature = " ".join(f"v1,{signature_of(key, covered.id, timestamp, covered.body)}" for key in keys)
        whole = {
            "content-type": "application/json",
            "user-agent": f"leyden/{VERSION}",
            "webhook-id": message.id,
            "webhook-timestamp": timestamp,
            "webhook-signature": signature,
            "leyden-event": message.event,
            "leyden-attempt": str(attempt),
            "leyden-time": to_iso(self._now() + later_ms),
            **(headers or {}),
        }
        post = CallbackRequest(
            delivery_id=message.id,
            attempt=attempt,
            url=self.url,
            headers={header_case(name): text for name, text in whole.items() if name not in drop},
            body=message.body,
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            timeout_ms=self._timeout_ms + over_ms,
            send_duration_ms=over_ms,
        )
        # When all messages are about one Charge, the action on one message cannot be distinguished from another.
        one_charge = self._known.charge_id is not None
        is_right = self.secret not in (secrets or ()) and any(_signs_as(key, self.secret) for key in secrets or ())
        return TestRequest(post, self._timeout_ms, must_ignore and not one_charge, must_ignore and one_charge, is_right)

    # Private methods

    def _create_charge(self, **fields: Any) -> dict[str, Any]:
        body = {"amount": self._known.amount, "description": "Flat white, table 7", **fields}
        return self._request("createCharge", **body)

    def _request(self, operation: str, **fields: Any) -> dict[str, Any]:
        body = {"callbackUrl": self.url, "internalId": self._known.internal_id, **fields}
        key_header = self._world.service.pipeline.api_key_header
        path = self._contract.operation(operation).path
        headers = ((key_header, KEY.encode()), (b"content-type", body_type(self._contract, "POST", path)))
        answer = send_request(self._world.app, "POST", path, headers, orjson.dumps(body))
        value = orjson.loads(answer.body)
        if answer.status != 200:
            raise CheckRefused(f"no Charge can be created for this check: {value['detail']}")
        data: dict[str, Any] = value["data"]
        return data

    def _fetch(self, url: str) -> Mapping[str, Any]:
        parts = urlsplit(url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        answer: Mapping[str, Any] = orjson.loads(send_request(self._world.app, "GET", target).body)
        return answer

    def _pay(self, request: str) -> None:
        world = self._world
        world.move(lambda clock: clock.advance(4_000))
        with world.exclusive():
            world.payments.pay(request)
        world.catch_up()

    def _last_message(self) -> Message:
        row = self._world.service.outbox.deliveries()[-1]
        message = Message(row["id"], row["event"], row["body"].encode())
        if self._known.charge_id is not None:
            known = self.changed(message, id=self._known.charge_id)
            return replace(known, id=message.id)
        return message


def signature_of(secret: str, webhook_id: str, timestamp: str, body: bytes) -> str:
    """The signature of exactly these bytes, in base64: HMAC-SHA256 over `id.timestamp.body` (Standard Webhooks 1.0).

    Unlike the function of the service it also signs bytes that are not text and timestamps that are not valid.
    """
    covered = b".".join((webhook_id.encode(), timestamp.encode(), body))
    return base64.b64encode(hmac.new(_key(secret), covered, hashlib.sha256).digest()).decode()


def _key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix("whsec_"))


def _signs_as(secret: str, other: str) -> bool:
    """Whether two secrets are one key of HMAC (RFC 2104), so that they sign each message in the same way."""
    keys = [_key(one) for one in (secret, other)]
    block = hashlib.sha256().block_size
    first, second = (hashlib.sha256(key).digest() if len(key) > block else key for key in keys)
    return first.ljust(block, b"\0") == second.ljust(block, b"\0")


def raw_request(post: CallbackRequest) -> bytes:
    """The exact bytes of the request, as the transport sends it."""
    parts = url_parts(post.url)
    is_default = parts.has_port and parts.port == DEFAULT_PORTS[parts.scheme]
    host = parts.authority.rpartition(":")[0] if is_default else parts.authority
    meant = None if parts.address_fault() else parts.address()
    odd = meant is not None and str(meant) != parts.host  # then the transport writes the Host header itself
    lines = [f"POST {parts.target} HTTP/1.1", f"{'host' if odd else 'Host'}: {host}"]
    lines += [f"{name}: {text}" for name, text in post.headers.items()]
    lines += [f"Content-Length: {len(post.body)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1", "replace") + post.body
