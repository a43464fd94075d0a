"""A sandbox on a running server, over HTTP: the names of `leyden.Sandbox`, as far as HTTP has what they do.

    box = create_sandbox("http://127.0.0.1:8402", name="checkout", seed=7)
    charge = box.charges.create(amount="250000", description="Coffee", expiresIn=60)
    box.wallet("ana").pay(charge)
    box.run()
    assert charge.status == "completed"
    box.delete()

It sends each request on a connection of its own and keeps no state, so a fork of a process may use it, too. Tables,
drawings, scripts and the simulated network's objects are those of `leyden.Sandbox` only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Self
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

from leyden.arguments import span_from
from leyden.errors import ApiError, LeydenError

Span = str | float | timedelta

_TIMEOUT_S = 60  # longer than any wait of the server
_PAGE = 1_000
_SANDBOXES = "/sandbox/v1/sandboxes"
_opener = build_opener(ProxyHandler({}))  # a server for tests is not behind a proxy


def create_sandbox(server: str, *, admin_token: str | None = None, **order: Any) -> HttpSandbox:
    """Create a sandbox on the server at this URL. `order` has the fields of `POST /sandbox/v1/sandboxes`: `name`,
    `seed`, `start`, `rate`, `overlays`, `network`, `webhookSecret`, `ttl`.

    Raises `LeydenError` if no server answers, `ApiError` if it refuses, with 401 without the token that it needs.
    """
    server = server.rstrip("/")
    return HttpSandbox(ask(server, "POST", _SANDBOXES, order, _admin(admin_token)), admin_token)


def delete_sandboxes(server: str, *, admin_token: str | None = None) -> None:
    """Delete every sandbox that was created on the server. Raises as `create_sandbox`."""
    headers = _admin(admin_token)
    while listed := ask(server, "GET", f"{_SANDBOXES}?limit={_PAGE}", None, headers)["data"]:
        for sandbox in listed:
            ask(server, "DELETE", f"{_SANDBOXES}/{sandbox['id']}", None, headers)


def _admin(token: str | None) -> dict[str, str]:
    return {} if token is None else {"authorization": f"Bearer {token}"}


def ask(base: str, method: str, target: str, body: Mapping[str, Any] | None, headers: Mapping[str, str]) -> Any:
    """Send one request and return the JSON of its response. Raises `LeydenError` if no server answers, `ApiError` for
    any status but 2xx."""
    sent = dict(headers)
    raw = None
    if body is not None:
        sent["content-type"], raw = "application/json", json.dumps(body).encode()
    try:
        with _opener.open(Request(base + target, raw, sent, method=method), timeout=_TIMEOUT_S) as response:
            return _json(response.read())
    except HTTPError as refused:
        with refused:
            raise ApiError(refused.code, _json(refused.read())) from None
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise LeydenError(f"no server answers at {base} ({reason}): start `leyden serve`, or give its URL") from None


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else {}
    except ValueError:  # HTML, as from a proxy
        return {"title": "not JSON", "detail": raw[:200].decode(errors="replace")}


class HttpSandbox:
    """A sandbox of a server. `created` is the resource that its creation, fork or import answered.

    `url` is its base URL, `server_url` that of the server; with the API key both lead to it. `charges` and
    `static_charges` are the collections of the service's resources, `faults`, `service_faults` and `payers` the rules
    of the control plane.
    """

    def __init__(self, created: Mapping[str, Any], admin_token: str | None = None) -> None:
        self.id: str = created["id"]
        self.name: str | None = created["name"]
        self.url: str = created["url"]
        self.server_url: str = created["serverUrl"]
        self.api_key: str = created["apiKey"]
        self.webhook_secret: str = created["webhookSecret"]
        self.seed: int = created["seed"]
        self._admin_token = admin_token
        self.charges = HttpCollection(self, "/v0/charges", HttpCharge)
        self.static_charges = HttpCollection(self, "/v0/static-charges", HttpResource)
        self.faults = HttpRules(self, "/sandbox/v1/faults")
        self.service_faults = HttpRules(self, "/sandbox/v1/service-faults")
        self.payers = HttpRules(self, "/sandbox/v1/payers")

    # Requests

    def ask(self, method: str, target: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send one request with the sandbox's API key and return the JSON of its response.

        Raises `ApiError` for any status but 2xx.
        """
        return ask(self.url, method, target, body, {"apikey": self.api_key})

    def pages(self, target: str, **filters: Any) -> Iterator[Any]:
        """The rows of a list of the service or the control plane, page after page."""
        query: dict[str, Any] = {"limit": _PAGE, **filters}
        while True:
            page = self.ask("GET", f"{target}?{urlencode(query)}")
            yield from page["data"]
            if page["next"] is None:
                return
            query["after"] = page["next"]

    # Time

    @property
    def now(self) -> str:
        """The present instant of the sandbox, ISO 8601 in UTC."""
        return str(self.ask("GET", "/sandbox/v1/clock")["now"])

    def run(self, until: str = "idle") -> list[dict[str, Any]]:
        """Run until nothing is scheduled (`idle`), or through the next instant (`next_event`); returns what fired."""
        return self._advance({"until": until})

    def advance(self, by: Span) -> list[dict[str, Any]]:
        """Move time forward by a span (`"5m"`, seconds, `timedelta`) and return what fired, in order."""
        return self._advance({"by": by.total_seconds() if isinstance(by, timedelta) else by})

    def advance_to(self, when: str | datetime) -> list[dict[str, Any]]:
        """Move time forward to an instant and return what fired, in order."""
        return self._advance({"to": when.isoformat() if isinstance(when, datetime) else when})

    def _advance(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        fired: list[dict[str, Any]] = self.ask("POST", "/sandbox/v1/clock/advance", body)["fired"]
        return fired

    # Payers and receivers

    def wallet(self, name: str) -> HttpWallet:
        """The wallet of a payer, by name."""
        return HttpWallet(self, name)

    def deliveries(self, **filters: Any) -> list[dict[str, Any]]:
        """The callbacks, oldest first; `filters` are the query parameters of `GET /sandbox/v1/deliveries`."""
        return list(self.pages("/sandbox/v1/deliveries", **filters))

    def inbox(self, name: str) -> list[dict[str, Any]]:
        """The posts that the built-in receiver `http://<name>.localhost/` got, oldest first; none before the first."""
        posts: list[dict[str, Any]] = []
        try:
            while found := self.ask("GET", self._inbox(name, posts[-1]["number"] if posts else 0))["posts"]:
                posts += found
        except ApiError as refused:
            if refused.status != 404:
                raise
        return posts

    @staticmethod
    def _inbox(name: str, after: int) -> str:
        return f"/sandbox/v1/inboxes/{name}?limit={_PAGE}&after={after}"

    # The sandbox as a whole

    @property
    def journal_hash(self) -> str:
        """The hash of the event journal."""
        return str(self.ask("GET", "/sandbox/v1")["journalHash"])

    def reset(self, **order: Any) -> Self:
        """Erase everything and start again; `order` are `seed` and `start`."""
        self.ask("POST", "/sandbox/v1/reset", order)
        return self

    def snapshot(self, name: str | None = None) -> str:
        """Keep the present state on the server, and return the id of the snapshot."""
        body = {} if name is None else {"name": name}
        return str(self.ask("POST", "/sandbox/v1/snapshots", body)["id"])

    def restore(self, snapshot_id: str) -> Self:
        """Return to a snapshot."""
        self.ask("POST", "/sandbox/v1/restore", {"snapshot": snapshot_id})
        return self

    def fork(self, **order: Any) -> HttpSandbox:
        """A new sandbox in the same state on the same server; `order` has `snapshot`, `reseed`, `name`, `ttl`,
        `egress`."""
        return HttpSandbox(self.ask("POST", "/sandbox/v1/fork", order), self._admin_token)

    def export(self) -> dict[str, Any]:
        """The whole state: what `Sandbox.from_snapshot` and `POST /sandbox/v1/sandboxes/import` take."""
        state: dict[str, Any] = self.ask("GET", "/sandbox/v1/export")
        return state

    def delete(self) -> None:
        """End the sandbox on the server. One that has ended already stays so. Needs the admin token of the server."""
        try:
            ask(self.server_url, "DELETE", f"{_SANDBOXES}/{self.id}", None, _admin(self._admin_token))
        except ApiError as refused:
            if refused.status != 404:
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.delete()

    def __repr__(self) -> str:
        return f"HttpSandbox({self.url})"


class HttpResource:
    """A Charge or a Static Charge, by its id. Each attribute is read anew, so it shows the present state."""

    def __init__(self, sandbox: HttpSandbox, path: str, resource_id: str) -> None:
        self._sandbox = sandbox
        self._path = f"{path}/{resource_id}"
        self.id = resource_id

    @property
    def data(self) -> dict[str, Any]:
        """The resource as GET shows it, with the API's field names. Raises `ApiError` 404 for an unknown id."""
        data: dict[str, Any] = self._sandbox.ask("GET", self._path)["data"]
        return data

    @property
    def status(self) -> str:
        """The present state."""
        return str(self.data["status"])

    @property
    def request(self) -> str:
        """The payment request for a payer: a BOLT11 invoice or an LNURL."""
        return str(self.data["invoice"]["request"])

    def update(self, /, **fields: Any) -> Self:
        """PATCH the given fields, by the API's names. Raises `ApiError` when the service refuses."""
        self._sandbox.ask("PATCH", self._path, fields)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HttpResource) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id})"


class HttpCharge(HttpResource):
    """A Charge: one amount, one invoice, one outcome."""

    @property
    def amount_msat(self) -> int:
        """The amount in millisatoshis."""
        return int(self.data["amount"])

    def fail(self, reason: str = "failed on request") -> Self:
        """Let the node fail the invoice: a pending Charge goes to `error`. Raises `ApiError` 409 in any other state."""
        self._sandbox.ask("POST", f"/sandbox/v1/charges/{self.id}/fail", {"reason": reason})
        return self


class HttpCollection:
    """All resources of one kind: `create(...)` with the API's field names, `[id]`, iteration in order of creation."""

    def __init__(self, sandbox: HttpSandbox, path: str, kind: type[Any]) -> None:
        self._sandbox = sandbox
        self._path = path
        self._kind = kind

    def create(self, /, **fields: Any) -> Any:
        """POST a new resource. Raises `ApiError` with the problem document when the service refuses."""
        return self._kind(self._sandbox, self._path, self._sandbox.ask("POST", self._path, fields)["data"]["id"])

    def __getitem__(self, resource_id: str) -> Any:
        """The resource with this id. Raises `ApiError` 404 for an unknown id."""
        resource = self._kind(self._sandbox, self._path, resource_id)
        resource.data  # noqa: B018  raises for an unknown id
        return resource

    def __iter__(self) -> Iterator[Any]:
        newest_first = [row["id"] for row in self._sandbox.pages(self._path)]
        return iter([self._kind(self._sandbox, self._path, each) for each in reversed(newest_first)])

    def __len__(self) -> int:
        return sum(1 for _ in self._sandbox.pages(self._path))


class HttpRules:
    """Injected faults, service faults or payers, oldest first, as the control plane shows them."""

    def __init__(self, sandbox: HttpSandbox, path: str) -> None:
        self._sandbox = sandbox
        self._path = path

    def add(self, kind: str | None = None, /, **fields: Any) -> dict[str, Any]:
        """Add one, with the control plane's field names; `kind` is the kind of a fault."""
        body = fields if kind is None else {"kind": kind, **fields}
        added: dict[str, Any] = self._sandbox.ask("POST", self._path, body)
        return added

    def clear(self, rule_id: str | None = None) -> int:
        """Remove the one with this id, or all; return how many were removed."""
        path = self._path if rule_id is None else f"{self._path}/{rule_id}"
        return int(self._sandbox.ask("DELETE", path)["cleared"])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self._sandbox.pages(self._path)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class HttpWallet:
    """A wallet that pays over the control plane."""

    def __init__(self, sandbox: HttpSandbox, name: str) -> None:
        self._sandbox = sandbox
        self.name = name

    def pay(
        self,
        what: HttpResource | str,
        *,
        amount: int | str | None = None,
        outcome: str = "settle",
        delay: Span = 0,
        comment: str | None = None,
    ) -> HttpPayment:
        """Pay a Charge, a Static Charge, or the text of a payment request, `delay` from now. `amount` (msat) replaces
        that of the invoice. A payment that fails is a `failed` payment, and raises nothing."""
        order: dict[str, Any] = {
            "request": what if isinstance(what, str) else what.request,
            "payer": self.name,
            "outcome": outcome,
            "delay": span_from("delay", delay) / 1_000,
        }
        if amount is not None:
            order["amount"] = str(amount)
        if comment is not None:
            order["comment"] = comment
        return HttpPayment(self._sandbox, self._sandbox.ask("POST", "/sandbox/v1/payments", order)["id"])


class HttpPayment:
    """One payment. Each attribute is read anew."""

    def __init__(self, sandbox: HttpSandbox, payment_id: str) -> None:
        self._sandbox = sandbox
        self._path = f"/sandbox/v1/payments/{payment_id}"
        self.id = payment_id

    @property
    def data(self) -> dict[str, Any]:
        """The payment as the control plane shows it."""
        data: dict[str, Any] = self._sandbox.ask("GET", self._path)
        return data

    @property
    def status(self) -> str:
        """`in_flight`, `held`, `succeeded` or `failed`."""
        return str(self.data["status"])

    @property
    def reason(self) -> str | None:
        """The cause of the failure, which the payer does not learn; None without a failure."""
        reason: str | None = self.data["reason"]
        return reason

    def settle(self) -> Self:
        """Let the node settle a held payment. Raises `ApiError` 409 when it is not held."""
        self._sandbox.ask("POST", f"{self._path}/settle")
        return self

    def cancel(self) -> Self:
        """Let the node fail a held payment; its Charge goes to `error`. Raises `ApiError` 409 when it is not held."""
        self._sandbox.ask("POST", f"{self._path}/cancel")
        return self
