"""`leyden listen URL`: hands on what a served sandbox's inboxes receive to a program on this machine, as it happens."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from leyden.devserver.awaited_delivery import deliver
from leyden.devserver.receiver_check.session import signature_of
from leyden.server.callbacks.egress import Egress
from leyden.server.errors import LeydenError
from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.server.system.clock import system_time_ms
from leyden.server.system.http_transport import HttpTransport
from leyden.server.timestamps import parse_iso

_PAGE = 100
_WAIT_S = 1
_PATIENCE_S = 20
_TIMEOUT_MS, _CONNECT_TIMEOUT_MS = 15_000, 3_000
_AGAIN_S = 1.0


class Unreachable(LeydenError):
    """Nobody answers at the server's address."""


class ControlClient:
    """The control plane of a served sandbox, over HTTP, for one event loop."""

    def __init__(self, server: str, api_key: str) -> None:
        self._server = server
        self._client = aiohttp.ClientSession(
            headers={"apikey": api_key}, timeout=aiohttp.ClientTimeout(total=_PATIENCE_S), json_serialize=_json
        )

    async def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """One request under `/sandbox/v1`. Raises `Unreachable`, or `LeydenError` when the server refuses."""
        try:
            async with self._client.request(method, f"{self._server}/sandbox/v1{path}", json=body) as answer:
                status, raw = answer.status, await answer.read()
        except (OSError, aiohttp.ClientError) as error:
            raise Unreachable(
                f"nobody answers at {self._server} ({error}): start `leyden serve`, or name it with --server"
            ) from None
        if status == 401:
            raise LeydenError(f"{self._server} does not know this key: give the project's with --api-key")
        if status != 200:
            raise LeydenError(f"{self._server} answered {status} to {path}: is it a Leyden with its control plane?")
        return orjson.loads(raw)

    async def close(self) -> None:
        """Let go of the connection, and of a question that is still open."""
        await self._client.close()


def listen(options: argparse.Namespace) -> int:
    """Forward until interrupted. Raises `LeydenError` when there is no such server, or it refuses the key."""
    asyncio.run(_listen(options))
    return 0


async def _listen(options: argparse.Namespace) -> None:
    desk = ControlClient(options.server, options.api_key)
    egress = Egress(options.egress, allow=options.egress_allow)
    courier = HttpTransport(check_address=egress.check_address, check_host=egress.check_host)
    try:
        seen = {inbox["name"]: inbox["received"] for inbox in await desk.ask("GET", "/inboxes")}
        print(f"Listening to {options.server}: what comes to http://inbox.localhost goes to {options.url}", flush=True)
        known, gone = 0, False
        while True:
            try:
                waited = await desk.ask("POST", "/deliveries/wait", {"count": known + 1, "timeout": _WAIT_S})
                known = waited["count"]
                await _forward_new(desk, courier, options.url, seen)
                gone = False
            except Unreachable as error:
                if not gone:
                    print(f"{error}; still listening", flush=True)
                gone = True
                await asyncio.sleep(_AGAIN_S)
    finally:
        await courier.close()
        await desk.close()


async def _forward_new(desk: ControlClient, courier: HttpTransport, url: str, seen: dict[str, int]) -> None:
    """Forward whatever the inboxes got since they were last seen."""
    for inbox in await desk.ask("GET", "/inboxes"):
        name = inbox["name"]
        if inbox["received"] < seen.get(name, 0):
            seen[name] = 0  # the world was reset
        while inbox["received"] > seen.get(name, 0):
            page = await desk.ask("GET", f"/inboxes/{name}?after={seen.get(name, 0)}&limit={_PAGE}")
            secrets = [entry["secret"] for entry in (await desk.ask("GET", "/webhook-secret"))["secrets"]]
            if not page["posts"]:
                break
            for got in page["posts"]:
                seen[name] = got["number"]
                answer = await deliver(courier, forwarded_request(got, url, secrets, system_time_ms() // 1_000))
                print(_line(name, got, answer), flush=True)


def forwarded_request(got: Mapping[str, Any], url: str, secrets: Sequence[str], now_s: int) -> CallbackRequest:
    """What an inbox got, as a post to `url`; without a path in `url`, to the path it was sent to.

    A receiver compares timestamps with its own clock, so they are moved by as much as the sandbox's clock is off, and
    sound signatures are made anew for them. Those that were not sound stay as they are, and so does everything else.
    """
    headers = dict(got["headers"])
    stamp, webhook_id = headers.get("webhook-timestamp", ""), headers.get("webhook-id", "")
    body = got["body"].encode()
    if stamp.isascii() and stamp.isdigit():
        moved = str(max(0, int(stamp) + now_s - parse_iso(got["at"]) // 1_000))
        fresh = {
            signature_of(secret, webhook_id, stamp, body): signature_of(secret, webhook_id, moved, body)
            for secret in secrets
        }
        headers["webhook-timestamp"] = moved
        if "webhook-signature" in headers:
            parts = [part.partition(",") for part in headers["webhook-signature"].split(" ")]
            headers["webhook-signature"] = " ".join(f"{v}{comma}{fresh.get(s, s)}" for v, comma, s in parts)
    target = urlsplit(url)
    if target.path in ("", "/") and not target.query:
        sent_to = urlsplit(got["url"])
        url = f"{target.scheme}://{target.netloc}{sent_to.path or '/'}" + (f"?{sent_to.query}" if sent_to.query else "")
    return CallbackRequest(webhook_id, got["attempt"], url, headers, body, _CONNECT_TIMEOUT_MS, _TIMEOUT_MS)


def _line(inbox: str, got: Mapping[str, Any], answer: CallbackResponse) -> str:
    said = str(answer.status) if answer.status is not None else f"{answer.error} {answer.note}".strip()
    try:
        body = orjson.loads(got["body"])
        about = str(body.get("data", body).get("id", "")) if isinstance(body, dict) else ""
    except (orjson.JSONDecodeError, AttributeError):
        about = ""
    event = got["event"] or "(no event)"
    words = f"{got['at']}  {inbox}  {event}  {about}  attempt {got['attempt']} -> {said} in {answer.latency_ms} ms"
    # What receivers and faults put in is printed, never obeyed.
    return "".join(char if char.isprintable() else "?" for char in words)


def _json(body: Any) -> str:
    return orjson.dumps(body).decode()
