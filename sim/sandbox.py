"""The sandbox: the whole service and its world in one object, with time in your hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import orjson

from server.contract.shape import Contract
from server.errors import StoreError
from server.moments import parse_duration, parse_iso, to_iso
from server.store.store import Store
from sim.clock import Fired
from sim.desk.levers import levers
from sim.handles import ApiError, Charge, Collection, FaultList, Payment, StaticCharge
from sim.journal import Journal
from sim.loopback import Header, ask
from sim.payers import ask_for_invoice, read_request, strip_scheme
from sim.plans import plan_from
from sim.receivers import Receiver
from sim.world import World

if TYPE_CHECKING:
    import httpx2

    from server.system import ServerThread
    from sim.lightning.graph import Graph
    from sim.lightning.liquidity import Network

Span = str | float | timedelta
Instant = str | int | datetime

DEFAULT_START = "2030-01-01T00:00:00Z"


class Sandbox:
    """A charge service with its Lightning node, payers, receivers and clock.

    Nothing happens until time moves: `run`, `advance`, `advance_to`, `step`. Everything is decided by `seed` (default
    0), `start` and what you do, so the same lines give the same ids, invoices and journal anywhere.

    `data` is a directory to keep the charges in (default: memory only). One that a sandbox was kept in before is gone
    on with, from the instant at which it was left; its seed and start are its own, and `StoreError` is raised for other
    ones. `spec` is a path to another
    `charges.openapi.yaml`, `overlays` are names from `specs/overlays` or paths. `network` is the depth of the simulated
    Lightning network: `direct` puts every payer one step from the node; `scale-free:400`, `hub:50`, `line:4`, `star:12`
    or a `sim.lightning.graph.Graph` let every payment travel over channels (in memory only).
    """

    def __init__(
        self,
        seed: int | None = None,
        start: Instant | None = None,
        *,
        data: str | Path | None = None,
        spec: str | Path | Contract | None = None,
        overlays: Sequence[str | Path] = (),
        network: str | Graph = "direct",
        api_key: str = "leyden",
    ) -> None:
        start_ms = None if start is None else _instant(start)
        store = Store.memory() if data is None else Store.open(Path(data))
        try:
            saved = World.saved(store)
            if saved is not None and seed not in (None, saved["given_seed"]):
                raise StoreError(f"{data} was begun with seed {saved['given_seed']}: leave seed out, or use a new data")
            if saved is not None and start_ms not in (None, saved["start"]):
                begun = to_iso(saved["start"])
                raise StoreError(f"{data} was begun at start {begun}: leave start out, or use a new data")
            begun_with = saved or {"seed": seed or 0, "given_seed": seed or 0, "start": start_ms}
            plan = plan_from(
                seed=begun_with["seed"],
                given_seed=begun_with["given_seed"],
                start_ms=_instant(DEFAULT_START) if begun_with["start"] is None else begun_with["start"],
                spec=spec,
                overlays=overlays,
                api_key=api_key,
                network=network,
            )
            self.world = World(plan, store, levers=levers)
        except BaseException:
            store.close()
            raise
        self._thread: ServerThread | None = None
        self._headers = ((b"apikey", api_key.encode()),)
        self.charges = Collection(self, Charge, "createCharge", "listCharges")
        self.faults = FaultList(self)
        self.static_charges = Collection(self, StaticCharge, "createStaticCharge", "listStaticCharges")

    # Time

    @property
    def now(self) -> str:
        """The sandbox's present, ISO 8601 in UTC."""
        return to_iso(self.world.clock.now())

    def run(self, until: Span = "idle") -> list[Fired]:
        """Run until nothing is left to happen (`idle`), through the next instant (`next_event`), or for a span (`10m`).

        Returns what fired, in order.
        """
        if until == "idle":
            return self.world.move(lambda clock: clock.run_until_idle())
        if until == "next_event":
            return self.world.move(lambda clock: clock.run_until_next_event())
        return self.advance(until)

    def advance(self, by: Span) -> list[Fired]:
        """Move time on by a span (`"5m"`, seconds, `timedelta`) and return what fired, in order."""
        span_ms = parse_duration(by)
        return self.world.move(lambda clock: clock.advance(span_ms))

    def advance_to(self, when: Instant, offset: Span = "0s") -> list[Fired]:
        """Move time to an instant (plus `offset`, which may be negative); one that has passed changes nothing."""
        target = _instant(when) + parse_duration(offset)
        return self.world.move(lambda clock: clock.advance_to(target))

    def step(self) -> Fired | None:
        """Run the one next event, wherever in time it stands."""
        return self.world.move(lambda clock: clock.step())

    # The people around the service

    def wallet(self, name: str) -> Wallet:
        """A payer's wallet, made on first use."""
        return Wallet(self, name)

    def receiver(self, name: str) -> Receiver:
        """The callback receiver that answers for `http://<name>.localhost/...` (or for a whole host name)."""
        return self.world.receivers.receiver(name)

    @property
    def network(self) -> Network:
        """The Lightning network. Raises `ValueError` when payments are direct."""
        world = self.world
        if world.engine is None:
            raise ValueError("payments are direct here: make the sandbox with network='scale-free:400'")
        from sim.lightning.liquidity import Network
        from sim.lightning.travel import TravellingPayments

        payments = world.payments
        assert isinstance(payments, TravellingPayments)
        return Network(world.engine, payments.shop, payments.home_of, world.turn)

    # Requests

    def ask(self, method: str, target: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send one request with the sandbox's key and return the JSON answered.

        Raises `ApiError` for any status but 2xx.
        """
        headers: tuple[Header, ...] = self._headers
        raw = b""
        if body is not None:
            headers = (*headers, (b"content-type", b"application/json"))
            raw = orjson.dumps(body)
        answer = ask(self.world.app, method, target, headers, raw)
        value = orjson.loads(answer.body) if answer.body else {}
        if not 200 <= answer.status < 300:
            raise ApiError(answer.status, value)
        return value

    def path(self, operation_id: str) -> str:
        """The path template of one of the service's operations, as the spec in use has it."""
        return self.world.plan.contract.operations[operation_id].path

    @cached_property
    def http(self) -> httpx2.Client:
        """A real HTTP client whose requests walk into the service in process, with the key set."""
        from sim.client import loopback_client

        return loopback_client(lambda *asgi: self.world.app(*asgi), {"apikey": self.api_key})

    @property
    def api_key(self) -> str:
        """The key of the sandbox's project."""
        return self.world.plan.api_key

    @property
    def app(self) -> Any:
        """The ASGI application, for test tools that take one."""
        return self.world.app

    def serve(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Answer HTTP on a thread beside this program and return the base URL (port 0 picks a free one).

        Callbacks stay with the built-in receivers. Raises `server.system.PortTaken` when the port is taken.
        """
        if self._thread is None:
            from server.system import ServerThread, open_port
            from sim.desk.host import Host

            listener = open_port(host, port)
            self._thread = ServerThread(Host({self.api_key: self.world}), listener)
            self.world.public_url = self._thread.url
        return self._thread.url

    # What happened

    @property
    def journal(self) -> Journal:
        """Everything that happened, in order; `journal.hash` proves a reproduction."""
        return self.world.journal

    @property
    def deliveries(self) -> list[dict[str, Any]]:
        """The callbacks with their attempts, the oldest first."""
        deliveries: list[dict[str, Any]] = self.ask("GET", "/sandbox/v1/deliveries")
        return deliveries

    def close(self) -> None:
        """Stop serving and close the store."""
        if self._thread is not None:
            self._thread.close()
            self._thread = None
        self.world.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = self.ask("GET", "/sandbox/v1")
        counts = ", ".join(f"{count} {status}" for status, count in state["charges"].items()) or "no charges yet"
        ahead = "; ".join(f"{to_iso(t.due_ms)} {t.kind}" for t in self.world.clock.upcoming(3)) or "nothing"
        return f"Sandbox(seed={state['seed']}) at {self.now}\n  charges: {counts}\n  next: {ahead}"


class Wallet:
    """A payer. What it pays arrives when time moves."""

    def __init__(self, sandbox: Sandbox, name: str) -> None:
        self._sandbox = sandbox
        self.name = name

    def pay(
        self, what: Charge | str, *, amount: int | str | None = None, outcome: str = "settle", delay: Span = 0
    ) -> Payment:
        """Pay a Charge or a BOLT11 invoice, `delay` from now. `amount` overrides the invoice's, in msat.

        `outcome`: settle, hold, wrong_secret, underpay, overpay, overpay_double or fail.
        """
        world = self._sandbox.world
        request = strip_scheme(what if isinstance(what, str) else what.request)
        if read_request(request) == "lnurl":
            raise ValueError("this is an LNURL: use scan(..., amount=...) instead of pay")
        with world.turn():
            row = world.payments.pay(
                request,
                payer=self.name,
                amount_msat=None if amount is None else int(amount),
                outcome=outcome,
                delay_ms=parse_duration(delay),
                scheduled=True,
            )
        return Payment(self._sandbox, row["id"])

    def scan(
        self,
        what: StaticCharge | str,
        *,
        amount: int | str | None = None,
        comment: str = "",
        outcome: str = "settle",
        delay: Span = 0,
    ) -> Payment:
        """Scan a Static Charge's code: ask for an invoice over `amount` msat and pay it.

        Raises `sim.payers.PayerError` with the service's reason when it gives no invoice.
        """
        sandbox = self._sandbox
        lnurl = what if isinstance(what, str) else what.request

        def fetch(url: str) -> Any:
            return orjson.loads(ask(sandbox.world.app, "GET", url.removeprefix(sandbox.world.public_url)).body)

        invoice = ask_for_invoice(lnurl, None if amount is None else int(amount), comment, fetch)
        return self.pay(invoice, outcome=outcome, delay=delay)

    def __repr__(self) -> str:
        return f"Wallet({self.name!r})"


def _instant(when: Instant) -> int:
    if isinstance(when, bool) or not isinstance(when, (str, int, datetime)):
        raise TypeError(
            f"{when!r} is not an instant: give an ISO 8601 text, a datetime with a zone, or epoch milliseconds"
        )
    if isinstance(when, datetime):
        return parse_iso(when.isoformat())
    return parse_iso(when) if isinstance(when, str) else when
