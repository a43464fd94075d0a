"""A client of a sandbox on a running server. It has the names of `leyden.Sandbox` that the HTTP API supports.

    box = create_sandbox("http://127.0.0.1:8402", name="checkout", seed=7)
    charge = box.charges.create(amount="250000", description="Coffee", expiresIn=60)
    box.wallet("ana").pay(charge)
    box.run()
    assert charge.status == "completed"
    box.delete()

It sends each request on a connection of its own and keeps no state but the API key and the document of the service, so
a fork of a process may use it, too. Tables, drawings, scripts, scheduled actions and the simulated network's objects
are those of `leyden.Sandbox` only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

from leyden.api_client.key_header import KEY_HEADER
from leyden.arguments import FIRST_MS, LAST_MS, check_milliseconds, checked_path, checked_text, whole_number
from leyden.delivery_replays import DeliveryReplays
from leyden.errors import ApiError, ArgumentError, ForkError
from leyden.files.json_files import shown
from leyden.files.written_files import write_private
from leyden.http_sandbox.receivers import HttpReceiver
from leyden.http_sandbox.requests import OverHttp, ServedService, ask, bearer, is_missing, not_of_leyden, segment
from leyden.http_sandbox.resources import (
    HttpCharge,
    HttpCollection,
    HttpFaults,
    HttpPayers,
    HttpServiceFaults,
    HttpStaticCharge,
    HttpWallet,
    Instant,
    Span,
    iso_of,
    not_an_instant,
    query_text,
    wire_value,
    with_start,
)
from leyden.server.printable import quoted
from leyden.server.spelling import closest
from leyden.server.timestamps import parse_duration, parse_iso, to_iso

_PAGE = 1_000
_SANDBOXES = "/sandbox/v1/sandboxes"
_KEY_PATHS = ("/sandbox/v1/api-keys", "/sandbox/v1/api-keys/rotate")  # each answers all valid keys, the newest last
_NEW_KEY = (
    "if another client replaced the key, set api_key of this object to the new one, which the response of POST"
    " /sandbox/v1/api-keys/rotate has"
)


def create_sandbox(server: str, *, admin_token: str | None = None, **order: Any) -> HttpSandbox:
    """Create a sandbox on the server at this URL. `order` has the fields of `POST /sandbox/v1/sandboxes`: `name`,
    `seed`, `start` (an instant, or `now`), `rate`, `overlays`, `network`, `webhookSecret`, `ttl`.

    Raises `ValueError` for a start that is no instant, `LeydenError` if no server answers, or another program than
    Leyden, and `ApiError` if it refuses, with 401 without the token that it needs.
    """
    server = checked_text("server", server).rstrip("/")
    created = ask(server, "POST", _SANDBOXES, with_start(order), bearer(admin_token))
    try:
        return HttpSandbox(created, admin_token)
    except ArgumentError as error:
        raise not_of_leyden(server, error) from None


def delete_sandboxes(server: str, *, admin_token: str | None = None) -> None:
    """Delete every sandbox that was created on the server. Raises as `create_sandbox`."""
    server, headers = checked_text("server", server).rstrip("/"), bearer(admin_token)
    former: list[Any] = []
    while listed := ask(server, "GET", f"{_SANDBOXES}?limit={_PAGE}", None, headers)["data"]:
        if [one["id"] for one in listed] == former:
            raise not_of_leyden(server, "what was deleted is listed again")
        former = [one["id"] for one in listed]
        for sandbox in listed:
            ask(server, "DELETE", f"{_SANDBOXES}/{sandbox['id']}", None, headers)


class HttpSandbox(DeliveryReplays, OverHttp):
    """A sandbox of a server. `created` is the resource that its creation, fork or import answered.

    `url` is its base URL, `server_url` that of the server; with the API key both lead to it. `charges` and
    `static_charges` are the collections of the service's resources, `faults`, `service_faults` and `payers` the rules
    of the control plane.

    `api_key` follows the keys that `ask` of this object creates or replaces: it is the newest one then. A key that
    another client replaced is refused with 401: set `api_key` to the new one.
    """

    def __init__(self, created: Mapping[str, Any], admin_token: str | None = None) -> None:
        try:
            texts = [created[name] for name in ("id", "url", "serverUrl", "apiKey")]
            self.name: str | None = created["name"]
        except (LookupError, TypeError) as error:
            if isinstance(created, str):
                raise ArgumentError(
                    f"created={quoted(created, 60)} is a text: call create_sandbox(url), which creates a sandbox on the"
                    " server"
                ) from None
            cause = f"no field {error}" if isinstance(error, KeyError) else "no fields"
            raise ArgumentError(
                f"created has {cause}: give the response of POST {_SANDBOXES}, or call create_sandbox(url)"
            ) from None
        self.id, self.url, self.server_url, self.api_key = (checked_text("a field of created", text) for text in texts)
        self._admin_token = admin_token
        self._service = ServedService(self.url)
        self.charges = HttpCollection(self, "/v0/charges", HttpCharge)
        self.static_charges = HttpCollection(self, "/v0/static-charges", HttpStaticCharge)
        self.faults = HttpFaults(self, "/sandbox/v1/faults")
        self.service_faults = HttpServiceFaults(self, "/sandbox/v1/service-faults")
        self.payers = HttpPayers(self, "/sandbox/v1/payers")

    # Requests

    def ask(self, method: str, target: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send one request with the sandbox's API key and return the JSON of its response.

        Raises `ApiError` for any status but 2xx; that for 401 says what to do when the key was replaced.
        """
        return self._send(method, target, body)

    def send_fields(self, method: str, target: str, fields: Mapping[str, Any]) -> Any:
        """As `ask`, with a `UserWarning` about fields that the service ignores: in Python they are mistakes."""
        return self._send(method, target, fields, warns=True)

    def _send(self, method: str, target: str, body: Mapping[str, Any] | None, *, warns: bool = False) -> Any:
        try:
            answer = self._service.ask(method, target, body, {KEY_HEADER: self.api_key}, warns=warns)
        except ApiError as refused:
            if refused.status != 401:
                raise
            raise ApiError(refused.status, refused.problem, _NEW_KEY) from None
        if method.upper() == "POST" and target.partition("?")[0] in _KEY_PATHS:
            try:
                self.api_key = checked_text("the newest key", answer["keys"][-1])
            except (LookupError, TypeError, ArgumentError) as error:
                raise not_of_leyden(self.url, error) from None
        return answer

    def path(self, operation_id: str) -> str:
        """The path template of an operation, as the server's specification has it. Raises `ValueError` when it has no
        such operation."""
        checked_text("operation_id", operation_id)
        known: list[str] = []
        for path, item in self.ask("GET", "/openapi.json")["paths"].items():
            if any(isinstance(one, dict) and one.get("operationId") == operation_id for one in item.values()):
                return str(path)
            known += [one["operationId"] for one in item.values() if isinstance(one, dict) and "operationId" in one]
        near = closest(operation_id, known)
        mend = "see /openapi.json" if near is None else f"did you mean {quoted(near)}?"
        raise ArgumentError(f"the specification of {self.url} has no operation {quoted(operation_id)}: {mend}")

    def pages(self, target: str, **filters: Any) -> Iterator[Any]:
        """The rows of a list of the service or the control plane, page after page."""
        query: dict[str, Any] = {
            "limit": _PAGE,
            **{name: query_text(name, value) for name, value in filters.items() if value is not None},
        }
        while True:
            page = self.ask("GET", f"{target}?{urlencode(query)}")
            yield from page["data"]
            if page["next"] is None:
                return
            if page["next"] == query.get("after"):
                raise not_of_leyden(self.url, "a page follows itself")
            query["after"] = page["next"]

    # What a reset, a restore or a rotation changes: by this object or by another client

    @property
    def seed(self) -> int:
        """The seed of the present run."""
        seed: int = self._field("/sandbox/v1", "seed", int)
        return seed

    @property
    def webhook_secret(self) -> str:
        """The newest secret that signs the callbacks."""
        secret: str = self._field("/sandbox/v1/webhook-secret", "current", str)
        return secret

    def _field(self, path: str, field: str, kind: type) -> Any:
        """A field of a resource of the control plane, which is of this kind."""
        value = self.ask("GET", path).get(field)
        if not isinstance(value, kind):
            raise not_of_leyden(self.url, f"{path} shows no {field}")
        return value

    # Time

    @property
    def now(self) -> str:
        """The present instant of the sandbox, ISO 8601 in UTC."""
        now: str = self._field("/sandbox/v1/clock", "now", str)
        return now

    def run(
        self, until: Span = "idle", *, events: int | None = None, spill: str | Path | None = None
    ) -> list[dict[str, Any]]:
        """Run until nothing is scheduled (`idle`), through the next instant (`next_event`), or for a span; returns what
        fired. `events=10` instead runs one instant after another until at least ten events have run or none is left. A
        server runs all events of an instant together, so more than ten may run.

        Raises `ValueError` for a negative number of events, for `events` with another `until` than `idle`, and for
        `spill`: a server writes no rows to files.
        """
        if spill is not None:
            raise ArgumentError("a server has no run(spill=...): leyden serve --keep bounds the memory of a server")
        if events is None:
            return self._advance({"until": until}) if until in ("idle", "next_event") else self.advance(until)
        if until != "idle":
            raise ArgumentError(f"run({quoted(until)}, events={events}) has two ends: give one of them")
        count = whole_number("events", events, 0)
        fired: list[dict[str, Any]] = []
        while len(fired) < count and (found := self._advance({"until": "next_event"})):
            fired += found
        return fired

    def advance(self, by: Span) -> list[dict[str, Any]]:
        """Move time forward by a span (`"5m"`, seconds, `timedelta`) and return what fired, in order."""
        return self._advance({"by": min(parse_duration(by), LAST_MS) / 1_000})

    def advance_to(self, when: Instant, offset: Span = "0s") -> list[dict[str, Any]]:
        """Move time forward to an instant plus `offset`, which may be negative; returns what fired, in order.

        An instant in the past changes nothing. A number is epoch milliseconds. Raises `ValueError` for one that is
        epoch seconds, and for an instant outside the years 1970 to 9999.
        """
        if not isinstance(when, (str, int, datetime)) or isinstance(when, bool):
            raise not_an_instant(when)
        at_ms = parse_iso(iso_of(when) if isinstance(when, int) else wire_value("until", when)) + parse_duration(offset)
        if isinstance(when, int):
            check_milliseconds(when, parse_iso(self.now))
        return self._advance({"to": to_iso(min(max(at_ms, FIRST_MS), LAST_MS))})

    def _advance(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        fired: list[dict[str, Any]] = self.ask("POST", "/sandbox/v1/clock/advance", body)["fired"]
        return fired

    # Payers and receivers

    def receiver(self, name: str) -> HttpReceiver:
        """The built-in callback receiver at `http://<name>.localhost/...`. Raises `ValueError` for a name that no host
        can have, as `Sandbox.receiver`."""
        return HttpReceiver(self, name)

    def wallet(self, name: str) -> HttpWallet:
        """The wallet of a payer, by name."""
        return HttpWallet(self, name)

    def payments(self, **filters: Any) -> list[dict[str, Any]]:
        """The payments, oldest first; `filters` are the query parameters of `GET /sandbox/v1/payments`."""
        return list(self.pages("/sandbox/v1/payments", **filters))[::-1]

    def deliveries(self, **filters: Any) -> list[dict[str, Any]]:
        """The callbacks, oldest first; `filters` are the query parameters of `GET /sandbox/v1/deliveries`."""
        return list(self.pages("/sandbox/v1/deliveries", **filters))[::-1]

    def inbox(self, name: str) -> list[dict[str, Any]]:
        """The posts that the built-in receiver `http://<name>.localhost/` got, oldest first; none before the first."""
        posts: list[dict[str, Any]] = []
        try:
            last = 0
            while found := self.ask("GET", self._inbox(name, last))["posts"]:
                last = self._later(last, found[-1]["number"])
                posts += found
        except ApiError as refused:
            if not is_missing(refused):
                raise
        return posts

    @staticmethod
    def _inbox(name: str, after: int) -> str:
        return f"/sandbox/v1/inboxes/{segment('name', name)}?limit={_PAGE}&after={after}"

    # The sandbox as a whole

    @property
    def label(self) -> str:
        """The name of the sandbox; its id, if it has none."""
        return self.name or self.id

    def journal(self) -> list[dict[str, Any]]:
        """The entries of the event journal that the server has, in order."""
        entries: list[dict[str, Any]] = []
        last = 0
        while found := self.ask("GET", f"/sandbox/v1/journal?limit={_PAGE}&after={last}"):
            entries += found
            last = self._later(last, found[-1]["sequence"])
        return entries

    def _later(self, last: int, number: int) -> int:
        """The number of the last row of a page after the row `last`. Raises `LeydenError` for an earlier one: such
        pages have no end."""
        if number <= last:
            raise not_of_leyden(self.url, f"the page after row {last} ends with row {number}")
        return number

    @property
    def journal_hash(self) -> str:
        """The hash of the event journal."""
        return str(self.ask("GET", "/sandbox/v1")["journalHash"])

    def reset(self, **order: Any) -> Self:
        """Erase everything and start again; `order` are `seed` and `start`; the start `now` is the system clock's.

        The keys and the current webhook secret stay. An earlier secret that still signed after a rotation signs no
        longer, and the notes of the sandbox say so.
        """
        self.ask("POST", "/sandbox/v1/reset", with_start(order))
        return self

    def snapshot(self, name: str | None = None) -> str:
        """Keep the present state on the server, and return the id of the snapshot."""
        body = {} if name is None else {"name": name}
        return str(self.ask("POST", "/sandbox/v1/snapshots", body)["id"])

    def restore(self, snapshot: str) -> Self:
        """Return to a snapshot, by its id."""
        self.ask("POST", "/sandbox/v1/restore", {"snapshot": _snapshot_id(snapshot)})
        return self

    def fork(self, label: str | None = None, *, reseed: int | None = None, **order: Any) -> HttpSandbox:
        """A new sandbox in the same state on the same server. `label` is its name; `order` has `snapshot`, `name`,
        `ttl`, `egress`."""
        given = {"name": label, "reseed": reseed}
        order = {name: value for name, value in given.items() if value is not None} | order
        if order.get("snapshot") is not None:
            _snapshot_id(order["snapshot"])
        return HttpSandbox(self.ask("POST", "/sandbox/v1/fork", order), self._admin_token)

    def export(self) -> dict[str, Any]:
        """The whole state: what `Sandbox.from_snapshot` and `POST /sandbox/v1/sandboxes/import` take."""
        state: dict[str, Any] = self.ask("GET", "/sandbox/v1/export")
        return state

    def save(self, path: str | Path) -> Path:
        """Write the whole state to a file, for `Sandbox.load` and `leyden replay`. Raises `ForkError` when the file
        cannot be written."""
        path, text = checked_path("path", path), json.dumps(self.export()) + "\n"
        try:
            write_private(path, text)
        except OSError as error:
            raise ForkError(f"{shown(path)} cannot be written: {error.strerror}; choose another path") from None
        return Path(path)

    def diff(self, other: str) -> list[dict[str, Any]]:
        """The fields that differ from a snapshot of this sandbox, by its id: `table`, `id`, `field`, and the values
        `here` and `there`; the first 1,000.

        Compared are the tables of the sandbox, and what was set: the clock, seed and start (`sandbox`), the times of
        `webhook_secrets`, `faults`, `service_faults`, `payers`, `receivers`, `traffic` and `interceptors`. Not compared
        are the journal, API keys, the rate of the clock, the posts of inboxes besides their number, what faults and
        inboxes delay, returning customers, responses kept for an Idempotency-Key, and the random numbers to come.
        """
        if isinstance(other, HttpSandbox):
            raise ArgumentError(
                "diff compares with a snapshot of the same sandbox, by the id that snapshot() returns: for two "
                "sandboxes, save both, and call Sandbox.load(one).diff(Sandbox.load(other))"
            )
        order = {"snapshot": _snapshot_id(other)}
        rows: list[dict[str, Any]] = self.ask("POST", "/sandbox/v1/diff", order)["differences"]
        return rows

    def delete(self) -> None:
        """End the sandbox on the server. One that has ended already stays so. Needs the admin token of the server."""
        try:
            ask(self.server_url, "DELETE", f"{_SANDBOXES}/{self.id}", None, bearer(self._admin_token))
        except ApiError as refused:
            if not is_missing(refused):
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.delete()

    def __repr__(self) -> str:
        return f"HttpSandbox({self.url})"


def _snapshot_id(value: Any) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"{quoted(value, 60)} is not the id of a snapshot: give the text that snapshot() returns")
    return value
