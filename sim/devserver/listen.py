"""`leyden listen URL`: forwards what a served sandbox's inboxes receive to a program on this machine."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from leyden.api_client.response_bodies import MAX_RESPONSE_BYTES, TooLong
from leyden.callbacks.inspection import NO_MATCH
from leyden.devserver.awaited_delivery import deliver
from leyden.devserver.receiver_check.session import signature_of
from leyden.devserver.secret_texts import Secrets
from leyden.errors import how_to_start, key_refusal
from leyden.files.json_files import WRONG_DATA, in_words
from leyden.files.standard_streams import ending_with_reader
from leyden.server.callbacks.deliveries import HEADER_NAMES
from leyden.server.callbacks.egress import OWN_LISTENER, Egress
from leyden.server.callbacks.url_parts import url_parts
from leyden.server.errors import LeydenError
from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.server.printable import printable
from leyden.server.system.clock import system_time_ms
from leyden.server.system.event_loop import run_until_stopped
from leyden.server.system.http_client.client import parse_error
from leyden.server.system.http_client.name_lookup import NameLookup
from leyden.server.system.http_client.transport import HttpTransport
from leyden.server.timestamps import parse_iso

_PAGE, _INBOXES_PAGE = 100, 1_000
_WAIT_S = 1
_REQUEST_TIMEOUT_S = 20
_TIMEOUT_MS, _CONNECT_TIMEOUT_MS = 15_000, 3_000
_RETRY_S = 1.0

NOT_AN_ANSWER = (
    "The inbox has answered each message already: your program's answer changes nothing and causes no retry. To test"
    " retries, script the answers of the inbox."
)


def _cause(error: Exception) -> str:
    """The words of the operating system where it refused a connection, and those of a response that is no HTTP."""
    if isinstance(error, aiohttp.ClientResponseError):
        return printable(parse_error(error.message))
    number = getattr(error, "errno", None)
    return os.strerror(number) if isinstance(number, int) and number > 0 else str(error) or type(error).__name__


class Unreachable(LeydenError):
    """No connection to the server can be made, or it does not answer."""


class NotThere(LeydenError):
    """The server does not know the path, or what the path names."""


@dataclass(slots=True)
class Cursor:
    """The position up to which the inboxes of one run of the sandbox were read: the number of the last request of each
    inbox.

    `unread` counts the messages of the latest list that were not forwarded yet; `is_behind` tells whether there was
    any, so that more may have arrived meanwhile.
    """

    run: int | None = None
    read: dict[str, int] = field(default_factory=dict)
    unread: int = 0
    is_behind: bool = False

    def follow(self, run: int) -> bool:
        """Start again, and print a line about it, if this is another run than the one that was read so far. Returns
        whether it is the same run."""
        if self.run == run:
            return True
        if self.run is not None:
            print(f"The sandbox was reset or restored, and {self._loss()}: forwarding what it receives now", flush=True)
            self.unread, self.is_behind = 0, False
            self.read.clear()
        self.run = run
        return False

    def listed(self, inboxes: Sequence[Mapping[str, Any]]) -> None:
        """Count the unread messages in these summaries of all inboxes."""
        self.unread = sum(max(0, one["received"] - self.read.get(one["name"], one["restored"])) for one in inboxes)
        self.is_behind = False

    def reached(self, name: str, number: int) -> None:
        """Say how many messages of an inbox before this number are no longer there: the server keeps its latest ones
        only."""
        lost = number - self.read[name] - 1
        if lost > 0:
            count = "a message" if lost == 1 else f"{lost} messages"
            print(f"{name}: {count} removed before they could be forwarded (leyden serve --keep)", flush=True)
            self.read[name] = number - 1

    def forwarded(self, name: str, number: int) -> None:
        """Note that this message of an inbox is forwarded."""
        self.read[name] = number
        self.unread = max(0, self.unread - 1)
        self.is_behind = True

    def _loss(self) -> str:
        """What the reset has taken: it may come between the arrival of a message and its reading."""
        if self.unread:
            count = "a message" if self.unread == 1 else f"{self.unread} messages"
            return f"at least {count} that were not forwarded yet are lost"
        return "a message of before that has no line here is lost"


class ControlClient:
    """A client of a served sandbox's control plane, for one event loop. `hidden` has its secrets."""

    def __init__(self, server: str, api_key: str, url: str) -> None:
        self._server = server
        self.hidden = Secrets([api_key], urls=[server, url])
        self._client = aiohttp.ClientSession(
            headers={"apikey": api_key}, timeout=aiohttp.ClientTimeout(total=_REQUEST_TIMEOUT_S), json_serialize=_json
        )

    async def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send one request to a path below `/sandbox/v1` and return the JSON of its response.

        Raises `Unreachable`, and `LeydenError` for a status other than 200.
        """
        try:
            async with self._client.request(method, f"{self._server}/sandbox/v1{path}", json=body) as response:
                status, raw = response.status, await _body(response)
        except TooLong as error:
            raise LeydenError(f"{self._server} did not answer as Leyden does ({error}): check the URL") from None
        except (OSError, aiohttp.ClientError) as error:
            raise Unreachable(
                f"no server answers at {self._server} ({_cause(error)}): {how_to_start(self._server)}give its URL with"
                " --server"
            ) from None
        if status == 401:
            raise LeydenError(self.hidden.text(key_refusal(self._server, _problem(raw), "--api-key")))
        answered = f"{self._server} answered {status} to /sandbox/v1{path}"
        if status >= 500:
            raise Unreachable(f"{answered}: read what it has logged, and try again")
        if status == 404:
            raise NotThere(f"{answered}: it has to be a Leyden with its control plane")
        if status != 200:
            raise LeydenError(f"{answered}: {self.hidden.text(raw.decode(errors='replace'))[:200]}")
        self.hidden.learn(raw)
        return orjson.loads(raw)

    async def close(self) -> None:
        """Close the connections. A request that waits for its response is cancelled."""
        await self._client.close()


def listen(options: argparse.Namespace) -> int:
    """Forward until interrupted.

    Raises `LeydenError` if no server answers at first, if it rejects the key, if the egress policy forbids the URL, or
    if the URL is one of the server itself.
    """
    _check_target(Egress(options.egress, allow=options.egress_allow), options.url)
    with suppress(KeyboardInterrupt), ending_with_reader():
        try:
            run_until_stopped(_listen(options))
        except WRONG_DATA as error:
            if isinstance(error, LeydenError):
                raise
            raise LeydenError(f"{options.server} is no Leyden ({in_words(error)}): check the URL") from error
    return 0


def _check_target(egress: Egress, url: str, addresses: Iterable[str] = ()) -> None:
    """Raise `LeydenError` if nothing can ever be sent to the URL, or if one of its `addresses` is the server's own.
    Whether the policy allows the other addresses of a name is checked at each request."""
    parts = url_parts(url)
    host, port, address = parts.host, parts.port, parts.address()
    if address is None:
        own = (OWN_LISTENER for one in addresses if egress.check_address(host, one, port) == OWN_LISTENER)
        rule = egress.check_host(host, port) or next(own, None)
    else:
        rule = egress.check_address(host, str(address), port)
    if rule is not None:
        raise LeydenError(egress.explain(rule, host, port))


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """The body of a response. Raises `TooLong` for one with more bytes than are read."""
    found = bytearray()
    async for part in response.content.iter_any():
        found += part
        if len(found) > MAX_RESPONSE_BYTES:
            raise TooLong(MAX_RESPONSE_BYTES)
    return bytes(found)


async def _addresses(url: str) -> list[str]:
    """The IP addresses of a URL's host; none if its name has no address."""
    try:
        return list(dict.fromkeys(await NameLookup()(url_parts(url).host)))
    except (OSError, UnicodeError):
        return []


async def _egress_beside(options: argparse.Namespace, client: ControlClient) -> Egress:
    """The egress policy, with the addresses of the server as its own: what is forwarded there would come back.

    Raises `LeydenError` if the URL leads to the server.
    """
    bases = (options.server, (await client.ask("GET", ""))["publicUrl"])
    own = [(host, url_parts(base).port) for base in bases for host in (url_parts(base).host, *await _addresses(base))]
    egress = Egress(options.egress, allow=options.egress_allow, own=own)
    _check_target(egress, options.url, await _addresses(options.url))
    return egress


async def _listen(options: argparse.Namespace) -> None:
    client = ControlClient(options.server, options.api_key, options.url)
    transport: HttpTransport | None = None
    try:
        transport = HttpTransport.within(await _egress_beside(options, client))
        cursor = Cursor()
        for inbox in await _inboxes(client):
            cursor.follow(inbox["run"])
            cursor.read[inbox["name"]] = inbox["received"]
        about = f"Listening to {options.server}: forwarding names below .localhost to {options.url}"
        print(client.hidden.text(about), flush=True)
        print(NOT_AN_ANSWER, flush=True)
        count, unreachable = 0, False
        while True:
            try:
                waited = await client.ask(
                    "POST", "/deliveries/wait", {"count": count + 1, "status": "any", "timeout": _WAIT_S}
                )
                count = waited["count"]
                await _forward_new(client, transport, options.url, cursor)
                while cursor.is_behind:
                    await _forward_new(client, transport, options.url, cursor)
                unreachable = False
            except Unreachable as error:
                if not unreachable:
                    print(f"{error}; still listening", flush=True)
                unreachable = True
                await asyncio.sleep(_RETRY_S)
    finally:
        try:
            if transport is not None:
                await transport.close()
        finally:
            await client.close()


async def _forward_new(client: ControlClient, transport: HttpTransport, url: str, cursor: Cursor) -> None:
    """Forward the requests that the inboxes received after those that `cursor` has read, and move it there.

    After a reset of the sandbox the numbers begin again, and after a restore they go on after those of the snapshot:
    everything that the new run received is forwarded, and nothing else.
    """
    inboxes = await _inboxes(client)
    for inbox in inboxes[:1]:
        cursor.follow(inbox["run"])
    cursor.listed(inboxes)
    for inbox in inboxes:
        name = inbox["name"]
        cursor.follow(inbox["run"])
        cursor.read.setdefault(name, inbox["restored"])
        while inbox["received"] > cursor.read[name]:
            try:
                page = await client.ask("GET", f"/inboxes/{name}?after={cursor.read[name]}&limit={_PAGE}")
            except NotThere:
                break  # a reset deleted it; its next request creates it
            if not cursor.follow(page["run"]):
                return  # the list is that of the former run
            secrets = [entry["secret"] for entry in (await client.ask("GET", "/webhook-secret"))["secrets"]]
            if not page["posts"]:
                cursor.reached(name, inbox["received"] + 1)
                break
            for received in page["posts"]:
                cursor.reached(name, received["number"])
                cursor.forwarded(name, received["number"])
                signers = secrets
                if _foreign_parts(received, secrets):  # of a secret that has ended, or of none
                    then = await client.ask("GET", f"/webhook-secret?at={received['at']}")
                    signers = [entry["secret"] for entry in then["secrets"]]
                request = forwarded_request(received, url, signers, system_time_ms() // 1_000)
                response = await deliver(transport, request)
                role = await _role(client, received)
                print(client.hidden.text(_line(name, received, request, response, role)), flush=True)


async def _role(client: ControlClient, received: Mapping[str, Any]) -> str:
    """The role of a message in its delivery: an attempt, or a copy that a fault sent, with its webhook-id. Of an id
    without a delivery, a reset ended the delivery, or it was removed."""
    attempt = f"attempt {received['attempt']}"
    webhook_id = received["headers"].get("webhook-id", "")
    if received["copy"]:
        return f"copy of {attempt}, webhook-id {webhook_id}"
    if webhook_id and received["attempt"] == 1:
        try:
            await client.ask("GET", f"/deliveries/{webhook_id}")
        except NotThere:
            return f"{attempt}, webhook-id {webhook_id} of no delivery that there is now"
    return attempt


async def _inboxes(client: ControlClient) -> list[Any]:
    """The summaries of all inboxes, page after page."""
    found: list[Any] = []
    after = ""
    while True:
        page = await client.ask("GET", f"/inboxes?limit={_INBOXES_PAGE}{after}")
        found += page["data"]
        if page["next"] is None:
            return found
        after = f"&after={page['next']}"


def forwarded_request(received: Mapping[str, Any], url: str, secrets: Sequence[str], now_s: int) -> CallbackRequest:
    """The request to `url` that forwards what an inbox received. If `url` has no path, the original path is kept.

    A receiver compares the timestamp with its own clock, so the timestamp is moved by the difference between that clock
    and the sandbox's, and the signatures of `secrets` are made again for it. Other signatures and everything else stay
    as they are. `now_s` is the real time in seconds.
    """
    headers = dict(received["headers"])
    timestamp, webhook_id = headers.get("webhook-timestamp", ""), headers.get("webhook-id", "")
    body = received["body"].encode()
    if timestamp.isascii() and timestamp.isdigit():
        moved = str(max(0, int(timestamp) + now_s - parse_iso(received["at"]) // 1_000))
        renewed = {
            signature_of(secret, webhook_id, timestamp, body): signature_of(secret, webhook_id, moved, body)
            for secret in secrets
        }
        headers["webhook-timestamp"] = moved
        if "webhook-signature" in headers:
            parts = [part.partition(",") for part in headers["webhook-signature"].split(" ")]
            headers["webhook-signature"] = " ".join(f"{v}{comma}{renewed.get(s, s)}" for v, comma, s in parts)
    target = urlsplit(url)
    if target.path in ("", "/") and not target.query:
        sent_to = urlsplit(received["url"])
        url = f"{target.scheme}://{target.netloc}{sent_to.path or '/'}" + (f"?{sent_to.query}" if sent_to.query else "")
    return CallbackRequest(webhook_id, received["attempt"], url, headers, body, _CONNECT_TIMEOUT_MS, _TIMEOUT_MS)


def _foreign_parts(received: Mapping[str, Any], secrets: Sequence[str]) -> list[str]:
    """The parts of the signature that none of the secrets made."""
    headers = received["headers"]
    signed = (headers.get("webhook-id", ""), headers.get("webhook-timestamp", ""), received["body"].encode())
    made = [signature_of(secret, *signed) for secret in secrets]
    parts = headers["webhook-signature"].split(" ") if "webhook-signature" in headers else []
    return [part for part in parts if part.partition(",")[2] not in made]


def _is_invalidated(received: Mapping[str, Any], sent: CallbackRequest) -> bool:
    """Whether the inbox found the signature valid, and it could not be made again for the moved timestamp."""
    names = ("webhook-signature", "webhook-timestamp", "webhook-id")
    was, now = ([headers.get(name) for name in names] for headers in (received["headers"], sent.headers))
    return all(was) and NO_MATCH not in received["verdict"] and was[0] == now[0] and was[1] != now[1]


def _line(inbox: str, received: Mapping[str, Any], sent: CallbackRequest, response: CallbackResponse, role: str) -> str:
    result = str(response.status) if response.status is not None else f"nothing ({response.error}: {response.note})"
    try:
        body = orjson.loads(received["body"])
        charge_id = str(body.get("data", body).get("id", "")) if isinstance(body, dict) else ""
        charge_id = charge_id and f"Charge {charge_id}"
    except (orjson.JSONDecodeError, AttributeError):
        charge_id = ""
    event, missing = (
        received["event"] or "(no event)",
        [name for name in HEADER_NAMES if name not in received["headers"]],
    )
    about = charge_id or "(no Charge)"
    if missing:
        about += f", without {', '.join(missing)}"
    if _is_invalidated(received, sent):
        about += ", with a signature that is invalid now: the secret that made it is not known any more"
    line = (
        f"{received['at']}  {inbox}  {event}  {about}  {role}, inbox answered {received['answer']};"
        f" forwarded: your program answered {result} in {response.latency_ms} ms"
    )
    # Receivers and faults choose some of this text: a terminal must not obey it.
    return "".join(char if char.isprintable() else "?" for char in line)


def _problem(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None


def _json(body: Any) -> str:
    return orjson.dumps(body).decode()
