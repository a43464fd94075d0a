"""States that a sandbox reaches by random scripts: payments of every kind, on networks too, over restarts, bounds,
spills, resets, returns to snapshots, forks and clocks that are set back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from leyden.devserver.control.handlers import control_handlers
from leyden.lab.actions.action_log import ActionLog
from leyden.lightning.engine.htlc import PaymentNotHeld
from leyden.lightning.payer.payment_scripts import OUTCOMES
from leyden.sandbox import Sandbox
from leyden.server.errors import LeydenError
from leyden.server.store.store import Store
from leyden.world.config import WorldConfig, read_network, world_config
from leyden.world.snapshots.snapshots import dump_world, fork_world, restore_world
from leyden.world.world import World

START_MS = 1_893_456_000_000
NETWORKS = (
    "direct", "direct", "direct", "line:4", "hub:8", "scale-free:20", "scale-free:20,payer=lnd",
    "scale-free:20,payer=cln", "scale-free:20,payer=ldk", "scale-free:20,realistic",
    "scale-free:20,parallel=0.3,fees=2024", "star:6,background=100",
)  # fmt: skip
OVERLAYS = (
    "count-on-settle", "payable-at-expiry", "reserve-on-issue", "magic-amounts", "callback-envelope", "no-retries",
)  # fmt: skip
_HEADERS = ((b"apikey", b"leyden"), (b"content-type", b"application/json"))
_SPANS = ("100ms", "300ms", "1s", "1s", "5s", "30s", "2m", "10m", "12h")


class Script:
    """One random script. Iterating runs it and gives its world after each step."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._rng = rng = Random(seed)
        self._seed = seed
        self._network = rng.choice(NETWORKS)
        self._keep = rng.choice((None, None, 1, 3))
        self._folder = folder
        self._is_durable = self._network == "direct" and rng.random() < 0.3
        self._former_requests: list[str] = []
        self._snapshot: str | None = None
        self.world = self._open(tuple(rng.sample(OVERLAYS, rng.randrange(2))))

    def __iter__(self) -> Iterator[World]:
        steps: list[tuple[int, Callable[[], None]]] = [
            (16, self._charge), (5, self._static_charge), (7, self._scan), (4, self._update), (27, self._pay),
            (8, self._resolve), (3, self._fail), (3, self._expect), (2, self._reset), (2, self._snapshots),
            (3, self._copy), (2, self._reopen), (2, self._set_back), (1, self._spill), (15, self._advance),
        ]  # fmt: skip
        yield self.world
        for _ in range(self._rng.randrange(15, 60)):
            [step] = self._rng.choices([step for _, step in steps], [weight for weight, _ in steps])
            step()
            yield self.world
        self.world.store.close()

    def _open(self, overlays: tuple[str, ...]) -> World:
        store = Store.open(self._folder / "data") if self._is_durable else Store.memory()
        network = read_network(self._network, "network") or "direct"
        config: WorldConfig = world_config(seed=self._seed, start_ms=START_MS, network=network, overlays=overlays)
        config = replace(config, keep=self._keep and 50, keep_ended=self._keep)
        return World(config, store, control_handlers=control_handlers)

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        response = self.world.request(method, path, _HEADERS, b"" if body is None else json.dumps(body).encode())
        assert response.status < 500, response.body
        answer = json.loads(response.body) if response.body else {}
        return answer.get("data", answer) if isinstance(answer, dict) else answer

    def _any(self, table: str, **values: str) -> Any:
        rows = [*self.world.store.table_data(table).rows.values()]
        found = [row for row in rows if all(row[name] == value for name, value in values.items())]
        return self._rng.choice(found or rows) if rows else None

    def _charge(self) -> None:
        rng = self._rng
        amount = rng.choice((1_000, 7_000, 250_000, 250_001, 200_000, 202_000, 206_000, 208_000, 30_000_000))
        body = {"amount": str(amount), "description": "x", "expiresIn": rng.choice((5, 60, 600, 86_400, 200_000))}
        self._ask(
            "POST", "/v0/charges", body | ({"callbackUrl": "http://shop.localhost/a"} if rng.random() < 0.7 else {})
        )

    def _static_charge(self) -> None:
        rng = self._rng
        body: dict[str, Any] = {"minAmount": "1000", "maxAmount": "9000000", "description": "Tips"}
        if rng.random() < 0.6:
            body["allowedSlots"] = rng.choice((1, 2, 3))
        if rng.random() < 0.3:
            body["expiresIn"] = rng.choice((5, 60, 3_600))
        if rng.random() < 0.3:
            body["identifier"] = f"u{rng.randrange(99)}@shop.example"
        if rng.random() < 0.7:
            body["callbackUrl"] = "http://shop.localhost/b"
        self._ask("POST", "/v0/static-charges", body)

    def _scan(self) -> None:
        if static := self._any("static_charges"):
            amount = self._rng.randrange(1_000, 9_000)
            self.world.request("GET", f"/lnurlp/{static['id']}/invoice?amount={amount}", (), b"")

    def _update(self) -> None:
        if static := self._any("static_charges"):
            allowed = self._rng.choice((1, 2, 3, 5, None))
            change = self._rng.choice(({"allowedSlots": allowed}, {"callbackUrl": "http://shop.localhost/c"}))
            self._ask("PATCH", f"/v0/static-charges/{static['id']}", change)

    def _pay(self) -> None:
        rng, charge = self._rng, self._any("charges", status="pending")
        if charge is None:
            return
        request = (
            rng.choice(self._former_requests) if self._former_requests and rng.random() < 0.1 else charge["request"]
        )
        self._former_requests.append(request)
        payer, outcome = rng.choice(("ana", "bob", "cid")), rng.choice((*OUTCOMES, "settle", "settle", "hold", "hold"))
        if rng.random() < 0.5:
            written = rng.choice((request, request.upper(), f"lightning:{request}", "lnbc1nothing"))
            body = {"request": written, "payer": payer, "outcome": outcome, "late": rng.random() < 0.1}
            self._ask("POST", "/sandbox/v1/payments", body)
            return
        with suppress(LeydenError), self.world.exclusive():
            self.world.payments.pay(
                request,
                payer=payer,
                outcome=outcome,
                scheduled=True,
                delay_ms=rng.choice((0, 0, 1_000, 30_000)),
                parts=rng.choice((1, 1, 2, 3, 16)),
                gap_ms=rng.choice((0, 0, 1_000, 40_000, 120_000)),
                patience_ms=rng.choice((60_000, 60_000, 1_000, None)),
                cltv_blocks=rng.choice((None, None, None, 19, 1_000)),
                late=rng.random() < 0.1,
            )

    def _resolve(self) -> None:
        if payment := self._any("payments", status="held"):
            with suppress(PaymentNotHeld):
                self._ask("POST", f"/sandbox/v1/payments/{payment['id']}/{self._rng.choice(('settle', 'cancel'))}", {})

    def _fail(self) -> None:
        if charge := self._any("charges", status="pending"):
            self._ask("POST", f"/sandbox/v1/charges/{charge['id']}/fail", {"reason": "no channel"})

    def _expect(self) -> None:
        rng = self._rng
        order = {
            "amount": rng.choice(("7000", "250000")),
            "outcome": rng.choice(("settle", "hold", "twice", "overpay")),
        }
        self._ask(*rng.choice((
            ("POST", "/sandbox/v1/payers", order),
            ("POST", "/sandbox/v1/faults", {"kind": rng.choice(("drop", "duplicate_new_id")), "count": 2}),
            ("POST", "/sandbox/v1/service-faults", {"kind": "stale_read", "count": 2}),
        )))  # fmt: skip

    def _reset(self) -> None:
        self._ask("POST", "/sandbox/v1/reset", self._rng.choice(({}, {"seed": 5})))

    def _snapshots(self) -> None:
        if self._snapshot is None or self._rng.random() < 0.5:
            self._snapshot = self._ask("POST", "/sandbox/v1/snapshots", {}).get("id")
        else:
            self._ask("POST", "/sandbox/v1/restore", {"snapshot": self._snapshot})

    def _copy(self) -> None:
        copy = fork_world(self.world, "copy") if self._rng.random() < 0.5 else reopened(self.world)
        if not self._is_durable:
            self.world = copy

    def _reopen(self) -> None:
        """Open the directory with the overlays of another start."""
        if self._is_durable:
            self.world.store.close()
            if self._rng.random() < 0.5:
                self._let_time_pass(self._rng.choice((1_000, 600_000, 86_400_000)))
            self.world = self._open(tuple(self._rng.sample(OVERLAYS, self._rng.randrange(2))))

    def _let_time_pass(self, by_ms: int) -> None:
        """As for the clock of a process, while no process has the directory: what was due then is overdue."""
        with Store.open(self._folder / "data") as store, store.commit():
            data = store.table_data("world")
            doc_id, row = next((doc_id, row) for doc_id, row in data.rows.items() if row["id"] == "state")
            data.set(doc_id, {**row, "now": row["now"] + by_ms})

    def _set_back(self) -> None:
        """As `leyden serve --start now` does while nothing is open."""
        world = self.world
        is_open = any(
            row["status"] in ("pending", "in_flight", "held")
            for table in ("charges", "payments", "deliveries")
            for row in world.store.table_data(table).rows.values()
        )
        if not is_open and self._network == "direct":
            world.clock.set_back(max(START_MS - 60_000, world.clock.now() - 30_500))

    def _spill(self) -> None:
        if not self._is_durable and self._keep is None:
            sandbox = Sandbox._of(self.world, ActionLog({}))
            sandbox.run("5s", spill=self._folder / f"spilled-{self._rng.randrange(10**9)}")

    def _advance(self) -> None:
        self._ask("POST", "/sandbox/v1/clock/advance", {"by": self._rng.choice(_SPANS)})


def reopened(world: World) -> World:
    """The world of a file that a save of this one wrote."""
    return restore_world(json.loads(json.dumps(dump_world(world))), control_handlers=control_handlers, warns=False)
