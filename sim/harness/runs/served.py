"""Adapters over HTTP: a Leyden that is served somewhere, and anybody's service with what its team can control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

import httpx2

from leyden.harness.model.rules import iso
from leyden.harness.options import KEY, NOBODY
from leyden.harness.runs.adapters import PROJECT, RIVAL, Answer, Headers
from leyden.server.errors import LeydenError
from leyden.server.system.clock import random_seed


class TargetError(LeydenError):
    """A target that cannot be used as asked; the text says what to do instead."""


class ServedLeyden:
    """A `leyden serve` with its control plane. Each run begins with a reset, so give it one of its own.

    `key` is a project's key, `rival_key` another project's if there is one. The clock must stand still (`--rate 0`).
    """

    shared = False
    controlled = True
    restarts = False
    network = True

    def __init__(self, base_url: str, key: str = KEY, rival_key: str = NOBODY) -> None:
        self.name = base_url
        self._url = base_url.rstrip("/")
        self.keys: Mapping[str, str] = {PROJECT: key, RIVAL: rival_key}
        self._client: httpx2.Client | None = None
        self.base_url = self._url

    def begin(self, seed: int, start_ms: int, overlays: Sequence[str], *, disk: bool = False) -> None:
        """Reset the world. Raises `TargetError` when it reads its specification in another way than asked."""
        headers = [("apikey", self.keys[PROJECT]), ("Content-Type", "application/json")]
        body = f'{{"seed":{seed},"start":"{iso(start_ms)}"}}'.encode()
        answer = self.send("POST", "/sandbox/v1/reset", headers, body)
        state = answer.json
        if answer.status != 200 or not isinstance(state, dict):
            raise TargetError(f"{self._url} cannot be reset ({answer.status}): give a served Leyden and its key")
        if sorted(state["overlays"]) != sorted(overlays):
            wanted, given = ", ".join(overlays) or "none", ", ".join(state["overlays"]) or "none"
            raise TargetError(f"{self._url} is served with the overlays {given}, wanted were {wanted}: say --overlay")
        if state["rate"]:
            raise TargetError(f"the clock of {self._url} runs by itself: serve it with --rate 0")
        self.base_url = state["publicUrl"]

    def send(self, method: str, target: str, headers: Headers, body: bytes) -> Answer:
        """One request over HTTP."""
        self._client = self._client or _client()
        return _sent(self._client, method, self._url + target, headers, body)

    def restart(self, scripts: Mapping[str, Any]) -> None:
        """Not from here."""
        raise TargetError("a served Leyden is not ours to stop: restarts are tried in process")

    def journal_hash(self) -> str | None:
        """The journal's hash, as the sandbox says it."""
        state = self.send("GET", "/sandbox/v1", [("apikey", self.keys[PROJECT])], b"").json
        return str(state["journalHash"])

    def end(self) -> None:
        """Hang up; the next run resets the world."""
        if self._client is not None:
            self._client.close()
            self._client = None


class Levers(Protocol):
    """What a QA team writes for its own system, as far as it can; leave out what it cannot.

    `pay(request)` pays a BOLT11 invoice in full. `advance(seconds)` lets its clock pass. `inbox(url)` gives the
    callbacks that arrived at this address so far, oldest first, as (headers, body).
    """

    def pay(self, request: str) -> None:
        """Pay an invoice in full."""

    def advance(self, seconds: float) -> None:
        """Let time pass."""

    def inbox(self, url: str) -> Sequence[tuple[Mapping[str, str], str]]:
        """What arrived at a callback URL so far."""


class AnyService:
    """Any implementation, by its base URL. What cannot be controlled is not checked, and the report says so.

    `levers` is an object with any of the methods of `Levers`. Time is read off the service's own `Date` header.
    """

    shared = False
    controlled = False
    restarts = False
    network = True

    def __init__(self, base_url: str, key: str, rival_key: str = NOBODY, *, levers: object | None = None) -> None:
        self.name = base_url
        self.base_url = base_url.rstrip("/")
        self.keys: Mapping[str, str] = {PROJECT: key, RIVAL: rival_key}
        self.levers = levers
        self.now_ms: int | None = None
        self._nonce = f"{random_seed():x}"
        self._runs = 0
        self._client: httpx2.Client | None = None

    def nonce(self) -> str:
        """Something that no run has used before, for keys that the service remembers."""
        self._runs += 1
        return f"-{self._nonce}-{self._runs}"

    def begin(self, seed: int, start_ms: int, overlays: Sequence[str], *, disk: bool = False) -> None:
        """Nothing can be reset: each run goes on where the service stands."""

    def send(self, method: str, target: str, headers: Headers, body: bytes) -> Answer:
        """One request over HTTP; its `Date` is the service's time."""
        self._client = self._client or _client()
        answer = _sent(self._client, method, self.base_url + target, headers, body)
        if "date" in answer.headers:
            self.now_ms = round(parsedate_to_datetime(answer.headers["date"]).timestamp() * 1_000)
        return answer

    def restart(self, scripts: Mapping[str, Any]) -> None:
        """Not from here."""
        raise TargetError("a service behind a URL is not ours to stop")

    def journal_hash(self) -> str | None:
        """There is none."""
        return None

    def end(self) -> None:
        """Hang up."""
        if self._client is not None:
            self._client.close()
            self._client = None


def _client() -> httpx2.Client:
    return httpx2.Client(timeout=30, trust_env=False)


def _sent(client: httpx2.Client, method: str, url: str, headers: Headers, body: bytes) -> Answer:
    try:
        answer = client.request(method, url, headers=[*headers], content=body)
    except httpx2.HTTPError as error:
        raise TargetError(f"{url} does not answer: {error}") from None
    return Answer(answer.status_code, {name.lower(): value for name, value in answer.headers.items()}, answer.content)
